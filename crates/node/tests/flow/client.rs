//! A strict client. It uses the codec and nothing else of the product. It keeps counts that never wrap and
//! compares every frame with the bare formulas of the standard [2.5.6, 2.6.7]. Any violation by the broker is
//! a panic.

use std::collections::{BTreeMap, VecDeque};

use amqp10::frame::{self, AMQP_HEADER, HEADER_SIZE, SASL_HEADER};
use amqp10::{
    Attach, Begin, DeliveryState, Described, Detach, Disposition, Encode, Flow, Map, Open, Performative,
    Role, SaslFrame, SaslInit, SenderSettleMode, Source, Symbol, Target, TargetArchetype, TransferHead,
    Value, put_frame, put_sasl_frame, put_transfer_frame,
};
use bytes::BytesMut;

use super::world::{Socket, World};

/// The queue of this name is a stream. A consumer reads all of it.
pub(super) const STREAM: &str = "stream";

/// What a client announces when it connects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hello {
    pub max_frame_size: u32,
    pub window: u32,
    /// The first transfer-id, delivery-id and delivery-count of the client.
    pub start: u32,
}

pub(super) struct Client {
    pub at: Socket,
    hello: Hello,
    input: Vec<u8>,
    /// The bytes of the broker's output that have been decoded.
    heard: u64,
    opened: bool,
    /// The frames that wait because the broker does not read.
    unsent: VecDeque<BytesMut>,
    pub links: BTreeMap<u32, Link>,
    /// Our handles, by the broker's handles.
    by_remote: BTreeMap<u32, u32>,
    /// The number of transfers, counted from the start without wrapping.
    frames_sent: u64,
    deliveries_sent: u64,
    /// The total number of transfers that the broker lets us send.
    may_send: u64,
    pub frames_got: u64,
    pub deliveries_got: u64,
    /// The broker's first transfer-id.
    first_id: u32,
    /// The total number of transfers that we let the broker send, each with the byte of its output from which
    /// it applies.
    windows: VecDeque<(u64, u64)>,
    /// Our deliveries without an outcome, with the link of each.
    pub unconfirmed: BTreeMap<u64, u32>,
    pub confirmed: u64,
    /// The bytes of payload received.
    pub bytes_got: u64,
    pub dispositions_got: u64,
}

pub(super) struct Link {
    pub queue: String,
    pub end: End,
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Attaching,
    Attached,
    /// Only our side has sent DETACH.
    Detaching,
    /// Both sides have sent DETACH.
    Gone,
}

pub(super) enum End {
    Publisher(Publisher),
    Consumer(Consumer),
}

#[derive(Default)]
pub(super) struct Publisher {
    /// The number of deliveries that we have begun.
    pub sent: u64,
    /// The total number of deliveries that we may begin.
    pub limit: u64,
    /// The largest number of deliveries that had no outcome at once.
    pub unconfirmed: u64,
}

pub(super) struct Consumer {
    pub settled: bool,
    /// The number of deliveries begun by the broker, and of credits that it has used up in drains.
    pub count: u64,
    /// The FLOWs that may be in force at the broker, oldest first. Its frames show which of them are not in
    /// force any more.
    flows: VecDeque<Granted>,
    /// The number of FLOWs that want an answer, and the number of answers.
    asked: u64,
    answered: u64,
    /// The bytes of the broker's output from which on an echo and a drain must be answered. A drain that is
    /// withdrawn needs no answer.
    echo_from: Option<u64>,
    drain_from: Option<u64>,
    /// The byte where the last answer began, and that answer.
    last_answer: Option<(u64, Answer)>,
    /// The ids of unsettled deliveries.
    pub unsettled: Vec<u64>,
    /// True in the middle of a delivery.
    partial: bool,
    pub got: u64,
    /// Says whether this is the active consumer, if its queue has a single active consumer.
    pub active: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Granted {
    /// The limit of the count of deliveries. Deliveries may begin while the count is below it.
    limit: u64,
    drain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub count: u64,
    pub credit: u64,
    pub available: u32,
    pub drain: bool,
}

impl Client {
    /// Connects, logs in, opens the connection and begins one session.
    pub(super) fn connect(world: &mut World, shard: usize, hello: Hello) -> Self {
        let at = world.connect(shard);
        // The broker's ids start near the wrap as well.
        if let Some(conn) = world.shards[shard].conn(at.key) {
            conn.gate.amqp10().expect("it is AMQP").connection().start_ids_at(hello.start);
        }
        let mut client = Self {
            at,
            hello,
            input: Vec::new(),
            heard: 0,
            opened: false,
            unsent: VecDeque::new(),
            links: BTreeMap::new(),
            by_remote: BTreeMap::new(),
            frames_sent: 0,
            deliveries_sent: 0,
            may_send: 0,
            frames_got: 0,
            deliveries_got: 0,
            first_id: 0,
            windows: VecDeque::from([(0, hello.window.into())]),
            unconfirmed: BTreeMap::new(),
            confirmed: 0,
            bytes_got: 0,
            dispositions_got: 0,
        };
        let mut out = BytesMut::new();
        out.extend_from_slice(&SASL_HEADER);
        put_sasl_frame(&mut out, &SaslFrame::Init(SaslInit::new(Symbol::from_static("ANONYMOUS"))));
        out.extend_from_slice(&AMQP_HEADER);
        put_frame(&mut out, 0, &Open { max_frame_size: hello.max_frame_size, ..Open::new("strict") });
        put_frame(&mut out, 0, &Begin::new(hello.start, hello.window, u32::MAX));
        world.input(at, &out);
        world.settle();
        client.read(world, usize::MAX);
        assert!(client.opened, "the session begins");
        client
    }

    // ---- frames that it sends
    // ---------------------------------------------------------------------------------

    fn say(&mut self, world: &mut World, frame: &dyn Encode) {
        let mut out = BytesMut::new();
        put_frame(&mut out, 0, frame);
        self.put(world, out);
    }

    fn put(&mut self, world: &mut World, frame: BytesMut) {
        if self.unsent.is_empty() && world.takes_input(self.at) {
            world.input(self.at, &frame);
        } else {
            self.unsent.push_back(frame);
        }
    }

    /// Sends waiting frames as far as the broker reads. Returns true if none are left. Until then the client
    /// sends nothing new.
    pub(super) fn push(&mut self, world: &mut World) -> bool {
        while world.takes_input(self.at)
            && let Some(frame) = self.unsent.pop_front()
        {
            world.input(self.at, &frame);
        }
        self.unsent.is_empty()
    }

    pub(super) fn publisher(&mut self, world: &mut World, handle: u32, queue: &str) {
        let mut attach = attach(handle, queue, Role::Sender);
        attach.initial_delivery_count = Some(self.hello.start);
        self.say(world, &attach);
        self.add(handle, queue, End::Publisher(Publisher::default()));
    }

    pub(super) fn consumer(
        &mut self,
        world: &mut World,
        handle: u32,
        queue: &str,
        settled: bool,
        priority: i32,
    ) {
        let mut attach = attach(handle, queue, Role::Receiver);
        attach.snd_settle_mode =
            if settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled };
        let mut properties = Map::new();
        properties.insert(Symbol::from_static("rabbitmq:priority"), Value::Int(priority));
        attach.properties = Some(properties);
        if let Some(source) = &mut attach.source
            && queue == STREAM
        {
            source.filter = Some(from_the_first());
        }
        self.say(world, &attach);
        let consumer = Consumer {
            settled,
            count: 0,
            // There is no credit before the first FLOW.
            flows: VecDeque::from([Granted { limit: 0, drain: false }]),
            asked: 0,
            answered: 0,
            echo_from: None,
            drain_from: None,
            last_answer: None,
            unsettled: Vec::new(),
            partial: false,
            got: 0,
            active: None,
        };
        self.add(handle, queue, End::Consumer(consumer));
    }

    fn add(&mut self, handle: u32, queue: &str, end: End) {
        self.links.insert(handle, Link { queue: queue.to_owned(), end, state: State::Attaching });
    }

    pub(super) fn detach(&mut self, world: &mut World, handle: u32) {
        self.say(world, &Detach { handle, closed: true, error: None });
        if let Some(link) = self.links.get_mut(&handle) {
            link.state = State::Detaching;
        }
    }

    /// Lets the broker send `window` more transfers than we have received, and on a link `credit` more
    /// deliveries.
    pub(super) fn flow(
        &mut self,
        world: &mut World,
        link: Option<(u32, u32)>,
        window: u32,
        drain: bool,
        echo: bool,
    ) {
        let mut flow = Flow::new(window, wire(self.hello.start, self.frames_sent), u32::MAX);
        flow.next_incoming_id = Some(wire(self.first_id, self.frames_got));
        let from = world.said(self.at);
        if let Some((handle, credit)) = link
            && let Some(Link { end: End::Consumer(consumer), .. }) = self.links.get_mut(&handle)
        {
            flow.handle = Some(handle);
            flow.delivery_count = Some(consumer.count as u32);
            flow.link_credit = Some(credit);
            (flow.drain, flow.echo) = (drain, echo);
            consumer.flows.push_back(Granted { limit: consumer.count + u64::from(credit), drain });
            consumer.asked += u64::from(drain || echo);
            consumer.drain_from = drain.then_some(from);
            consumer.echo_from = if echo { Some(from) } else { consumer.echo_from };
        }
        self.windows.push_back((from, self.frames_got + u64::from(window)));
        self.say(world, &flow);
    }

    /// Sends a FLOW of the session alone, with echo.
    pub(super) fn ask(&mut self, world: &mut World) {
        let mut flow = Flow::new(self.hello.window, wire(self.hello.start, self.frames_sent), u32::MAX);
        flow.next_incoming_id = Some(wire(self.first_id, self.frames_got));
        flow.echo = true;
        self.windows.push_back((world.said(self.at), self.frames_got + u64::from(self.hello.window)));
        self.say(world, &flow);
    }

    /// Returns the number of deliveries that may begin on a link, as far as the client knows.
    pub(super) fn credit(&self, handle: u32) -> u64 {
        match self.links.get(&handle) {
            Some(Link { end: End::Publisher(p), state: State::Attached, .. }) => p.limit - p.sent,
            _ => 0,
        }
    }

    /// Publishes one message in `parts` transfers, if link and session allow it.
    pub(super) fn publish(
        &mut self,
        world: &mut World,
        handle: u32,
        (settled, durable): (bool, bool),
        size: usize,
        parts: usize,
    ) -> bool {
        if self.credit(handle) == 0 || self.frames_sent + parts as u64 > self.may_send {
            return false;
        }
        let id = wire(self.hello.start, self.deliveries_sent);
        let message = message(size, durable);
        let part = message.len().div_ceil(parts);
        let mut chunks = message.chunks(part).peekable();
        let mut first = true;
        let mut out = BytesMut::new();
        while let Some(chunk) = chunks.next() {
            let head = TransferHead {
                handle,
                delivery_id: first.then_some(id),
                delivery_tag: first.then_some(&[1]),
                message_format: first.then_some(0),
                settled: first.then_some(settled),
                more: chunks.peek().is_some(),
                aborted: false,
            };
            put_transfer_frame(&mut out, 0, &head, chunk.len());
            out.extend_from_slice(chunk);
            self.frames_sent += 1;
            first = false;
        }
        if !settled {
            self.unconfirmed.insert(self.deliveries_sent, handle);
        }
        self.deliveries_sent += 1;
        let unconfirmed = self.unconfirmed.values().filter(|h| **h == handle).count() as u64;
        if let Some(Link { end: End::Publisher(publisher), .. }) = self.links.get_mut(&handle) {
            publisher.sent += 1;
            publisher.unconfirmed = publisher.unconfirmed.max(unconfirmed);
        }
        self.put(world, out);
        true
    }

    /// Settles the oldest `n` deliveries of a link, in as few ranges as their ids allow.
    pub(super) fn settle(&mut self, world: &mut World, handle: u32, n: usize, state: &DeliveryState) {
        let Some(Link { end: End::Consumer(consumer), .. }) = self.links.get_mut(&handle) else { return };
        let ids: Vec<u64> = consumer.unsettled.drain(..n).collect();
        for range in ids.chunk_by(|a, b| a + 1 == *b) {
            let (first, last) = (range[0], range[range.len() - 1]);
            let disposition = Disposition {
                role: Role::Receiver,
                first: wire(self.first_id, first),
                last: Some(wire(self.first_id, last)),
                settled: true,
                state: Some(state.clone()),
                batchable: false,
            };
            self.say(world, &disposition);
        }
    }

    // ---- frames that it receives
    // ------------------------------------------------------------------------------

    /// Reads up to `max` bytes and handles complete frames. Returns the number of bytes read.
    pub(super) fn read(&mut self, world: &mut World, max: usize) -> usize {
        let n = world.output(self.at, max, &mut self.input);
        let mut input = std::mem::take(&mut self.input);
        let mut used = 0;
        while let Some(start) = input[used..].first_chunk::<HEADER_SIZE>() {
            let size = match start.starts_with(b"AMQP") {
                true => HEADER_SIZE,
                false => {
                    frame::parse_header(start, self.hello.max_frame_size).expect("a frame").size as usize
                }
            };
            if input.len() - used < size {
                break;
            }
            let whole = &input[used..used + size];
            if !start.starts_with(b"AMQP") && whole[5] == 0 && size > HEADER_SIZE {
                self.hear(world, whole);
            }
            used += size;
            self.heard += size as u64;
        }
        input.drain(..used);
        self.input = input;
        n
    }

    fn hear(&mut self, world: &mut World, whole: &[u8]) {
        let (performative, used) = Performative::decode(&whole[HEADER_SIZE..]).expect("a performative");
        match performative {
            Performative::Open(_) => {}
            Performative::Begin(begin) => {
                self.opened = true;
                self.first_id = begin.next_outgoing_id;
                self.may_send = begin.incoming_window.into();
            }
            Performative::Attach(attach) => {
                let handle: u32 = attach.name.parse().expect("our link's name");
                self.by_remote.insert(attach.handle, handle);
                let link = self.links.get_mut(&handle).expect("our link");
                if link.state == State::Attaching {
                    link.state = State::Attached;
                }
            }
            Performative::Detach(detach) => {
                let handle = self.by_remote.remove(&detach.handle).expect("an attached link");
                let link = self.links.get_mut(&handle).expect("our link");
                if link.state != State::Detaching {
                    let error = detach.error.expect("a reason");
                    let condition = error.condition.as_str();
                    assert!(condition.contains("deleted") || condition.contains("not-found"), "{error:?}");
                    link.state = State::Gone;
                    self.unconfirmed.retain(|_, link| *link != handle);
                    self.say(world, &Detach { handle, closed: true, error: None });
                }
                self.links.get_mut(&handle).expect("our link").state = State::Gone;
                self.unconfirmed.retain(|_, link| *link != handle);
            }
            Performative::Transfer(transfer) => {
                let remote = transfer.handle;
                let (id, settled, more) = (transfer.delivery_id, transfer.settled, transfer.more);
                let bytes = whole.len() - HEADER_SIZE - used;
                self.hear_transfer(remote, (id, settled, more), transfer.aborted, bytes);
            }
            Performative::Disposition(disposition) => {
                if disposition.role == Role::Receiver {
                    self.dispositions_got += 1;
                    let first = self.unwire_delivery(disposition.first);
                    let last = self.unwire_delivery(disposition.last.unwrap_or(disposition.first));
                    assert!(first <= last && disposition.settled);
                    for id in first..=last {
                        // Outcomes for a detached link may still arrive.
                        self.confirmed += u64::from(self.unconfirmed.remove(&id).is_some());
                    }
                }
            }
            Performative::Flow(flow) => self.hear_flow(&flow),
            other => panic!("the broker says {}: {other:?}", other.name()),
        }
    }

    fn unwire_delivery(&self, id: u32) -> u64 {
        let last = self.deliveries_sent - 1;
        let back = wire(self.hello.start, last).wrapping_sub(id);
        last.checked_sub(back.into()).expect("an outcome of what was sent")
    }

    /// Handles one transfer. The window is exact: frames that the broker sends after it has read a FLOW obey
    /// that FLOW.
    fn hear_transfer(
        &mut self,
        remote: u32,
        (id, settled, more): (Option<u32>, Option<bool>, bool),
        aborted: bool,
        bytes: usize,
    ) {
        while self.windows.get(1).is_some_and(|(from, _)| *from <= self.heard) {
            self.windows.pop_front();
        }
        let (_, limit) = self.windows[0];
        assert!(self.frames_got < limit, "transfer {} of a window up to {limit}", self.frames_got);
        self.frames_got += 1;
        let handle = *self.by_remote.get(&remote).expect("a transfer on an attached link");
        let link = self.links.get_mut(&handle).expect("our link");
        let End::Consumer(consumer) = &mut link.end else { panic!("a transfer on a publishing link") };
        if !consumer.partial {
            assert_eq!(id, Some(wire(self.first_id, self.deliveries_got)), "delivery-ids count up");
            assert_eq!(settled, Some(consumer.settled));
            let allowed = consumer.flows.iter().any(|flow| consumer.count < flow.limit);
            assert!(allowed, "one transfer too many: {} of {:?}", consumer.count, consumer.flows);
            consumer.count += 1;
            consumer.got += 1;
            if !consumer.settled {
                consumer.unsettled.push(self.deliveries_got);
            }
            self.deliveries_got += 1;
        }
        if aborted {
            consumer.unsettled.pop();
        }
        consumer.partial = more && !aborted;
        self.bytes_got += bytes as u64;
    }

    fn hear_flow(&mut self, flow: &Flow) {
        // The position of a FLOW among the transfers is known, so its next-outgoing-id must be exact.
        assert_eq!(flow.next_outgoing_id, wire(self.first_id, self.frames_got), "next-outgoing-id");
        let seen = flow.next_incoming_id.expect("our BEGIN has been seen");
        let behind = wire(self.hello.start, self.frames_sent).wrapping_sub(seen);
        let seen = self.frames_sent.checked_sub(behind.into()).expect("next-incoming-id of what was sent");
        self.may_send = seen + u64::from(flow.incoming_window);
        let Some(remote) = flow.handle else { return };
        let handle = *self.by_remote.get(&remote).expect("a FLOW on an attached link");
        let (count, credit) = (flow.delivery_count.expect("a count"), flow.link_credit.expect("a credit"));
        let link = self.links.get_mut(&handle).expect("our link");
        match &mut link.end {
            End::Publisher(publisher) => {
                // [2.6.7] link-credit(snd) := delivery-count(rcv) + link-credit(rcv) - delivery-count(snd).
                let behind = wire(self.hello.start, publisher.sent).wrapping_sub(count);
                let count = publisher.sent.checked_sub(behind.into()).expect("a count of what was sent");
                let limit = count + u64::from(credit);
                assert!(limit >= publisher.limit, "the broker never takes credit back");
                publisher.limit = limit;
            }
            End::Consumer(consumer) => consumer.hear_flow(self.heard, (count, credit.into()), flow),
        }
    }

    // ---- what must hold when nothing moves any more
    // -----------------------------------------------------------

    /// Asserts that every request was answered and every delivery has its outcome.
    pub(super) fn check_settled(&self) {
        assert!(self.unconfirmed.is_empty(), "without outcome: {:?}", self.unconfirmed);
        for (handle, link) in &self.links {
            let End::Consumer(consumer) = &link.end else { continue };
            if link.state != State::Attached {
                continue;
            }
            assert!(!consumer.partial, "link {handle} is left in the middle of a delivery");
            for from in consumer.echo_from.into_iter().chain(consumer.drain_from) {
                let last = consumer.last_answer.filter(|(at, _)| *at >= from);
                assert!(last.is_some(), "link {handle} has not been answered: {:?}", consumer.flows);
            }
            let Some(last) = consumer.flows.back() else { continue };
            if last.drain {
                assert!(consumer.count >= last.limit, "link {handle}: a drain that does not end");
                assert!(consumer.last_answer.is_some_and(|(_, a)| a.drain && a.credit == 0));
            }
        }
    }
}

impl Consumer {
    /// Returns the number of deliveries that the broker may still begin, once it has read everything.
    pub(super) fn credit(&self) -> u64 {
        self.flows.back().map_or(0, |flow| flow.limit.saturating_sub(self.count))
    }

    pub(super) fn last_answer(&self) -> Option<Answer> {
        self.last_answer.map(|(_, answer)| answer)
    }

    /// Checks the broker's FLOW for a link. It must follow from one of our FLOWs that may be in force.
    /// Earlier ones are no longer in force after that.
    fn hear_flow(&mut self, at: u64, (count, credit): (u32, u64), flow: &Flow) {
        let active = flow.properties.as_ref().map(|p| p.get("rabbitmq:active").expect("the link state"));
        if let Some(active) = active {
            let active = active.as_bool().expect("true or false");
            assert_ne!(self.active, Some(active), "only changes are reported");
            self.active = Some(active);
            assert!(!flow.drain && (active || flow.available == Some(0)), "{flow:?}");
            let follows = |f: &Granted| credit == f.limit.saturating_sub(self.count);
            assert_eq!(count, self.count as u32, "the state of a link does not count");
            assert!(self.flows.iter().any(follows), "credit {credit} of {:?}", self.flows);
            return;
        }
        self.answered += 1;
        assert!(self.answered <= self.asked, "an answer that nobody asked for");
        // The broker sends deliveries before the FLOW that counts them. If the FLOW counts more, a drain has
        // used up the difference.
        let count = self.count + u64::from(count.wrapping_sub(self.count as u32));
        let drained = |flows: &VecDeque<Granted>| flows.iter().any(|f| f.drain && f.limit == count);
        assert!(count == self.count || drained(&self.flows), "count {count} after {}", self.count);
        let follows = |f: &Granted| match flow.drain {
            true => f.drain && credit == 0 && count >= f.limit,
            false => credit == f.limit.saturating_sub(count),
        };
        let from = self.flows.iter().position(follows);
        let from = from.unwrap_or_else(|| panic!("count {count} credit {credit} of {:?}", self.flows));
        self.flows.drain(..from);
        self.count = count;
        let available = flow.available.expect("available");
        self.last_answer = Some((at, Answer { count, credit, available, drain: flow.drain }));
    }
}

/// Returns the number on the wire for a count that does not wrap.
fn wire(start: u32, n: u64) -> u32 {
    start.wrapping_add(n as u32)
}

fn attach(handle: u32, queue: &str, role: Role) -> Attach {
    let address = Some(format!("/queues/{queue}"));
    let mut attach = Attach::new(handle.to_string(), handle, role);
    match role {
        Role::Sender => {
            attach.source = Some(Source::default());
            attach.target = Some(TargetArchetype::Target(Target { address, ..Target::default() }));
        }
        Role::Receiver => {
            attach.source = Some(Source { address, ..Source::default() });
            attach.target = Some(TargetArchetype::Target(Target::default()));
        }
    }
    attach
}

/// Returns the filter of a reader that wants the whole stream.
fn from_the_first() -> Map {
    let name = Symbol::from_static("rabbitmq:stream-offset-spec");
    let place = Described { descriptor: name.clone().into(), value: "first".into() };
    Map(vec![(name.into(), Value::Described(Box::new(place)))])
}

/// Returns a message with a header and a body of `size` bytes.
pub(super) fn message(size: usize, durable: bool) -> Vec<u8> {
    let mut message = vec![0x00, 0x53, 0x70, 0xc0, 0x02, 0x01, if durable { 0x41 } else { 0x42 }];
    message.extend_from_slice(&[0x00, 0x53, 0x75, 0xb0]);
    message.extend_from_slice(&(size as u32).to_be_bytes());
    message.resize(message.len() + size, b'x');
    message
}
