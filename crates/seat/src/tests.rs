//! Both sides of a session and a pipe between them that cuts, loses, repeats and delays single frames equal a local queue.

mod clients;
mod faults;

use std::collections::{BTreeMap, VecDeque};
use std::panic::catch_unwind;
use std::sync::Arc;

use bytes::Bytes;
use catalog::ids::QueueId;
use catalog::reply_to::ReplyTo;
use message::{Message, Parts, Route};
use queue::{
    Attach, Carrier, Config, ConsumerId, ConsumerTimeout, Deliver, DeliveryRef, Effect, Fifo, GoneReason,
    Mode, Output, Publish, PublisherId, Put, RejectReason, Request, Ticket, Verdict,
};
use random::Random;

use self::clients::Clients;
use crate::mutation::{self, Mutation};
use crate::{
    Answer, Far, Frame, Host, Kept, LOST_MS, Meeting, Near, REFUSE_MS, Said, SessionId, To, Told, meet,
    put_answer,
};

const QUEUE: QueueId = QueueId(1);
const PEER: u32 = 7;

/// The carrier of a queue whose deliveries are all effects, and which stores nothing.
struct Nowhere;

impl Deliver for Nowhere {
    fn deliver(&mut self, _: DeliveryRef<'_>) -> bool {
        false
    }
}

impl Carrier for Nowhere {
    fn put(&mut self, _: Put<'_>) -> bool {
        false
    }
}

/// A queue, and what it has said.
struct Queue {
    fifo: Fifo,
    output: Output,
}

impl Default for Queue {
    fn default() -> Self {
        Self { fifo: Fifo::new(Config::new("q")), output: Output::default() }
    }
}

impl Queue {
    /// Applies a request, and returns what the queue says: receipts first.
    fn apply(&mut self, request: Request) -> (Vec<queue::Receipt>, Vec<Effect>) {
        if self.fifo.ended().is_some() {
            // The catalog has forgotten it.
            return match request {
                Request::Publish(Publish { publisher, seq, .. }) => {
                    let verdict = Verdict::Released;
                    (
                        vec![queue::Receipt { publisher, first: seq, last: seq, verdict, journaled: false }],
                        vec![],
                    )
                }
                _ => (vec![], vec![]),
            };
        }
        self.fifo.apply(request, 1_000_000, &mut self.output, &mut Nowhere);
        self.output.facts.clear();
        self.output.local.clear();
        (self.output.receipts.drain().collect(), self.output.effects.drain(..).collect())
    }
}

/// What somebody was told: a consumer, a ticket or a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Somebody {
    Consumer(u64),
    Ticket(u64),
    Publisher(u64),
}

/// What everybody was told, in the order of each.
#[derive(Debug, Default, PartialEq)]
struct Heard(BTreeMap<Somebody, Vec<String>>);

impl Heard {
    fn effect(&mut self, effect: &Effect) {
        let somebody = match effect {
            Effect::Fetched { ticket, .. } | Effect::Done { ticket, .. } | Effect::Report { ticket, .. } => {
                Somebody::Ticket(ticket.0)
            }
            Effect::Refused { requester: queue::Requester::Ticket(ticket), .. } => Somebody::Ticket(ticket.0),
            Effect::Refused { requester: queue::Requester::Consumer(consumer), .. }
            | Effect::Attached { consumer }
            | Effect::Gone { consumer, .. }
            | Effect::Active { consumer, .. }
            | Effect::CreditState { consumer, .. }
            | Effect::Settled { consumer, .. }
            | Effect::Revoked { consumer, .. } => Somebody::Consumer(consumer.0),
            Effect::Delivery(delivery) => Somebody::Consumer(delivery.consumer.0),
            Effect::StreamUpdate { .. } | Effect::DeadLetter { .. } | Effect::Deleted { .. } => return,
        };
        let delivery = |d: &queue::Delivery| {
            format!("{} {} {} {} {}", d.number, d.seq, body(&d.message), d.delivery_count, d.acquired_count)
        };
        let heard = match effect {
            Effect::Delivery(of) => format!("delivery {}", delivery(of)),
            Effect::Fetched { deliveries, ready, .. } => {
                format!("fetched {:?}, {ready} left", deliveries.iter().map(delivery).collect::<Vec<_>>())
            }
            other => format!("{other:?}"),
        };
        self.0.entry(somebody).or_default().push(heard);
    }

    fn receipt(&mut self, publisher: u64, (first, last): (u64, u64), verdict: Verdict) {
        let heard = self.0.entry(Somebody::Publisher(publisher)).or_default();
        (first..=last).for_each(|seq| heard.push(format!("{seq} {verdict:?}")));
    }
}

/// The ids of the node that has the queue, and the requests that have arrived there.
#[derive(Default)]
struct Ids {
    last: u64,
    consumers: Vec<ConsumerId>,
    requests: Vec<Request>,
}

impl Host for Ids {
    fn add_consumer(&mut self, _: QueueId) -> Option<ConsumerId> {
        self.last += 1;
        self.consumers.push(ConsumerId(1 << 40 | self.last));
        self.consumers.last().copied()
    }

    fn add_ticket(&mut self) -> Option<Ticket> {
        self.last += 1;
        Some(Ticket(1 << 41 | self.last))
    }

    fn remove_ticket(&mut self, _: Ticket) {}

    fn remove_consumer(&mut self, consumer: ConsumerId) {
        self.consumers.retain(|known| *known != consumer);
    }

    fn request(&mut self, queue: QueueId, request: Request) {
        assert_eq!(queue, QUEUE);
        self.requests.push(request);
    }

    fn reply(&mut self, to: ReplyTo, _: Arc<str>, _: Publish) {
        panic!("{to:?}");
    }

    fn probe(&mut self, to: ReplyTo, _: Arc<str>, _: Ticket) {
        panic!("{to:?}");
    }
}

/// The node that has the queue.
struct FarNode {
    boot: u32,
    far: Option<Far>,
    ids: Ids,
    queue: Queue,
    /// The bodies of all messages that the queue has accepted, over all starts.
    stored: BTreeMap<u64, u32>,
    has_link: bool,
    answers: VecDeque<Bytes>,
    sessions: u64,
}

impl FarNode {
    fn handle(&mut self, bytes: Bytes, now_ms: u64) {
        let frame = Frame::decode(bytes).expect("a frame");
        assert!(frame.is_for_queues(), "{frame:?}");
        match meet(self.far.as_ref().map(Far::id), &frame) {
            Meeting::Late => return,
            Meeting::Unknown => return self.answers.push_back(Far::unknown(frame.id, self.boot)),
            Meeting::New => {
                self.end_far();
                self.sessions += 1;
                let mut far = Far::new(frame.id, self.boot, PublisherId(self.sessions));
                far.handle_link(self.has_link);
                self.far = Some(far);
            }
            Meeting::Known => {}
        }
        let Some(far) = &mut self.far else { return };
        far.set_now(now_ms);
        assert!(far.handle_frame(frame, &mut self.ids), "the frame makes sense");
        for request in std::mem::take(&mut self.ids.requests) {
            if let Request::Publish(Publish { message, .. }) = &request {
                *self.stored.entry(body(message)).or_default() += 1;
            }
            self.apply(request);
        }
    }

    fn apply(&mut self, request: Request) {
        let (receipts, effects) = self.queue.apply(request);
        let Some(far) = &mut self.far else { return };
        for queue::Receipt { publisher, first, last, verdict, .. } in receipts {
            if publisher.0 == self.sessions {
                far.handle_receipt(first, last, verdict);
            }
        }
        effects.into_iter().for_each(|effect| far.handle_effect(effect, &mut self.ids));
    }

    /// What the shard does when a session is lost.
    fn lose_far(&mut self) {
        if let Some(id) = self.far.as_ref().map(Far::id) {
            self.end_far();
            self.answers.push_back(Far::unknown(id, self.boot));
        }
    }

    /// What the shard does when a session ends.
    fn end_far(&mut self) {
        self.far = None;
        for consumer in std::mem::take(&mut self.ids.consumers) {
            self.apply(Request::Detach { consumer, failed: false });
        }
    }

    /// The node is killed, and started again. The queue is not durable here: what it had is gone.
    fn start_again(&mut self) {
        self.far = None;
        self.boot += 1;
        self.ids.consumers.clear();
        self.queue = Queue::default();
        self.answers.clear();
    }
}

fn body(message: &Message) -> u64 {
    u64::from_le_bytes(message.stored_tail()[..8].try_into().expect("eight bytes"))
}

/// What the pipe does to frames.
#[derive(Clone, Copy)]
enum Pipe {
    Perfect,
    Faulty,
}

/// Two nodes.
struct World {
    random: Random,
    near: Near,
    far: FarNode,
    /// On their way.
    asks: VecDeque<Bytes>,
    answers: VecDeque<Bytes>,
    is_linked: bool,
    now_ms: u64,
    heard: Heard,
}

impl World {
    fn new(seed: u64) -> Self {
        let far = FarNode {
            boot: 1,
            far: None,
            ids: Ids::default(),
            queue: Queue::default(),
            stored: BTreeMap::new(),
            has_link: false,
            answers: VecDeque::new(),
            sessions: 0,
        };
        let (asks, answers) = (VecDeque::new(), VecDeque::new());
        let near = Near::new(PEER, 3, 2);
        let mut world = Self {
            random: Random(seed),
            near,
            far,
            asks,
            answers,
            is_linked: false,
            now_ms: 1,
            heard: Heard::default(),
        };
        world.link(true);
        world
    }

    /// The link is lost with everything on its way, or opens.
    fn link(&mut self, up: bool) {
        if self.is_linked == up {
            return;
        }
        self.is_linked = up;
        self.near.set_now(self.now_ms);
        self.near.handle_link(up);
        self.far.has_link = up;
        self.far.far.iter_mut().for_each(|far| far.handle_link(up));
        if !up {
            self.asks.clear();
            self.answers.clear();
            self.far.answers.clear();
        }
    }

    /// Everything moves by a frame or so.
    fn step(&mut self, pipe: Pipe) {
        while let Some(frame) = self.near.poll_frame(0) {
            self.asks.push_back(frame);
        }
        while let Some(frame) = self.far.answers.pop_front() {
            self.answers.push_back(frame);
        }
        if let Some(far) = &mut self.far.far {
            far.set_now(self.now_ms);
            while let Some(frame) = far.poll_frame() {
                self.answers.push_back(frame);
            }
        }
        if let Pipe::Faulty = pipe {
            self.damage_one();
        }
        let is_delayed = matches!(pipe, Pipe::Faulty) && self.random.one_in(3);
        if !is_delayed && let Some(frame) = self.asks.pop_front() {
            self.far.handle(frame, self.now_ms);
        }
        let is_delayed = matches!(pipe, Pipe::Faulty) && self.random.one_in(3);
        if !is_delayed && let Some(frame) = self.answers.pop_front() {
            let frame = Frame::decode(frame).expect("a frame");
            assert!(!frame.is_for_queues(), "{frame:?}");
            assert!(self.near.handle_frame(frame), "the frame makes sense");
        }
        self.hear();
    }

    fn damage_one(&mut self) {
        for pipe in [&mut self.asks, &mut self.answers] {
            if pipe.is_empty() {
                continue;
            }
            let at = self.random.index(pipe.len());
            match self.random.below(12) {
                0 => _ = pipe.remove(at),
                1 => pipe.insert(at, pipe[at].clone()),
                _ => {}
            }
        }
    }

    fn hear(&mut self) {
        while let Some(told) = self.near.poll_told() {
            match told {
                Told::Effect { effect, .. } => self.heard.effect(&effect),
                Told::Away { ticket, is_sent, .. } => {
                    let heard = if is_sent { "away, sent" } else { "away" };
                    self.heard.0.entry(Somebody::Ticket(ticket.0)).or_default().push(heard.to_owned());
                }
                Told::Receipt { queue, publisher, first, last, verdict } => {
                    assert_eq!(queue, QUEUE);
                    self.heard.receipt(publisher.0, (first, last), verdict);
                }
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.near.set_now(self.now_ms);
        for _ in 0..10 {
            if self.near.next_timeout().is_none_or(|at_ms| at_ms > self.now_ms) {
                break;
            }
            self.near.handle_timeout();
            self.hear();
            while let Some(frame) = self.near.poll_frame(0) {
                self.asks.push_back(frame);
            }
        }
        let due = self.near.next_timeout();
        assert!(due.is_none_or(|at_ms| at_ms > self.now_ms), "a time-out stays due: {:?}", self.near);
        if let Some(far) = &mut self.far.far {
            far.set_now(self.now_ms);
            far.handle_timeout();
        }
    }

    /// Nothing is lost any more, until nothing moves.
    fn settle(&mut self) {
        self.link(true);
        for _ in 0..10 {
            for _ in 0..200 {
                self.step(Pipe::Perfect);
                if self.asks.is_empty() && self.answers.is_empty() {
                    self.step(Pipe::Perfect);
                }
            }
            self.pass(500);
        }
        assert!(self.asks.is_empty() && self.answers.is_empty(), "frames move for ever");
    }
}

fn attach(consumer: u64) -> Request {
    Request::Attach(Attach {
        consumer: ConsumerId(consumer),
        mode: Mode::Take,
        priority: 0,
        exclusive: false,
        settled: false,
        delivery_count: 0,
        message_bytes_max: None,
        timeout: ConsumerTimeout::default(),
    })
}

fn publish(publisher: u64, seq: u64, body: u64, padding: usize) -> Request {
    let mut wire = body.to_le_bytes().to_vec();
    wire.resize(8 + padding, 0);
    let parts = Parts { wire: wire.into(), bare_at: 0, body_at: 0, ..Parts::default() };
    let message = Message::new(parts, Arc::new(Route::simple("x", "key")));
    Request::Publish(Publish {
        publisher: PublisherId(publisher),
        seq,
        message,
        pipelines: seq.is_multiple_of(2),
    })
}

fn same(heard: &Heard, expected: &Heard, seed: u64) {
    for (somebody, expected) in &expected.0 {
        assert_eq!(heard.0.get(somebody), Some(expected), "seed {seed}: {somebody:?}");
    }
    assert_eq!(heard.0.len(), expected.0.len(), "seed {seed}");
}

/// Runs one seed, and compares with a local queue.
fn compare(seed: u64) {
    let (mut world, mut local, mut expected) = (World::new(seed), Queue::default(), Heard::default());
    let mut clients = Clients::new(seed);
    for _ in 0..120 {
        let [here, there] = clients.request();
        let (receipts, effects) = local.apply(here);
        for queue::Receipt { publisher, first, last, verdict, .. } in receipts {
            expected.receipt(publisher.0, (first, last), verdict);
        }
        effects.iter().for_each(|effect| expected.effect(effect));
        for effect in &effects {
            if let Effect::Refused { requester: queue::Requester::Consumer(refused), .. } = effect {
                clients.consumers.retain(|(consumer, _)| consumer != refused);
            }
        }
        if local.fifo.ended().is_some() {
            break;
        }
        world.near.handle_request(QUEUE, there);
        world.hear();
        for _ in 0..world.random.index(4) {
            world.step(Pipe::Faulty);
        }
        match world.random.below(30) {
            0 => world.link(false),
            1..4 => world.link(true),
            // Less than what ends requests.
            4 => world.pass(world.random.0 % 900),
            _ => {}
        }
        if !world.is_linked && world.random.one_in(4) {
            world.link(true);
        }
        if world.random.one_in(8) {
            world.settle();
            same(&world.heard, &expected, seed);
        }
    }
    if local.fifo.ended().is_none() {
        world.settle();
        same(&world.heard, &expected, seed);
    }
    assert!(world.heard.0.values().flatten().all(|told| !told.contains("OutOfReach")), "seed {seed}");
}

/// Runs one seed with long cuts and restarts of the node that has the queue, and checks what is promised then.
fn endure(seed: u64) {
    let mut world = World::new(seed);
    let mut clients = Clients::new(seed);
    let mut published: BTreeMap<u64, u64> = BTreeMap::new();
    let mut tickets = Vec::new();
    for _ in 0..150 {
        if world.random.percent(60) {
            let [request, _] = clients.request();
            if let Request::Publish(Publish { publisher, .. }) = &request {
                *published.entry(publisher.0).or_default() += 1;
            }
            if let Request::Purge { ticket } | Request::Report { ticket } | Request::Fetch { ticket, .. } =
                &request
            {
                tickets.push(ticket.0);
            }
            if !matches!(request, Request::Delete { .. }) {
                world.near.handle_request(QUEUE, request);
            }
        }
        for _ in 0..world.random.index(4) {
            world.step(Pipe::Faulty);
        }
        match world.random.below(40) {
            0 => world.link(false),
            1..4 => world.link(true),
            4 => {
                world.link(false);
                world.far.start_again();
                if world.random.one_in(2) {
                    world.near.handle_gone();
                }
            }
            5 => world.pass(REFUSE_MS),
            6 if world.random.one_in(3) => world.pass(LOST_MS),
            7..12 => world.pass(world.random.0 % 900),
            _ => {}
        }
        // The shard ends a session that has no link for long.
        if !world.is_linked && world.random.one_in(60) {
            world.far.end_far();
        }
    }
    world.settle();
    // A publish that was in doubt when a start was lost is sent again at once; nothing else waits for long.
    for (publisher, count) in published {
        let heard = world.heard.0.remove(&Somebody::Publisher(publisher)).unwrap_or_default();
        let mut seqs: Vec<u64> = Vec::new();
        for told in &heard {
            let (seq, verdict) = told.split_once(' ').expect("a number and a verdict");
            let seq: u64 = seq.parse().expect("a number");
            seqs.push(seq);
            let times = world.far.stored.get(&(publisher << 32 | seq)).copied().unwrap_or(0);
            match verdict {
                "Accepted" => assert!(times > 0, "seed {seed}: {publisher} {seq} was accepted by nobody"),
                "Unknown" => {}
                _ => assert_eq!(times, 0, "seed {seed}: {publisher} {seq} was refused, and is stored"),
            }
        }
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=count).collect::<Vec<_>>(), "seed {seed}: each publish has one answer");
    }
    for ticket in tickets {
        let heard = world.heard.0.remove(&Somebody::Ticket(ticket)).unwrap_or_default();
        assert_eq!(heard.len(), 1, "seed {seed}: ticket {ticket} {heard:?}");
    }
}

#[test]
fn two_sides_and_a_pipe_equal_a_local_queue() {
    (0..1500).for_each(compare);
}

#[test]
fn cuts_and_restarts_of_any_length_keep_what_is_promised() {
    (0..1500).for_each(endure);
}

#[test]
fn each_mistake_is_found() {
    for (mistake, check) in [
        (Mutation::TakeRepeated, compare as fn(u64)),
        (Mutation::TakeEarly, compare),
        (Mutation::ForgetSent, compare),
        (Mutation::RefuseSent, endure),
        (Mutation::ForgetInDoubt, endure),
        (Mutation::KeepSession, endure),
        (Mutation::ForgetTickets, endure),
    ] {
        mutation::mutate(Some(mistake));
        let is_found = (0..2000).any(|seed| catch_unwind(|| check(seed)).is_err());
        mutation::mutate(None);
        assert!(is_found, "{mistake:?} is not found");
    }
}

#[test]
fn a_session_of_an_earlier_start_is_late() {
    let id = |boot, session| SessionId { boot, session, shard: 1 };
    let frame = |boot, session, fresh| Frame {
        id: id(boot, session),
        said: crate::Said::Open { received: 0, fresh },
    };
    assert_eq!(meet(None, &frame(1, 1, true)), Meeting::New);
    assert_eq!(meet(None, &frame(1, 1, false)), Meeting::Unknown);
    assert_eq!(meet(Some(id(2, 1)), &frame(1, 9, true)), Meeting::Late);
    assert_eq!(meet(Some(id(2, 1)), &frame(2, 1, false)), Meeting::Known);
    assert_eq!(meet(Some(id(2, 1)), &frame(2, 2, false)), Meeting::Unknown);
    assert_eq!(meet(Some(id(2, 1)), &frame(2, 2, true)), Meeting::New);
    assert_eq!(meet(Some(id(2, 7)), &frame(3, 1, true)), Meeting::New);
}

/// What a client waits for ends within its bound, however the other node is lost.
#[test]
fn without_the_other_node_requests_end_in_time() {
    let mut world = World::new(1);
    world.near.handle_request(QUEUE, attach(1));
    world.near.handle_request(QUEUE, publish(1, 1, 1, 0));
    world.settle();
    // In doubt: it was sent, and the answer is lost.
    world.near.handle_request(QUEUE, publish(1, 2, 2, 0));
    world.near.handle_request(QUEUE, Request::Purge { ticket: Ticket(5) });
    while world.near.poll_frame(0).is_some() {}
    world.link(false);
    world.near.handle_request(QUEUE, publish(1, 3, 3, 0));
    world.near.handle_request(QUEUE, Request::Report { ticket: Ticket(6) });
    world.near.handle_request(QUEUE, attach(2));
    world.pass(REFUSE_MS);
    let heard = |world: &World, somebody| world.heard.0.get(&somebody).cloned().unwrap_or_default();
    assert_eq!(heard(&world, Somebody::Publisher(1)), ["1 Accepted", "3 Rejected(OutOfReach)"]);
    assert!(heard(&world, Somebody::Ticket(5))[0].contains("OutcomeUnknown { node: Some(7) }"));
    assert!(heard(&world, Somebody::Ticket(6))[0].contains("OutOfReach { node: Some(7) }"));
    let delete = |ticket, if_empty| Request::Delete { ticket: Ticket(ticket), if_unused: false, if_empty };
    world.near.handle_request(QUEUE, delete(7, false));
    world.near.handle_request(QUEUE, delete(8, true));
    world.hear();
    assert_eq!(heard(&world, Somebody::Ticket(7)), ["away"], "it can be deleted without its node");
    assert!(
        heard(&world, Somebody::Ticket(8))[0].contains("OutOfReach { node: Some(7) }"),
        "nobody knows whether it is empty"
    );
    assert!(heard(&world, Somebody::Consumer(2))[0].contains("OutOfReach { node: Some(7) }"));
    assert_eq!(heard(&world, Somebody::Consumer(1)).len(), 1, "it waits for the link");
    world.near.handle_request(QUEUE, publish(1, 4, 4, 0));
    world.hear();
    assert_eq!(heard(&world, Somebody::Publisher(1))[2..], ["4 Rejected(OutOfReach)"], "refused at once");
    world.pass(LOST_MS - REFUSE_MS);
    assert_eq!(heard(&world, Somebody::Publisher(1))[3..], ["2 Unknown"]);
    let gone = Effect::Gone { consumer: ConsumerId(1), reason: GoneReason::OutOfReach { node: Some(PEER) } };
    assert_eq!(heard(&world, Somebody::Consumer(1))[1..], [format!("{gone:?}")]);
    assert_eq!(world.near.next_timeout(), None, "nothing is left to wait for");
    // A message for a link that takes replies is answered in the same way.
    let Request::Publish(reply) = publish(1, 5, 5, 0) else { unreachable!() };
    world.near.publish(Kept { to: To::Queue(QUEUE), publish: reply });
    world.hear();
    assert_eq!(heard(&world, Somebody::Publisher(1))[4..], ["5 Rejected(OutOfReach)"]);
}

/// The first copy may have been stored, and taken by a consumer, before the queue refuses the second one.
#[test]
fn a_refusal_of_a_publish_that_was_sent_twice_says_nothing_of_the_first_copy() {
    let mut near = Near::new(PEER, 1, 0);
    let opened = |session, boot| Frame {
        id: SessionId { boot: 1, session, shard: 0 },
        said: Said::Opened { boot, received: 0 },
    };
    near.handle_link(true);
    assert!(near.handle_frame(opened(1, 1)));
    near.handle_request(QUEUE, publish(1, 1, 1, 0));
    while near.poll_frame(0).is_some() {}
    let ended = Frame { id: opened(1, 1).id, said: Said::Ended { boot: 2 } };
    assert!(near.handle_frame(ended) && near.handle_frame(opened(2, 2)));
    near.handle_request(QUEUE, publish(1, 2, 2, 0));
    while near.poll_frame(0).is_some() {}
    let mut items = Vec::new();
    let verdict = Verdict::Rejected(RejectReason::Unavailable);
    put_answer(&Answer::Receipt { first: 1, last: 2, verdict }, &mut items);
    let said = Said::Answers { number: 1, items: items.into() };
    assert!(near.handle_frame(Frame { id: opened(2, 2).id, said }));
    let told = std::iter::from_fn(|| near.poll_told()).map(|told| match told {
        Told::Receipt { first, last, verdict, .. } => (first, last, verdict),
        other => panic!("{other:?}"),
    });
    assert_eq!(told.collect::<Vec<_>>(), [(1, 1, Verdict::Unknown), (2, 2, verdict)]);
}
