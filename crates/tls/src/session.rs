//! The session of one connection: turns encrypted bytes into bytes and back, without I/O.
//!
//! ```text
//!   socket ──▶ receive ──▶ the gate's input      (records that are not complete stay in the session)
//!   socket ◀── encrypt ◀── the gate's output     (bytes that the socket does not take stay in the session)
//! ```
//!
//! A session without traffic keeps no buffers.

use std::io::IoSlice;
use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus, WriteTraffic};
use rustls::{Error, ServerConfig, SupportedCipherSuite};

use crate::certificates::{Certificate, LoginFrom};
use crate::files::{Tls, Verify};

/// The most plain bytes in one record (RFC 8446, 5.1).
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// More bytes than a record adds to what it carries, in any version and cipher suite: header, explicit nonce, type and tag.
const RECORD_OVERHEAD: usize = 64;

/// Slices that are shorter than this are joined to one record. Each record costs a header, a tag, and the start of a cipher.
const JOIN_BELOW: usize = 4 * 1024;

/// The largest unfinished input of a peer, in bytes: a record that has not arrived as a whole, or a message of the handshake in
/// several records. It holds a certificate chain of 32 KiB, the largest that Java takes by default. Peers need no login for it, so
/// it is not larger. A peer with a larger one is refused.
pub const UNREAD_MAX: usize = 40 * 1024;

/// The keys of TLS 1.2 cannot be changed, and rustls encrypts at most this suite's `confidentiality_limit` of records with them
/// (2^24 with AES-GCM). When so many records are left, the session asks for its end. They carry at least 128 MiB: what the
/// gate has already put out, and why the connection ends.
const RECORDS_RESERVED: u64 = 1 << 16;

/// The server's side of a TLS connection.
pub struct Session {
    tls: UnbufferedServerConnection,
    login_from: LoginFrom,
    /// True if peers without a certificate are refused.
    demands_certificate: bool,
    /// Input that is not complete: the start of a record, or a message of the handshake in several records. rustls refers to
    /// it, so it is passed along with every call.
    unread: Vec<u8>,
    /// Encrypted bytes that the socket has not taken, from `sent` on.
    unsent: Vec<u8>,
    sent: usize,
    is_established: bool,
    /// The number of records that [`Session::encrypt`] has made.
    encrypted_records: u64,
    /// True if [`Session::poll_used_up`] has returned true.
    is_used_up: bool,
    /// True if the peer sends nothing any more.
    is_closed: bool,
    /// True if the peer was told that nothing more follows.
    has_closed: bool,
    /// True after an error. Nothing can be read or written any more.
    has_failed: bool,
}

/// What has happened while input was handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The number of plain bytes.
    pub plain: usize,
    /// True if the handshake has just been completed.
    pub established: bool,
}

impl Session {
    /// Begins the handshake, in which the client speaks first.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn new(listener: &Tls) -> Result<Self, Error> {
        let demands_certificate = listener.options().verify == Verify::Required;
        let session = Self::with(listener.config(), listener.options().login_from)?;
        Ok(Self { demands_certificate, ..session })
    }

    fn with(config: Arc<ServerConfig>, login_from: LoginFrom) -> Result<Self, Error> {
        let tls = UnbufferedServerConnection::new(config)?;
        let (unread, unsent) = (Vec::new(), Vec::new());
        Ok(Self {
            tls,
            login_from,
            demands_certificate: false,
            unread,
            unsent,
            sent: 0,
            is_established: false,
            encrypted_records: 0,
            is_used_up: false,
            is_closed: false,
            has_closed: false,
            has_failed: false,
        })
    }

    /// Returns true if the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// Returns true if the peer sends nothing any more.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the version and the cipher suite, in the names of the standards. `None` before the handshake is complete.
    pub fn protocol(&self) -> Option<(&'static str, &'static str)> {
        let version = match self.tls.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_2 => "tlsv1.2",
            _ => "tlsv1.3",
        };
        Some((version, self.tls.negotiated_cipher_suite()?.suite().as_str().unwrap_or("unknown")))
    }

    /// Returns true if peers without a certificate are refused.
    pub fn demands_certificate(&self) -> bool {
        self.demands_certificate
    }

    /// Returns the peer's certificate, which was verified in the handshake, and the user whom it names. `None` if the peer sent
    /// none.
    pub fn peer(&self) -> Option<(Certificate, Option<String>)> {
        let certificate = Certificate::parse(self.tls.peer_certificates()?.first()?)?;
        let user = certificate.user(self.login_from);
        Some((certificate, user))
    }

    /// Puts the start of a record that arrived earlier at the front of a buffer. Returns its length. The caller reads more
    /// bytes behind it, and passes all to [`Session::receive`].
    pub fn put_unread(&mut self, buffer: &mut [u8]) -> usize {
        let have = self.unread.len().min(buffer.len());
        buffer[..have].copy_from_slice(&self.unread[..have]);
        self.unread = Vec::new();
        have
    }

    /// Keeps the start of a record that [`Session::put_unread`] has put out, because nothing was read behind it.
    pub fn keep_unread(&mut self, bytes: &[u8]) {
        self.unread = bytes.to_vec();
    }

    /// Handles input, and calls `plain` with each piece of application data. Answers of the handshake are then in
    /// [`Session::unsent`], also after an error: the peer learns from an alert what was wrong.
    ///
    /// # Errors
    /// The peer has violated the protocol, or was refused in the handshake. The connection must end.
    pub fn receive(&mut self, input: &mut [u8], mut plain: impl FnMut(&[u8])) -> Result<Received, Error> {
        let mut received = Received::default();
        let mut from = 0;
        let result = loop {
            let UnbufferedStatus { discard, state } = self.tls.process_tls_records(&mut input[from..]);
            let mut discarded = discard;
            let state = match state {
                Ok(state) => state,
                Err(error) => {
                    from += discard;
                    break Err(error);
                }
            };
            let goes_on = match state {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discarded += record.discard;
                        received.plain += record.payload.len();
                        plain(record.payload);
                    }
                    true
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(
                        &mut self.unsent,
                        |room| data.encode(room).ok(),
                        RECORD_BYTES_MAX + RECORD_OVERHEAD,
                    );
                    true
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    true
                }
                ConnectionState::PeerClosed | ConnectionState::Closed => {
                    self.is_closed = true;
                    false
                }
                ConnectionState::WriteTraffic(_) => {
                    received.established = !std::mem::replace(&mut self.is_established, true);
                    false
                }
                // Early data is never offered.
                ConnectionState::BlockedHandshake | ConnectionState::ReadEarlyData(_) => false,
                _ => false,
            };
            from += discarded;
            if !goes_on {
                break Ok(());
            }
        };
        if let Err(error) = result {
            self.has_failed = true;
            self.encode_alerts(&mut input[from..]);
            return Err(error);
        }
        let rest = &input[from..];
        if rest.len() > UNREAD_MAX {
            self.has_failed = true;
            return Err(Error::General("the peer's handshake is too large".to_owned()));
        }
        self.unread = rest.to_vec();
        Ok(received)
    }

    /// Encrypts as much of `plain` as fits into `out`, up to its capacity. Returns the number of plain bytes. Nothing can be
    /// encrypted before the handshake is complete.
    ///
    /// # Errors
    /// The keys are used up. The connection must end.
    pub fn encrypt(&mut self, plain: &[IoSlice<'_>], out: &mut Vec<u8>) -> Result<usize, Error> {
        if self.has_failed {
            return Err(Error::General("the session has failed before".to_owned()));
        }
        loop {
            match self.tls.process_tls_records(&mut self.unread).state? {
                // Such as a new key, which must leave before what it encrypts.
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(out, |room| data.encode(room).ok(), RECORD_BYTES_MAX + RECORD_OVERHEAD);
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.is_closed = true,
                // The borrow checker does not see that the loop ends here, so the state is asked for again.
                ConnectionState::WriteTraffic(_) => break,
                _ => return Ok(0),
            }
        }
        let ConnectionState::WriteTraffic(mut traffic) =
            self.tls.process_tls_records(&mut self.unread).state?
        else {
            return Ok(0);
        };
        let mut done = 0;
        let mut joined = [0; JOIN_BELOW];
        let mut slices = plain.iter().peekable();
        while let Some(slice) = slices.next() {
            let mut rest: &[u8] = slice;
            if slices.peek().is_some_and(|next| slice.len() + next.len() <= JOIN_BELOW) {
                joined[..slice.len()].copy_from_slice(slice);
                let mut have = slice.len();
                while let Some(next) = slices.next_if(|next| have + next.len() <= JOIN_BELOW) {
                    joined[have..have + next.len()].copy_from_slice(next);
                    have += next.len();
                }
                rest = &joined[..have];
            }
            while !rest.is_empty() {
                let piece = rest.len().min(RECORD_BYTES_MAX);
                if out.capacity() - out.len() < piece + RECORD_OVERHEAD {
                    // A joined piece that did not fit is not counted, so it is encrypted the next time.
                    return Ok(done);
                }
                encrypt_piece(&mut traffic, &rest[..piece], out)?;
                self.encrypted_records += 1;
                done += piece;
                rest = &rest[piece..];
            }
        }
        Ok(done)
    }

    /// Returns true once, when the keys can encrypt few more records. The connection should end with a reason now: the last
    /// call of [`Session::encrypt`] that these keys allow is followed by an error.
    pub fn poll_used_up(&mut self) -> bool {
        // TLS 1.3 changes its keys.
        let Some(SupportedCipherSuite::Tls12(suite)) = self.tls.negotiated_cipher_suite() else {
            return false;
        };
        let limit = suite.common.confidentiality_limit;
        let is_near = self.encrypted_records >= limit - RECORDS_RESERVED.min(limit / 2);
        is_near && !std::mem::replace(&mut self.is_used_up, true)
    }

    /// Tells the peer that nothing more will follow. Returns true if this makes bytes to write: it does so once.
    pub fn close(&mut self) -> bool {
        if self.has_failed || std::mem::replace(&mut self.has_closed, true) {
            return false;
        }
        let UnbufferedStatus { state, .. } = self.tls.process_tls_records(&mut self.unread);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            encode(&mut self.unsent, |room| traffic.queue_close_notify(room).ok(), RECORD_OVERHEAD);
        }
        !self.unsent().is_empty()
    }

    /// Returns the number of bytes that have arrived of a record, or of a message of the handshake, whose end has not.
    pub fn unread_bytes(&self) -> usize {
        self.unread.len()
    }

    /// Returns the encrypted bytes to write before any that [`Session::encrypt`] makes.
    pub fn unsent(&self) -> &[u8] {
        &self.unsent[self.sent..]
    }

    /// Notes that the first `bytes` of [`Session::unsent`] were written.
    pub fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent == self.unsent.len() {
            (self.unsent, self.sent) = (Vec::new(), 0);
        }
    }

    /// Keeps encrypted bytes that the socket did not take.
    pub fn keep_unsent(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    /// Moves what must still be said after an error to [`Session::unsent`]. `input` is what was not handled. It must not be
    /// handled again, so rustls is asked only while it has something to say, which comes first.
    fn encode_alerts(&mut self, input: &mut [u8]) {
        while self.tls.wants_write() {
            let Ok(ConnectionState::EncodeTlsData(mut data)) = self.tls.process_tls_records(input).state
            else {
                return;
            };
            encode(&mut self.unsent, |room| data.encode(room).ok(), RECORD_BYTES_MAX + RECORD_OVERHEAD);
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("is_established", &self.is_established).finish_non_exhaustive()
    }
}

fn encrypt_piece<D>(traffic: &mut WriteTraffic<'_, D>, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let at = out.len();
    out.resize(at + piece.len() + RECORD_OVERHEAD, 0);
    let written = traffic.encrypt(piece, &mut out[at..]);
    out.truncate(at + written.as_ref().copied().unwrap_or(0));
    written.map(|_| ()).map_err(|_| Error::EncryptError)
}

/// Appends what `encode` writes into a room of this size.
fn encode(to: &mut Vec<u8>, encode: impl FnOnce(&mut [u8]) -> Option<usize>, room: usize) {
    let at = to.len();
    to.resize(at + room, 0);
    let written = encode(&mut to[at..]).unwrap_or(0);
    to.truncate(at + written);
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use rustls::crypto::{CipherSuiteCommon, aws_lc_rs};
    use rustls::pki_types::ServerName;
    use rustls::{CipherSuite, ClientConnection, Tls12CipherSuite};

    use super::*;
    use crate::testing::{Files, server};

    /// Passes everything that both have to say, in pieces of `piece` bytes. Returns what each has received.
    fn talk(client: &mut ClientConnection, session: &mut Session, piece: usize) -> (Vec<u8>, Vec<u8>) {
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        loop {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            let idle = wire.is_empty() && session.unsent().is_empty();
            for bytes in wire.chunks(piece) {
                let mut buffer = vec![0; UNREAD_MAX + piece];
                let have = session.put_unread(&mut buffer);
                buffer[have..have + bytes.len()].copy_from_slice(bytes);
                let all = have + bytes.len();
                session.receive(&mut buffer[..all], |plain| to_server.extend_from_slice(plain)).unwrap();
            }
            while !session.unsent().is_empty() {
                let bytes = session.unsent()[..piece.min(session.unsent().len())].to_vec();
                session.note_sent(bytes.len());
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    client.read_tls(&mut rest).unwrap();
                    client.process_new_packets().unwrap();
                    // The plaintext is taken at once, because a client holds only some of it.
                    let mut plain = [0; 4096];
                    while let Ok(n @ 1..) = client.reader().read(&mut plain) {
                        to_client.extend_from_slice(&plain[..n]);
                    }
                }
            }
            if idle {
                return (to_server, to_client);
            }
        }
    }

    fn encrypt(session: &mut Session, mut slices: Vec<&[u8]>) {
        while !slices.is_empty() {
            let mut out = Vec::with_capacity(40_000);
            let ready: Vec<_> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
            let mut taken = session.encrypt(&ready, &mut out).unwrap();
            assert!(taken > 0);
            session.keep_unsent(&out);
            while taken > 0 {
                let part = taken.min(slices[0].len());
                slices[0] = &slices[0][part..];
                taken -= part;
                if slices[0].is_empty() {
                    slices.remove(0);
                }
            }
        }
    }

    #[test]
    fn bytes_arrive_in_both_directions_however_they_are_cut() {
        let files = Files::make("session");
        for piece in [1, 7, 1000, 16_389, 100_000] {
            let tls = server(&files);
            let mut session = Session::new(&tls).unwrap();
            let config = crate::ClientOptions { authorities: Some(files.authority.clone()), identity: None };
            let name = ServerName::try_from("localhost").unwrap();
            let mut client = ClientConnection::new(config.load().unwrap(), name).unwrap();
            talk(&mut client, &mut session, piece);
            assert!(session.is_established() && session.peer().is_none());
            assert_eq!(session.protocol().unwrap().0, "tlsv1.3");

            let long: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
            client.writer().write_all(&long[..50_000]).unwrap();
            let slices =
                vec![&long[..3], &long[3..5], &long[5..4000], &long[4000..5000], &long[5000..], &b"end"[..]];
            encrypt(&mut session, slices);
            let (to_server, to_client) = talk(&mut client, &mut session, piece);
            assert_eq!(to_server, long[..50_000]);
            assert_eq!(to_client, [&long[..], b"end"].concat());
            assert!(session.unread.is_empty() && session.unsent.capacity() == 0, "nothing is kept");

            client.send_close_notify();
            talk(&mut client, &mut session, piece);
            assert!(session.is_closed());
            assert!(session.close() && !session.close());
        }
    }

    /// Passes bytes of a client, and then tries everything else that a connection does.
    fn hear(session: &mut Session, bytes: &[u8]) -> bool {
        let mut buffer = vec![0; UNREAD_MAX + bytes.len()];
        let have = session.put_unread(&mut buffer);
        buffer[have..have + bytes.len()].copy_from_slice(bytes);
        let heard = session.receive(&mut buffer[..have + bytes.len()], |_| {}).is_ok();
        let mut out = Vec::with_capacity(1000);
        assert!(heard || session.encrypt(&[IoSlice::new(b"x")], &mut out).is_err());
        let _ = session.encrypt(&[IoSlice::new(b"hello")], &mut out);
        heard
    }

    fn client_of(files: &Files) -> ClientConnection {
        let config = crate::ClientOptions { authorities: Some(files.authority.clone()), identity: None };
        ClientConnection::new(config.load().unwrap(), ServerName::try_from("localhost").unwrap()).unwrap()
    }

    #[test]
    fn a_handshake_in_small_records_is_heard() {
        let files = Files::make("small");
        let (tls, mut client, mut hello) = (server(&files), client_of(&files), Vec::new());
        client.write_tls(&mut hello).unwrap();
        let mut session = Session::new(&tls).unwrap();
        for part in hello[5..].chunks(20) {
            let length = u8::try_from(part.len()).unwrap();
            assert!(hear(&mut session, &[&[22, 3, 1, 0, length], part].concat()));
        }
        assert_eq!(session.unsent().first(), Some(&22), "the answer is a record of the handshake");
        // Half a message, and the end.
        let mut session = Session::new(&tls).unwrap();
        assert!(hear(&mut session, &[&[22, 3, 1, 0, 20], &hello[5..25]].concat()));
        assert!(!session.close());
    }

    #[test]
    fn a_handshake_that_never_ends_is_refused_while_it_is_small() {
        let files = Files::make("endless");
        let tls = server(&files);
        for piece in [1, 100, 16_000] {
            let mut session = Session::new(&tls).unwrap();
            let message = [&[1, 0, 0xff, 0xff][..], &[0; 65_534]].concat();
            let mut taken = 0;
            for part in message.chunks(piece) {
                let length = u16::try_from(part.len()).unwrap().to_be_bytes();
                if !hear(&mut session, &[&[22, 3, 3][..], &length, part].concat()) {
                    break;
                }
                taken += part.len();
                assert!(session.unread.capacity() <= UNREAD_MAX);
            }
            assert!(taken < UNREAD_MAX, "{taken} bytes in records of {piece} were kept");
            assert!(session.has_failed);
        }
        // One of 32 KiB is waited for.
        let mut session = Session::new(&tls).unwrap();
        let message = [&[1, 0, 0x7f, 0xfc][..], &[0; 0x7ffb]].concat();
        for part in message.chunks(1_000) {
            let length = u16::try_from(part.len()).unwrap().to_be_bytes();
            assert!(hear(&mut session, &[&[22, 3, 3][..], &length, part].concat()));
        }
    }

    #[test]
    fn no_bytes_break_a_session() {
        let files = Files::make("broken");
        let tls = server(&files);
        let mut random = 7_u32;
        let mut draw = move |below: usize| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) as usize % below
        };
        let mut broken = 0;
        for round in 0..300 {
            let (mut client, mut session) = (client_of(&files), Session::new(&tls).unwrap());
            for flight in 0..4 {
                let mut wire = Vec::new();
                while client.wants_write() {
                    client.write_tls(&mut wire).unwrap();
                }
                if flight == round % 4 {
                    for _ in 0..=draw(3) {
                        match (wire.len(), draw(3)) {
                            (0, _) => wire.extend([22, 3, 3, 0, 4, 1, 0, 0, draw(256) as u8]),
                            (len, 0) => wire.truncate(draw(len)),
                            (len, 1) => wire[draw(len)] ^= 1 << draw(8),
                            (len, _) => wire.insert(draw(len), draw(256) as u8),
                        }
                    }
                }
                let piece = 1 + draw(700);
                if !wire.chunks(piece).all(|bytes| hear(&mut session, bytes)) {
                    broken += 1;
                    break;
                }
                let answer = session.unsent().to_vec();
                session.note_sent(answer.len());
                if client.read_tls(&mut &answer[..]).is_err() || client.process_new_packets().is_err() {
                    break;
                }
                if flight > 0 && !client.is_handshaking() {
                    client.writer().write_all(b"some data").unwrap();
                }
            }
            session.close();
        }
        assert!(broken > 50, "{broken} sessions were broken");
    }

    #[test]
    fn what_is_not_tls_is_answered_with_an_alert() {
        let files = Files::make("not-tls");
        let mut session = Session::new(&server(&files)).unwrap();
        let mut input = *b"AMQP\x03\x01\x00\x00 and more";
        assert!(session.receive(&mut input, |_| panic!("nothing was encrypted")).is_err());
        assert_eq!(session.unsent().first(), Some(&21), "a record of type alert");
    }

    /// Returns a configuration with one cipher suite, of TLS 1.2, that has this limit.
    fn limited(tls: &Tls, limit: u64) -> Arc<ServerConfig> {
        let mut provider = aws_lc_rs::default_provider();
        let found = provider.cipher_suites.iter().find_map(|suite| match suite {
            SupportedCipherSuite::Tls12(suite)
                if suite.common.suite == CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 =>
            {
                Some(*suite)
            }
            _ => None,
        });
        let suite = found.unwrap();
        let common = CipherSuiteCommon { confidentiality_limit: limit, ..suite.common };
        let suite: &'static _ = Box::leak(Box::new(Tls12CipherSuite { common, ..*suite }));
        provider.cipher_suites = vec![SupportedCipherSuite::Tls12(suite)];
        let limited = ServerConfig::builder_with_provider(provider.into())
            .with_protocol_versions(&[&rustls::version::TLS12]);
        let resolver = tls.config().cert_resolver.clone();
        Arc::new(limited.unwrap().with_no_client_auth().with_cert_resolver(resolver))
    }

    #[test]
    fn a_session_asks_for_its_end_before_its_keys_are_used_up() {
        let files = Files::make("used-up");
        let (tls, mut client) = (server(&files), client_of(&files));
        let mut session = Session::with(limited(&tls, 100), LoginFrom::default()).unwrap();
        talk(&mut client, &mut session, 1000);
        assert_eq!(session.protocol().unwrap().0, "tlsv1.2");
        let asked = (0..60).filter(|_| {
            encrypt(&mut session, vec![b"x"]);
            session.poll_used_up()
        });
        assert_eq!(asked.collect::<Vec<_>>(), [49], "after 50 records, and once");
        assert_eq!(talk(&mut client, &mut session, 1000).1, [b'x'; 60]);
        // Its own finish was a record, too.
        encrypt(&mut session, vec![b"y"; 1]);
        let mut ends = || session.encrypt(&[IoSlice::new(b"z")], &mut Vec::with_capacity(100)).is_err();
        let ends = (0..100).find(|_| ends());
        assert_eq!(ends, Some(38), "99 records of data");

        // TLS 1.3 is not concerned.
        let (mut client, mut session) = (client_of(&files), Session::new(&tls).unwrap());
        talk(&mut client, &mut session, 1000);
        session.encrypted_records = u64::MAX;
        assert!(!session.poll_used_up());
    }

    #[test]
    fn a_session_belongs_to_the_certificates_that_it_began_with() {
        let files = Files::make("reload");
        let tls = server(&files);
        let before: Arc<_> = tls.config();
        assert_eq!(tls.reload(false), Ok(false), "nothing has changed");
        std::fs::write(&files.key, "nonsense").unwrap();
        let why = tls.reload(false).unwrap_err();
        assert!(why.to_string().contains("there is no PRIVATE KEY in it"), "{why}");
        assert!(tls.problem().is_some() && Arc::ptr_eq(&tls.config(), &before));
        assert_eq!(tls.reload(false), Ok(false), "it is reported once");
        files.renew("second");
        assert_eq!(tls.reload(false), Ok(true));
        assert_eq!((tls.problem(), tls.certificates()[0].1.subject.as_str()), (None, "CN=second"));
        assert!(!Arc::ptr_eq(&tls.config(), &before));
    }
}
