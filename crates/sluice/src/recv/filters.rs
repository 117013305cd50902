//! Filters on a stream as a source: where to start, and which messages to receive (docs/compatibility.md,
//! Stream filters).

use amqp10::{Described, Map, Symbol, Value};
use broker::stream_offset::parse_offset;
use clap::Args;
use client::Receiver;
use message::{Dialect, SqlError, SqlFilter};

/// The filters to request. The broker applies them, and answers which filters are in place.
#[derive(Args, Debug, Default)]
pub(super) struct Filters {
    /// Where to start in a stream: first, last, next, an offset, or a time span ago, such as 10m (units: Y M
    /// D h m s)
    #[arg(long, value_name = "PLACE", value_parser = offset)]
    offset: Option<Value>,
    /// Start in a stream at this time, in milliseconds since the epoch
    #[arg(long, value_name = "MS", conflicts_with = "offset")]
    at: Option<i64>,
    /// Receive only messages of a stream for which this SQL expression is true, such as properties.subject =
    /// 'x'
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    /// Receive only chunks of a stream that have a message with this filter value; may be repeated
    #[arg(long = "filter-value", value_name = "VALUE")]
    values: Vec<String>,
    /// With --filter-value: receive also chunks that have a message without a filter value
    #[arg(long, requires = "values")]
    match_unfiltered: bool,
}

impl Filters {
    /// Returns the filter set, or `None` if no filter is requested. Each filter is named like its descriptor,
    /// except the SQL filter, whose name is fixed.
    pub(super) fn to_map(&self) -> Option<Map> {
        let mut filters = Vec::new();
        let mut put = |name: &'static str, descriptor: &'static str, value: Value| {
            let descriptor = Symbol::from_static(descriptor).into();
            let described = Described { descriptor, value };
            filters.push((Symbol::from_static(name).into(), Value::Described(Box::new(described))));
        };
        if let Some(place) = self.at.map(Value::Timestamp).or_else(|| self.offset.clone()) {
            put("rabbitmq:stream-offset-spec", "rabbitmq:stream-offset-spec", place);
        }
        if !self.values.is_empty() {
            let values = self.values.iter().cloned().map(Value::String).collect();
            put("rabbitmq:stream-filter", "rabbitmq:stream-filter", Value::List(values));
        }
        if self.match_unfiltered {
            put("rabbitmq:stream-match-unfiltered", "rabbitmq:stream-match-unfiltered", true.into());
        }
        if let Some(expression) = &self.filter {
            put("sql-filter", "amqp:sql-filter", Value::String(expression.clone()));
        }
        (!filters.is_empty()).then_some(Map(filters))
    }

    /// Returns true if an option says where in a stream to start.
    pub(super) fn have_a_place(&self) -> bool {
        self.offset.is_some() || self.at.is_some()
    }

    /// Returns the error in the SQL expression according to this version's parser. Another broker may accept
    /// it.
    pub(super) fn fault(&self) -> Option<SqlError> {
        SqlFilter::parse(self.filter.as_deref()?, Dialect::Filter).err()
    }

    /// Returns the options whose filters the broker did not put in place.
    pub(super) fn missing(&self, receiver: &Receiver) -> Vec<&'static str> {
        let accepted = receiver.remote_attach().source.as_ref().and_then(|source| source.filter.as_ref());
        missing(self.to_map().as_ref(), accepted)
    }
}

fn missing(asked: Option<&Map>, accepted: Option<&Map>) -> Vec<&'static str> {
    let names = asked.into_iter().flat_map(|map| &map.0).filter_map(|(name, _)| name.as_str());
    let missing = names.filter(|name| accepted.is_none_or(|map| map.get(name).is_none()));
    let option = |name| match name {
        "rabbitmq:stream-offset-spec" => "--offset or --at",
        "rabbitmq:stream-filter" => "--filter-value",
        "rabbitmq:stream-match-unfiltered" => "--match-unfiltered",
        _ => "--filter",
    };
    missing.map(option).collect()
}

/// Parses a starting point. The broker interprets words such as `first`. Words that it would not understand
/// are refused here.
fn offset(text: &str) -> Result<Value, String> {
    match text.parse::<u64>() {
        Ok(offset) => Ok(Value::Ulong(offset)),
        Err(_) if parse_offset(text, 0).is_some() => Ok(Value::String(text.to_owned())),
        Err(_) => Err("first, last, next, a whole number, or a span such as 10m is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_their_types() {
        assert_eq!(offset("5"), Ok(Value::Ulong(5)));
        assert_eq!(offset("first"), Ok(Value::String("first".into())));
        assert_eq!(offset("10m"), Ok(Value::String("10m".into())));
        for text in ["", "-1", "soon", "0m"] {
            assert!(offset(text).is_err(), "{text}");
        }
    }

    #[test]
    fn refused_filters_are_named() {
        assert_eq!(Filters::default().to_map(), None);
        let values = vec!["a".to_owned()];
        let filters = Filters {
            at: Some(7),
            filter: Some("x".into()),
            values,
            match_unfiltered: true,
            ..Filters::default()
        };
        let asked = filters.to_map().unwrap();
        assert!(
            asked
                .0
                .iter()
                .all(|(name, value)| name.as_str().is_some() && matches!(value, Value::Described(_)))
        );
        assert_eq!(missing(Some(&asked), Some(&asked)), [""; 0]);
        let all = ["--offset or --at", "--filter-value", "--match-unfiltered", "--filter"];
        assert_eq!(missing(Some(&asked), None), all);
        let some = Map(asked.0[..3].to_vec());
        assert_eq!(missing(Some(&asked), Some(&some)), ["--filter"]);
    }
}
