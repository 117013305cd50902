//! Notices: the messages that the broker itself publishes (docs/decisions/0042). They tell clients what happens in the broker.
//!
//! ```text
//!   gates, the catalog, the admin API ──Notice──> Outbox ──Shard::publish_notices──> route ──> queues
//!                                               ^────────────── receipts ──────────────────┘
//! ```
//!
//! Nobody waits for a notice. A shard keeps a bounded number of them, counted until their queues have taken them. What does not
//! fit is dropped and counted.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use amqp091::{Properties, TableWriter, Value};
use bytes::{Bytes, BytesMut};
use catalog::access::Protocol;
use catalog::names::cut;
use catalog::{Arguments, EVENT_EXCHANGE, LOG_EXCHANGE, TRACE_EXCHANGE};
use message::{Basic, Message, Route, put_amqp091_value};

/// The maximum number of notices of a shard whose queues have not taken them yet. It is more than the events of a burst, for
/// example of a thousand clients that connect at once, and so few that a slow disk costs little memory.
pub const NOTICES_MAX: usize = 4096;

/// The maximum size of these notices together, in bytes. Names, arguments and bodies may be large.
pub const NOTICE_BYTES_MAX: usize = 8 << 20;

/// The `tracing` target of log lines about notices. Such lines are no notices, or each of them could cause the next.
pub const NOTICES: &str = "notices";

/// The delivery mode of a durable message.
const PERSISTENT: u8 = 2;

/// One message of the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub vhost: Arc<str>,
    exchange: &'static str,
    pub key: Arc<str>,
    /// The encoded property list, then the body.
    whole: Bytes,
    list_len: usize,
    /// True if the notice is published while an alarm stops publishers. Only rare ones may be.
    pub passes_alarms: bool,
}

impl Notice {
    /// Makes an event. Its body is empty, and `put` adds its headers.
    pub fn event(vhost: &Arc<str>, key: &str, now_ms: u64, put: impl FnOnce(&mut Headers<'_>)) -> Self {
        let properties = Properties {
            delivery_mode: Some(PERSISTENT),
            timestamp: Some(now_ms / 1000),
            ..Properties::default()
        };
        Self::new(vhost, EVENT_EXCHANGE, key, &properties, &[], |headers| {
            headers.number("timestamp_in_ms", now_ms);
            put(headers);
        })
    }

    /// Makes a line of the log. Its routing key is the level. It need not survive a restart.
    pub fn logged(vhost: &Arc<str>, level: &str, node: &str, now_ms: u64, line: &str) -> Self {
        let properties = Properties {
            content_type: Some(b"text/plain"),
            timestamp: Some(now_ms / 1000),
            ..Properties::default()
        };
        Self::new(vhost, LOG_EXCHANGE, level, &properties, line.as_bytes(), |headers| {
            headers.text("node", node);
        })
    }

    /// Makes the copy of a traced message with this body. It need not survive a restart. `put` adds its headers.
    pub fn traced(vhost: &Arc<str>, key: &str, body: &[u8], put: impl FnOnce(&mut Headers<'_>)) -> Self {
        Self::new(vhost, TRACE_EXCHANGE, key, &Properties::default(), body, put)
    }

    fn new(
        vhost: &Arc<str>,
        exchange: &'static str,
        key: &str,
        properties: &Properties<'_>,
        body: &[u8],
        put: impl FnOnce(&mut Headers<'_>),
    ) -> Self {
        let mut whole = BytesMut::new();
        properties.put_with_headers(&mut whole, |out| {
            put(&mut Headers(TableWriter::new(out)));
            Some(())
        });
        let list_len = whole.len();
        whole.extend_from_slice(body);
        let (vhost, key, whole) = (vhost.clone(), key.into(), whole.freeze());
        Self { vhost, exchange, key, whole, list_len, passes_alarms: false }
    }

    /// Returns the encoded property list.
    pub fn property_list(&self) -> &[u8] {
        &self.whole[..self.list_len]
    }

    /// Returns the size that counts for [`NOTICE_BYTES_MAX`].
    pub fn bytes(&self) -> usize {
        self.whole.len() + self.key.len()
    }

    /// Returns the notice as a message of AMQP 0.9.1. Returns `None` if a client's name or argument makes headers that
    /// AMQP 0.9.1 does not allow.
    pub fn to_message(&self) -> Option<Message> {
        let basic = Basic::owned(&self.whole, self.list_len).ok()?;
        let route = Route::simple(self.exchange, &self.key);
        Some(Message::new(basic.parts(self.whole.clone()), Arc::new(route)))
    }
}

/// A login that was accepted or refused.
#[derive(Clone, Copy, Debug)]
pub struct Authentication<'a> {
    /// The user. For a login that is refused, the name that the client sent.
    pub user: &'a str,
    /// The name of the connection. Over HTTP, there is none.
    pub connection: Option<&'a str>,
    /// The address of the client.
    pub peer: &'a str,
    pub protocol: Protocol,
    /// The SASL mechanism. Over HTTP, there is none.
    pub mechanism: Option<&'a str>,
    /// Why the login is refused. `None` if it is accepted.
    pub refused: Option<&'a str>,
}

impl Authentication<'_> {
    /// Returns the event `user.authentication.success` or `user.authentication.failure`.
    pub fn event(self, vhost: &Arc<str>, now_ms: u64) -> Notice {
        let key = match self.refused {
            None => "user.authentication.success",
            Some(_) => "user.authentication.failure",
        };
        Notice::event(vhost, key, now_ms, |headers| {
            headers.text("name", cut(self.user));
            headers.text_of("connection_name", self.connection);
            headers.text("connection_type", if self.protocol == Protocol::Http { "http" } else { "network" });
            put_peer(headers, self.peer);
            headers.text("protocol", protocol_name(self.protocol));
            headers.text_of("auth_mechanism", self.mechanism.map(cut));
            headers.text_of("error", self.refused.map(cut));
        })
    }
}

/// Returns the event of an alarm of this node: `memory`, `disk` or `certificate`. It is published also while an alarm stops
/// publishers.
pub fn alarm(vhost: &Arc<str>, source: &str, node: &str, is_set: bool, now_ms: u64) -> Notice {
    let event = Notice::event(vhost, if is_set { "alarm.set" } else { "alarm.cleared" }, now_ms, |headers| {
        headers.text("source", source);
        headers.text("node", node);
    });
    Notice { passes_alarms: true, ..event }
}

/// Returns the name of a protocol in events.
pub(crate) fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Amqp10 => "AMQP 1-0",
        Protocol::Amqp091 => "AMQP 0-9-1",
        Protocol::Http => "HTTP",
    }
}

/// Adds the address of a client. That of a Unix domain socket has no port.
pub(crate) fn put_peer(headers: &mut Headers<'_>, peer: &str) {
    match peer.parse::<SocketAddr>() {
        Ok(peer) => {
            headers.text("peer_host", &peer.ip().to_string());
            headers.number("peer_port", peer.port().into());
        }
        Err(_) => headers.text("peer_host", peer),
    }
}

/// The headers of a notice.
#[derive(Debug)]
pub struct Headers<'o>(TableWriter<'o>);

impl Headers<'_> {
    pub fn text(&mut self, name: &str, text: &str) {
        self.0.put(name, &Value::LongString(text.as_bytes()));
    }

    /// Adds a text, if there is one.
    pub fn text_of(&mut self, name: &str, text: Option<&str>) {
        text.into_iter().for_each(|text| self.text(name, text));
    }

    pub fn flag(&mut self, name: &str, flag: bool) {
        self.0.put(name, &Value::Bool(flag));
    }

    pub fn number(&mut self, name: &str, number: u64) {
        self.integer(name, i64::try_from(number).unwrap_or(i64::MAX));
    }

    pub fn integer(&mut self, name: &str, number: i64) {
        self.0.put(name, &Value::I64(number));
    }

    pub fn texts<'a>(&mut self, name: &str, texts: impl IntoIterator<Item = &'a str>) {
        let mut array = self.0.array(name);
        texts.into_iter().for_each(|text| array.put(&Value::LongString(text.as_bytes())));
    }

    /// Adds arguments as a table.
    pub fn arguments(&mut self, name: &str, arguments: &Arguments) {
        let mut table = self.0.table(name);
        arguments.iter().for_each(|(name, value)| put_amqp091_value(&mut table, name, value));
    }

    /// Adds a map as a table. Keys that are no text are left out.
    pub fn map(&mut self, name: &str, map: &amqp10::Map) {
        let mut table = self.0.table(name);
        let pairs = map.iter().filter_map(|(key, value)| Some((key.as_str()?, value)));
        pairs.for_each(|(key, value)| put_amqp091_value(&mut table, key, value));
    }

    /// Begins a table.
    pub fn table(&mut self, name: &str) -> TableWriter<'_> {
        self.0.table(name)
    }

    /// Adds a table whose entries are already encoded.
    pub fn entries(&mut self, name: &str, entries: &[u8]) {
        self.0.table(name).put_entries(entries);
    }
}

/// The notices of a shard that wait to be published, or whose queues have not taken them yet.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: VecDeque<Notice>,
    /// True while a search finds the route of the first one. The others wait behind it.
    awaits_route: bool,
    /// By number: the queues that have not answered yet, and the size of the notice.
    published: BTreeMap<u64, (u32, usize)>,
    /// The size of all notices here, in bytes.
    bytes: usize,
    /// The number of the notice that was published last.
    last: u64,
    /// The notices that were dropped since the last call of [`Outbox::take_dropped`].
    dropped: u64,
}

impl Outbox {
    /// Adds a notice, or drops it if there are too many.
    pub fn push(&mut self, notice: Notice) {
        let (count, bytes) = (self.waiting.len() + self.published.len(), self.bytes + notice.bytes());
        if count >= NOTICES_MAX || bytes > NOTICE_BYTES_MAX {
            self.dropped += 1;
            return;
        }
        self.bytes = bytes;
        self.waiting.push_back(notice);
    }

    /// Returns true if no notice can be published now, and none was dropped.
    #[inline]
    pub fn is_idle(&self) -> bool {
        (self.waiting.is_empty() || self.awaits_route) && self.dropped == 0
    }

    /// Takes a notice that is to be published now. The caller calls [`Outbox::note_published`], [`Outbox::note_unroutable`],
    /// [`Outbox::note_dropped`] or [`Outbox::put_back`].
    pub fn take(&mut self) -> Option<Notice> {
        if self.awaits_route { None } else { self.waiting.pop_front() }
    }

    /// Puts a notice back for whose route a search has begun. Until [`Outbox::handle_route`] no notice is taken.
    pub fn put_back(&mut self, notice: Notice) {
        self.waiting.push_front(notice);
        self.awaits_route = true;
    }

    /// Notes that the route of the first notice is found.
    pub fn handle_route(&mut self) {
        self.awaits_route = false;
    }

    /// Notes that a notice was published to `queues` queues. Each of them will answer. Returns the number of the notice.
    pub fn note_published(&mut self, notice: &Notice, queues: u32) -> u64 {
        self.last += 1;
        self.published.insert(self.last, (queues, notice.bytes()));
        self.last
    }

    /// Notes that no queue wants the notice.
    pub fn note_unroutable(&mut self, notice: &Notice) {
        self.bytes -= notice.bytes();
    }

    /// Notes that a notice is not published, although queues may want it.
    pub fn note_dropped(&mut self, notice: &Notice) {
        self.bytes -= notice.bytes();
        self.dropped += 1;
    }

    /// Handles the answer of one queue to the notices `first..=last`.
    pub fn handle_receipts(&mut self, first: u64, last: u64) {
        for number in first..=last {
            let Some((queues, bytes)) = self.published.get_mut(&number) else { continue };
            *queues -= 1;
            if *queues == 0 {
                self.bytes -= *bytes;
                self.published.remove(&number);
            }
        }
    }

    /// Returns how many notices were dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(text: &str) -> Notice {
        Notice::event(&"/".into(), "queue.created", 1_999, |headers| headers.text("name", text))
    }

    #[test]
    fn an_event_is_a_durable_message_with_headers() {
        let message = notice("orders").to_message().unwrap();
        assert_eq!((&**message.route().exchange(), message.route().key()), (EVENT_EXCHANGE, "queue.created"));
        let properties = Properties::parse(message.property_list()).unwrap();
        assert_eq!((properties.delivery_mode, properties.timestamp), (Some(2), Some(1)));
        let headers = properties.headers.unwrap();
        assert_eq!(headers.get("timestamp_in_ms"), Some(Value::I64(1_999)));
        assert_eq!(headers.get("name").and_then(|name| name.as_str()), Some("orders"));
    }

    #[test]
    fn notices_that_do_not_fit_are_dropped_and_counted_until_queues_have_taken_others() {
        let mut outbox = Outbox::default();
        (0..NOTICES_MAX + 2).for_each(|_| outbox.push(notice("q")));
        assert_eq!(outbox.take_dropped(), 2);
        let taken: Vec<Notice> = std::iter::from_fn(|| outbox.take()).collect();
        assert_eq!(taken.len(), NOTICES_MAX);
        let numbers: Vec<u64> = taken.iter().map(|notice| outbox.note_published(notice, 2)).collect();
        outbox.push(notice("q"));
        assert_eq!((outbox.take(), outbox.take_dropped()), (None, 1));
        let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
        outbox.handle_receipts(first, last);
        outbox.push(notice("q"));
        assert_eq!(outbox.take_dropped(), 1, "one of their two queues has not answered");
        outbox.handle_receipts(first, last);
        outbox.handle_receipts(first, last);
        assert_eq!(outbox.bytes, 0);
        outbox.push(notice("q"));
        let left = outbox.take().unwrap();
        outbox.note_unroutable(&left);
        assert_eq!((outbox.bytes, outbox.is_idle()), (0, true));
    }

    #[test]
    fn large_notices_are_bounded_by_their_bytes() {
        let (large, mut outbox) = (notice(&"n".repeat(NOTICE_BYTES_MAX / 4)), Outbox::default());
        (0..5).for_each(|_| outbox.push(large.clone()));
        assert_eq!((std::iter::from_fn(|| outbox.take()).count(), outbox.take_dropped()), (3, 2));
    }

    #[test]
    fn notices_wait_behind_one_whose_route_is_searched() {
        let mut outbox = Outbox::default();
        ["first", "second"].iter().for_each(|name| outbox.push(notice(name)));
        let first = outbox.take().unwrap();
        outbox.put_back(first.clone());
        assert_eq!((outbox.take(), outbox.is_idle()), (None, true));
        outbox.handle_route();
        assert_eq!((outbox.is_idle(), outbox.take()), (false, Some(first)));
        assert_eq!(outbox.take(), Some(notice("second")));
    }
}
