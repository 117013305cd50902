//! A client without a socket. What it does is the same with each protocol; [`Peer`] says it to the broker.

use std::collections::BTreeMap;
use std::io::IoSlice;

use amqp10::{Output, Value};
use wal_testing::Random;

use super::peer10::Peer10;
use super::peer091::Peer091;
use super::{ADDRESS, Story};

pub(super) struct Client {
    peer: Box<dyn Peer>,
    input: Vec<u8>,
    what: What,
    address: String,
    attached: bool,
    /// True if the broker has reported that the client's queue or stream is damaged.
    pub over: bool,
    /// The numbers of the messages that this consumer has received, in order.
    pub got: Vec<u64>,
    /// The deliveries that the consumer has not settled yet.
    unsettled: Vec<(u64, u64)>,
    /// The number of each message in flight and the bytes of its record.
    in_flight: BTreeMap<u64, u64>,
    /// True if the consumer requeues some messages, and may disconnect at any time.
    pub fickle: bool,
}

/// What a client is for.
#[derive(Clone)]
pub(super) enum What {
    Publisher(u32),
    Consumer {
        credit: u32,
    },
    /// A consumer of a stream.
    Reader {
        start: Value,
        /// The next expected offset, if it is known.
        next: Option<u64>,
    },
}

/// One end of a connection, in the language of a protocol.
pub(super) trait Peer {
    /// Returns the bytes for the broker.
    fn output(&mut self) -> &mut Output;

    /// Handles what the broker has sent, and appends what it means. Returns the number of bytes that were handled: all
    /// whole frames.
    fn handle_input(&mut self, input: &[u8], now_ms: u64, seen: &mut Vec<Seen>) -> usize;

    /// Returns true if another message may be sent. `waiting` is the number of those without a receipt.
    fn may_send(&self, waiting: usize) -> bool;

    /// Sends a durable message whose body has this size and ends with its number. Returns the bytes of the stored message.
    fn send(&mut self, number: u64, size: usize) -> u64;

    /// Settles the oldest deliveries, each with its outcome. The first part of a pair is the delivery.
    fn settle(&mut self, outcomes: &[(u64, Outcome)]);

    /// Allows a consumer more messages, if it has used half of its credit.
    fn replenish(&mut self, credit: u32);

    /// Asks for more of a stream, in any way that the protocol has.
    fn ask(&mut self, random: &mut Random);
}

/// What a consumer says about a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Accepted,
    /// The message is to be delivered again.
    Released,
    Rejected,
}

/// What the broker has said.
pub(super) enum Seen {
    Attached,
    Delivery {
        id: u64,
        number: u64,
        offset: Option<u64>,
    },
    /// Receipts for messages, and whether they are accepted.
    Outcomes(Vec<u64>, bool),
    Trouble(String),
}

impl Client {
    pub(super) fn publisher(number: u32, address: &str, now_ms: u64) -> Self {
        Self::new(What::Publisher(number), address, now_ms)
    }

    pub(super) fn consumer(credit: u32, address: &str, now_ms: u64) -> Self {
        Self::new(What::Consumer { credit }, address, now_ms)
    }

    /// Makes a consumer of a stream that begins at `start`.
    pub(super) fn reader(address: &str, start: Value, now_ms: u64) -> Self {
        let next = start.as_u64().or_else(|| (start.as_str() == Some("first")).then_some(0));
        Self::new(What::Reader { start, next }, address, now_ms)
    }

    fn new(what: What, address: &str, now_ms: u64) -> Self {
        Self {
            peer: Box::new(Peer10::new(what.clone(), address, now_ms)),
            input: Vec::new(),
            what,
            address: address.to_owned(),
            attached: false,
            over: false,
            got: Vec::new(),
            unsettled: Vec::new(),
            in_flight: BTreeMap::new(),
            fickle: true,
        }
    }

    /// Returns a new client that speaks AMQP 0.9.1 by chance, and otherwise AMQP 1.0.
    pub(super) fn in_any_protocol(mut self, random: &mut Random, now_ms: u64) -> Self {
        if random.one_in(2) {
            self.peer = Box::new(Peer091::new(self.what.clone(), &self.address, now_ms));
        }
        self
    }

    /// Returns the number of messages sent without a receipt yet.
    pub(super) fn waits_for(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the bytes that the log may have to write for messages without a receipt.
    pub(super) fn in_flight_bytes(&self) -> u64 {
        self.in_flight.values().sum()
    }

    pub(super) fn take_output(&mut self, into: &mut Vec<u8>) {
        take(self.peer.output(), into);
    }

    pub(super) fn handle_input(&mut self, bytes: &[u8], story: &mut Story, now_ms: u64) {
        self.input.extend_from_slice(bytes);
        let mut seen = Vec::new();
        let used = self.peer.handle_input(&self.input, now_ms, &mut seen);
        self.input.drain(..used);
        seen.into_iter().for_each(|seen| self.see(seen, story));
    }

    fn see(&mut self, seen: Seen, story: &mut Story) {
        match seen {
            // The connection is given up.
            _ if self.over => {}
            Seen::Attached => self.attached = true,
            Seen::Delivery { id, number, offset } => {
                self.got.push(number);
                self.unsettled.push((id, number));
                assert!(story.sent.contains_key(&number), "message {number} was never sent");
                if let What::Reader { next, .. } = &mut self.what {
                    let offset = offset.expect("a message of a stream has its offset");
                    story.show(offset, number, *next);
                    *next = Some(offset + 1);
                }
            }
            Seen::Outcomes(numbers, accepted) => {
                for number in numbers {
                    let bytes = self.in_flight.remove(&number).expect("one receipt for each message");
                    story.in_flight -= bytes;
                    let known = if accepted { &mut story.confirmed } else { &mut story.rejected };
                    known.insert(number);
                }
            }
            Seen::Trouble(_) if story.is_damaged || story.is_suspect => {
                (self.over, story.is_damaged) = (true, true);
                self.in_flight.clear();
            }
            Seen::Trouble(what) => panic!("the broker reports an error: {what}"),
        }
    }

    /// Publishes, settles or grants credit.
    pub(super) fn act(&mut self, story: &mut Story, random: &mut Random) {
        if !self.attached || self.over {
            return;
        }
        match &self.what {
            What::Publisher(publisher) => {
                for _ in 0..random.below(40) {
                    if !self.peer.may_send(self.in_flight.len()) {
                        return;
                    }
                    let Some(number) = story.send(*publisher) else { return };
                    let size = if random.one_in(20) { random.below(20_000) as usize } else { 12 };
                    let bytes = self.peer.send(number, size) + RECORD_BYTES;
                    self.in_flight.insert(number, bytes);
                    story.in_flight += bytes;
                }
            }
            What::Consumer { credit } => {
                let n = random.below(self.unsettled.len() as u64 + 1) as usize;
                // Only messages of the main queue are rejected. Rejected messages of the dead-letter queue
                // would go to that queue again.
                let unwanted = self.fickle && story.has_dead_letters && self.address == ADDRESS;
                let outcomes = self.unsettled.drain(..n).map(|(id, number)| {
                    let outcome = match () {
                        () if unwanted && random.one_in(10) => Outcome::Rejected,
                        () if self.fickle && random.one_in(30) => Outcome::Released,
                        () => Outcome::Accepted,
                    };
                    if outcome == Outcome::Accepted {
                        story.received.insert(number);
                    }
                    (id, outcome)
                });
                self.peer.settle(&outcomes.collect::<Vec<_>>());
                self.peer.replenish(*credit);
            }
            What::Reader { .. } => {
                let n = random.below(self.unsettled.len() as u64 + 1) as usize;
                // The outcome of a stream's delivery does not matter, because the message stays in the stream.
                let outcomes = self.unsettled.drain(..n).map(|(id, _)| {
                    (id, if random.one_in(3) { Outcome::Released } else { Outcome::Accepted })
                });
                self.peer.settle(&outcomes.collect::<Vec<_>>());
                if random.one_in(3) {
                    self.peer.ask(random);
                }
            }
        }
    }
}

/// The most bytes that a record of the log has besides its message.
const RECORD_BYTES: u64 = 64;

/// Returns the number at the end of a message.
pub(super) fn number_in(message: &[u8]) -> u64 {
    message.last_chunk().copied().map(u64::from_be_bytes).expect("a message has a number")
}

/// Returns a body that ends with the number of its message.
pub(super) fn body(number: u64, size: usize) -> Vec<u8> {
    let mut body = vec![b'x'; size.max(8) - 8];
    body.extend_from_slice(&number.to_be_bytes());
    body
}

/// Takes all bytes of an output.
pub(crate) fn take(output: &mut Output, into: &mut Vec<u8>) {
    while !output.is_empty() {
        let mut slices = [IoSlice::new(&[]); 16];
        let n = output.slices(&mut slices);
        let mut taken = 0;
        for slice in &slices[..n] {
            into.extend_from_slice(slice);
            taken += slice.len();
        }
        output.advance(taken);
    }
}
