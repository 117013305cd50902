//! What a client wants and somebody else must allow, a message whose route takes more than a turn, or what decides on which shard
//! the connection stays. It is held until then, and handled again.

use amqp091::{BasicPublish, Content, Method, ReplyCode};
use bytes::{BufMut, Bytes, BytesMut};
use catalog::ids::ShardId;
use queue::Ticket;

use super::{Gate, Phase, Refused, Waiting, refusal, take};
use crate::cx::Cx;
use crate::intake::Awaited;
use crate::searches::{HeldParts, Waiter};

/// A message of the client, with all its parts.
#[derive(Debug)]
pub(super) struct Arriving<'a> {
    pub publish: BasicPublish<'a>,
    /// The encoded property list.
    pub properties: &'a [u8],
    pub payload: &'a [u8],
    /// Properties and payload, if they are in one buffer that may be retained.
    pub assembled: Option<Bytes>,
}

impl<'a> Arriving<'a> {
    /// Returns `None` if the method is not `basic.publish`.
    pub(super) fn new(content: &'a Content<'_>) -> Option<Self> {
        let (properties, payload) = (&content.properties[..], &content.payload[..]);
        Some(Self { publish: content.publish()?, properties, payload, assembled: content.assembled() })
    }
}

/// What waits.
#[derive(Debug)]
pub(super) enum Deferred {
    Open(Box<str>),
    Method {
        channel: u16,
        encoded: Bytes,
    },
    Publish(HeldMessage),
    /// The commit on this channel, one of whose messages awaits something.
    Commit(u16),
}

/// A message in a buffer of its own: the encoded method `basic.publish`, the property list, the payload.
#[derive(Debug)]
pub(super) struct HeldMessage {
    pub channel: u16,
    method_len: usize,
    properties_len: usize,
    buffer: Bytes,
}

impl HeldMessage {
    /// Copies a message: a small one would keep the whole buffer that it was read into.
    pub(super) fn new(channel: u16, arriving: &Arriving<'_>) -> Self {
        let Arriving { publish, properties, payload, .. } = arriving;
        let mut buffer = BytesMut::with_capacity(64 + properties.len() + payload.len());
        publish.put(&mut buffer);
        let method_len = buffer.len();
        buffer.put_slice(properties);
        buffer.put_slice(payload);
        Self { channel, method_len, properties_len: properties.len(), buffer: buffer.freeze() }
    }

    /// Returns the message.
    ///
    /// # Errors
    /// The encoded method cannot be read, which would be a mistake in this program.
    pub(super) fn arriving(&self) -> Result<Arriving<'_>, Refused> {
        let assembled = self.buffer.slice(self.method_len..);
        let (method, rest) = self.buffer.split_at(self.method_len);
        let (properties, payload) = rest.split_at(self.properties_len);
        match decode(method)? {
            Method::BasicPublish(publish) => {
                Ok(Arriving { publish, properties, payload, assembled: Some(assembled) })
            }
            _ => Err(refusal::unimplemented_method()),
        }
    }

    /// Returns the encoded property list.
    pub(super) fn property_list(&self) -> Bytes {
        self.buffer.slice(self.method_len..self.method_len + self.properties_len)
    }

    /// Returns the bytes that it keeps in memory.
    pub(super) fn len(&self) -> usize {
        self.buffer.len()
    }
}

impl Deferred {
    pub(super) fn method(channel: u16, method: &Method<'_>) -> Self {
        let mut encoded = BytesMut::new();
        method.put(&mut encoded);
        Self::Method { channel, encoded: encoded.freeze() }
    }

    /// Returns the bytes that it keeps in memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Publish(message) => message.len(),
            Self::Method { encoded, .. } => encoded.len(),
            // The messages of a commit are counted with their transaction. A name is short.
            Self::Open(_) | Self::Commit(_) => 0,
        }
    }
}

impl Gate {
    /// Holds what awaits something. No input is handled before, so that the order of what the client sends is kept.
    pub(super) fn hold(&mut self, held: Deferred, awaited: Awaited, cx: &mut Cx<'_>) {
        let is_open = matches!(held, Deferred::Open(_));
        let list = match &held {
            Deferred::Publish(message) => Some(message.property_list()),
            Deferred::Commit(channel) => self.next_property_list(*channel),
            Deferred::Open(_) | Deferred::Method { .. } => None,
        };
        let remote = self.peer.identity.as_ref().and_then(|who| who.remote.clone());
        let Ok(ticket) = self.wait(Waiting::Deferred(Box::new(held)), cx) else { return self.fail_busy(cx) };
        if is_open {
            self.phase = Phase::Login;
        }
        match awaited {
            Awaited::Catalog => cx.post.unsure.push((ticket, None)),
            Awaited::Answer(question) => {
                let Some(remote) = remote else { return self.fail_busy(cx) };
                cx.post.permissions.push((ticket, remote, question));
            }
            Awaited::Route(route) => {
                cx.searches.push(
                    Waiter::Connection(ticket),
                    route,
                    HeldParts::Amqp091(list.unwrap_or_default()),
                );
            }
        }
    }

    fn fail_busy(&mut self, cx: &mut Cx<'_>) {
        let text = "too many requests in flight on this shard";
        self.fail(refusal::connection(ReplyCode::ResourceError, text), cx);
    }

    /// Called when what a ticket waits for is there. Handles again what was held.
    pub fn handle_awaited(&mut self, ticket: Ticket, cx: &mut Cx<'_>) {
        cx.tickets.remove(ticket.0);
        let Some(Waiting::Deferred(held)) = take(&mut self.waiting, ticket) else { return };
        match (*held, self.phase) {
            (Deferred::Open(vhost), Phase::Login) => {
                self.phase = Phase::Handshake;
                self.handle_open(&vhost, cx);
            }
            (held, phase) if phase.is_open() => {
                self.resume(cx);
                self.handle_held(held, cx);
            }
            _ => {}
        }
        cx.searches.end_found();
    }

    /// Returns the shard to which the connection is to move. Until [`Gate::continue_held`] is called, here or there, it takes
    /// no frames.
    pub fn moves_to(&self) -> Option<ShardId> {
        self.follow.moves_to()
    }

    /// Continues with the method that was held until the connection is on its final shard.
    pub fn continue_held(&mut self, cx: &mut Cx<'_>) {
        if let Some(held) = self.follow.take_held()
            && self.phase.is_open()
        {
            self.handle_held(held, cx);
        }
    }

    /// Handles again what was held. Its channel may have ended meanwhile.
    pub(super) fn handle_held(&mut self, held: Deferred, cx: &mut Cx<'_>) {
        match held {
            Deferred::Open(_) => {}
            Deferred::Method { channel, encoded } => match decode(&encoded) {
                Ok(method) if self.conn.channel_is_open(channel) => self.handle_method(channel, &method, cx),
                Ok(_) => {}
                Err(refused) => self.refuse_method(channel, (0, 0), refused, cx),
            },
            Deferred::Publish(message) => self.handle_held_message(&message, cx),
            Deferred::Commit(channel) => self.continue_commit(channel, cx),
        }
    }

    fn handle_held_message(&mut self, message: &HeldMessage, cx: &mut Cx<'_>) {
        match message.arriving() {
            Ok(_) if !self.conn.channel_is_open(message.channel) => {}
            Ok(arriving) => {
                // Connections move only after a read. Here the next one may be far away.
                if self.follow.is_undecided() {
                    self.follow.stay();
                }
                self.publish_or_hold(message.channel, &arriving, cx);
            }
            Err(refused) => self.refuse_method(message.channel, (0, 0), refused, cx),
        }
    }

    /// Returns the bytes of what waits for answers, for the end of an alarm, and for commits.
    pub(super) fn held_bytes(&self) -> usize {
        let waiting = self.waiting.values().map(|of| match of {
            Waiting::Deferred(held) => held.bytes(),
            _ => 0,
        });
        let mut bytes = if self.phase == Phase::Asking { waiting.sum() } else { 0 };
        bytes += self.stopped.as_ref().map_or(0, |held| held.bytes());
        // This is asked with each read.
        if self.has_tx {
            let transactions = self.channels.iter().flatten().filter_map(|channel| channel.tx.as_ref());
            bytes += transactions.map(|tx| tx.bytes()).sum::<usize>();
        }
        bytes
    }
}

/// Reads a method that was encoded to be held.
fn decode(encoded: &[u8]) -> Result<Method<'_>, Refused> {
    let parsed = encoded.split_first_chunk::<4>().map(|([c0, c1, m0, m1], arguments)| {
        Method::parse(u16::from_be_bytes([*c0, *c1]), u16::from_be_bytes([*m0, *m1]), arguments)
    });
    match parsed {
        Some(Ok(method)) => Ok(method),
        _ => Err(Refused::new(ReplyCode::InternalError, "a method that was held cannot be read")),
    }
}
