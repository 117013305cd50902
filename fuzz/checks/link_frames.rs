//! Sends any bytes to each machine that reads from another node. Shared by the fuzz target and the test that replays the corpus.

use bytes::{Bytes, BytesMut};
use link::{
    Auth, ClusterId, FORMAT, Frame, Handshake, Hello, Incoming, NodeIdentity, Outgoing, Role, Secret, WINDOW,
};

/// The first octet selects the reader, the second one the length of the pieces in which it gets the rest. No reader may panic, or keep
/// more than twice the bytes that it got.
pub fn check(data: &[u8]) {
    let [reader, cut, bytes @ ..] = data else { return };
    let cuts = bytes.chunks(usize::from(*cut) * 16 + 1);
    match reader % 6 {
        0 => frames(bytes),
        1 => incoming(cuts),
        2 => outgoing(cuts),
        reader => drop(admits(reader, cuts)),
    }
}

/// What is accepted is exactly what the encoder writes.
fn frames(bytes: &[u8]) {
    let mut buffer = BytesMut::from(bytes);
    let mut again = Vec::new();
    while let Ok(Some(frame)) = Frame::take(&mut buffer) {
        again.clear();
        frame.encode(&mut again);
        let end = bytes.len() - buffer.len();
        assert_eq!(again, bytes[end - again.len()..end]);
    }
}

fn incoming<'a>(cuts: impl Iterator<Item = &'a [u8]>) {
    let (mut incoming, mut buffer, mut fed, mut windows) =
        (Incoming::default(), BytesMut::new(), 0, Vec::new());
    for cut in cuts {
        buffer.extend_from_slice(cut);
        fed += cut.len();
        loop {
            match incoming.feed(&mut buffer) {
                Ok(Some(message)) => incoming.taken(message.cost),
                Ok(None) => break,
                Err(_) => return,
            }
            incoming.poll_window(&mut windows);
        }
        assert!(incoming.unfinished_bytes() <= 2 * fed);
    }
}

fn outgoing<'a>(cuts: impl Iterator<Item = &'a [u8]>) {
    let (mut outgoing, mut buffer) = (Outgoing::default(), BytesMut::new());
    outgoing.push(1, 2, Bytes::from(vec![3; 200_000])).expect("there is room");
    let mut sent = Vec::new();
    outgoing.poll(&mut sent, WINDOW);
    for cut in cuts {
        buffer.extend_from_slice(cut);
        if outgoing.feed(&mut buffer).is_err() {
            return;
        }
        assert!(outgoing.unacknowledged_bytes() <= sent.len());
    }
}

/// Returns true if the handshake is complete. Readers 3 and 5 have a secret, 4 has certificates; 3 and 4 accept, 5 dials.
pub fn admits<'a>(reader: u8, cuts: impl Iterator<Item = &'a [u8]>) -> bool {
    let auth = match reader {
        4 => Auth::Certificates,
        _ => Auth::Secret(Secret::new(b"secret").expect("not empty")),
    };
    let hello = Hello {
        role: Role::Shard(1),
        node: NodeIdentity([7; 16]),
        boot: 1,
        cluster: ClusterId([9; 16]),
        number: 7,
        format: FORMAT,
        name: "sluice@seven".to_owned(),
    };
    let begin = if reader == 5 { Handshake::dial } else { Handshake::accept };
    let mut handshake = begin(hello, auth, [7; 32]).expect("a short name");
    let (mut buffer, mut output) = (BytesMut::new(), Vec::new());
    for cut in cuts {
        buffer.extend_from_slice(cut);
        let result = handshake.handle_bytes(&mut buffer);
        handshake.poll_output(&mut output);
        match result {
            // The frames of a handshake are short, so a peer that is not known cannot make this node keep more.
            Ok(None) => assert!(buffer.len() < 1_000),
            Ok(Some(hello)) => {
                assert!(hello.node != NodeIdentity([7; 16]));
                return true;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return false;
            }
        }
    }
    false
}
