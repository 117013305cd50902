//! The filters of a consumer's source, if it reads a stream (behaviour B.9).
//!
//! ```text
//!  name        descriptor                                           value
//!  any         rabbitmq:stream-offset-spec                          first, last, next, a span, a time, an offset
//!  any         rabbitmq:stream-filter                               a string or a list of strings
//!  any         rabbitmq:stream-match-unfiltered                     a boolean
//!  any but ^   amqp:properties-filter, 0x173                        a map
//!  any but ^   amqp:application-properties-filter, 0x174            a map
//!  sql-filter  amqp:sql-filter, 0x120                               a string
//!  any but ^   apache.org:selector-filter:string, 0x468C00000004    a string
//! ```
//!
//! The last is a selector of JMS, which clients of JMS can say and nothing else: so it is also where they say the place
//! and the chunks that they want (docs/decisions/0018). What the filters for those say comes first.
//!
//! Filters must be described values [3.5.8]. One that we do not know or cannot read is left out, and the answer to
//! ATTACH has exactly the others [3.5.3]; an offset that cannot be read refuses the consumer, as in the reference, and so
//! does a selector, for a client of JMS does not look at what is in place.

use std::fmt;
use std::sync::Arc;

use amqp10::{AmqpError, Map, Value, condition};
use message::{Dialect, FieldError, FieldFilter, Filter, SqlError, SqlFilter};
use queue::{BloomFilter, Replay, Start};

use super::{error, shown};
use crate::start::start_of;

/// An expression has this name. Others may be called anything.
const SQL_NAME: &str = "sql-filter";

/// Filters that are in place.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    /// What they ask of the stream.
    pub replay: Replay,
    /// The filters as they were written, for the answer; `None` if the client has asked for none, or none is accepted.
    pub filters: Option<Map>,
    /// Why an expression or a filter of fields is left out, for the log; of several the first.
    pub left_out: Option<String>,
}

/// Takes what can be taken of the source's `filter`. Of two filters that cannot both be in place the last one stands,
/// because the reference reads them from last to first; of two offsets, and of two Bloom filters, both are accepted
/// and the first one counts.
///
/// `now_ms`: milliseconds since the Unix epoch, for spans.
///
/// # Errors
/// The offset that counts is a text that means nothing, or the selector that counts is none.
pub(super) fn accept(asked: Option<&Map>, now_ms: u64) -> Result<Accepted, Unreadable> {
    let mut taken = Taken { now_ms, ..Taken::default() };
    let asked = asked.map_or(&[][..], |map| &map.0);
    let mut filters: Vec<_> =
        asked.iter().rev().filter(|(name, filter)| taken.take(name, filter)).cloned().collect();
    filters.reverse();
    let mut replay = taken.matching.transpose()?.map_or_else(Replay::default, Replay::matching);
    if let Some(start) = taken.start.transpose()? {
        replay.start = start;
    }
    if let Some(mut values) = taken.values {
        // An empty value stands for messages without a value, as it does in a message.
        let empty = values.extract_if(.., |value| value.is_empty()).count() > 0;
        replay.bloom = Some(Arc::new(BloomFilter { values, unfiltered: taken.unfiltered || empty }));
    }
    let filters = Some(Map(filters)).filter(|map| !map.is_empty());
    Ok(Accepted { replay, filters, left_out: taken.left_out })
}

/// A filter that refuses the consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Neither a word nor a span.
    Offset(String),
    Selector(SqlError),
}

impl Unreadable {
    /// How the consumer is refused.
    pub fn to_error(&self, queue: &str, vhost: &str) -> AmqpError {
        let condition = match self {
            Self::Offset(_) => condition::PRECONDITION_FAILED,
            Self::Selector(_) => condition::INVALID_FIELD,
        };
        error(condition, format!("failed consuming from stream '{queue}' in vhost '{vhost}': {self}"))
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(text) => {
                write!(f, "offset '{text}' is not first, last, next or a span such as 10m (of Y M D h m s)")
            }
            Self::Selector(error) => write!(f, "the selector cannot be read: {error}"),
        }
    }
}

/// What a descriptor announces, as symbol or as number.
enum Kind {
    Offset,
    Bloom,
    Unfiltered,
    Properties,
    ApplicationProperties,
    Sql,
    Selector,
}

impl Kind {
    fn of(descriptor: &Value) -> Option<Self> {
        Some(match descriptor {
            Value::Symbol(symbol) => match symbol.as_str() {
                "rabbitmq:stream-offset-spec" => Self::Offset,
                "rabbitmq:stream-filter" => Self::Bloom,
                "rabbitmq:stream-match-unfiltered" => Self::Unfiltered,
                "amqp:properties-filter" => Self::Properties,
                "amqp:application-properties-filter" => Self::ApplicationProperties,
                "amqp:sql-filter" => Self::Sql,
                "apache.org:selector-filter:string" => Self::Selector,
                _ => return None,
            },
            Value::Ulong(0x120) => Self::Sql,
            Value::Ulong(0x173) => Self::Properties,
            Value::Ulong(0x174) => Self::ApplicationProperties,
            Value::Ulong(0x468C_0000_0004) => Self::Selector,
            _ => return None,
        })
    }
}

/// What has been read so far, from last to first.
#[derive(Default)]
struct Taken {
    now_ms: u64,
    start: Option<Result<Start, Unreadable>>,
    values: Option<Vec<Box<[u8]>>>,
    unfiltered: bool,
    matching: Option<Result<Filter, Unreadable>>,
    left_out: Option<String>,
}

impl Taken {
    /// Takes one filter; false if it is left out.
    fn take(&mut self, name: &Value, filter: &Value) -> bool {
        let (Value::Symbol(name), Value::Described(described)) = (name, filter) else { return false };
        let value = &described.value;
        match (Kind::of(&described.descriptor), value) {
            (Some(Kind::Offset), value) => put(&mut self.start, start(value, self.now_ms)),
            (Some(Kind::Bloom), value) => put(&mut self.values, bloom_values(value)),
            (Some(Kind::Unfiltered), Value::Boolean(v)) => {
                self.unfiltered = *v;
                true
            }
            (Some(Kind::Sql), Value::String(text)) => name.as_str() == SQL_NAME && self.take_sql(text),
            (Some(Kind::Selector), Value::String(text)) => {
                name.as_str() != SQL_NAME && self.take_selector(text)
            }
            (Some(Kind::Properties), Value::Map(map)) => {
                name.as_str() != SQL_NAME && self.take_fields(|fields| fields.add_properties(map))
            }
            (Some(Kind::ApplicationProperties), Value::Map(map)) => {
                name.as_str() != SQL_NAME && self.take_fields(|fields| fields.add_application_properties(map))
            }
            _ => false,
        }
    }

    fn take_sql(&mut self, text: &str) -> bool {
        if self.matching.is_some() {
            return false;
        }
        let parsed = SqlFilter::parse(text, Dialect::Filter).map(Filter::Sql);
        self.match_with(parsed.map_err(|error| format!("no SQL filter: {error}")))
    }

    fn take_selector(&mut self, text: &str) -> bool {
        if self.matching.is_some() {
            return false;
        }
        let parsed = SqlFilter::parse(text, Dialect::Selector).map(Filter::Sql);
        put(&mut self.matching, Some(parsed.map_err(Unreadable::Selector)))
    }

    /// One filter for each of the two sections; together they are one.
    fn take_fields(&mut self, add: impl FnOnce(&mut FieldFilter) -> Result<(), FieldError>) -> bool {
        let mut fields = match &self.matching {
            None => FieldFilter::default(),
            Some(Ok(Filter::Fields(fields))) => fields.clone(),
            Some(_) => return false,
        };
        let added = add(&mut fields).map(|()| Filter::Fields(fields));
        self.match_with(added.map_err(|error| format!("no property filter: {error}")))
    }

    fn match_with(&mut self, read: Result<Filter, String>) -> bool {
        match read {
            Ok(filter) => put(&mut self.matching, Some(Ok(filter))),
            Err(reason) => {
                self.left_out = Some(reason);
                false
            }
        }
    }
}

/// Replaces what was taken before, if there is something.
fn put<T>(place: &mut Option<T>, read: Option<T>) -> bool {
    let taken = read.is_some();
    if taken {
        *place = read;
    }
    taken
}

/// `None` if the value is of a type that is no place in a stream.
fn start(value: &Value, now_ms: u64) -> Option<Result<Start, Unreadable>> {
    if let Value::Timestamp(ms) = value {
        // What is before the epoch is before everything.
        return Some(Ok(Start::Time((*ms).try_into().unwrap_or(0))));
    }
    let Some(text) = value.as_str() else { return value.as_u64().map(|offset| Ok(Start::Offset(offset))) };
    Some(start_of(text, now_ms).ok_or_else(|| Unreadable::Offset(shown(text))))
}

/// `None` if the value is neither a string nor a list. What is no string in a list is passed over.
fn bloom_values(value: &Value) -> Option<Vec<Box<[u8]>>> {
    let octets = |value: &Value| match value {
        Value::String(text) => Some(text.as_bytes().into()),
        _ => None,
    };
    match value {
        Value::List(items) => Some(items.iter().filter_map(octets).collect()),
        value => octets(value).map(|octets| vec![octets]),
    }
}

#[cfg(test)]
mod tests;
