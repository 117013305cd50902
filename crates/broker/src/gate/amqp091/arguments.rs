//! Arguments of declarations, bindings and consumers: field tables, as the catalog and the queues want them.

use std::borrow::Cow;
use std::sync::Arc;

use amqp10::{Map, Value as CatalogValue};
use amqp091::{Table, Value};
use catalog::Arguments;
use queue::{BloomFilter, FILTER_VALUES_MAX, Replay, Start};

use super::{Refused, refusal};
use crate::cx::Cx;
use crate::stream_offset::parse_offset;

/// The argument that sets the prefix of a generated name.
pub(super) const NAME_PREFIX: &str = "x-name-prefix";

/// The most bytes of such a prefix, as in RabbitMQ.
const NAME_PREFIX_BYTES_MAX: usize = 64;

/// Returns the arguments of a table.
pub(super) fn arguments(table: Table<'_>) -> Arguments {
    table.iter().map(|(key, value)| (key.to_owned(), message::amqp10_argument(value))).collect()
}

/// Returns a table in the form that people are shown.
pub(super) fn shown(table: Table<'_>) -> Map {
    table.iter().map(|(key, value)| (key.to_owned(), message::amqp10_argument(value))).collect()
}

/// Returns a name without line breaks. RabbitMQ removes them, because some clients read names from files.
pub(super) fn without_line_breaks(name: &str) -> Cow<'_, str> {
    match name.contains(['\r', '\n']) {
        true => name.replace(['\r', '\n'], "").into(),
        false => name.into(),
    }
}

/// Returns a name for a queue that the client has not named. Nobody can guess it.
///
/// # Errors
/// The prefix is not a string, too long, or reserved.
pub(super) fn generated_name(prefix: Option<&CatalogValue>, cx: &Cx<'_>) -> Result<Arc<str>, Refused> {
    let prefix = match prefix {
        None => "amq.gen",
        Some(value) => match value.as_str() {
            Some(prefix)
                if prefix.len() <= NAME_PREFIX_BYTES_MAX
                    && !prefix.is_empty()
                    && !prefix.starts_with("amq.") =>
            {
                prefix
            }
            _ => {
                let text = format!(
                    "invalid arg '{NAME_PREFIX}': a string of 1 to {NAME_PREFIX_BYTES_MAX} bytes is needed that does not start with 'amq.'"
                );
                return Err(refusal::precondition_failed(text));
            }
        },
    };
    Ok(format!("{prefix}-{}", cx.names.key()?).into())
}

/// The arguments of `basic.consume`.
#[derive(Debug)]
pub(super) struct ConsumerArguments {
    pub priority: i32,
    pub timeout_ms: Option<u64>,
    /// Where a consumer of a stream begins, and what it reads.
    pub replay: Replay,
}

impl ConsumerArguments {
    /// Reads the arguments. Unknown ones are ignored, as in RabbitMQ.
    ///
    /// # Errors
    /// A known argument has a wrong value.
    pub(super) fn read(table: Table<'_>, now_ms: u64) -> Result<Self, Refused> {
        let mut replay = Replay { start: Start::Next, ..Replay::default() };
        let (mut priority, mut timeout_ms) = (0, None);
        let (mut values, mut unfiltered) = (Vec::new(), false);
        let invalid = |key: &str, what: &str| {
            refusal::precondition_failed(format!("invalid arg '{key}': {what} is needed"))
        };
        for (key, value) in table {
            match key {
                "x-priority" => {
                    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
                    priority = number.ok_or_else(|| invalid(key, "a whole number"))?;
                }
                "x-consumer-timeout" => {
                    let number = value.as_i64().and_then(|number| u64::try_from(number).ok());
                    timeout_ms = Some(number.ok_or_else(|| invalid(key, "a number of milliseconds"))?);
                }
                "x-stream-offset" => {
                    replay.start = start(&value, now_ms).ok_or_else(|| {
                        invalid(
                            key,
                            "'first', 'last', 'next', an offset, a timestamp, or an age such as '10m'",
                        )
                    })?;
                }
                "x-stream-filter" => {
                    values = filter(&value).ok_or_else(|| invalid(key, "a string or a list of strings"))?
                }
                "x-stream-match-unfiltered" => match value {
                    Value::Bool(matches) => unfiltered = matches,
                    _ => return Err(invalid(key, "a boolean")),
                },
                _ => {}
            }
        }
        if !values.is_empty() {
            let bloom = BloomFilter::new(values, unfiltered).ok_or_else(|| {
                let text =
                    format!("invalid arg 'x-stream-filter': it has at most {FILTER_VALUES_MAX} values");
                refusal::precondition_failed(text)
            })?;
            replay.bloom = Some(Arc::new(bloom));
        }
        Ok(Self { priority, timeout_ms, replay })
    }
}

/// Returns where a consumer of a stream begins.
fn start(value: &Value<'_>, now_ms: u64) -> Option<Start> {
    match value {
        // Timestamps are in seconds.
        Value::Timestamp(s) => Some(Start::Time(s.saturating_mul(1000))),
        Value::LongString(text) => parse_offset(std::str::from_utf8(text).ok()?, now_ms),
        number => Some(Start::Offset(u64::try_from(number.as_i64()?).ok()?)),
    }
}

/// Returns the values of a filter.
fn filter(value: &Value<'_>) -> Option<Vec<Box<[u8]>>> {
    match value {
        Value::LongString(_) => Some(vec![value.as_str()?.as_bytes().into()]),
        Value::Array(values) => values.iter().map(|value| Some(value.as_str()?.as_bytes().into())).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use amqp091::TableWriter;
    use bytes::BytesMut;

    use super::*;

    fn read(values: usize) -> Result<Replay, Refused> {
        let mut table = BytesMut::new();
        let mut writer = TableWriter::new(&mut table);
        let mut array = writer.array("x-stream-filter");
        (0..values).for_each(|_| array.put(&Value::LongString(b"abc")));
        drop(array);
        drop(writer);
        ConsumerArguments::read(Table::from_entries(&table[4..]), 0).map(|arguments| arguments.replay)
    }

    #[test]
    fn filters_of_many_values_take_what_is_counted_or_are_refused() {
        assert_eq!(read(FILTER_VALUES_MAX).expect("it is accepted").filter_bytes(), 1024 * (16 + 8));
        let refused = read(FILTER_VALUES_MAX + 1).expect_err("it is refused");
        assert!(format!("{refused:?}").contains("at most 1024 values"), "{refused:?}");
    }
}
