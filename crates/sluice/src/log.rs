//! The broker's log, written to standard error.
//!
//! Lines that a peer can cause as often as it likes have the target [`PEER`]. For each place in the code, the
//! first [`LINES_AT_ONCE`] such lines of a period are written. The others are counted, and the count is
//! logged every [`PERIOD`]. This way no peer can fill the disk with log lines or bury the other lines.

use std::collections::HashMap;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use broker::PEER;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt};

/// The interval at which the number of suppressed lines is logged.
pub const PERIOD: Duration = Duration::from_secs(10);

/// The lines of one place that are written in each period. This suffices for a few clients that connect,
/// close or fail together.
const LINES_AT_ONCE: u64 = 10;

/// Starts the log. The caller calls [`Limiter::report`] once per [`PERIOD`].
pub fn start(level: &str) -> Limiter {
    let limiter = Limiter::default();
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        // An error would be logged to the stream that has just failed, which would panic. So the broker
        // continues without its log.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(lines).with(limiter.clone()).with(EnvFilter::new(level)).init();
    limiter
}

/// Suppresses excess lines that peers cause, and counts them.
#[derive(Clone, Debug, Default)]
pub struct Limiter {
    places: Arc<Mutex<HashMap<Identifier, Place>>>,
}

/// One place in the code that logs what a peer does.
#[derive(Debug)]
struct Place {
    level: Level,
    /// The number of lines from this place in this period.
    lines: u64,
    /// The text of the first suppressed line.
    example: String,
}

/// The suppressed lines of one place.
#[derive(Debug, PartialEq, Eq)]
struct LeftOut {
    level: Level,
    lines: u64,
    example: String,
}

impl Limiter {
    /// Starts a new period. Logs how many lines were suppressed in the last one.
    pub fn report(&self) {
        for LeftOut { level, lines, example } in self.take() {
            // `tracing` needs the level as a constant.
            if level == Level::ERROR {
                tracing::error!("{lines} more lines like: {example}");
            } else if level == Level::WARN {
                tracing::warn!("{lines} more lines like: {example}");
            } else {
                tracing::info!("{lines} more lines like: {example}");
            }
        }
    }

    fn take(&self) -> Vec<LeftOut> {
        let places = std::mem::take(&mut *self.places.lock().unwrap_or_else(PoisonError::into_inner));
        let mut left_out: Vec<LeftOut> = places
            .into_values()
            .filter(|place| place.lines > LINES_AT_ONCE)
            .map(|place| LeftOut {
                level: place.level,
                lines: place.lines - LINES_AT_ONCE,
                example: place.example,
            })
            .collect();
        left_out.sort_by(|a, b| a.level.cmp(&b.level).then_with(|| b.lines.cmp(&a.lines)));
        left_out
    }

    /// Counts the line. Returns true if it is to be written.
    fn count(&self, event: &Event<'_>) -> bool {
        let metadata = event.metadata();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.entry(metadata.callsite()).or_insert_with(|| Place {
            level: *metadata.level(),
            lines: 0,
            example: String::new(),
        });
        place.lines += 1;
        if place.lines == LINES_AT_ONCE + 1 {
            event.record(&mut Words(&mut place.example));
        }
        place.lines <= LINES_AT_ONCE
    }
}

impl<S: Subscriber> Layer<S> for Limiter {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        event.metadata().target() != PEER || self.count(event)
    }
}

/// Writes an event as the log shows it: the message, then the fields.
struct Words<'a>(&'a mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        // Writing to a string cannot fail.
        debug_assert!(written.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(who: u64) {
        tracing::warn!(target: PEER, who, "login refused");
    }

    #[test]
    fn lines_of_peers_are_written_at_first_and_then_counted() {
        let limiter = Limiter::default();
        let written = Written::default();
        let subscriber = tracing_subscriber::registry().with(written.clone()).with(limiter.clone());
        let _scope = subscriber.set_default();
        (1..=LINES_AT_ONCE + 20).for_each(line);
        assert_eq!(written.take(), LINES_AT_ONCE);
        // These lines are written: one comes from another place, the other is not caused by a peer.
        tracing::info!(target: PEER, "connection gone");
        (0..100).for_each(|_| tracing::error!("the queue is closed"));
        assert_eq!(written.take(), 101);
        let left_out = LeftOut {
            level: Level::WARN,
            lines: 20,
            example: format!("login refused who={}", LINES_AT_ONCE + 1),
        };
        assert_eq!(limiter.take(), [left_out]);
        // A new period begins.
        line(1);
        assert_eq!(written.take(), 1);
        limiter.report();
        assert_eq!(written.take(), 0, "nothing was left out");
    }

    /// Counts the lines that would be written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<u64>>);

    impl Written {
        fn take(&self) -> u64 {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    impl<S: Subscriber> Layer<S> for Written {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            *self.0.lock().unwrap() += 1;
        }
    }
}
