//! A client built from our own endpoint, without a socket.

use std::collections::BTreeMap;
use std::io::IoSlice;

use amqp10::connection::Config;
use amqp10::sasl::Secret;
use amqp10::{
    Attach, Chunk, Connection, DeliveryState, Described, Event, Map, Open, Outgoing, Output, Role, SaslInit,
    SenderSettleMode, SessionConfig, Source, Symbol, Tag, Target, TargetArchetype, Value, sections,
};
use bytes::Bytes;
use wal::testing::Random;

use super::{ADDRESS, Story};

/// The most bytes that a record of the log has besides its message.
const RECORD_BYTES: u64 = 64;

pub struct Client {
    conn: Connection,
    input: Vec<u8>,
    what: What,
    address: String,
    attached: bool,
    /// True if the broker has reported that the client's queue or stream is damaged.
    pub over: bool,
    /// The numbers of the messages that this consumer has received, in order.
    pub got: Vec<u64>,
    /// The deliveries that the consumer has not settled yet.
    unsettled: Vec<(u32, u64)>,
    /// The number of each message in flight and the bytes of its record, by the endpoint's cookie.
    in_flight: BTreeMap<u64, (u64, u64)>,
    /// True if the consumer requeues some messages, and may disconnect at any time.
    pub fickle: bool,
}

enum What {
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

impl Client {
    pub fn publisher(number: u32, address: &str, now_ms: u64) -> Self {
        Self::new(What::Publisher(number), address, now_ms)
    }

    pub fn consumer(credit: u32, address: &str, now_ms: u64) -> Self {
        Self::new(What::Consumer { credit }, address, now_ms)
    }

    /// Makes a consumer of a stream that begins at `start`.
    pub fn reader(address: &str, start: Value, now_ms: u64) -> Self {
        let next = start.as_u64().or_else(|| (start.as_str() == Some("first")).then_some(0));
        Self::new(What::Reader { start, next }, address, now_ms)
    }

    fn new(what: What, address: &str, now_ms: u64) -> Self {
        let session = SessionConfig { incoming_window: 50, handle_max: 10 };
        let config = Config {
            max_frame_size: 4096,
            initial_max_frame_size: amqp10::frame::INITIAL_MAX_FRAME_SIZE,
            channel_max: 10,
            idle_time_out_ms: 0,
            incomplete_bytes_max: usize::MAX,
            session,
        };
        Self {
            conn: Connection::client(config, now_ms),
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

    /// Returns the number of messages sent without a receipt yet.
    pub fn waits_for(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the bytes that the log may have to write for messages without a receipt.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight.values().map(|(_, bytes)| bytes).sum()
    }

    pub fn take_output(&mut self, into: &mut Vec<u8>) {
        take(self.conn.output(), into);
    }

    pub fn handle_input(&mut self, bytes: &[u8], story: &mut Story, now_ms: u64) {
        self.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.input);
        let mut used = 0;
        while let Some(len) = self.conn.frame_len(&input[used..]).expect("the broker's frames are valid") {
            if input.len() - used < len {
                break;
            }
            let frame = Bytes::copy_from_slice(&input[used..used + len]);
            used += len;
            if let Some(event) = self.conn.handle_frame(Chunk::Owned(frame), now_ms).expect("no violation") {
                let event = Seen::of(event, &mut self.conn);
                self.see(event, story);
            }
        }
        input.drain(..used);
        self.input = input;
    }

    fn see(&mut self, seen: Seen, story: &mut Story) {
        match seen {
            Seen::Mechanisms => {
                let mut init = SaslInit::new(Symbol::from_static("ANONYMOUS"));
                init.initial_response = Some(Secret::new(""));
                self.conn.sasl_init(init);
            }
            Seen::Header => self.conn.open(Open { container_id: "sim".into(), ..Open::default() }),
            Seen::Open => {
                self.conn.begin(None, true);
            }
            Seen::Begin => {
                let (role, filter) = match &self.what {
                    What::Publisher(_) => (Role::Sender, None),
                    What::Consumer { .. } => (Role::Receiver, None),
                    What::Reader { start, .. } => (Role::Receiver, Some(begin_at(start))),
                };
                let address = Some(self.address.clone());
                let attach = Attach {
                    snd_settle_mode: SenderSettleMode::Unsettled,
                    source: Some(Source { address: address.clone(), filter, ..Source::default() }),
                    target: Some(TargetArchetype::Target(Target { address, ..Target::default() })),
                    initial_delivery_count: (role == Role::Sender).then_some(u32::MAX - 3),
                    ..Attach::new("link".to_owned(), 0, role)
                };
                self.conn.attach(0, None, attach);
            }
            Seen::Attach => {
                self.attached = true;
                if let What::Consumer { credit } = self.what {
                    self.conn.grant(0, 0, credit, false, false);
                }
            }
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
                for cookie in numbers {
                    let (number, bytes) =
                        self.in_flight.remove(&cookie).expect("one receipt for each message");
                    story.in_flight -= bytes;
                    let known = if accepted { &mut story.confirmed } else { &mut story.rejected };
                    known.insert(number);
                }
            }
            Seen::Nothing => {}
            Seen::Trouble(_) if story.is_damaged => {
                self.over = true;
                self.in_flight.clear();
            }
            Seen::Trouble(what) => panic!("the broker reports an error: {what}"),
        }
    }

    /// Publishes, settles or grants credit.
    pub fn act(&mut self, story: &mut Story, random: &mut Random, now_ms: u64) {
        let _ = now_ms;
        if !self.attached || self.over {
            return;
        }
        match &self.what {
            What::Publisher(publisher) => {
                for _ in 0..random.below(40) {
                    let credit = self
                        .conn
                        .session(0)
                        .and_then(|s| s.link(0))
                        .map_or(0, |l| l.sender_credit().credit());
                    if credit == 0 {
                        return;
                    }
                    let Some(number) = story.send(*publisher) else { return };
                    let size = if random.one_in(20) { random.below(20_000) as usize } else { 12 };
                    let message = message(number, size);
                    let bytes = message.len() as u64 + RECORD_BYTES;
                    let sent = Outgoing::whole(Tag::from_number(number), false, &message, number);
                    assert!(self.conn.send(0, 0, &sent));
                    self.in_flight.insert(number, (number, bytes));
                    story.in_flight += bytes;
                }
            }
            What::Consumer { credit } => {
                let (n, credit) = (random.below(self.unsettled.len() as u64 + 1) as usize, *credit);
                // Only messages of the main queue are rejected. Rejected messages of the dead-letter queue
                // would go to that queue again.
                let unwanted = story.has_dead_letters && self.address == ADDRESS;
                for (id, number) in self.unsettled.drain(..n).collect::<Vec<_>>() {
                    if self.fickle && unwanted && random.one_in(10) {
                        let rejected = DeliveryState::Rejected(None);
                        self.conn.disposition(0, Role::Receiver, (id, id), true, &rejected);
                    } else if self.fickle && random.one_in(30) {
                        self.conn.disposition(0, Role::Receiver, (id, id), true, &DeliveryState::Released);
                    } else {
                        story.received.insert(number);
                        self.conn.disposition(0, Role::Receiver, (id, id), true, &DeliveryState::Accepted);
                    }
                }
                let left =
                    self.conn.session(0).and_then(|s| s.link(0)).map_or(0, |l| l.receiver_credit().credit());
                if left <= credit / 2 {
                    self.conn.grant(0, 0, credit, false, false);
                }
            }
            What::Reader { .. } => {
                let n = random.below(self.unsettled.len() as u64 + 1) as usize;
                for (id, _) in self.unsettled.drain(..n) {
                    // The outcome of a stream's delivery does not matter, because the message stays in the
                    // stream.
                    let state =
                        if random.one_in(3) { DeliveryState::Released } else { DeliveryState::Accepted };
                    self.conn.disposition(0, Role::Receiver, (id, id), true, &state);
                }
                if random.one_in(3) {
                    self.conn.grant(0, 0, random.below(300) as u32, random.one_in(10), random.one_in(10));
                }
            }
        }
    }
}

/// Returns the filter for the place where reading begins.
fn begin_at(start: &Value) -> Map {
    let symbol = |name| Value::Symbol(Symbol::from_static(name));
    let descriptor = symbol("rabbitmq:stream-offset-spec");
    let described = Described { descriptor, value: start.clone() };
    Map(vec![(symbol("rabbitmq:stream-offset-spec"), Value::Described(Box::new(described)))])
}

/// What an event means for the test.
enum Seen {
    Mechanisms,
    Header,
    Open,
    Begin,
    Attach,
    Delivery { id: u32, number: u64, offset: Option<u64> },
    Outcomes(Vec<u64>, bool),
    Trouble(String),
    Nothing,
}

impl Seen {
    fn of(event: Event<'_>, conn: &mut Connection) -> Self {
        match event {
            Event::SaslMechanisms(_) => Self::Mechanisms,
            Event::HeaderExchanged => Self::Header,
            Event::Open(_) => Self::Open,
            Event::Begin { .. } => Self::Begin,
            Event::Attach { attach, .. } if attach.source.is_some() && attach.target.is_some() => {
                Self::Attach
            }
            Event::Transfer { delivery, .. } => {
                let message = &delivery.message[..];
                let found = amqp10::sections::scan(message).expect("a delivery is a message");
                let offset = found.message_annotations.clone().and_then(|annotations| {
                    let section = &message[annotations.start as usize..annotations.end as usize];
                    let mut pairs = sections::map_pairs(section).expect("annotations are a map").flatten();
                    let (_, value) = pairs.find(|(key, _)| *key == "x-stream-offset")?;
                    amqp10::Reader::new(value).read_value().expect("an offset is a value").as_u64()
                });
                let number = number_in(&message[found.body.start as usize..]);
                Self::Delivery { id: delivery.id, number, offset }
            }
            Event::Disposition { role: Role::Receiver, state, first, last, .. } => {
                let mut runs = Vec::new();
                conn.resolve(0, first, last, true, &mut runs);
                let numbers = runs.iter().flat_map(|r| r.first_cookie..=r.last_cookie).collect();
                Self::Outcomes(numbers, state == Some(DeliveryState::Accepted))
            }
            Event::Close(error) => Self::Trouble(format!("{error:?}")),
            Event::End { error, .. } => Self::Trouble(format!("{error:?}")),
            Event::Detach { detach, .. } => Self::Trouble(format!("{detach:?}")),
            _ => Self::Nothing,
        }
    }
}

/// Returns the number at the end of a message.
pub fn number_in(message: &[u8]) -> u64 {
    message.last_chunk().copied().map(u64::from_be_bytes).expect("a message has a number")
}

/// Returns a message whose body ends with its number.
fn message(number: u64, size: usize) -> Bytes {
    let mut body = vec![b'x'; size.max(8) - 8];
    body.extend_from_slice(&number.to_be_bytes());
    let mut message = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x75\xb0".to_vec();
    message.extend_from_slice(&(body.len() as u32).to_be_bytes());
    message.extend_from_slice(&body);
    message.into()
}

/// Takes all bytes of an output.
pub fn take(output: &mut Output, into: &mut Vec<u8>) {
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
