//! `x-recent-history`: routes like `fanout` and keeps the last messages for destinations that are bound later.
//!
//! Routing only marks a message as to be kept. The node has one [`Histories`] with the messages, on the
//! shard that decides bindings. They are in memory only, so a restart begins without them.

use std::collections::VecDeque;
use std::sync::Arc;

use amqp10::Value;
use bytes::Bytes;
use hashbrown::HashMap;
use message::Message;

use super::super::{Arguments, CatalogError};
use super::Exchange;
use super::routable::Facts;

pub(super) const LENGTH: &str = "x-recent-history-length";
const NO_STORE: &str = "x-recent-history-no-store";

/// The number of messages kept if the exchange does not set one.
const LENGTH_DEFAULT: usize = 20;

/// The maximum number of messages that an exchange may keep. One binding delivers them all at once.
const LENGTH_MAX: u64 = 10_000;

/// The maximum number of bytes kept per exchange. Above it, the oldest messages are dropped.
const BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Checks the arguments of a declaration.
///
/// # Errors
/// The length is not a number from 1 to [`LENGTH_MAX`].
pub(super) fn check_arguments(name: &str, arguments: &Arguments) -> Result<(), CatalogError> {
    match arguments.get(LENGTH).map(Value::as_u64) {
        None | Some(Some(1..=LENGTH_MAX)) => Ok(()),
        Some(_) => Err(CatalogError::PreconditionFailed {
            reason: format!(
                "invalid arg '{LENGTH}' for exchange '{name}': a whole number from 1 to {LENGTH_MAX} is needed"
            ),
        }),
    }
}

/// Returns true if the publisher allows the message to be kept.
pub(super) fn is_wanted(facts: &Facts<'_>) -> bool {
    !facts.header(NO_STORE).is_some_and(|value| value.is_true())
}

/// Returns the number of messages that the exchange keeps.
pub fn history_length(exchange: &Exchange) -> usize {
    let length = exchange.arguments.get(LENGTH).and_then(Value::as_u64);
    length.map_or(LENGTH_DEFAULT, |n| n.min(LENGTH_MAX) as usize)
}

/// The last messages of every `x-recent-history` exchange, by virtual host and name.
#[derive(Debug, Default)]
pub struct Histories(HashMap<(Arc<str>, Arc<str>), History>);

#[derive(Debug, Default)]
struct History {
    /// The messages of one exchange, oldest first.
    messages: VecDeque<Message>,
    bytes: u64,
}

impl Histories {
    /// Keeps a copy of the message with its own memory, so that one message does not hold a whole batch buffer.
    pub fn remember(&mut self, exchange: &Exchange, message: &Message) {
        let key = (exchange.vhost.clone(), exchange.name.clone());
        let history = self.0.entry(key).or_default();
        let mut parts = message.parts();
        parts.wire = Bytes::copy_from_slice(&parts.wire);
        let mut copy = Message::new(parts, message.route().clone());
        if let Some(deaths) = message.deaths() {
            copy = copy.with_deaths(deaths.clone());
        }
        history.bytes += message.bytes_in_memory();
        history.messages.push_back(copy);
        while history.messages.len() > history_length(exchange) || history.bytes > BYTES_MAX {
            let Some(oldest) = history.messages.pop_front() else { return };
            history.bytes -= oldest.bytes_in_memory();
        }
    }

    /// Returns the messages that are kept, oldest first.
    pub fn of(&self, vhost: &Arc<str>, exchange: &Arc<str>) -> impl Iterator<Item = &Message> {
        let history = self.0.get(&(vhost.clone(), exchange.clone()));
        history.into_iter().flat_map(|h| &h.messages)
    }

    /// Drops the history of an exchange that was deleted.
    pub fn forget(&mut self, vhost: &Arc<str>, exchange: &Arc<str>) {
        self.0.remove(&(vhost.clone(), exchange.clone()));
    }
}

#[cfg(test)]
mod tests {
    use message::{Parts, Route};

    use super::super::ExchangeKind;
    use super::*;

    fn message(octets: &[u8]) -> Message {
        let parts = Parts { wire: Bytes::copy_from_slice(octets), ..Parts::default() };
        Message::new(parts, Arc::new(Route::simple("h", "k")))
    }

    #[test]
    fn the_last_messages_are_kept() {
        let vhost: Arc<str> = "/".into();
        let arguments = Arguments::from([(LENGTH.to_owned(), Value::Int(3))]);
        let exchange = Exchange::new(vhost.clone(), "h".into(), ExchangeKind::RecentHistory, arguments);
        let mut histories = Histories::default();
        for i in 0..5u8 {
            histories.remember(&exchange, &message(&[i]));
        }
        let kept: Vec<u8> = histories.of(&vhost, &exchange.name).map(|m| m.bare()[0]).collect();
        assert_eq!(kept, [2, 3, 4]);
        histories.forget(&vhost, &exchange.name);
        assert_eq!(histories.of(&vhost, &exchange.name).count(), 0);
    }

    #[test]
    fn the_bytes_of_a_history_are_bounded() {
        let exchange = Exchange::new("/".into(), "h".into(), ExchangeKind::RecentHistory, Arguments::new());
        let mut histories = Histories::default();
        let large = message(&vec![0; 12 * 1024 * 1024]);
        (0..5).for_each(|_| histories.remember(&exchange, &large));
        assert_eq!(histories.of(&exchange.vhost, &exchange.name).count(), 2);
    }
}
