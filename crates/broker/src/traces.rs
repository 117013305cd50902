//! Traces: copies of the messages that pass through a queue, a connection or a virtual host, for people who look for a fault
//! (docs/decisions/0042). A copy goes to the exchange `amq.rabbitmq.trace` of the virtual host, in the form of RabbitMQ's firehose.
//!
//! Every shard has the same list of traces. A message that is not traced costs one check, whether the list is empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use amqp091::{Properties, Value};
use bytes::BytesMut;
use message::{Additions, Message};

use crate::notices::{Headers, Notice};

/// The most traces of single queues and connections at once. Each message of the node is compared with all of them.
pub const TRACES_MAX: usize = 16;

/// The longest time of a trace, in seconds. Whoever needs more starts another one, or traces the virtual host.
pub const TRACE_SECONDS_MAX: u64 = 3600;

/// The most messages of a trace. Its copies wait in a queue until somebody reads them.
pub const TRACE_MESSAGES_MAX: u64 = 1_000_000;

/// What a trace with a limit copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// What is published to the queue of this name, and delivered from it.
    Queue(Arc<str>),
    /// What the connection of this name publishes, and what is delivered to it.
    Connection(Arc<str>),
}

/// A trace that ends by itself, after its time or after its last message.
#[derive(Debug)]
pub struct Trace {
    pub vhost: Arc<str>,
    pub name: Arc<str>,
    pub subject: Subject,
    /// When the trace ends, in milliseconds since the epoch.
    pub until_ms: u64,
    /// The number of messages that are still copied.
    left: AtomicU64,
}

impl Trace {
    /// Returns the number of messages that are still copied.
    pub fn messages_left(&self) -> u64 {
        self.left.load(Relaxed)
    }

    /// Returns true if the trace copies nothing more.
    pub fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.until_ms || self.messages_left() == 0
    }

    /// Counts a message. Returns false if the trace has had all its messages.
    fn take_one(&self) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// What is traced. Every shard has the same.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// The virtual hosts whose messages are all copied (the firehose).
    vhosts: Vec<Arc<str>>,
    limited: Vec<Arc<Trace>>,
}

/// What a message passes through.
pub(crate) struct Passing<'a> {
    pub vhost: &'a Arc<str>,
    pub connection: &'a str,
    /// The number of the channel of AMQP 0.9.1, or of the session of AMQP 1.0.
    pub part: u16,
    pub user: &'a str,
}

impl Traces {
    /// Returns true if nothing is traced.
    pub fn is_off(&self) -> bool {
        self.vhosts.is_empty() && self.limited.is_empty()
    }

    /// Returns the traces with a limit, in the order in which they were started.
    pub fn limited(&self) -> &[Arc<Trace>] {
        &self.limited
    }

    /// Returns true if all messages of the virtual host are copied.
    pub fn has_vhost(&self, vhost: &str) -> bool {
        self.vhosts.iter().any(|traced| **traced == *vhost)
    }

    /// Carries out a change. Returns false if there was no trace to end.
    ///
    /// # Errors
    /// There are [`TRACES_MAX`] traces with a limit.
    pub fn change(&mut self, change: TraceChange, now_ms: u64) -> Result<bool, TooManyTraces> {
        self.remove_over(now_ms);
        match change {
            TraceChange::Vhost { vhost, is_traced } => {
                self.vhosts.retain(|traced| *traced != vhost);
                self.vhosts.extend(is_traced.then_some(vhost));
            }
            TraceChange::Start { vhost, name, subject, seconds, messages } => {
                self.end(&vhost, &name);
                if self.limited.len() >= TRACES_MAX {
                    return Err(TooManyTraces);
                }
                let (until_ms, left) = (now_ms + seconds * 1000, AtomicU64::new(messages));
                self.limited.push(Arc::new(Trace { vhost, name, subject, until_ms, left }));
            }
            TraceChange::End { vhost, name } => return Ok(self.end(&vhost, &name)),
            TraceChange::Forget { vhost } => {
                self.vhosts.retain(|traced| *traced != vhost);
                self.limited.retain(|trace| trace.vhost != vhost);
            }
        }
        Ok(true)
    }

    /// Ends a trace with a limit. Returns false if there is none of this name.
    fn end(&mut self, vhost: &str, name: &str) -> bool {
        let before = self.limited.len();
        self.limited.retain(|trace| *trace.vhost != *vhost || *trace.name != *name);
        self.limited.len() < before
    }

    /// Removes the traces that are over. Returns true if there were some.
    pub fn remove_over(&mut self, now_ms: u64) -> bool {
        let before = self.limited.len();
        self.limited.retain(|trace| !trace.is_over(now_ms));
        self.limited.len() < before
    }

    /// Returns the names of the traces that get a copy of the message, or `None` if nobody does. `is_of` says whether the
    /// message passes through the queue of a name.
    pub(crate) fn claim(
        &self,
        passing: &Passing<'_>,
        now_ms: u64,
        is_of: impl Fn(&str) -> bool,
    ) -> Option<Vec<&str>> {
        let wants = |trace: &&Arc<Trace>| {
            let is_subject = match &trace.subject {
                Subject::Queue(queue) => is_of(queue),
                Subject::Connection(connection) => **connection == *passing.connection,
            };
            trace.vhost == *passing.vhost && is_subject && now_ms < trace.until_ms && trace.take_one()
        };
        let names: Vec<&str> = self.limited.iter().filter(wants).map(|trace| &*trace.name).collect();
        (self.has_vhost(passing.vhost) || !names.is_empty()).then_some(names)
    }
}

/// A change of what is traced.
#[derive(Clone, Debug)]
pub enum TraceChange {
    /// Begins or ends to copy all messages of a virtual host.
    Vhost { vhost: Arc<str>, is_traced: bool },
    /// Starts a trace with a limit, for so many seconds and messages. One of the same name ends.
    Start { vhost: Arc<str>, name: Arc<str>, subject: Subject, seconds: u64, messages: u64 },
    /// Ends a trace with a limit.
    End { vhost: Arc<str>, name: Arc<str> },
    /// Ends all traces of a virtual host, which is deleted.
    Forget { vhost: Arc<str> },
}

/// There are as many traces as allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyTraces;

/// Makes the copy of a message for this node's firehose. `traces` are the names of the traces with a limit that get it.
pub(crate) fn traced_copy(
    message: &Message,
    key: &str,
    passing: &Passing<'_>,
    traces: &[&str],
    node: &str,
    put: impl FnOnce(&mut Headers<'_>),
) -> Notice {
    let mut list = BytesMut::new();
    message.put_amqp091_properties(&Additions::default(), &mut list);
    let (payload, from) = message.amqp091_payload();
    Notice::traced(passing.vhost, key, payload.get(from..).unwrap_or_default(), |headers| {
        headers.text("exchange_name", message.route().exchange());
        headers.texts("routing_keys", message.route().keys().iter().map(|key| &**key));
        put_properties(headers, &list);
        headers.text("node", node);
        headers.text("vhost", passing.vhost);
        headers.text("connection", passing.connection);
        headers.integer("channel", passing.part.into());
        headers.text("user", passing.user);
        put(headers);
        if !traces.is_empty() {
            headers.texts("traces", traces.iter().copied());
        }
    })
}

/// Adds the properties of a message as a table.
fn put_properties(headers: &mut Headers<'_>, list: &[u8]) {
    // The list was checked when the message arrived, or it was made here.
    let properties = Properties::view(list).unwrap_or_default();
    let mut table = headers.table("properties");
    for (name, text) in [
        ("content_type", properties.content_type),
        ("content_encoding", properties.content_encoding),
        ("correlation_id", properties.correlation_id),
        ("reply_to", properties.reply_to),
        ("expiration", properties.expiration),
        ("message_id", properties.message_id),
        ("type", properties.message_type),
        ("user_id", properties.user_id),
        ("app_id", properties.app_id),
        ("cluster_id", properties.cluster_id),
    ] {
        text.into_iter().for_each(|text| table.put(name, &Value::LongString(text)));
    }
    for (name, number) in [("delivery_mode", properties.delivery_mode), ("priority", properties.priority)] {
        number.into_iter().for_each(|number| table.put(name, &Value::I32(number.into())));
    }
    properties.timestamp.into_iter().for_each(|seconds| table.put("timestamp", &Value::Timestamp(seconds)));
    if let Some(entries) = properties.headers {
        table.table("headers").put_entries(entries.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(
        traces: &mut Traces,
        name: &str,
        subject: Subject,
        messages: u64,
    ) -> Result<bool, TooManyTraces> {
        let (vhost, name) = ("/".into(), name.into());
        traces.change(TraceChange::Start { vhost, name, subject, seconds: 10, messages }, 1_000)
    }

    /// Returns the traces that copy a message of connection `c`, which passes through queue `q`.
    fn claim(traces: &Traces, vhost: &str, now_ms: u64) -> Option<Vec<String>> {
        let passing = Passing { vhost: &vhost.into(), connection: "c", part: 1, user: "u" };
        let claimed = traces.claim(&passing, now_ms, |queue| queue == "q")?;
        Some(claimed.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn a_message_is_compared_with_every_trace() {
        let mut traces = Traces::default();
        assert!(traces.is_off());
        for (name, subject) in [
            ("of-q", Subject::Queue("q".into())),
            ("of-other", Subject::Queue("other".into())),
            ("of-c", Subject::Connection("c".into())),
            ("of-d", Subject::Connection("d".into())),
        ] {
            assert_eq!(start(&mut traces, name, subject, 10), Ok(true));
        }
        assert_eq!(claim(&traces, "/", 1_000), Some(vec!["of-q".to_owned(), "of-c".to_owned()]));
        assert_eq!(claim(&traces, "v", 1_000), None, "names belong to a virtual host");
        assert_eq!(claim(&traces, "/", 11_000), None, "their time is over");
        let firehose = |is_traced| TraceChange::Vhost { vhost: "v".into(), is_traced };
        assert_eq!(traces.change(firehose(true), 11_000), Ok(true));
        assert_eq!(traces.limited().len(), 0, "those that are over are removed");
        assert_eq!(claim(&traces, "v", 11_000), Some(Vec::new()));
        assert_eq!(traces.change(firehose(false), 11_000), Ok(true));
        assert!(traces.is_off());
    }

    #[test]
    fn traces_are_few_and_have_few_messages() {
        let mut traces = Traces::default();
        let queue = || Subject::Queue("q".into());
        for n in 0..TRACES_MAX {
            assert_eq!(start(&mut traces, &n.to_string(), queue(), 2), Ok(true));
        }
        assert_eq!(start(&mut traces, "more", queue(), 2), Err(TooManyTraces));
        assert_eq!(
            start(&mut traces, "0", queue(), 1),
            Ok(true),
            "it takes the place of the one of its name"
        );
        let copies: usize = (0..4).filter_map(|_| claim(&traces, "/", 1_000)).map(|names| names.len()).sum();
        assert_eq!(copies, 2 * TRACES_MAX - 1);
        assert!(traces.limited().iter().all(|trace| trace.is_over(1_000)));
        assert_eq!(start(&mut traces, "more", queue(), 2), Ok(true));
        let end = |name: &str| TraceChange::End { vhost: "/".into(), name: name.into() };
        assert_eq!(
            (traces.change(end("more"), 1_000), traces.change(end("more"), 1_000)),
            (Ok(true), Ok(false))
        );
    }
}
