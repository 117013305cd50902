//! What a port speaks that a verb has misunderstood, and why TLS failed, in words.

use std::io;
use std::time::Duration;

use amqp10::frame::SASL_HEADER;
use tls::Refusal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::words::moment;

/// The time for a port to answer. Most answer at once. A port that stays silent remains unknown.
const PATIENCE: Duration = Duration::from_secs(5);

/// A protocol that a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Amqp,
    Http,
    Tls,
}

/// Returns what the port speaks, by its answer to the protocol header of AMQP 1.0. `None` if nobody knows.
pub(crate) async fn probe(host: &str, port: u16) -> Option<Speaks> {
    let answer = async {
        let mut stream = TcpStream::connect((host, port)).await.ok()?;
        stream.write_all(&SASL_HEADER).await.ok()?;
        let mut first = [0; 4];
        stream.read_exact(&mut first).await.ok()?;
        of_answer(first)
    };
    tokio::time::timeout(PATIENCE, answer).await.ok()?
}

fn of_answer(first: [u8; 4]) -> Option<Speaks> {
    match first {
        [b'A', b'M', b'Q', b'P'] => Some(Speaks::Amqp),
        [b'H', b'T', b'T', b'P'] => Some(Speaks::Http),
        // An alert, and the major version (RFC 8446, 5.1): the header is no message of TLS.
        [21, 3, ..] => Some(Speaks::Tls),
        _ => None,
    }
}

/// Returns true if the port answered the handshake with something else than TLS.
pub(crate) fn is_without_tls(error: &io::Error) -> bool {
    Refusal::of(error) == Some(Refusal::NoTls)
}

/// Returns what is wrong with a certificate, in words. `None` if the error is about something else.
pub(crate) fn of_certificate(error: &io::Error, host: &str) -> Option<String> {
    let expired = |when: &Option<u64>| {
        let when = when.and_then(|seconds| i64::try_from(seconds).ok());
        when.map_or_else(String::new, |seconds| format!(": {}", moment(seconds)))
    };
    Some(match Refusal::of(error)? {
        Refusal::NoTls => return None,
        Refusal::ItsOwnAuthority => "the server's certificate is its own authority, which TLS forbids; an authority must sign it: \
             `sluice make certificates` makes both"
            .to_owned(),
        Refusal::UnknownAuthority => {
            "no trusted authority has signed the server's certificate; --cacert names the file of its authority".to_owned()
        }
        Refusal::OtherNames(names) if names.is_empty() => {
            format!("the server's certificate is not for '{host}', and has no name")
        }
        Refusal::OtherNames(names) => {
            format!("the server's certificate is for {}, and not for '{host}'", names.join(", "))
        }
        Refusal::Expired(when) => format!("the server's certificate has expired{}", expired(&when)),
        Refusal::NotYetValid(when) => {
            let when = expired(&when);
            format!("the server's certificate is not valid yet{when}; is the clock of this machine right?")
        }
        Refusal::ClientHasNone => {
            "the server requires a certificate of the client: --cert and --cert-key name its files".to_owned()
        }
        Refusal::ClientRefused => {
            "the server does not accept the certificate of the client (--cert); its log says why".to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_known_by_their_answers() {
        assert_eq!(of_answer(*b"AMQP"), Some(Speaks::Amqp));
        assert_eq!(of_answer(*b"HTTP"), Some(Speaks::Http));
        assert_eq!(of_answer([21, 3, 3, 0]), Some(Speaks::Tls));
        assert_eq!(of_answer(*b"220 "), None);
    }
}
