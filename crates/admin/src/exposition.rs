//! The Prometheus text format, version 0.0.4.

use std::borrow::Cow;
use std::fmt::{Display, Write};

/// The `Content-Type` of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The kind of a metric family (all samples of one metric).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A value that only grows. Its name ends in `_total`.
    Counter,
    Gauge,
    /// Numbers of values in ranges. See [`Family::ranges`].
    Histogram,
}

/// A page of metrics. Families are appended one after the other.
#[derive(Debug, Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    /// Starts a family. All its samples must be added before the next family.
    pub(crate) fn family(&mut self, kind: Kind, name: &str, help: &str) -> Family<'_> {
        self.named(kind, format!("rabbitmq_{name}"), help)
    }

    /// Starts a family of a metric that only Sluice has.
    pub(crate) fn own_family(&mut self, kind: Kind, name: &str, help: &str) -> Family<'_> {
        self.named(kind, format!("sluice_{name}"), help)
    }

    /// Starts a family with this whole name.
    pub(crate) fn named<'a>(
        &'a mut self,
        kind: Kind,
        name: impl Into<Cow<'a, str>>,
        help: &str,
    ) -> Family<'a> {
        let name = name.into();
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# TYPE {name} {kind}\n# HELP {name} {help}");
        Family { page: self, name }
    }

    /// Adds samples to the last family, possibly on a new page. `name` is the argument that [`Self::named`] received.
    pub(crate) fn same_named<'a>(&'a mut self, name: &'a str) -> Family<'a> {
        Family { page: self, name: name.into() }
    }

    /// Returns the length of the page in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// A metric family to which samples are added. See [`Exposition::family`].
#[derive(Debug)]
pub(crate) struct Family<'a> {
    page: &'a mut Exposition,
    name: Cow<'a, str>,
}

impl Family<'_> {
    /// The length of the whole page, in bytes.
    pub(crate) fn page_len(&self) -> usize {
        self.page.len()
    }

    /// Adds a sample. Label values are escaped. The format has three escapes; other control characters are
    /// written as Rust escapes, because some of them end the line or the page for readers.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: u64) -> &mut Self {
        self.put("", labels, value)
    }

    /// Adds a sample of a time, which is shown in seconds. For labels see [`Self::sample`].
    pub(crate) fn sample_ms(&mut self, labels: &[(&str, &str)], ms: u64) -> &mut Self {
        self.put("", labels, format_args!("{}.{:03}", ms / 1000, ms % 1000))
    }

    /// Adds a sample of a time in nanoseconds, which is shown in seconds. For labels see [`Self::sample`].
    pub(crate) fn sample_ns(&mut self, labels: &[(&str, &str)], ns: u64) -> &mut Self {
        self.put("", labels, format_args!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000))
    }

    /// Adds the samples of a histogram. `ranges` are the upper bound of each range but the last, which has none, and the
    /// number of values in each range. `sum` is the sum of all values. The bounds are written as Prometheus writes them, so that
    /// dashboards can name them, whether or not their Prometheus writes them again: `100.0`, `1e+06`.
    pub(crate) fn ranges(
        &mut self,
        label: (&str, &str),
        (up_to, values): (&[u64], &[u64]),
        sum: u64,
    ) -> &mut Self {
        let mut below = 0;
        let bounds = up_to.iter().map(|bound| bound_text(*bound)).chain(["+Inf".to_owned()]);
        for (bound, values) in bounds.zip(values) {
            below += values;
            self.put("_bucket", &[label, ("le", &bound)], below);
        }
        self.put("_sum", &[label], sum).put("_count", &[label], below)
    }

    fn put(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        let out = &mut self.page.0;
        out.push_str(&self.name);
        out.push_str(suffix);
        for (i, (name, value)) in labels.iter().enumerate() {
            let _ = write!(out, "{}{name}=\"", if i == 0 { '{' } else { ',' });
            put_escaped(out, value);
            out.push('"');
        }
        let _ = writeln!(out, "{} {value}", if labels.is_empty() { "" } else { "}" });
        self
    }
}

/// Returns a bound as Prometheus writes it: with a point, or from a million on as a power of ten if it has few digits. Other
/// large bounds are written in full, because no family has them.
fn bound_text(bound: u64) -> String {
    let zeros = bound.checked_ilog10().filter(|_| bound >= 1_000_000);
    match zeros.map(|zeros| (bound / 10u64.pow(zeros), zeros)) {
        Some((digit, zeros)) if digit * 10u64.pow(zeros) == bound => format!("{digit}e+{zeros:02}"),
        _ => format!("{bound}.0"),
    }
}

/// Adds the value of a label; see [`Family::sample`].
fn put_escaped(out: &mut String, value: &str) {
    let is_plain = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\' || b == b' ';
    if value.bytes().all(is_plain) {
        return out.push_str(value);
    }
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(out, "\\\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Exposition::default();
        page.family(Kind::Gauge, "queues", "Queues").sample(&[], 2);
        page.family(Kind::Gauge, "y_seconds", "Y").sample_ms(&[], 12_034);
        page.family(Kind::Histogram, "size", "S").ranges(("a", "b"), (&[1, 50_000_000], &[5, 0, 2]), 60);
        page.family(Kind::Counter, "x_total", "X")
            .sample(&[("vhost", "/"), ("queue", "a\"b\\c\nd\r\0\u{1b}é")], 1);
        assert_eq!(
            page.into_text(),
            "# TYPE rabbitmq_queues gauge\n# HELP rabbitmq_queues Queues\nrabbitmq_queues 2\n\
             # TYPE rabbitmq_y_seconds gauge\n# HELP rabbitmq_y_seconds Y\nrabbitmq_y_seconds 12.034\n\
             # TYPE rabbitmq_size histogram\n# HELP rabbitmq_size S\n\
             rabbitmq_size_bucket{a=\"b\",le=\"1.0\"} 5\nrabbitmq_size_bucket{a=\"b\",le=\"5e+07\"} 5\n\
             rabbitmq_size_bucket{a=\"b\",le=\"+Inf\"} 7\nrabbitmq_size_sum{a=\"b\"} 60\nrabbitmq_size_count{a=\"b\"} 7\n\
             # TYPE rabbitmq_x_total counter\n# HELP rabbitmq_x_total X\n\
             rabbitmq_x_total{vhost=\"/\",queue=\"a\\\"b\\\\c\\nd\\\\u000d\\\\u0000\\\\u001bé\"} 1\n"
        );
    }
}
