//! The connection of a request, and how its errors look over HTTP.

use std::future::Future;
use std::io;
use std::os::unix::net;
use std::time::Duration;

use amqp091::ReplyCode;
use client::Error;
use client::amqp091::{Connection, Options};
use tokio::net::UnixStream;
use tokio::sync::SemaphorePermit;

use crate::call::Call;
use crate::reply::Failure;

/// The time for a whole request: connecting, messages and closing. It is longer than the time after which the broker gives up a
/// change of its own, and shorter than the patience of most HTTP clients.
pub(super) const TIME_MAX: Duration = Duration::from_secs(10);

/// Every connection has one channel.
pub(super) const CHANNEL: u16 = 1;

/// The program's name in the list of connections.
const PRODUCT: &str = "Sluice HTTP API";

/// Opens a connection with a channel, to the virtual host that the path names first.
///
/// # Errors
/// See [`failure`]. The user may not use the virtual host, for example, or there are as many connections as allowed.
pub(super) async fn open(call: &Call<'_>) -> Result<Connection, Failure> {
    let vhost = super::name(call.param(0), "virtual host");
    let vhost = vhost.map_err(|failure| failure.naming("vhost_not_found"))?;
    let socket = call.api.connect(&call.who, call.peer).await?;
    let socket = stream(socket.into()).map_err(|error| failure(&error.into()))?;
    let options = Options {
        product: PRODUCT.to_owned(),
        virtual_host: Some(vhost.to_owned()),
        // The connection ends with the request.
        idle_time_out: Duration::ZERO,
        tls: None,
        handshake_timeout: TIME_MAX,
    };
    let mut connection = Connection::over(socket, options).await.map_err(|error| failure(&error))?;
    match connection.open_channel(CHANNEL).await {
        Ok(()) => Ok(connection),
        Err(error) => Err(failure(&error)),
    }
}

fn stream(socket: net::UnixStream) -> io::Result<UnixStream> {
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// Waits for a place among the requests for messages, up to [`TIME_MAX`]. Dropping it makes room for another.
///
/// # Errors
/// 503 if it takes longer. `then` says what this means for the messages.
pub(crate) async fn place<'a>(call: &Call<'a>, then: &str) -> Result<Option<SemaphorePermit<'a>>, Failure> {
    let late = |_| {
        let seconds = TIME_MAX.as_secs();
        Failure::unavailable(format!("other requests for messages have not ended within {seconds} s: {then}"))
    };
    tokio::time::timeout(TIME_MAX, call.ports.message_request()).await.map_err(late)
}

/// Waits for the end of a request, up to [`TIME_MAX`].
///
/// # Errors
/// 503 if it takes longer. `then` says what this means for the messages.
pub(super) async fn in_time<T>(
    then: impl Fn() -> &'static str,
    request: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    ended_by(tokio::time::sleep(TIME_MAX), then, request).await
}

/// Waits for the end of a request, or for a timer of [`TIME_MAX`].
async fn ended_by<T>(
    timer: impl Future<Output = ()>,
    then: impl Fn() -> &'static str,
    request: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        ended = request => ended,
        () = timer => {
            let (seconds, then) = (TIME_MAX.as_secs(), then());
            Err(Failure::unavailable(format!("the broker has not answered within {seconds} s: {then}")))
        }
    }
}

/// Returns what an error of AMQP 0.9.1 is over HTTP. As in RabbitMQ, it is 404 for what does not exist, 401 for what the user may
/// not do, and 400 for every other refusal.
pub(super) fn failure(error: &Error) -> Failure {
    let Error::Refused { code, text, .. } = error else {
        return Failure::unavailable(format!("the connection to the broker has failed: {error}"));
    };
    match ReplyCode::from_number(*code) {
        Some(ReplyCode::NotFound) => Failure::not_found(text),
        Some(ReplyCode::AccessRefused | ReplyCode::NotAllowed) => Failure::not_authorised(text),
        // The node stops, or somebody has closed the connection.
        Some(ReplyCode::ConnectionForced) => Failure::unavailable(text),
        _ => Failure::bad_request(format!("{code} {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_does_not_wait_for_ever() {
        let (timer, then) = (std::future::ready(()), || "nothing has happened");
        let late = ended_by(timer, then, std::future::pending::<Result<(), Failure>>()).await.unwrap_err();
        assert_eq!((late.status.as_u16(), late.error), (503, "service_unavailable"));
        assert_eq!(late.reason, "the broker has not answered within 10 s: nothing has happened");
    }

    #[test]
    fn errors_have_the_status_of_rabbitmq() {
        let refused = |code| Error::Refused { channel: Some(CHANNEL), code, text: "TEXT - why".to_owned() };
        for (error, status, reason) in [
            (refused(404), 404, "TEXT - why"),
            (refused(403), 401, "TEXT - why"),
            (refused(530), 401, "TEXT - why"),
            (refused(320), 503, "TEXT - why"),
            (refused(406), 400, "406 TEXT - why"),
            (refused(999), 400, "999 TEXT - why"),
            (Error::Closed, 503, "the connection to the broker has failed: closed"),
        ] {
            let failure = failure(&error);
            assert_eq!((failure.status.as_u16(), failure.text()), (status, reason));
        }
    }
}
