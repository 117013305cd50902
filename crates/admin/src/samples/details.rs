//! The fields of an answer that have a rate: `publish` and `publish_details`.

use serde_json::{Map, Value, json};

use super::figures::{Figure, Part};
use super::series::{History, Point, Range, per_second};
use crate::query::Query;
use crate::reply::Failure;

/// The most samples that a request may ask for, as in RabbitMQ. They cover a day at three minutes.
const SAMPLES_MAX: u64 = 500;

/// The samples that a request asks for, by part of the answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ranges {
    lengths: Option<Range>,
    messages: Option<Range>,
    data: Option<Range>,
    node: Option<Range>,
}

impl Ranges {
    /// Reads `lengths_age` and `lengths_incr`, and those for `msg_rates`, `data_rates` and `node_stats`, in seconds. Without
    /// both of them, there are no samples.
    ///
    /// # Errors
    /// 400 if they are no numbers, are 0, or ask for too many samples.
    pub(crate) fn of(query: &Query) -> Result<Self, Failure> {
        Ok(Self {
            lengths: range(query, "lengths")?,
            messages: range(query, "msg_rates")?,
            data: range(query, "data_rates")?,
            node: range(query, "node_stats")?,
        })
    }

    /// Returns true if the request asks for samples.
    pub(crate) fn is_any(&self) -> bool {
        [self.lengths, self.messages, self.data, self.node].iter().any(Option::is_some)
    }

    fn for_part(&self, part: Part) -> Option<Range> {
        match part {
            Part::Lengths => self.lengths,
            Part::Messages | Part::Churn => self.messages,
            Part::Data => self.data,
            Part::Node => self.node,
        }
    }
}

fn range(query: &Query, prefix: &str) -> Result<Option<Range>, Failure> {
    let (age, step) = (query.number(&format!("{prefix}_age"))?, query.number(&format!("{prefix}_incr"))?);
    let (Some(age), Some(step)) = (age, step) else { return Ok(None) };
    let (age_s, step_s) = (age as u64, step as u64);
    if age_s == 0 || step_s == 0 || age_s / step_s >= SAMPLES_MAX {
        return Err(Failure::bad_request(format!(
            "invalid range of samples: {prefix}_age {age} and {prefix}_incr {step} must not be 0, and ask for at most \
             {SAMPLES_MAX} samples"
        )));
    }
    Ok(Some(Range { age_ms: age_s.saturating_mul(1000), step_ms: step_s.saturating_mul(1000) }))
}

/// Returns the fields of one part of an answer: each figure of a row with its details. `rates_are_known` is there, and false, if
/// there are too few samples for a rate.
pub(super) fn fields<R, const N: usize>(
    figures: &[Figure<R>; N],
    part: Part,
    row: &R,
    history: History<'_, N>,
    ranges: &Ranges,
) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut are_known = true;
    for (i, figure) in figures.iter().enumerate().filter(|(_, figure)| figure.part == part) {
        let value = (figure.of)(row);
        fields.insert(figure.name.to_owned(), value.into());
        let rate = history.rate(i, value);
        let mut details = json!({ "rate": at_least_0(rate.unwrap_or(0.0), part.counts()) });
        are_known &= rate.is_some();
        if let Some(range) = ranges.for_part(part) {
            let points = history.points(i, range, value);
            if let (Some(last), Some(first)) = (points.first(), points.last())
                && points.len() > 1
            {
                let rate = per_second(*first, *last);
                details["avg_rate"] = at_least_0(rate, part.counts()).into();
                details["avg"] = average(&points).into();
            }
            let samples = points.iter().map(|(at_ms, value)| json!({ "sample": value, "timestamp": at_ms }));
            details["samples"] = samples.collect();
        }
        fields.insert(format!("{}_details", figure.name), details);
    }
    if !are_known {
        // Clients expect a number as a rate, so it is 0 until there are samples, and this says that nobody knows it.
        fields.insert("rates_are_known".to_owned(), false.into());
    }
    fields
}

/// Returns the same fields without their details.
pub(crate) fn plain<R, const N: usize>(figures: &[Figure<R>; N], part: Part, row: &R) -> Map<String, Value> {
    let of_part = figures.iter().filter(|figure| figure.part == part);
    of_part.map(|figure| (figure.name.to_owned(), (figure.of)(row).into())).collect()
}

/// Returns 0 for a counter that is smaller than before, because it has started again.
fn at_least_0(rate: f64, is_counter: bool) -> f64 {
    if is_counter { rate.max(0.0) } else { rate }
}

fn average(points: &[Point]) -> f64 {
    let sum: u128 = points.iter().map(|(_, value)| u128::from(*value)).sum();
    sum as f64 / points.len() as f64
}
