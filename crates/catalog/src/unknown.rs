//! Arguments that seem to be meant for the broker and that it does not know.

use super::exchange::ExchangeKind;
use super::{Arguments, Change, arguments};
use crate::names::cut;
use crate::nearest::nearest;

/// Arguments with this prefix are meant for the broker. Others are notes of clients.
const PREFIX: &str = "x-";

/// The most unknown arguments of a queue or exchange that have a warning and a hint each: the known name that was probably meant. Further
/// ones are only counted. Finding a hint takes time, other clients wait meanwhile, and a client may send 256 unknown arguments.
const HINTS_MAX: usize = 8;

/// The name of an argument that has no effect, and the known name that was probably meant.
pub(super) type Unknown<'a> = (&'a str, Option<&'static str>);

/// Returns the unknown arguments of a queue, in the order of their names. Only the first eight may have a hint.
pub fn unknown_queue_arguments(given: &Arguments) -> Vec<Unknown<'_>> {
    unknown(given, arguments::known)
}

/// Returns the unknown arguments of an exchange, like [`unknown_queue_arguments`].
pub fn unknown_exchange_arguments(kind: ExchangeKind, given: &Arguments) -> Vec<Unknown<'_>> {
    unknown(given, || kind.known_arguments().iter().copied())
}

fn unknown<I: Iterator<Item = &'static str>>(given: &Arguments, known: impl Fn() -> I) -> Vec<Unknown<'_>> {
    let names = given.keys().map(String::as_str).filter(|name| name.starts_with(PREFIX));
    let unknown = names.filter(|name| known().all(|known| known != *name));
    let with_hint = |(at, name)| (name, if at < HINTS_MAX { nearest(name, known()) } else { None });
    unknown.enumerate().map(with_hint).collect()
}

/// Returns a warning for each of the first eight unknown arguments of a queue or exchange that is declared, and one that counts the
/// others.
pub fn argument_warnings(change: &Change) -> Vec<String> {
    // A name may have any character but line breaks. Its quotes are escaped, so that it ends where it seems to end.
    let shown = |what: &str, name: &str, vhost: &str| {
        format!("{what} '{}' in vhost '{}'", name.escape_debug(), vhost.escape_debug())
    };
    let (of, unknown) = match change {
        Change::QueueDeclared(queue) => {
            (shown("queue", &queue.name, &queue.vhost), unknown_queue_arguments(&queue.arguments))
        }
        Change::ExchangeDeclared(exchange) => (
            shown("exchange", &exchange.name, &exchange.vhost),
            unknown_exchange_arguments(exchange.kind, &exchange.arguments),
        ),
        _ => return Vec::new(),
    };
    let warning = |&(name, meant): &Unknown<'_>| {
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
        format!("argument '{}' of {of} is unknown and has no effect{meant}", cut(name).escape_debug())
    };
    let more = match unknown.len().saturating_sub(HINTS_MAX) {
        0 => None,
        1 => Some(format!("1 more argument of {of} is unknown and has no effect")),
        more => Some(format!("{more} more arguments of {of} are unknown and have no effect")),
    };
    unknown.iter().take(HINTS_MAX).map(warning).chain(more).collect()
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

    fn misspelt(n: usize) -> Arguments {
        (0..n).map(|at| (format!("x-max-lenght{:02x}", at), Value::from("a"))).collect()
    }

    /// A client may send 256 such names, and the hints are found on a thread that serves others, too.
    #[test]
    fn only_the_first_unknown_arguments_have_hints() {
        let near = || (0..20).map(|at| (format!("x-expires{}", char::from(b'a' + at)), Value::from("a")));
        let given: Arguments = near().chain(misspelt(236)).collect();
        let unknown = unknown_queue_arguments(&given);
        assert_eq!(unknown.len(), 256);
        assert!(unknown[..HINTS_MAX].iter().all(|(_, meant)| *meant == Some("x-expires")), "{unknown:?}");
        assert!(unknown[HINTS_MAX..].iter().all(|(_, meant)| meant.is_none()), "{unknown:?}");
    }

    #[test]
    fn only_the_first_unknown_arguments_have_warnings() {
        let declared = |n| {
            let exchange = Exchange::new("/".into(), "x".into(), ExchangeKind::Direct, misspelt(n));
            argument_warnings(&Change::ExchangeDeclared(Arc::new(exchange)))
        };
        assert_eq!(declared(HINTS_MAX).len(), HINTS_MAX);
        let warnings = declared(256);
        assert_eq!(warnings.len(), HINTS_MAX + 1, "{warnings:?}");
        let last = warnings.last().unwrap();
        assert_eq!(last, "248 more arguments of exchange 'x' in vhost '/' are unknown and have no effect");
        let last = declared(HINTS_MAX + 1).pop().unwrap();
        assert_eq!(last, "1 more argument of exchange 'x' in vhost '/' is unknown and has no effect");
    }

    #[test]
    fn a_name_cannot_look_like_the_rest_of_a_line() {
        let name = "q' in vhost '/' was deleted by 'ann\t";
        let arguments = misspelt(1);
        let exchange = Exchange::new("v'".into(), name.into(), ExchangeKind::Direct, arguments);
        assert_eq!(
            argument_warnings(&Change::ExchangeDeclared(Arc::new(exchange))),
            [
                "argument 'x-max-lenght00' of exchange 'q\\' in vhost \\'/\\' was deleted by \\'ann\\t' in vhost 'v\\'' is \
              unknown and has no effect"
            ]
        );
    }
}
