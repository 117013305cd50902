//! Arguments that seem to be meant for the broker and that it does not know.

use super::exchange::ExchangeKind;
use super::{Arguments, Change, arguments};
use crate::names::cut;
use crate::nearest::nearest;

/// Arguments with this prefix are meant for the broker. Others are notes of clients.
const PREFIX: &str = "x-";

/// The name of an argument that has no effect, and the known name that was probably meant.
pub type Unknown<'a> = (&'a str, Option<&'static str>);

/// Returns the unknown arguments of a queue.
pub fn unknown_queue_arguments(given: &Arguments) -> Vec<Unknown<'_>> {
    unknown(given, arguments::known)
}

/// Returns the unknown arguments of an exchange.
pub fn unknown_exchange_arguments(kind: ExchangeKind, given: &Arguments) -> Vec<Unknown<'_>> {
    unknown(given, || kind.known_arguments().iter().copied())
}

fn unknown<I: Iterator<Item = &'static str>>(given: &Arguments, known: impl Fn() -> I) -> Vec<Unknown<'_>> {
    let names = given.keys().map(String::as_str).filter(|name| name.starts_with(PREFIX));
    let unknown = names.filter(|name| known().all(|known| known != *name));
    unknown.map(|name| (name, nearest(name, known()))).collect()
}

/// Returns a warning for each unknown argument of a queue or exchange that is declared.
pub fn argument_warnings(change: &Change) -> Vec<String> {
    let (of, unknown) = match change {
        Change::QueueDeclared(queue) => (
            format!("queue '{}' in vhost '{}'", queue.name, queue.vhost),
            unknown_queue_arguments(&queue.arguments),
        ),
        Change::ExchangeDeclared(exchange) => (
            format!("exchange '{}' in vhost '{}'", exchange.name, exchange.vhost),
            unknown_exchange_arguments(exchange.kind, &exchange.arguments),
        ),
        _ => return Vec::new(),
    };
    let warning = |(name, meant): Unknown<'_>| {
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
        format!("argument '{}' of {of} is unknown and has no effect{meant}", cut(name).escape_default())
    };
    unknown.into_iter().map(warning).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use amqp10::Value;

    use super::super::Exchange;
    use super::*;

    #[test]
    fn unknown_arguments_of_exchanges_are_named() {
        let declared = |kind, names: &[&str]| {
            let arguments = names.iter().map(|name| ((*name).to_owned(), Value::from("a"))).collect();
            let exchange = Exchange::new("/".into(), "x".into(), kind, arguments);
            argument_warnings(&Change::ExchangeDeclared(Arc::new(exchange)))
        };
        assert_eq!(declared(ExchangeKind::Direct, &["alternate-exchange", "note"]), [""; 0]);
        assert_eq!(declared(ExchangeKind::RecentHistory, &["x-recent-history-length"]), [""; 0]);
        assert_eq!(
            declared(ExchangeKind::RecentHistory, &["x-note", "x-recent-history-lenght"]),
            [
                "argument 'x-note' of exchange 'x' in vhost '/' is unknown and has no effect",
                "argument 'x-recent-history-lenght' of exchange 'x' in vhost '/' is unknown and has no effect; \
                 did you mean 'x-recent-history-length'?",
            ]
        );
    }
}
