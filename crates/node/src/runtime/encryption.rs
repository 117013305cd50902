//! TLS on the sockets of a shard, and the buffers that all of its connections share. The steps of handshakes are made on other
//! threads ([`crate::tls_steps`]). Everything else is done here.

use std::cell::{RefCell, RefMut};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use broker::secured::{PeerCertificate, Secured};
use buffers::Output;
use catalog::categories::{CONNECTION, PEER};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::Host;
use super::shares::Taken;
use super::write::{End, SLICES, Sent, try_write};
use crate::shard::{Encrypted, READ_MAX, Shard};
use crate::tls_steps::Stepped;

/// The most encrypted bytes that are made before they are written. A socket that is full leaves no more than this in memory,
/// and four records fill it.
const ENCRYPTED_BYTES: usize = 64 * 1024 + 512;

/// The session of a connection; `None` if it does not speak TLS, or while a step of its handshake is made.
pub(super) type Tls = RefCell<Option<Box<tls::Session>>>;

/// What the encrypted connections of a shard share.
#[derive(Debug, Default)]
pub(super) struct Encryption {
    /// What was read and is not decrypted yet. It is empty between two reads, and allocated with the first.
    input: RefCell<Vec<u8>>,
    /// What is encrypted and not written yet, likewise.
    output: RefCell<Vec<u8>>,
}

impl Encryption {
    /// Returns the buffer for what is read.
    fn input(&self) -> RefMut<'_, Vec<u8>> {
        let mut input = self.input.borrow_mut();
        input.resize(READ_MAX, 0);
        input
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
        let result = match is_established {
            true => receive(host, key, read, write, tls),
            false => step(host, key, read, write, tls).await,
        };
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

/// Reads from a socket and decrypts what has come.
fn receive(
    host: &Rc<Host>,
    key: usize,
    read: &OwnedReadHalf,
    write: &OwnedWriteHalf,
    tls: &Tls,
) -> io::Result<Taken> {
    let mut tls = tls.borrow_mut();
    let Some(session) = tls.as_deref_mut() else { return Ok(Taken::END) };
    let mut input = host.encryption.input();
    let (end, taken) = read_behind(host, key, read, session, &mut input)?;
    if taken.bytes == 0 {
        return Ok(Taken::END);
    }
    let mut shard = host.shard.borrow_mut();
    let mut buffers = host.read_buffers.borrow_mut();
    let buffer = buffers.ready();
    // The rest of a large frame is decrypted to its place behind the beginning.
    let missing = shard.missing(key).unwrap_or(0);
    let mut partial = if missing > 0 { shard.take_partial(key) } else { Default::default() };
    let mut added = 0;
    let received = session.receive(&mut input[..end], |plain| {
        let (rest, other) = plain.split_at(plain.len().min(missing - added));
        partial.extend_from_slice(rest);
        added += rest.len();
        buffer.extend_from_slice(other);
    });
    if missing > 0 {
        shard.give_partial(key, partial, added);
    }
    if !buffer.is_empty() {
        shard.handle_input(key, buffer);
    }
    end_receive(&mut shard, key, write, session, received)?;
    Ok(taken)
}

/// Reads from a socket whose handshake is not complete, and has the next step of the handshake made with it. Meanwhile the
/// session is on another thread.
async fn step(
    host: &Rc<Host>,
    key: usize,
    read: &OwnedReadHalf,
    write: &OwnedWriteHalf,
    tls: &Tls,
) -> io::Result<Taken> {
    let Some(mut session) = tls.take() else { return Ok(Taken::END) };
    let (input, taken) = {
        let mut input = host.encryption.input();
        // Until the step is made, hardly more is kept than a session keeps of what is not complete.
        match read_behind(host, key, read, &mut session, &mut input[..=tls::UNREAD_MAX]) {
            Ok((end, taken)) if taken.bytes > 0 => (input[..end].to_vec(), taken),
            result => {
                tls.replace(Some(session));
                return result.map(|_| Taken::END);
            }
        }
    };
    let unsent = session.unsent().len();
    host.shard.borrow_mut().note_encrypted(key, Encrypted { unread: input.len(), unsent });
    let Stepped { session, plain, result } = host.tls_steps.make(session, input).await?;
    let mut tls = tls.borrow_mut();
    let session = tls.insert(session);
    let mut shard = host.shard.borrow_mut();
    if session.is_established() {
        note_secured(&mut shard, key, session);
    }
    if !plain.is_empty() {
        let mut buffers = host.read_buffers.borrow_mut();
        let buffer = buffers.ready();
        buffer.extend_from_slice(&plain);
        shard.handle_input(key, buffer);
    }
    end_receive(&mut shard, key, write, session, result)?;
    Ok(taken)
}

/// Reads behind the input that the session has kept, until `input` is full. Returns the end of what is there, and what was read.
/// If nothing has come, the session keeps its input.
fn read_behind(
    host: &Host,
    key: usize,
    read: &OwnedReadHalf,
    session: &mut tls::Session,
    input: &mut [u8],
) -> io::Result<(usize, Taken)> {
    let have = session.put_unread(input);
    let end = input.len().min(have + host.shard.borrow().read_max(key).min(host.shares.read_max()));
    match read.try_read(&mut input[have..end]) {
        Ok(n) => Ok((have + n, Taken::new(n, end - have))),
        Err(error) => {
            session.keep_unread(&input[..have]);
            Err(error)
        }
    }
}

/// Called with what came of input. The connection must end after an error.
fn end_receive(
    shard: &mut Shard,
    key: usize,
    write: &OwnedWriteHalf,
    session: &tls::Session,
    received: Result<tls::Received, tls::Error>,
) -> io::Result<()> {
    shard.note_encrypted(key, kept(session));
    match received {
        Ok(received) => {
            if received.established || !session.unsent().is_empty() {
                shard.touch(key);
            }
            Ok(())
        }
        Err(error) => {
            let name = shard.conn(key).map(|conn| conn.gate.peer().name.clone()).unwrap_or_default();
            tracing::warn!(name: PEER, target: CONNECTION, connection = %name, "TLS: {}", tls::of_client(&error));
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
    let Some(session) = tls.as_deref_mut() else { return end(0, End::Early) };
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
