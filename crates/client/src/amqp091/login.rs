//! The events that a client answers by itself: those of the login and of closing.

use ::amqp091::{
    Connection as Endpoint, ConnectionStart, ConnectionStartOk, Event, Method, Secret, Table, TableWriter,
    Value,
};
use bytes::BytesMut;

use crate::error::Error;
use crate::url::Credentials;

/// Who logs in, and where.
pub(super) struct Login {
    /// With `None` the login is EXTERNAL or ANONYMOUS.
    pub credentials: Option<Credentials>,
    pub virtual_host: String,
    /// The name of the program.
    pub product: String,
}

/// What we tell the broker that we support. Without the first, it closes the socket when it refuses a login, and does not
/// say why. Without the second, we would not hear that a queue with our consumer is deleted. Without the last, we would not hear
/// that an alarm stops what we publish ([`Event::Blocked`]).
const CAPABILITIES: [&str; 4] =
    ["authentication_failure_close", "consumer_cancel_notify", "basic.nack", "connection.blocked"];

impl Login {
    /// Answers an event, or passes it on to `handle`.
    ///
    /// # Errors
    /// What the event means for the connection; see [`super::Connection::exchange`].
    #[inline]
    pub(super) fn handle(
        &self,
        endpoint: &mut Endpoint,
        event: Event<'_>,
        handle: &mut impl FnMut(Event<'_>),
    ) -> Result<(), Error> {
        match event {
            Event::Content { .. } => handle(event),
            Event::Start(start) => return self.start(endpoint, &start),
            // None of the mechanisms that we choose has a challenge.
            Event::Secure(_) => return Err(Error::Mechanism),
            Event::Tuned => endpoint.open(&self.virtual_host),
            Event::BadHeader => return Err(Error::Version),
            Event::Close { code, text, .. } => {
                endpoint.close_ok();
                return Err(Error::Refused { channel: None, code, text: text.to_owned() });
            }
            Event::ChannelClose { channel, code, text, .. } => {
                endpoint.channel_close_ok(channel);
                return Err(Error::Refused { channel: Some(channel), code, text: text.to_owned() });
            }
            Event::Method { method: Method::BasicCancel(_), .. } => return Err(Error::Closed),
            event => handle(event),
        }
        Ok(())
    }

    /// Chooses a mechanism.
    fn start(&self, endpoint: &mut Endpoint, start: &ConnectionStart<'_>) -> Result<(), Error> {
        let offered =
            |name: &str| start.mechanisms.split(|octet| *octet == b' ').any(|one| one == name.as_bytes());
        let (mechanism, response) = match &self.credentials {
            Some(Credentials { user, password }) if offered("PLAIN") => {
                ("PLAIN", [b"\0", user.as_bytes(), b"\0", password.expose()].concat())
            }
            None if offered("EXTERNAL") => ("EXTERNAL", Vec::new()),
            None if offered("ANONYMOUS") => ("ANONYMOUS", Vec::new()),
            _ => return Err(Error::Mechanism),
        };
        let mut table = BytesMut::new();
        let mut properties = TableWriter::new(&mut table);
        properties.put("product", &Value::LongString(self.product.as_bytes()));
        let mut capabilities = properties.table("capabilities");
        for name in CAPABILITIES {
            capabilities.put(name, &Value::Bool(true));
        }
        drop(capabilities);
        drop(properties);
        endpoint.start_ok(ConnectionStartOk {
            // The table begins with the four bytes of its length.
            client_properties: Table::from_entries(&table[4..]),
            mechanism,
            response: Secret::new(&response),
            locale: "en_US",
        });
        Ok(())
    }
}
