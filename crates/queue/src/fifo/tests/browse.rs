//! Tests browsers: step by step, and against a naive model that looks at all messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use message::{DeliveryMax, Message, Parts, Route};
use proptest::collection::vec;
use proptest::prelude::*;

use super::lending;
use super::shelf::Shelf;
use super::transcript::{message, with};
use crate::fifo::browse::BROWSERS_MAX;
use crate::fifo::{BrowserLoad, Fifo, Output};
use crate::*;

/// A consumer, which takes.
const TAKER: ConsumerId = ConsumerId(1);

const HIGHEST: u8 = 2;

/// A message as the model knows it.
#[derive(Clone, Debug)]
struct Item {
    priority: u8,
    expires_ms: Option<u64>,
    is_ready: bool,
    /// The step in which it became ready last.
    since: usize,
}

#[derive(Debug)]
struct Viewer {
    id: ConsumerId,
    /// The step of its attach, and the first message after it.
    attached: usize,
    end: u64,
    /// The place of the message that it saw last: its priority counted from the highest, and its number.
    place: (u8, u64),
    seen: Vec<u64>,
    /// The steps in which it may have passed expired messages, each with the place of the last one. The model does not know
    /// whether the queue had removed them before.
    passed: Vec<(usize, (u8, u64))>,
    numbers: u64,
    /// Its credit as it counts.
    count: u32,
    credit: u32,
    /// True if it was told that nothing is left.
    is_through: bool,
    /// True if a grant is not answered.
    waits: bool,
}

struct World {
    fifo: Fifo,
    shelf: Shelf,
    now_ms: u64,
    step: usize,
    items: BTreeMap<u64, Item>,
    /// The number of deliveries that the taker got, and its credit.
    taken: u32,
    /// The numbers of its unsettled deliveries, and their messages.
    held: Vec<(u64, u64)>,
    viewers: Vec<Viewer>,
    loads: Vec<Load>,
    browser_loads: Vec<BrowserLoad>,
    is_writing: bool,
    ended: Vec<(ConsumerId, GoneReason)>,
    refused: Vec<Refusal>,
}

fn place(priority: u8, seq: u64) -> (u8, u64) {
    (HIGHEST - priority.min(HIGHEST), seq)
}

impl World {
    fn new() -> Self {
        Self {
            fifo: Fifo::new(with(|config| config.max_priority = Some(HIGHEST))),
            shelf: Shelf::default(),
            now_ms: 1000,
            step: 0,
            items: BTreeMap::new(),
            taken: 0,
            held: Vec::new(),
            viewers: Vec::new(),
            loads: Vec::new(),
            browser_loads: Vec::new(),
            is_writing: false,
            ended: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn ask(&mut self, request: Request) {
        let mut out = Output::default();
        self.fifo.ask(request, self.now_ms, &mut out);
        self.read(out);
    }

    fn publish(&mut self, priority: u8, ttl_ms: Option<u64>) {
        let ttl = ttl_ms.map_or(String::new(), |ttl_ms| format!("~{ttl_ms}"));
        let message = message(&format!("m!^{priority}{ttl}"));
        self.put(message, priority, ttl_ms);
    }

    fn put(&mut self, message: Message, priority: u8, ttl_ms: Option<u64>) {
        let seq = self.fifo.next_seq();
        let expires_ms = ttl_ms.map(|ttl_ms| self.now_ms + ttl_ms);
        self.items.insert(seq, Item { priority, expires_ms, is_ready: true, since: self.step });
        let publish = Publish { publisher: PublisherId(0), seq, message, pipelines: false };
        self.ask(Request::Publish(publish));
    }

    /// Adds a consumer.
    fn attach(&mut self, id: ConsumerId, mode: Mode, exclusive: bool, bytes_max: Option<u64>) {
        self.ask(Request::Attach(Attach {
            consumer: id,
            mode,
            priority: 0,
            exclusive,
            settled: false,
            delivery_count: 0,
            message_bytes_max: bytes_max.map(DeliveryMax::Whole),
            timeout: ConsumerTimeout::default(),
        }));
    }

    fn take(&mut self, credit: u32) {
        let delivery_count = self.taken;
        self.ask(Request::Grant { consumer: TAKER, delivery_count, credit, drain: false, echo: false });
    }

    fn settle(&mut self, at: usize, outcome: Outcome) {
        if self.held.is_empty() {
            return;
        }
        let (number, seq) = self.held.swap_remove(at % self.held.len());
        match outcome {
            Outcome::Released => {
                let item = self.items.get_mut(&seq).expect("a message that was taken");
                (item.is_ready, item.since) = (true, self.step);
            }
            _ => _ = self.items.remove(&seq),
        }
        let (consumer, first, last, answer) = (TAKER, number, number, false);
        let answer = if answer { SettleAnswer::Made } else { SettleAnswer::Never };
        self.ask(Request::Settle { consumer, first, last, outcome, answer });
    }

    fn browse(&mut self, bytes_max: Option<u64>) -> ConsumerId {
        let id = ConsumerId(10 + self.viewers.len() as u64);
        self.viewers.push(Viewer {
            id,
            attached: self.step,
            end: self.fifo.next_seq(),
            place: (0, 0),
            seen: Vec::new(),
            passed: Vec::new(),
            numbers: 0,
            count: 0,
            credit: 0,
            is_through: false,
            waits: false,
        });
        self.attach(id, Mode::Browse, false, bytes_max);
        id
    }

    fn grant(&mut self, at: usize, credit: u32, drain: bool) {
        if self.viewers.is_empty() {
            return;
        }
        let at = at % self.viewers.len();
        let viewer = &mut self.viewers[at];
        (viewer.credit, viewer.waits) = (credit, true);
        let Viewer { id, count, .. } = *viewer;
        self.ask(Request::Grant { consumer: id, delivery_count: count, credit, drain, echo: true });
        self.pass(at);
    }

    fn purge(&mut self) {
        self.items.retain(|_, item| !item.is_ready);
        self.ask(Request::Purge { ticket: Ticket(1) });
    }

    fn load(&mut self) {
        if let Some(load) = self.loads.pop() {
            let mut out = Output::default();
            let block = match self.shelf.runs().contains(&load.run) {
                true => self.shelf.block(load),
                false => Block::default(),
            };
            self.fifo.bring(load, block, self.now_ms, &mut out);
            self.read(out);
        }
    }

    fn load_for_browser(&mut self) {
        if let Some(load) = self.browser_loads.pop() {
            let mut out = Output::default();
            let at = load.block.load;
            let block = self.shelf.runs().contains(&at.run).then(|| self.shelf.block(at));
            let now_ms = self.now_ms;
            lending(&mut out, |out, deliver| {
                self.fifo.handle_browsed(load, block.as_ref(), now_ms, out, deliver);
            });
            self.read(out);
            self.pass(self.viewer(load.consumer));
        }
    }

    fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
        let mut out = Output::default();
        self.fifo.time(self.now_ms, &mut out);
        self.read(out);
    }

    fn page_out(&mut self, messages: u64) {
        self.is_writing = self.is_writing || self.shelf.page_out(&mut self.fifo, messages).is_some();
    }

    fn stored(&mut self) {
        if std::mem::take(&mut self.is_writing) {
            let mut out = Output::default();
            self.fifo.handle_stored(&mut out);
            self.read(out);
        }
    }

    fn read(&mut self, out: Output) {
        self.loads.extend(out.loads);
        self.browser_loads.extend(out.browser_loads);
        for effect in out.effects {
            match effect {
                Effect::Delivery(Delivery { consumer: TAKER, number, seq, .. }) => {
                    self.items.get_mut(&seq).expect("a message of the queue").is_ready = false;
                    self.held.push((number, seq));
                    self.taken += 1;
                }
                Effect::Delivery(delivery) => self.see(&delivery),
                Effect::CreditState { consumer, state } => self.hear(consumer, state),
                Effect::Gone { consumer, reason } => self.ended.push((consumer, reason)),
                Effect::Refused { why, .. } => self.refused.push(why),
                _ => {}
            }
        }
        self.shelf.release(out.released);
    }

    fn viewer(&self, id: ConsumerId) -> usize {
        self.viewers.iter().position(|viewer| viewer.id == id).expect("a viewer")
    }

    fn has_expired(&self, item: &Item) -> bool {
        item.expires_ms.is_some_and(|at_ms| at_ms <= self.now_ms)
    }

    /// Returns the ready messages that are behind the place of a viewer and are its to see, with their places.
    fn ahead<'a>(&'a self, viewer: &'a Viewer) -> impl Iterator<Item = ((u8, u64), &'a Item)> {
        let items = self.items.iter().filter(|(seq, item)| **seq < viewer.end && item.is_ready);
        items.map(|(seq, item)| (place(item.priority, *seq), item)).filter(|(at, _)| *at > viewer.place)
    }

    /// Returns the places of the messages that a viewer may still see, in their order.
    fn left(&self, viewer: &Viewer) -> BTreeSet<(u8, u64)> {
        self.ahead(viewer).filter(|(_, item)| !self.has_expired(item)).map(|(at, _)| at).collect()
    }

    /// Returns those of [`World::left`] that the viewer must see: all but those that came back after it may have passed their
    /// places.
    fn due(&self, viewer: &Viewer) -> BTreeSet<(u8, u64)> {
        let is_missed =
            |at, item: &Item| viewer.passed.iter().any(|(step, passed)| *step < item.since && at < *passed);
        let due = self.ahead(viewer).filter(|(at, item)| !self.has_expired(item) && !is_missed(*at, item));
        due.map(|(at, _)| at).collect()
    }

    /// Called when a viewer was served. With credit left, it has passed the expired messages before the next one.
    fn pass(&mut self, at: usize) {
        let viewer = &self.viewers[at];
        let next = self.due(viewer).first().copied();
        let expired = self.ahead(viewer).filter(|(_, item)| self.has_expired(item)).map(|(at, _)| at);
        let last = expired.filter(|at| next.is_none_or(|next| *at < next)).max();
        if let Some(last) = last.filter(|_| viewer.credit > 0) {
            self.viewers[at].passed.push((self.step, last));
        }
    }

    fn see(&mut self, delivery: &Delivery) {
        let at = self.viewer(delivery.consumer);
        let (left, due) = (self.left(&self.viewers[at]), self.due(&self.viewers[at]));
        let found = left.into_iter().find(|(_, seq)| *seq == delivery.seq).expect("it has yet to see it");
        assert!(due.first().is_none_or(|next| found <= *next), "{due:?} {delivery:?}");
        let viewer = &mut self.viewers[at];
        viewer.numbers += 1;
        assert_eq!(delivery.number, viewer.numbers);
        assert!(viewer.credit > 0, "{viewer:?}");
        (viewer.credit, viewer.count) = (viewer.credit - 1, viewer.count + 1);
        viewer.place = found;
        viewer.seen.push(delivery.seq);
    }

    fn hear(&mut self, consumer: ConsumerId, state: CreditState) {
        let at = self.viewer(consumer);
        self.pass(at);
        let due = self.due(&self.viewers[at]);
        let viewer = &mut self.viewers[at];
        assert!(viewer.waits);
        viewer.waits = false;
        if state.drained {
            assert_eq!(state.credit, 0);
            assert!(state.available == 0 || viewer.credit == 0, "{viewer:?} {state:?}");
            viewer.count += viewer.credit;
            viewer.credit = 0;
        }
        assert_eq!((state.delivery_count, state.credit), (viewer.count, viewer.credit));
        if state.available == 0 {
            viewer.is_through = true;
            assert!(due.is_empty(), "{due:?} {viewer:?}");
        }
    }

    /// Lets every viewer see what is left for it.
    fn finish(&mut self) {
        for at in 0..self.viewers.len() {
            for _ in 0..10_000 {
                self.load_for_browser();
                if self.viewers[at].is_through && !self.viewers[at].waits {
                    break;
                }
                if !self.viewers[at].waits {
                    self.grant(at, 3, true);
                }
            }
            let viewer = &self.viewers[at];
            assert!(viewer.is_through, "{viewer:?}");
            let seen: BTreeSet<u64> = viewer.seen.iter().copied().collect();
            assert_eq!(seen.len(), viewer.seen.len(), "each message is seen once");
            let lives =
                |item: &Item| item.is_ready && item.expires_ms.is_none_or(|at_ms| at_ms > self.now_ms);
            for (seq, item) in self.items.iter().filter(|(seq, item)| lives(item) && **seq < viewer.end) {
                assert!(item.since > viewer.attached || seen.contains(seq), "{seq} was there all the time");
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish { priority: u8, ttl_ms: Option<u64> },
    Take(u32),
    Requeue(usize),
    Accept(usize),
    Wait(u64),
    PageOut(u64),
    Stored,
    Load,
    Forget,
    Purge,
    Browse,
    Grant { viewer: usize, credit: u32, drain: bool },
    LoadForBrowser,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..=HIGHEST, proptest::option::weighted(0.2, 1..100u64))
            .prop_map(|(priority, ttl_ms)| Step::Publish { priority, ttl_ms }),
        3 => (1..4u32).prop_map(Step::Take),
        2 => any::<usize>().prop_map(Step::Requeue),
        1 => any::<usize>().prop_map(Step::Accept),
        1 => (1..60u64).prop_map(Step::Wait),
        2 => (1..8u64).prop_map(Step::PageOut),
        2 => Just(Step::Stored),
        2 => Just(Step::Load),
        1 => Just(Step::Forget),
        1 => Just(Step::Purge),
        2 => Just(Step::Browse),
        6 => (any::<usize>(), 0..5u32, any::<bool>())
            .prop_map(|(viewer, credit, drain)| Step::Grant { viewer, credit, drain }),
        4 => Just(Step::LoadForBrowser),
    ]
}

proptest! {
    /// Every delivery to a browser is the next message in the order of delivery that is ready at that moment, was published
    /// before the browser attached, and has not expired.
    #[test]
    fn browsers_see_what_is_ready_in_order_and_once(steps in vec(step(), 0..120)) {
        let mut world = World::new();
        world.attach(TAKER, Mode::Take, false, None);
        for (number, step) in (1..).zip(steps) {
            world.step = number;
            match step {
                Step::Publish { priority, ttl_ms } => world.publish(priority, ttl_ms),
                Step::Take(n) => world.take(n),
                Step::Requeue(at) => world.settle(at, Outcome::Released),
                Step::Accept(at) => world.settle(at, Outcome::Accepted),
                Step::Wait(ms) => world.wait(ms),
                Step::PageOut(messages) => world.page_out(messages),
                Step::Stored => world.stored(),
                Step::Load => world.load(),
                Step::Forget => world.fifo.forget_loaded(),
                Step::Purge => world.purge(),
                Step::Browse => _ = world.browse(None),
                // The bridge of a gate has one grant in flight.
                Step::Grant { viewer, .. } if world.viewers.get(viewer % world.viewers.len().max(1)).is_some_and(|of| of.waits) => {}
                Step::Grant { viewer, credit, drain } => world.grant(viewer, credit, drain),
                Step::LoadForBrowser => world.load_for_browser(),
            }
            prop_assert_eq!(world.fifo.report().consumers, 1);
            prop_assert_eq!(world.fifo.report().unsettled, world.held.len() as u64);
        }
        world.finish();
    }
}

/// The place of a browser is behind expired messages, too. What returns before it is not shown.
#[test]
fn a_browser_has_passed_an_expired_message() {
    let mut world = World::new();
    world.attach(TAKER, Mode::Take, false, None);
    world.publish(0, None);
    world.publish(0, None);
    world.publish(0, Some(1));
    world.take(2);
    world.settle(0, Outcome::Released);
    world.browse(None);
    // The expired message is behind a ready one, so it is still in the queue.
    world.wait(1);
    world.step = 1;
    world.grant(0, 2, false);
    world.step = 2;
    world.settle(0, Outcome::Released);
    world.grant(0, 2, false);
    assert_eq!((&world.viewers[0].seen[..], world.viewers[0].is_through), (&[1][..], true));
    world.browse(None);
    world.finish();
    assert_eq!(world.viewers[1].seen, [1, 2]);
}

#[test]
fn a_browser_gets_enough_for_one_grant_and_gives_its_credit_back() {
    let mut world = World::new();
    let parts = Parts { wire: vec![0; 700_000].into(), ..Parts::default() };
    let large = Message::new(parts, Arc::new(Route::simple("", "q")));
    for _ in 0..5 {
        world.put(large.clone(), 0, None);
    }
    world.browse(None);
    let viewer = ConsumerId(10);
    for (count, seen) in [(0, 2), (100, 4), (200, 5)] {
        let mut out = Output::default();
        world.fifo.ask(
            Request::Grant { consumer: viewer, delivery_count: count, credit: 100, drain: true, echo: true },
            world.now_ms,
            &mut out,
        );
        let Some(Effect::CreditState { state, .. }) = out.effects.pop() else { panic!("{:?}", out.effects) };
        assert_eq!((state.credit, state.delivery_count), (0, count + 100));
        assert_eq!((state.drained, state.available), if seen == 5 { (true, 0) } else { (false, 5) });
        assert_eq!(out.effects.len(), if seen == 5 { 1 } else { 2 });
    }
    assert_eq!(world.fifo.report().ready, 5);
}

#[test]
fn a_message_that_is_too_large_is_passed_over() {
    let mut world = World::new();
    let parts = Parts { wire: vec![0; 10_000].into(), ..Parts::default() };
    world.put(Message::new(parts, Arc::new(Route::simple("", "q"))), 0, None);
    let mut out = Output::default();
    world.browse(Some(5_000));
    world.fifo.ask(
        Request::Grant { consumer: ConsumerId(10), delivery_count: 0, credit: 1, drain: true, echo: true },
        world.now_ms,
        &mut out,
    );
    assert!(matches!(&out.effects[..], [Effect::CreditState { state, .. }] if state.available == 0));
}

#[test]
fn browsers_are_bounded_and_are_no_consumers() {
    let mut world = World::new();
    world.publish(0, None);
    let ids: Vec<ConsumerId> = (0..=BROWSERS_MAX).map(|_| world.browse(None)).collect();
    assert_eq!(world.refused, [Refusal::TooManyBrowsers]);
    world.ask(Request::Detach { consumer: ids[0], failed: true });
    world.ask(Request::Cancel { consumer: ids[1] });
    assert_eq!(world.ended, [(ids[0], GoneReason::Detached), (ids[1], GoneReason::Cancelled)]);
    world.browse(None);
    assert_eq!(world.refused.len(), 1);
    // A consumer that wants to be alone does not mind them, and a queue with browsers is unused.
    world.attach(ConsumerId(5), Mode::Take, true, None);
    assert_eq!((world.refused.len(), world.fifo.report().consumers), (1, 1));
    world.ask(Request::Detach { consumer: ConsumerId(5), failed: false });
    world.ask(Request::Delete { ticket: Ticket(9), if_unused: true, if_empty: false });
    let gone = world.ended.iter().filter(|(_, reason)| *reason == GoneReason::QueueDeleted).count();
    assert_eq!(gone, BROWSERS_MAX - 1);
}

#[test]
fn outcomes_of_browsers_change_nothing() {
    let mut world = World::new();
    world.publish(0, None);
    let id = world.browse(None);
    world.grant(0, 1, false);
    for outcome in [Outcome::Accepted, Outcome::Rejected, Outcome::Released] {
        let mut out = Output::default();
        let settle = Request::Settle { consumer: id, first: 1, last: 1, outcome, answer: SettleAnswer::Made };
        world.fifo.ask(settle, world.now_ms, &mut out);
        assert!(matches!(&out.effects[..], [Effect::Settled { .. }]), "{:?}", out.effects);
        assert!(out.facts.is_empty());
    }
    let report = world.fifo.report();
    assert_eq!((report.ready, report.unsettled, report.delivered), (1, 0, 0));
}

/// A browser neither starts nor stops the time until an unused queue expires.
#[test]
fn a_queue_with_browsers_expires() {
    let mut world = World::new();
    world.fifo = Fifo::new(with(|config| config.expires_ms = Some(1000)));
    world.publish(0, None);
    world.wait(900);
    world.browse(None);
    world.grant(0, 1, false);
    world.wait(100);
    assert_eq!(world.ended, [(ConsumerId(10), GoneReason::QueueDeleted)]);
}
