//! `sluice bench`: puts load on a broker and measures throughput and latency.
//!
//! Every sender and every receiver has its own connection. Each message carries the time when it was sent, or
//! with `--rate` the time when it was due. The time is in the application property `SendTime`, in nanoseconds
//! of `CLOCK_MONOTONIC`, which all processes of a machine share. The receiver computes a latency from it. The
//! bench works with any AMQP 1.0 broker. It declares queues and exchanges over `/management`; `--no-declare`
//! skips that.
//!
//! With `--protocol amqp091` it works with any AMQP 0.9.1 broker ([`amqp091`]). The time is then a header of the
//! message, with the same name. Unsettled messages are those in confirm mode, and the consumers acknowledge.
//!
//! ```text
//!   coordinator                          one thread per core, or per pair if there are fewer
//!     declare, start the threads
//!     <- Ready, of each endpoint         attach; receivers grant credit
//!     -- Run{start} to all ->            senders send, receivers count
//!     progress line each second
//!     <- Sent, of each sender            count reached or time over, and every outcome known
//!     all received, or silence
//!     -- Stop to all ->                  close; histograms come back with the threads
//! ```

mod amqp091;
mod clock;
mod connections;
mod endpoint;
mod load;
mod plan;
mod report;
mod run;
mod stamp;
mod tally;

use std::io::Write as _;
use std::time::Duration;

use clap::{Args, ValueEnum};
use client::{Connection, Options, amqp091 as client091};

use crate::amqp::{Broker, BrokerAddress};
use crate::failure::Failure;
use crate::limits;
use crate::output::print;

/// The default length of a run in seconds, if neither `--count` nor `--duration` is given.
const DURATION_S: u32 = 10;

/// The number of sessions of an idle connection, unless `--sessions` is given.
const SESSIONS: u32 = 2;

/// The most unconfirmed messages of a sender over AMQP 0.9.1, unless `--unconfirmed` is given. It equals the default
/// credit of a receiver.
const UNCONFIRMED: u32 = 200;

/// The address of a queue, unless `--address` is given.
const ADDRESS: &str = "/queues/{queue}";

/// The address of the exchange of a fan-out, unless `--exchange-address` is given.
const EXCHANGE_ADDRESS: &str = "/exchanges/{exchange}";

#[derive(Args, Debug)]
pub(crate) struct Bench {
    #[command(flatten)]
    broker: Broker,
    /// The protocol of all connections
    #[arg(long, value_enum, default_value_t)]
    protocol: Protocol,
    /// Who sends to whom
    #[arg(long, value_enum, default_value_t)]
    pattern: Pattern,
    /// pair: senders, each with its own queue and receiver [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pairs: Option<u32>,
    /// fan-in: senders to the queue [default: 4]; fan-out: senders to the exchange [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    senders: Option<u32>,
    /// fan-in: receivers that share the queue [default: 1]; fan-out: receivers with a queue each [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    receivers: Option<u32>,
    /// The number of messages of each sender
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Seconds to send for, or to hold idle connections open; 10 unless --count is given
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    duration: Option<u32>,
    /// Messages per second of each sender; latency is then measured from the time when a message was due,
    /// which
    /// includes the delay of a late sender
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: Option<u32>,
    /// The size of the body in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 12, value_parser = clap::value_parser!(u32).range(0..=268_435_456))]
    size: u32,
    /// Credit of each receiver; with amqp091 its prefetch count, at most 65535, which has no effect with --settled
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    credit: u32,
    /// amqp091: the most messages of a sender that wait for their confirm [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "settled")]
    unconfirmed: Option<u32>,
    /// Whether the messages are durable
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    durable: bool,
    /// Settle messages when they are sent, in both directions: there are no outcomes, and messages may be
    /// lost; with amqp091, senders use no confirms and receivers do not acknowledge
    #[arg(long)]
    settled: bool,
    /// The prefix of the names of the queues and the exchange
    #[arg(long, value_name = "PREFIX", default_value = "sluice-bench")]
    queue: String,
    /// Use existing queues and exchanges: declare and delete nothing
    #[arg(long)]
    no_declare: bool,
    /// amqp10: the address of a queue [default: /queues/{queue}]
    #[arg(long, value_name = "TEMPLATE")]
    address: Option<String>,
    /// amqp10, fan-out: the address from which a message reaches every queue [default: /exchanges/{exchange}]
    #[arg(long, value_name = "TEMPLATE")]
    exchange_address: Option<String>,
    /// connections: the number of connections [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: Option<u32>,
    /// connections: the number of sessions of each connection; with amqp091 of channels [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=256))]
    sessions: Option<u32>,
    /// Seconds after which a connection to a silent broker is closed; the broker is asked for heartbeats of
    /// half of that; 0 means never
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=65_535))]
    heartbeat: u32,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// What the connections speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// AMQP 1.0
    #[default]
    Amqp10,
    /// AMQP 0.9.1
    Amqp091,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Amqp10 => "amqp10",
            Self::Amqp091 => "amqp091",
        }
    }
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Pattern {
    /// Each sender has its own queue and receiver
    #[default]
    Pair,
    /// Many senders, one queue, one or more receivers that share it
    FanIn,
    /// One sender, a fanout exchange, many queues with a receiver each
    FanOut,
    /// Idle connections
    Connections,
}

impl Pattern {
    fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::FanIn => "fan-in",
            Self::FanOut => "fan-out",
            Self::Connections => "connections",
        }
    }
}

impl Bench {
    /// The number of sessions, or channels, of each idle connection.
    fn sessions(&self) -> u32 {
        self.sessions.unwrap_or(SESSIONS)
    }

    /// The most messages of a sender over AMQP 0.9.1 that wait for their confirm.
    fn unconfirmed(&self) -> u32 {
        self.unconfirmed.unwrap_or(UNCONFIRMED)
    }

    /// Refuses options that belong to another pattern or protocol: they would have no effect.
    fn check(&self) -> Result<(), Failure> {
        use Pattern::{Connections, FanIn, FanOut, Pair};
        let counts: [(&str, Option<u32>, &[Pattern]); 5] = [
            ("--pairs", self.pairs, &[Pair]),
            ("--senders", self.senders, &[FanIn, FanOut]),
            ("--receivers", self.receivers, &[FanIn, FanOut]),
            ("--connections", self.connections, &[Connections]),
            ("--sessions", self.sessions, &[Connections]),
        ];
        for (option, given, patterns) in counts {
            if given.is_some() && !patterns.contains(&self.pattern) {
                let of: Vec<&str> = patterns.iter().map(|pattern| pattern.name()).collect();
                let (of, pattern) = (of.join(" and "), self.pattern.name());
                return Err(Failure::usage(format!("{option} belongs to --pattern {of}, not to {pattern}")));
            }
        }
        let options = [
            ("--address", self.address.is_some(), Protocol::Amqp10),
            ("--exchange-address", self.exchange_address.is_some(), Protocol::Amqp10),
            ("--unconfirmed", self.unconfirmed.is_some(), Protocol::Amqp091),
        ];
        for (option, given, protocol) in options {
            if given && protocol != self.protocol {
                let (of, given) = (protocol.name(), self.protocol.name());
                return Err(Failure::usage(format!("{option} belongs to --protocol {of}, not to {given}")));
            }
        }
        if self.protocol == Protocol::Amqp091 && u16::try_from(self.credit).is_err() {
            return Err(Failure::usage(format!("--credit is at most {} with --protocol amqp091", u16::MAX)));
        }
        Ok(())
    }

    async fn connect(&self) -> Result<(Connection, BrokerAddress), Failure> {
        let idle_time_out = Duration::from_secs(self.heartbeat.into());
        self.broker.connect_with(Options { idle_time_out, ..Options::default() }).await
    }

    async fn connect_091(&self) -> Result<(client091::Connection, BrokerAddress), Failure> {
        let idle_time_out = Duration::from_secs(self.heartbeat.into());
        self.broker.connect_091(client091::Options { idle_time_out, ..client091::Options::default() }).await
    }
}

/// Runs the load and prints the result.
///
/// # Errors
/// The broker's error; or, after the result is printed, that not every message was received.
pub(crate) fn run(bench: Bench) -> Result<(), Failure> {
    bench.check()?;
    limits::raise_file_descriptors();
    let json = bench.json;
    let report = match bench.pattern {
        Pattern::Connections => connections::run(bench)?,
        _ => load::run(bench)?,
    };
    let text = if json { format!("{}\n", report.json) } else { report.text };
    print(&text)?;
    report.failure.map_or(Ok(()), |line| Err(Failure::failed(line)))
}

/// Prints one line of progress. An error on standard error is ignored.
fn say(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}
