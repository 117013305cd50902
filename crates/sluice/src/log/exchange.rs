//! The exchange `amq.rabbitmq.log`, which gets each line as a message. Its routing key is the level, by RabbitMQ's name.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use broker::notices::{NOTICES, Notice};
use broker::settings::Settings;
use node::NoticeWay;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Publishes lines, once the node has started. Earlier lines go to the other outputs only.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogExchange(Arc<OnceLock<Destination>>);

#[derive(Debug)]
struct Destination {
    way: NoticeWay,
    /// The virtual host of the exchange.
    vhost: Arc<str>,
    node: String,
}

impl LogExchange {
    /// Begins to publish lines, if the settings have the exchange.
    pub(crate) fn begin(&self, way: NoticeWay, settings: &Settings) {
        if let Some(vhost) = settings.declare_rules.log_vhost.clone() {
            self.0.get_or_init(|| Destination { way, vhost, node: settings.node_name.clone() });
        }
    }
}

/// Returns true for lines that may be published. Lines about messages of the broker itself may not, and no lines for debugging: to
/// publish one of them could cause the next.
pub(super) fn may_be_published(metadata: &Metadata<'_>) -> bool {
    metadata.target() != NOTICES && *metadata.level() <= Level::INFO
}

impl<'a> MakeWriter<'a> for LogExchange {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { to: self.0.get(), level: Level::INFO }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        Line { level: *metadata.level(), ..self.make_writer() }
    }
}

/// One line.
pub(crate) struct Line<'a> {
    to: Option<&'a Destination>,
    level: Level,
}

impl Write for Line<'_> {
    /// Called once with the whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(Destination { way, vhost, node }) = self.to {
            let now_ms =
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
            let text = String::from_utf8_lossy(line.trim_ascii_end());
            way.send(Notice::logged(vhost, level_name(self.level), node, now_ms, &text));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns RabbitMQ's name of a level that is published.
fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        _ => "info",
    }
}
