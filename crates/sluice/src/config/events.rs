//! The keys about the messages that the broker itself publishes: `event_exchange.*`.

use super::key::{Key, key, put};
use super::values::{boolean, text};

/// Where the broker publishes its own messages. `finish` makes settings of these.
#[derive(Clone, Debug)]
pub(super) struct Events {
    enabled: bool,
    vhost: String,
}

impl Default for Events {
    fn default() -> Self {
        Self { enabled: false, vhost: catalog::DEFAULT_VHOST.to_owned() }
    }
}

impl Events {
    /// Returns the virtual host of the event exchange, if events are on.
    pub(super) fn vhost(&self) -> Option<std::sync::Arc<str>> {
        self.enabled.then(|| self.vhost.as_str().into())
    }
}

/// The keys of this file, in the order of the example file.
pub(super) const KEYS: &[Key] = &[
    key(
        "event_exchange.enabled",
        "false",
        "Whether the broker publishes events, such as queue.created, to the exchange amq.rabbitmq.event. With false no event comes; the exchange stays if there is one, and can be deleted.",
        |c, _, v| put(&mut c.events.enabled, boolean(v)),
    ),
    key("event_exchange.vhost", "/", "The virtual host of that exchange.", |c, _, v| {
        put(&mut c.events.vhost, text(v))
    }),
];
