//! TLS on the sockets of a shard: the buffers that all of its connections share, and a bound on handshakes. No thread is
//! involved but the shard's own.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use broker::categories::{CONNECTION, PEER};
use broker::secured::{PeerCertificate, Secured};
use buffers::Output;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use super::Host;
use super::shares::{Taken, Waits};
use super::write::{End, SLICES, Sent, try_write};
use crate::shard::{Encrypted, READ_MAX, Shard};

/// The most encrypted bytes that are made before they are written. A socket that is full leaves no more than this in memory,
/// and four records fill it.
const ENCRYPTED_BYTES: usize = 64 * 1024 + 512;

/// The steps of handshakes between two turns. A step signs with the server's key or makes a shared key: some 50 us with
/// ECDSA, and up to 1 ms with RSA. So thousands of clients that come at once delay the others by little.
const STEPS_PER_TURN: usize = 2;

/// The session of a connection; `None` if it does not speak TLS.
pub(super) type Tls = RefCell<Option<Box<tls::Session>>>;

/// What the encrypted connections of a shard share.
#[derive(Debug, Default)]
pub(super) struct Encryption {
    /// What was read and is not decrypted yet. It is empty between two reads, and allocated with the first.
    input: RefCell<Vec<u8>>,
    /// What is encrypted and not written yet, likewise.
    output: RefCell<Vec<u8>>,
    /// The steps of handshakes that are left until the next turn.
    steps: Cell<usize>,
    /// The number of connections that wait for a step.
    waiting: Cell<usize>,
    allowed: Notify,
}

impl Encryption {
    /// Called in each turn. Returns true if connections still wait, so that another turn must follow.
    pub fn allow_handshakes(&self) -> bool {
        self.steps.set(STEPS_PER_TURN);
        (0..STEPS_PER_TURN.min(self.waiting.get())).for_each(|_| self.allowed.notify_one());
        self.waiting.get() > 0
    }

    /// Waits until a step of a handshake may be made. Connections take turns in the order in which they came.
    async fn step(&self, wake: &Notify) {
        while self.steps.get() == 0 {
            let _waits = Waits::new(&self.waiting);
            wake.notify_one();
            self.allowed.notified().await;
        }
        self.steps.set(self.steps.get() - 1);
    }
}

/// Reads from a socket once, and passes what it decrypts to the shard. Returns what it has taken in encrypted bytes, 0 at the end.
pub(super) async fn read_encrypted(
    host: &Rc<Host>,
    key: usize,
    read: &OwnedReadHalf,
    write: &OwnedWriteHalf,
    tls: &Tls,
) -> io::Result<Taken> {
    loop {
        let (is_established, is_closed) =
            tls.borrow().as_ref().map_or((true, true), |tls| (tls.is_established(), tls.is_closed()));
        if is_closed {
            return Ok(Taken::END);
        }
        read.readable().await?;
        // A peer that keeps its socket full must not keep the thread.
        tokio::task::coop::consume_budget().await;
        if !is_established {
            host.encryption.step(&host.wake).await;
        }
        match receive(host, key, read, write, tls) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

fn receive(
    host: &Rc<Host>,
    key: usize,
    read: &OwnedReadHalf,
    write: &OwnedWriteHalf,
    tls: &Tls,
) -> io::Result<Taken> {
    let mut tls = tls.borrow_mut();
    let Some(session) = tls.as_deref_mut() else { return Ok(Taken::END) };
    let mut input = host.encryption.input.borrow_mut();
    if input.is_empty() {
        input.resize(READ_MAX, 0);
    }
    let have = session.put_unread(&mut input);
    let end = input.len().min(have + host.shard.borrow().read_max(key).min(host.shares.read_max()));
    let n = match read.try_read(&mut input[have..end]) {
        Ok(0) => return Ok(Taken::END),
        Ok(n) => n,
        Err(error) => {
            session.keep_unread(&input[..have]);
            return Err(error);
        }
    };
    let mut shard = host.shard.borrow_mut();
    let mut buffers = host.read_buffers.borrow_mut();
    let buffer = buffers.ready();
    // The rest of a large frame is decrypted to its place behind the beginning.
    let missing = shard.missing(key).unwrap_or(0);
    let mut partial = if missing > 0 { shard.take_partial(key) } else { Default::default() };
    let mut added = 0;
    let was_established = session.is_established();
    let received = session.receive(&mut input[..have + n], |plain| {
        let (rest, other) = plain.split_at(plain.len().min(missing - added));
        partial.extend_from_slice(rest);
        added += rest.len();
        buffer.extend_from_slice(other);
    });
    if session.is_established() && !was_established {
        note_secured(&mut shard, key, session);
    }
    if missing > 0 {
        shard.give_partial(key, partial, added);
    }
    if !buffer.is_empty() {
        shard.handle_input(key, buffer);
    }
    shard.note_encrypted(key, kept(session));
    match received {
        Ok(received) => {
            if received.established || !session.unsent().is_empty() {
                shard.touch(key);
            }
            Ok(Taken::new(n, end - have))
        }
        Err(error) => {
            let name = shard.conn(key).map(|conn| conn.gate.peer().name.clone()).unwrap_or_default();
            tracing::warn!(name: PEER, target: CONNECTION, connection = %name, "TLS: {error}");
            // The peer learns why from an alert. The connection ends whether the alert can be written or not.
            let _ = try_write(write, &[io::IoSlice::new(session.unsent())]);
            Err(io::Error::other(error))
        }
    }
}

/// Returns what a session keeps.
fn kept(session: &tls::Session) -> Encrypted {
    Encrypted { unread: session.unread_bytes(), unsent: session.unsent().len() }
}

/// Counts what the session of a connection keeps after output was written.
pub(super) fn note_encrypted(shard: &mut Shard, key: usize, tls: &Tls) {
    if let Some(session) = tls.borrow().as_deref() {
        shard.note_encrypted(key, kept(session));
    }
}

/// Tells the gate what the handshake has shown.
fn note_secured(shard: &mut Shard, key: usize, session: &tls::Session) {
    let (Some(conn), Some((protocol, cipher))) = (shard.conn(key), session.protocol()) else { return };
    let peer = session.peer().map(|(certificate, user)| PeerCertificate {
        subject: certificate.subject,
        issuer: certificate.issuer,
        not_before: certificate.not_before,
        not_after: certificate.not_after,
        user,
    });
    let demands_certificate = session.demands_certificate();
    conn.gate.peer_mut().secured = Some(Arc::new(Secured { protocol, cipher, demands_certificate, peer }));
}

/// Encrypts a connection's output and writes it until the socket is full. If the connection is `done`, the peer is told that
/// nothing follows.
///
/// # Errors
/// The session cannot encrypt.
pub(super) fn write_encrypted(
    host: &Host,
    write: &OwnedWriteHalf,
    tls: &Tls,
    output: &mut Output,
    done: bool,
) -> Result<Sent, tls::Error> {
    let mut bytes = 0;
    let end = |bytes, end| Ok(Sent { bytes, end });
    let mut tls = tls.borrow_mut();
    let Some(session) = tls.as_deref_mut() else { return end(0, End::Failed) };
    loop {
        while !session.unsent().is_empty() {
            match try_write(write, &[io::IoSlice::new(session.unsent())]) {
                Ok(0) => return end(bytes, End::Full),
                Ok(n) => session.note_sent(n),
                Err(_) => return end(bytes, End::Failed),
            }
        }
        if !session.is_established() {
            return end(bytes, End::Early);
        }
        if output.is_empty() {
            if done && session.close() {
                continue;
            }
            return end(bytes, End::Written);
        }
        let mut encrypted = host.encryption.output.borrow_mut();
        encrypted.clear();
        encrypted.reserve(ENCRYPTED_BYTES);
        let mut slices = [io::IoSlice::new(&[]); SLICES];
        let n = output.slices(&mut slices);
        // An error is, for example, that the keys of TLS 1.2 are used up, and the peer did not read the reason that it was sent.
        let taken = session.encrypt(&slices[..n], &mut encrypted)?;
        if taken == 0 {
            return end(bytes, End::Failed);
        }
        output.advance(taken);
        bytes += taken;
        let mut from = 0;
        while from < encrypted.len() {
            match try_write(write, &[io::IoSlice::new(&encrypted[from..])]) {
                Ok(0) => {
                    session.keep_unsent(&encrypted[from..]);
                    return end(bytes, End::Full);
                }
                Ok(n) => from += n,
                Err(_) => return end(bytes, End::Failed),
            }
        }
    }
}
