//! The broker's log, written to standard error, to a file, and to an exchange.
//!
//! The target of a line is its category, whose level is a setting of its own, or a part of the program. Lines that a peer
//! can cause as often as it likes have the name [`PEER`]. For each place in the code, the first [`LINES_AT_ONCE`] such lines of a
//! period are written. The others are counted, and the count is logged every [`PERIOD`]. Lines about changes that users other than
//! administrators make over HTTP have the name [`USER_CHANGE`]: they are limited in the same way, but each user has
//! [`CHANGES_AT_ONCE`]. This way no peer can fill the disk with log lines or bury the other lines. Changes of administrators are all
//! written.

mod exchange;
mod file;
mod lines;
mod outputs;

use std::collections::HashMap;
use std::fmt::{Debug, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use catalog::categories::{CHANNEL, CONNECTION, PEER, QUEUE, USER, USER_CHANGE};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Filter, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use wal::files::Sharing;

pub(crate) use self::exchange::LogExchange;
pub(crate) use self::file::LogFile;
pub(crate) use self::outputs::Levels;
use crate::config::LogOptions;

/// The interval at which the number of suppressed lines is logged.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);

/// The lines of one place that are written in each period. This suffices for a few clients that connect,
/// close or fail together.
const LINES_AT_ONCE: u64 = 10;

/// The lines of one place about changes by one user that are written in each period. A script that cleans up or sets up a virtual
/// host stays below this. A flood of requests does not: the broker answers many thousands in a period.
const CHANGES_AT_ONCE: u64 = 1_000;

/// The most places, and users of places, that are counted apart in a period. Further users share one count for each place, so the
/// users that a token names, who need not exist, take no more memory.
const PLACES_MAX: usize = 1_000;

/// The number of places that the log can go to: standard error, a file and an exchange.
const OUTPUTS: usize = 3;

/// The log that has been started.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub limiter: Limiter,
    pub levels: Levels,
    /// The exchange that gets the lines, if there is one.
    pub exchange: LogExchange,
    /// The file that it is written to, if any.
    pub file: Option<Arc<LogFile>>,
}

/// Starts the log. The caller calls [`Limiter::report`] once per [`PERIOD`].
///
/// # Errors
/// The file of the log cannot be opened.
pub(crate) fn start(options: &LogOptions, data_dir: &Path, sharing: Sharing) -> Result<Log, String> {
    let limiter = Limiter::default();
    let file = outputs::open_file(options, data_dir, sharing)?;
    let exchange = LogExchange::default();
    let (layers, levels) = outputs::layers(options, file.clone(), &exchange, &limiter);
    tracing_subscriber::registry().with(layers).init();
    Ok(Log { limiter, levels, exchange, file })
}

/// Opens the file of the log again, after another program has renamed it.
pub(crate) fn reopen(file: &LogFile) {
    match file.reopen() {
        Ok(()) => tracing::info!("the log file was opened again"),
        Err(error) => tracing::error!("the log file cannot be opened again: {error}"),
    }
}

/// Suppresses excess lines that peers cause, and counts them. Each output has its own counts, because each has its own levels:
/// lines that an output does not want never hide lines that it wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limiter {
    places: Arc<Mutex<HashMap<Key, CallSite>>>,
}

/// The place in the code, and the user if each has a count: otherwise the empty text.
type Key = (Identifier, String);

/// One place in the code that logs what a peer does, or what one user does there.
#[derive(Debug)]
struct CallSite {
    /// The number of lines that are written in a period.
    most: u64,
    level: Level,
    /// The target of its lines.
    target: &'static str,
    /// The number of lines from this place in this period, for each output.
    lines: [u64; OUTPUTS],
    /// The text of the first suppressed line.
    example: String,
}

impl CallSite {
    /// Returns the number of suppressed lines. It is the same for all outputs that want lines of this place.
    fn left_out(&self) -> u64 {
        self.lines.iter().max().map_or(0, |lines| lines.saturating_sub(self.most))
    }
}

/// The suppressed lines of one place.
#[derive(Debug, PartialEq, Eq)]
struct LeftOut {
    level: Level,
    target: &'static str,
    lines: u64,
    example: String,
}

impl Limiter {
    /// Starts a new period. Logs how many lines were suppressed in the last one.
    pub(crate) fn report(&self) {
        for LeftOut { level, target, lines, example } in self.take() {
            // `tracing` needs level and target as constants.
            macro_rules! report {
                ($target:expr) => {
                    match level {
                        Level::ERROR => tracing::error!(target: $target, "{lines} more lines like: {example}"),
                        Level::WARN => tracing::warn!(target: $target, "{lines} more lines like: {example}"),
                        // Only the outputs that want such lines get their number.
                        Level::DEBUG | Level::TRACE => {
                            tracing::debug!(target: $target, "{lines} more lines like: {example}");
                        }
                        Level::INFO => tracing::info!(target: $target, "{lines} more lines like: {example}"),
                    }
                };
            }
            match target {
                CONNECTION => report!(CONNECTION),
                CHANNEL => report!(CHANNEL),
                QUEUE => report!(QUEUE),
                USER => report!(USER),
                _ => report!(module_path!()),
            }
        }
    }

    fn take(&self) -> Vec<LeftOut> {
        let places = std::mem::take(&mut *self.places.lock().unwrap_or_else(PoisonError::into_inner));
        let mut left_out: Vec<LeftOut> = places
            .into_values()
            .filter(|place| place.left_out() > 0)
            .map(|place| LeftOut {
                level: place.level,
                target: place.target,
                lines: place.left_out(),
                example: place.example,
            })
            .collect();
        left_out.sort_by(|a, b| a.level.cmp(&b.level).then_with(|| b.lines.cmp(&a.lines)));
        left_out
    }

    /// Counts the line for an output. Returns true if it is to be written there.
    fn count(&self, event: &Event<'_>, output: usize) -> bool {
        let metadata = event.metadata();
        let Some(most) = most(metadata) else { return true };
        let mut user = UserOf(String::new());
        if metadata.name() == USER_CHANGE {
            event.record(&mut user);
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (metadata.callsite(), user.0);
        if places.len() >= PLACES_MAX && !places.contains_key(&key) {
            key.1.clear();
        }
        let place = places.entry(key).or_insert_with(|| CallSite {
            most,
            level: *metadata.level(),
            target: metadata.target(),
            lines: [0; OUTPUTS],
            example: String::new(),
        });
        place.lines[output] += 1;
        let lines = place.lines[output];
        if lines == most + 1 && place.example.is_empty() {
            event.record(&mut Words(&mut place.example));
        }
        lines <= most
    }

    /// Returns the filter of an output, a number below [`OUTPUTS`]. It must come after the filter of the levels.
    fn of(&self, output: usize) -> Limit {
        Limit { limiter: self.clone(), output }
    }
}

/// Returns how many lines of a place, or of a user there, are written in a period. `None`: all of them.
fn most(metadata: &Metadata<'_>) -> Option<u64> {
    match metadata.name() {
        PEER => Some(LINES_AT_ONCE),
        USER_CHANGE => Some(CHANGES_AT_ONCE),
        _ => None,
    }
}

/// The [`Limiter`] as the filter of one output. A layer that refuses an event for all outputs would not do: `tracing-subscriber`
/// would use what the filters said about that event for the next event of the thread, which would be lost.
struct Limit {
    limiter: Limiter,
    output: usize,
}

impl<S> Filter<S> for Limit {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        // The outputs must be asked about each event that one of them may refuse.
        if most(metadata).is_some() { Interest::sometimes() } else { Interest::always() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        self.limiter.count(event, self.output)
    }
}

/// Reads the field `user` of an event.
struct UserOf(String);

impl Visit for UserOf {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "user" {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// Writes an event as the log shows it: the message, then the fields.
struct Words<'a>(&'a mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name if self.0.is_empty() => write!(self.0, "{name}={value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        // Writing to a string cannot fail.
        debug_assert!(written.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use broker::audit::{Actor, Rate};
    use catalog::access::{Identity, Protocol};
    use catalog::categories::RA;
    use tracing::Subscriber;
    use tracing_subscriber::filter::FilterExt as _;
    use tracing_subscriber::layer::Layer;

    use super::*;

    fn line(who: u64) {
        tracing::warn!(name: PEER, target: CONNECTION, who, "login refused");
    }

    #[test]
    fn lines_of_peers_are_written_at_first_and_then_counted() {
        let limiter = Limiter::default();
        let written = Written::default();
        let subscriber = tracing_subscriber::registry().with(written.clone().with_filter(limiter.of(0)));
        let _scope = subscriber.set_default();
        (1..=LINES_AT_ONCE + 20).for_each(line);
        assert_eq!(written.take(), LINES_AT_ONCE);
        // These lines are written: one comes from another place, the other is not caused by a peer.
        tracing::info!(name: PEER, target: CONNECTION, "connection gone");
        (0..100).for_each(|_| tracing::error!("the queue is closed"));
        assert_eq!(written.take(), 101);
        let left_out = LeftOut {
            level: Level::WARN,
            target: CONNECTION,
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

    fn actor() -> Actor<'static> {
        Actor { user: "ann", peer: "192.0.2.1:5", protocol: Protocol::Http, mechanism: "Basic" }
    }

    #[test]
    fn audit_lines_that_peers_can_cause_are_counted_and_those_of_administrators_are_all_written() {
        let limiter = Limiter::default();
        let written = Written::default();
        let subscriber = tracing_subscriber::registry().with(written.clone().with_filter(limiter.of(0)));
        let _scope = subscriber.set_default();
        (0..LINES_AT_ONCE + 20).for_each(|_| actor().login_refused("unknown user or wrong password"));
        assert_eq!(written.take(), LINES_AT_ONCE);
        (0..LINES_AT_ONCE + 3).for_each(|_| actor().changed("DELETE x", "name=q", Rate::Limited));
        assert_eq!(written.take(), LINES_AT_ONCE);
        (0..LINES_AT_ONCE + 20).for_each(|_| actor().changed("DELETE x", "name=q", Rate::Every));
        assert_eq!(written.take(), LINES_AT_ONCE + 20);
        let left_out = limiter.take();
        assert_eq!((left_out.len(), left_out[0].lines, left_out[0].target), (2, 20, USER));
        assert_eq!(
            left_out[0].example,
            "what=\"login\" result=\"refused\" user=\"ann\" peer=\"192.0.2.1:5\" protocol=\"http\" mechanism=\"Basic\" \
             reason=\"unknown user or wrong password\""
        );
    }

    #[test]
    fn changes_of_each_user_over_http_are_limited_apart() {
        let limiter = Limiter::default();
        let written = Written::default();
        let subscriber = tracing_subscriber::registry().with(written.clone().with_filter(limiter.of(0)));
        let _scope = subscriber.set_default();
        let change = |user: &str| {
            let who = Identity::internal(user, "management");
            let actor = Actor { user, ..actor() };
            actor.changed("DELETE x", "name=q", Rate::of(&who, Protocol::Http));
        };
        (0..CHANGES_AT_ONCE + 7).for_each(|_| change("ann"));
        assert_eq!(written.take(), CHANGES_AT_ONCE);
        // Somebody else's line is not lost for that.
        change("bob");
        assert_eq!(written.take(), 1);
        (0..CHANGES_AT_ONCE + 7).for_each(|_| {
            actor().left("DELETE x", "name=q", Rate::of(&Identity::internal("ann", ""), Protocol::Http))
        });
        assert_eq!(written.take(), CHANGES_AT_ONCE);
        let ops = Rate::of(&Identity::internal("ops", "administrator"), Protocol::Http);
        (0..CHANGES_AT_ONCE + 7).for_each(|_| actor().changed("DELETE x", "name=q", ops));
        assert_eq!(written.take(), CHANGES_AT_ONCE + 7);
        let left_out = limiter.take();
        assert_eq!(left_out.iter().map(|left_out| left_out.lines).collect::<Vec<_>>(), [7, 7]);
        assert!(left_out.iter().all(|left_out| left_out.example.contains("user=\"ann\"")), "{left_out:?}");
    }

    #[test]
    fn users_beyond_a_number_share_one_count() {
        let limiter = Limiter::default();
        let written = Written::default();
        let subscriber = tracing_subscriber::registry().with(written.clone().with_filter(limiter.of(0)));
        let _scope = subscriber.set_default();
        let users = PLACES_MAX as u64 + CHANGES_AT_ONCE + 5;
        for n in 0..users {
            Actor { user: &format!("u{n}"), ..actor() }.changed("DELETE x", "name=q", Rate::PerUser);
        }
        assert_eq!(written.take(), users - 5);
        let left_out = limiter.take();
        assert_eq!((left_out.len(), left_out[0].lines), (1, 5));
    }

    #[test]
    fn lines_that_an_output_does_not_want_hide_no_others() {
        let limiter = Limiter::default();
        let (info, debug) = (Written::default(), Written::default());
        let subscriber = tracing_subscriber::registry()
            .with(info.clone().with_filter(LevelFilter::INFO.and(limiter.of(0))))
            .with(debug.clone().with_filter(LevelFilter::DEBUG.and(limiter.of(1))));
        let _scope = subscriber.set_default();
        for _ in 0..LINES_AT_ONCE + 20 {
            actor().logged_in();
            tracing::info!(target: USER, "changed");
        }
        assert_eq!(info.take(), LINES_AT_ONCE + 20);
        assert_eq!(debug.take(), 2 * LINES_AT_ONCE + 20);
        // The number of the suppressed lines goes only where these lines would have gone.
        limiter.report();
        assert_eq!((info.take(), debug.take()), (0, 1));
    }

    #[test]
    fn categories_have_levels_of_their_own() {
        let count = |level, user_level| {
            let written = Written::default();
            let category_levels = [(USER, user_level)].into();
            let options = LogOptions { level, category_levels, ..LogOptions::default() };
            let filter = outputs::filter(&options, &options.console);
            let subscriber = tracing_subscriber::registry().with(written.clone()).with(filter);
            let _scope = subscriber.set_default();
            tracing::info!("stopping");
            let others = written.take();
            actor().login_refused("why");
            actor().changed("DELETE x", "name=q", Rate::Every);
            (others, written.take())
        };
        assert_eq!(count("info", "info"), (1, 2));
        assert_eq!(count("error", "info"), (0, 2));
        assert_eq!(count("off", "warn"), (0, 1));
        assert_eq!(count("trace", "off"), (1, 0));
    }

    #[test]
    fn the_level_of_each_category_is_its_own() {
        let options = LogOptions {
            level: "warn",
            category_levels: [(CONNECTION, "off"), (CHANNEL, "error"), (QUEUE, "info"), (RA, "debug")].into(),
            default_level: Some("error"),
            ..LogOptions::default()
        };
        let written = Written::default();
        let filter = outputs::filter(&options, &options.console);
        let subscriber = tracing_subscriber::registry().with(written.clone()).with(filter);
        let _scope = subscriber.set_default();
        macro_rules! lines {
            ($target:expr) => {{
                tracing::error!(target: $target, "1");
                tracing::warn!(target: $target, "2");
                tracing::info!(target: $target, "3");
                tracing::debug!(target: $target, "4");
                written.take()
            }};
        }
        let lines =
            [lines!(CONNECTION), lines!(CHANNEL), lines!(QUEUE), lines!(RA), lines!(USER), lines!("node")];
        assert_eq!(lines, [0, 1, 3, 4, 2, 1]);
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
