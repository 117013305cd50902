//! The filters of a consumer's source, if it reads a stream (docs/compatibility.md, Stream filters).
//!
//! ```text
//!  descriptor                                           value
//!  rabbitmq:stream-offset-spec                          first, last, next, a span, a time, an offset
//!  rabbitmq:stream-filter                               a string or a list of strings
//!  rabbitmq:stream-match-unfiltered                     a boolean
//!  amqp:properties-filter, 0x173                        a map
//!  amqp:application-properties-filter, 0x174            a map
//!  amqp:sql-filter, 0x120                               a string
//!  apache.org:selector-filter:string, 0x468C00000004    a string
//! ```
//!
//! The name of a filter does not matter. RabbitMQ accepts SQL expressions only under the name `sql-filter`.
//!
//! The last filter is a JMS selector. JMS clients can send no other filter. So a selector can also set the start and
//! the chunks of the consumer (docs/decisions/0018). If the source also has filters for start or chunks, those take
//! precedence.
//!
//! Filters must be described values [3.5.8]. A filter that is unknown or invalid is left out. The answer to ATTACH
//! contains exactly the filters that are in effect [3.5.3]. Few clients check the answer, so the log and
//! `sluice explain` name the filters that were left out. Three filters refuse the consumer instead:
//!
//! - an invalid offset, as in RabbitMQ;
//! - a `rabbitmq:stream-filter` of too many values ([`FILTER_VALUES_MAX`]), because the consumer would get much more than it wants;
//! - a selector that is invalid, or whose queue is not a stream, because a JMS client does not check the answer.

use std::fmt;
use std::sync::Arc;

use amqp10::{AmqpError, Map, Value, condition};
use message::{Dialect, FieldError, FieldFilter, Filter, SqlError, SqlFilter};
use queue::{BloomFilter, FILTER_VALUES_MAX, Replay, Start};

use super::{error, shown};
use crate::stream_offset::parse_offset;

/// The maximum number of left-out filters that are named. If a source has more, the others are left out silently.
const LEFT_OUT_MAX: usize = 4;

/// The filters that are in effect.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    /// The start and the messages that the filters request from the stream.
    pub replay: Replay,
    /// The filters as the client wrote them, for the answer. `None` if the client asked for none, or none is accepted.
    pub filters: Option<Map>,
    /// The filters that are not in effect; at most [`LEFT_OUT_MAX`].
    pub left_out: Vec<LeftOut>,
}

/// A filter that the client asked for and that is not in effect. The consumer receives the messages that the filter
/// would have excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// The name of the filter as the client wrote it, shortened.
    name: String,
    /// The expression of the filter, shortened. `None` if it has none.
    expression: Option<String>,
    why: Why,
}

/// Why a filter is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    NotDescribed,
    /// The descriptor is unknown. It is shown shortened.
    Unknown(String),
    Type,
    Sql(SqlError),
    Fields(FieldError),
    /// The filter cannot be combined with another one that is in effect.
    Excluded,
    /// The queue is not a stream.
    NoStream,
}

impl LeftOut {
    fn new(name: &Value, filter: &Value, why: Why) -> Self {
        let expression = match filter {
            Value::Described(described) => described.value.as_str().map(shown),
            _ => None,
        };
        Self { name: shown_value(name), expression, why }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter '{}'", self.name)?;
        if let Some(expression) = &self.expression {
            write!(f, " with expression '{expression}'")?;
        }
        f.write_str(" is left out: ")?;
        match &self.why {
            Why::NotDescribed => f.write_str("its name is not a symbol, or its value is not described"),
            Why::Unknown(descriptor) => write!(f, "descriptor '{descriptor}' is unknown"),
            Why::Type => f.write_str("its value has the wrong type"),
            Why::Sql(error) => error.fmt(f),
            Why::Fields(error) => error.fmt(f),
            Why::Excluded => f.write_str("it cannot be combined with another filter that is in effect"),
            Why::NoStream => f.write_str("the queue is not a stream"),
        }
    }
}

/// Returns the filters of a consumer that does not read a stream. None of them is in effect.
pub(super) fn leave_out(asked: Option<&Map>) -> Vec<LeftOut> {
    let asked = asked.map_or(&[][..], |map| &map.0).iter().take(LEFT_OUT_MAX);
    asked.map(|(name, filter)| LeftOut::new(name, filter, Why::NoStream)).collect()
}

/// Returns true if one of the filters is a selector, whatever its name and its value.
pub(super) fn has_selector(asked: Option<&Map>) -> bool {
    let mut filters = asked.into_iter().flat_map(|map| &map.0);
    filters.any(|(_, filter)| match filter {
        Value::Described(described) => matches!(Kind::of(&described.descriptor), Some(Kind::Selector)),
        _ => false,
    })
}

/// Accepts the valid filters of a source. If two filters exclude each other, the last one is in effect, because RabbitMQ
/// reads them from last to first. Two offsets, or two Bloom filters, are both accepted, and the first one counts.
///
/// `now_ms`: milliseconds since the Unix epoch, for durations.
///
/// # Errors
/// The offset that counts is an invalid text, the Bloom filter that counts has too many values, or the selector that counts is
/// invalid.
pub(super) fn accept(asked: Option<&Map>, now_ms: u64) -> Result<Accepted, Unreadable> {
    let mut taken = Taken { now_ms, ..Taken::default() };
    let asked = asked.map_or(&[][..], |map| &map.0);
    let (mut filters, mut left_out) = (Vec::new(), Vec::new());
    for (name, filter) in asked.iter().rev() {
        match taken.take(name, filter) {
            Ok(()) => filters.push((name.clone(), filter.clone())),
            Err(why) => left_out.push(LeftOut::new(name, filter, why)),
        }
    }
    filters.reverse();
    left_out.reverse();
    left_out.truncate(LEFT_OUT_MAX);
    let mut replay = taken.matching.transpose()?.map_or_else(Replay::default, Replay::matching);
    if let Some(start) = taken.start.transpose()? {
        replay.start = start;
    }
    if let Some(mut bloom) = taken.bloom.transpose()? {
        bloom.unfiltered |= taken.unfiltered;
        replay.bloom = Some(Arc::new(bloom));
    }
    let filters = Some(Map(filters)).filter(|map| !map.is_empty());
    Ok(Accepted { replay, filters, left_out })
}

/// An invalid filter for which the consumer is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The text is neither a keyword nor a duration.
    Offset(String),
    /// The Bloom filter has too many values.
    Values,
    Selector(SqlError),
}

impl Unreadable {
    /// Returns the error with which the consumer is refused.
    pub(super) fn to_error(&self, queue: &str, vhost: &str) -> AmqpError {
        let condition = match self {
            Self::Offset(_) => condition::PRECONDITION_FAILED,
            Self::Values | Self::Selector(_) => condition::INVALID_FIELD,
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
            Self::Values => write!(f, "rabbitmq:stream-filter has at most {FILTER_VALUES_MAX} values"),
            Self::Selector(error) => write!(f, "the selector cannot be read: {error}"),
        }
    }
}

/// The filter that a descriptor announces, as a symbol or as a number.
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

/// The filters that were read so far. They are read from the last to the first.
#[derive(Default)]
struct Taken {
    now_ms: u64,
    start: Option<Result<Start, Unreadable>>,
    bloom: Option<Result<BloomFilter, Unreadable>>,
    unfiltered: bool,
    matching: Option<Result<Filter, Unreadable>>,
}

impl Taken {
    /// Reads one filter.
    ///
    /// # Errors
    /// The reason why the filter is left out.
    fn take(&mut self, name: &Value, filter: &Value) -> Result<(), Why> {
        let (Value::Symbol(_), Value::Described(described)) = (name, filter) else {
            return Err(Why::NotDescribed);
        };
        let (descriptor, value) = (&described.descriptor, &described.value);
        let kind = Kind::of(descriptor).ok_or_else(|| Why::Unknown(shown_value(descriptor)))?;
        match (kind, value) {
            (Kind::Offset, value) => put(&mut self.start, start(value, self.now_ms)),
            (Kind::Bloom, value) => put(&mut self.bloom, bloom(value)),
            (Kind::Unfiltered, Value::Boolean(v)) => {
                self.unfiltered = *v;
                Ok(())
            }
            (Kind::Sql, Value::String(text)) => self.take_sql(text),
            (Kind::Selector, Value::String(text)) => self.take_selector(text),
            (Kind::Properties, Value::Map(map)) => self.take_fields(|fields| fields.add_properties(map)),
            (Kind::ApplicationProperties, Value::Map(map)) => {
                self.take_fields(|fields| fields.add_application_properties(map))
            }
            _ => Err(Why::Type),
        }
    }

    fn take_sql(&mut self, text: &str) -> Result<(), Why> {
        let parsed = SqlFilter::parse(text, Dialect::Filter).map_err(Why::Sql)?;
        self.match_with(Ok(Filter::Sql(parsed)))
    }

    fn take_selector(&mut self, text: &str) -> Result<(), Why> {
        let parsed = SqlFilter::parse(text, Dialect::Selector).map(Filter::Sql);
        self.match_with(parsed.map_err(Unreadable::Selector))
    }

    /// Adds a SQL expression or a selector. It excludes every other filter that checks each message.
    fn match_with(&mut self, read: Result<Filter, Unreadable>) -> Result<(), Why> {
        if self.matching.is_some() {
            return Err(Why::Excluded);
        }
        self.matching = Some(read);
        Ok(())
    }

    /// Reads the filter for one of the two sections. Filters for both sections are combined.
    fn take_fields(
        &mut self,
        add: impl FnOnce(&mut FieldFilter) -> Result<(), FieldError>,
    ) -> Result<(), Why> {
        let mut fields = match &self.matching {
            None => FieldFilter::default(),
            Some(Ok(Filter::Fields(fields))) => fields.clone(),
            Some(_) => return Err(Why::Excluded),
        };
        add(&mut fields).map_err(Why::Fields)?;
        self.matching = Some(Ok(Filter::Fields(fields)));
        Ok(())
    }
}

/// Stores the value that was read, and replaces one that was read before. `read` is `None` if the value has
/// the wrong type.
fn put<T>(place: &mut Option<T>, read: Option<T>) -> Result<(), Why> {
    *place = Some(read.ok_or(Why::Type)?);
    Ok(())
}

/// Formats a value of the client for the log.
fn shown_value(value: &Value) -> String {
    value.as_str().map_or_else(|| shown(&value.to_string()), shown)
}

/// Reads an offset. Returns `None` if the type of the value cannot be a position in a stream.
fn start(value: &Value, now_ms: u64) -> Option<Result<Start, Unreadable>> {
    if let Value::Timestamp(ms) = value {
        // A time before the epoch means the start of the stream, because all messages are later.
        return Some(Ok(Start::Time((*ms).try_into().unwrap_or(0))));
    }
    let Some(text) = value.as_str() else { return value.as_u64().map(|offset| Ok(Start::Offset(offset))) };
    Some(parse_offset(text, now_ms).ok_or_else(|| Unreadable::Offset(shown(text))))
}

/// Reads a Bloom filter. Returns `None` if the value is neither a string nor a list. Items of a list that are not strings are
/// ignored.
fn bloom(value: &Value) -> Option<Result<BloomFilter, Unreadable>> {
    let items = match value {
        Value::List(items) => items,
        Value::String(_) => std::slice::from_ref(value),
        _ => return None,
    };
    let texts = items.iter().filter_map(|item| match item {
        Value::String(text) => Some(text.as_bytes()),
        _ => None,
    });
    // An empty value in the filter matches messages without a value, because an empty value in a message counts as none.
    let has_empty = texts.clone().any(<[u8]>::is_empty);
    let values = texts.filter(|text| !text.is_empty());
    Some(BloomFilter::new(values, has_empty).ok_or(Unreadable::Values))
}

#[cfg(test)]
mod tests;
