//! The result of a run, for people and as JSON.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::clock::SECOND_NS;
use super::run::Run;
use super::tally::Totals;
use super::{Bench, Protocol};

/// The result that is printed at the end.
pub(super) struct Report {
    pub text: String,
    pub json: Value,
    /// Why the result cannot be trusted; `None` if it can.
    pub failure: Option<String>,
}

/// The measurements of a run with messages.
pub(super) struct Measured {
    pub totals: Totals,
    /// Latencies in nanoseconds.
    pub latencies: Histogram<u64>,
    pub start_ns: u64,
    /// CPU time of this process during the run, in nanoseconds.
    pub cpu_ns: u64,
}

/// The measurements of a run with idle connections.
pub(super) struct Idle {
    pub opened: usize,
    /// The time that each connection took to open with its sessions, in nanoseconds.
    pub latencies: Histogram<u64>,
    /// The time that it took to open all connections.
    pub took: Duration,
    pub held: Duration,
    /// The number of connections that ended too early.
    pub lost: usize,
    pub cpu_ns: u64,
}

/// The percentiles that are reported, with their names in JSON and for people.
const PERCENTILES: [(&str, &str, f64); 5] = [
    ("p50", "p50", 50.0),
    ("p90", "p90", 90.0),
    ("p99", "p99", 99.0),
    ("p999", "p99.9", 99.9),
    ("max", "max", 100.0),
];

impl Report {
    pub(super) fn of_load(run: &Run, measured: &Measured) -> Self {
        let Run { bench, plan, .. } = run;
        let Measured { totals, latencies, start_ns, cpu_ns } = measured;
        let seconds = totals.last_received_ns.saturating_sub(*start_ns) as f64 / SECOND_NS as f64;
        let rate = if seconds > 0.0 { (totals.received as f64 / seconds).round() } else { 0.0 };
        let cpu_s = *cpu_ns as f64 / SECOND_NS as f64;
        let per_million = (totals.received > 0).then(|| cpu_s * 1e6 / totals.received as f64);
        let expected = run.expected(totals);
        let accepted = bench.settled || totals.accepted == totals.sent;
        let complete = accepted && totals.received == expected && totals.sent > 0;
        let Totals { sent, accepted, rejected, released, modified, received, strange, .. } = *totals;
        let json = json!({
            "pattern": bench.pattern.name(), "protocol": bench.protocol.name(),
            "senders": plan.senders.len(), "receivers": plan.receivers.len(), "queues": plan.queues.len(),
            "size": bench.size, "credit": bench.credit, "durable": bench.durable, "settled": bench.settled,
            "rate_per_sender": bench.rate,
            "sent": sent, "accepted": accepted, "rejected": rejected, "released": released,
            "modified": modified, "expected": expected, "received": received, "strange": strange,
            "complete": complete,
            "seconds": rounded(seconds), "messages_per_s": rate, "latency_us": latency_us(latencies),
            "client_cpu_s": rounded(cpu_s), "client_cpu_s_per_million": per_million.map(rounded),
        });
        let ends = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let mut text = format!(
            "{}{}: {}, {}, {} B, {}{}, credit {}\n\
             messages  {} sent, {} accepted, {} received in {seconds:.2} s\n\
             rate      {} per second\n\
             latency   {}\n\
             client    {cpu_s:.2} s of CPU{}\n",
            bench.pattern.name(),
            over(bench.protocol),
            ends(plan.senders.len(), "sender"),
            ends(plan.receivers.len(), "receiver"),
            thousands(bench.size.into()),
            if bench.durable { "durable" } else { "transient" },
            if bench.settled { ", settled" } else { "" },
            bench.credit,
            thousands(sent),
            thousands(accepted),
            thousands(received),
            thousands(rate as u64),
            latency_line(latencies),
            per_million.map(|s| format!(", {s:.2} s per million messages")).unwrap_or_default(),
        );
        if rejected + released + modified > 0 {
            text += &format!("refused   {rejected} rejected, {released} released, {modified} modified\n");
        }
        if strange > 0 {
            text += &format!("strange   received {strange} messages that this run did not send\n");
        }
        let failure =
            (!complete).then(|| format!("incomplete: {sent} sent, {expected} expected, {received} received"));
        Self { text, json, failure }
    }

    pub(super) fn of_idle(bench: &Bench, idle: &Idle) -> Self {
        let Idle { opened, latencies, took, held, lost, cpu_ns } = idle;
        let per_s = (*opened as f64 / took.as_secs_f64().max(1e-9)).round();
        let cpu_s = *cpu_ns as f64 / SECOND_NS as f64;
        let json = json!({
            "pattern": bench.pattern.name(), "protocol": bench.protocol.name(),
            "connections": opened, "sessions": bench.sessions(),
            "open_s": rounded(took.as_secs_f64()), "opened_per_s": per_s, "open_us": latency_us(latencies),
            "held_s": rounded(held.as_secs_f64()), "lost": lost, "complete": *lost == 0,
            "client_cpu_s": rounded(cpu_s),
        });
        let text = format!(
            "connections{}: {}, {} {} each\n\
             opened    in {:.2} s, {} per second\n\
             latency   {}\n\
             held      for {:.1} s, {lost} lost\n\
             client    {cpu_s:.2} s of CPU\n",
            over(bench.protocol),
            thousands(*opened as u64),
            bench.sessions(),
            if bench.protocol == Protocol::Amqp10 { "sessions" } else { "channels" },
            took.as_secs_f64(),
            thousands(per_s as u64),
            latency_line(latencies),
            held.as_secs_f64(),
        );
        let failure = (*lost > 0).then(|| format!("{lost} connections were lost"));
        Self { text, json, failure }
    }
}

/// Names the protocol, unless it is the usual one.
fn over(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Amqp10 => "",
        Protocol::Amqp091 => " over AMQP 0.9.1",
    }
}

fn latency_us(latencies: &Histogram<u64>) -> Value {
    let percentile = |p: f64| rounded(latencies.value_at_percentile(p) as f64 / 1e3);
    PERCENTILES.iter().map(|(key, _, p)| ((*key).to_owned(), Value::from(percentile(*p)))).collect()
}

fn latency_line(latencies: &Histogram<u64>) -> String {
    let percentile = |p: f64| duration(latencies.value_at_percentile(p));
    let all: Vec<String> =
        PERCENTILES.iter().map(|(_, name, p)| format!("{name} {}", percentile(*p))).collect();
    all.join("  ")
}

/// Formats a duration with three significant digits and a unit.
fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..SECOND_NS => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let places = if value >= 100.0 { 0 } else { 1 + usize::from(value < 10.0) };
    format!("{value:.places$} {unit}")
}

/// Rounds to three decimal places.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Formats 1234567 as 1,234,567.
pub(super) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().flat_map(std::str::from_utf8).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(n), text);
        }
        for (ns, text) in [
            (0, "0.00 us"),
            (1_234, "1.23 us"),
            (123_456, "123 us"),
            (12_345_678, "12.3 ms"),
            (9 * SECOND_NS, "9.00 s"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }
}
