//! No turn walks more rows than the limit, however many queues and connections there are. The tests use one
//! thread, a simulated clock, and a log that writes at once.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::asks::{Asks, keep};
use amqp10::Value;
use broker::mail::Mail;
use broker::placements::Placements;
use broker::settings::Settings;
use bytes::Bytes;
use catalog::access::Access;
use catalog::ids::QueueId;
use catalog::{Answer, BindingCursor, Catalog, CatalogError, Command, DeclareQueue, SetPolicy};
use message::{Message, Parts, Route};
use node::facts::Restored;
use node::shard::Shard;
use node::shard::looks::{Connections, Reports, Sums, WhatIsWrong};
use node::shard::questions::{AnswerTo, Look, PLACES_PER_PART, Part, Question, Read};
use node::{StorageLimits, make_shards};
use queue::{Publish, PublisherId, Request};
use wal::{Completion, Step};

/// The limit of rows per turn. It equals the shard's own constant.
const ROWS_PER_TURN: usize = 1000;

/// The number of turns after which a shard must be idle.
const TURNS_MAX: usize = 10_000;

struct World {
    shard: Shard,
    now_ms: u64,
    seq: u64,
    /// The name of the current step. The next field has the step and the duration of each turn.
    doing: &'static str,
    turns: Vec<(&'static str, Duration)>,
    /// The time that was spent on handing over input before the next turn.
    handed: Duration,
}

impl World {
    fn new() -> Self {
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let limits = StorageLimits::default();
        let shard = make_shards(Restored::default(), 1, &settings, &access, limits, 1000).remove(0);
        Self { shard, now_ms: 1000, seq: 0, doing: "", turns: Vec::new(), handed: Duration::ZERO }
    }

    /// Runs one turn as the runtime does. Returns true if another one must follow at once.
    fn turn(&mut self) -> bool {
        let began = Instant::now();
        self.shard.set_now(self.now_ms);
        self.shard.handle_timeout();
        let is_left = self.shard.turn();
        self.turns.push((self.doing, began.elapsed() + std::mem::take(&mut self.handed)));
        self.shard.take_replies();
        while let Some(handover) = self.shard.poll_handover() {
            for step in [Step::Written, Step::Synced] {
                let (ticket, size) = (handover.ticket, Default::default());
                self.shard.handle_logged(Completion {
                    shard: 0,
                    ticket,
                    step,
                    file: 0,
                    size,
                    result: Ok(()),
                });
            }
        }
        is_left || self.shard.next_timeout() <= self.now_ms
    }

    fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            if !self.turn() && !self.turn() {
                return;
            }
        }
        panic!("the shard does not become idle");
    }

    /// Declares `count` queues that expire after `expires_ms` milliseconds.
    fn declare(&mut self, prefix: &str, count: usize, expires_ms: i32) {
        for i in 0..count {
            let arguments = [("x-expires".to_owned(), Value::Int(expires_ms))].into();
            let declare = DeclareQueue::new("/", format!("{prefix}{i}"), arguments);
            self.shard.propose(Command::DeclareQueue(declare), Box::new(|answer| drop(answer.unwrap())));
        }
        self.settle();
    }

    /// Proposes a policy for all queues. Returns a flag that is set when the answer arrives.
    fn policy(&mut self, key: &str, value: i32) -> Arc<AtomicBool> {
        self.policy_for("", key, value)
    }

    /// Proposes a policy for the queues that match a pattern. Returns a flag that is set when the answer arrives.
    fn policy_for(&mut self, pattern: &str, key: &str, value: i32) -> Arc<AtomicBool> {
        let set = SetPolicy {
            vhost: "/".into(),
            name: "p".into(),
            operator: false,
            pattern: pattern.into(),
            priority: 0,
            apply_to: "queues".into(),
            definition: [(key.to_owned(), Value::Int(value))].into(),
        };
        let answered = Arc::new(AtomicBool::new(false));
        let seen = answered.clone();
        let then = move |answer: Result<Answer, CatalogError>| {
            answer.unwrap();
            seen.store(true, Ordering::Relaxed);
        };
        self.shard.propose(Command::SetPolicy(set), Box::new(then));
        answered
    }

    /// Posts a message for the next turn.
    fn publish(&mut self, queue: QueueId) {
        self.seq += 1;
        let parts = Parts { wire: Bytes::from_static(b"m"), durable: true, ..Parts::default() };
        let message = Message::new(parts, Arc::new(Route::simple("h", "k")));
        let publish = Publish { publisher: PublisherId(0), seq: self.seq, message, pipelines: false };
        self.shard.handle_mail(vec![Mail::Requests(vec![(queue, Request::Publish(publish))])]);
    }

    fn ready(&self, queue: QueueId) -> u64 {
        self.shard.queue_report(queue).unwrap().ready
    }

    /// Returns the connections that have something to write.
    fn take_dirty(&mut self) -> Vec<usize> {
        let mut keys = Vec::new();
        self.shard.take_dirty(&mut keys);
        keys
    }

    fn queues(&self) -> usize {
        self.shard.catalog().queues().count()
    }
}

#[test]
fn only_queues_that_are_due_are_visited() {
    let mut world = World::new();
    world.declare("late", 5000, 60_000);
    world.declare("soon", 3, 100);
    world.now_ms += 100;
    world.settle();
    assert_eq!(world.queues(), 5000);
    assert_eq!(world.shard.most_rows_walked(), 3);
    world.now_ms += 60_000;
    world.settle();
    assert_eq!(world.queues(), 0, "the rest expires in the next turns");
    assert!(world.shard.most_rows_walked() <= ROWS_PER_TURN, "{}", world.shard.most_rows_walked());
}

#[test]
fn chores_continue_in_the_next_turn() {
    let mut world = World::new();
    world.declare("q", 2500, 3_600_000);
    world.now_ms += 1000;
    let turns = (0..).take_while(|_| world.turn()).count();
    assert_eq!(world.shard.most_rows_walked(), ROWS_PER_TURN);
    assert_eq!(turns, 2, "and the third has nothing left");
}

#[test]
fn a_queue_has_its_new_settings_before_the_walk_reaches_it() {
    let mut world = World::new();
    world.declare("q", 3500, 3_600_000);
    let [first, last] = ["q0", "q3499"].map(|name| world.shard.catalog().listed_queue("/", name).unwrap().id);
    for queue in [first, last] {
        (0..3).for_each(|_| world.publish(queue));
    }
    world.settle();
    let answered = world.policy("max-length", 1);
    // The change is synced after the first turn.
    (0..2).for_each(|_| _ = world.turn());
    assert!(answered.load(Ordering::Relaxed), "the answer does not wait for the walk");
    assert!(world.shard.is_walking());
    assert_eq!([world.ready(first), world.ready(last)], [1, 3]);
    world.publish(last);
    world.turn();
    assert!(world.shard.is_walking(), "the walk has not reached it");
    assert_eq!(world.ready(last), 1);
    // Another policy is set during the walk. The walk then visits the earlier queues again.
    let answered = world.policy("max-length", 0);
    world.settle();
    assert!(answered.load(Ordering::Relaxed));
    assert_eq!([world.ready(first), world.ready(last)], [0, 0], "nobody asked for anything");
    assert_eq!(world.shard.most_rows_walked(), ROWS_PER_TURN);
}

/// A match with such a pattern takes as long as many rows, and the turn must not take longer for that.
#[test]
fn costly_policies_are_matched_with_few_queues_in_a_turn() {
    let mut world = World::new();
    world.declare("q", 60, i32::MAX);
    let mut turns = |pattern: &str, length: i32| {
        let before = world.turns.len();
        let answered = world.policy_for(pattern, "max-length", length);
        world.settle();
        assert!(answered.load(Ordering::Relaxed));
        let catalog = world.shard.catalog();
        assert!(catalog.queues().all(|queue| queue.config.max_length == Some(length as u64)), "{pattern}");
        assert!(world.shard.most_rows_walked() <= ROWS_PER_TURN, "{}", world.shard.most_rows_walked());
        world.turns.len() - before
    };
    let usual = turns("^q", 1);
    // Each costs more than 200 rows.
    let costly = turns("(?:.?.?.?.?){120}", 2);
    assert!(costly > usual + 60 * 200 / ROWS_PER_TURN, "{costly} turns, and {usual} for a usual policy");
}

#[test]
fn connections_are_notified_in_parts() {
    let mut world = World::new();
    let address = "127.0.0.1:5672".parse().unwrap();
    let keys: BTreeSet<usize> = (0..2500).map(|_| world.shard.connect(address, address)).collect();
    world.settle();
    world.take_dirty();
    for what in [|shard: &mut Shard| shard.set_blocked(true), |shard: &mut Shard| shard.shut_down("bye")] {
        what(&mut world.shard);
        let mut told = BTreeSet::new();
        while world.shard.is_notifying() {
            world.turn();
            let part = world.take_dirty();
            assert!(part.len() <= ROWS_PER_TURN, "{}", part.len());
            told.extend(part);
        }
        assert_eq!(told, keys);
    }
    assert_eq!(world.shard.most_rows_walked(), ROWS_PER_TURN);
}

// ---- the largest node -------------------------------------------------------------------------------------

/// Does everything that concerns all rows of a shard, one step after the other.
fn walk_everything(queues: usize, connections: usize) -> World {
    let mut world = World::new();
    world.declare("q", queues, 3_600_000);
    let ids: Vec<QueueId> = world.shard.catalog().queues().map(|queue| queue.id).collect();
    ids.iter().step_by(10).for_each(|queue| world.publish(*queue));
    let address = "127.0.0.1:5672".parse().unwrap();
    (0..connections).for_each(|_| _ = world.shard.connect(address, address));
    world.now_ms += 500;
    world.settle();
    world.take_dirty();
    world.turns.clear();

    let parts = |rows: usize| rows.div_ceil(ROWS_PER_TURN);
    let all_queues = parts(queues);
    world.step("a policy is set", all_queues, |world| _ = world.policy("max-length", 10));
    world.step("it is cleared", all_queues, |world| {
        let clear = Command::ClearPolicy { vhost: "/".into(), name: "p".into(), operator: false };
        world.shard.propose(clear, Box::new(|answer| drop(answer.unwrap())));
    });
    for (what, blocked) in [("an alarm goes up", true), ("it goes down", false)] {
        world.step(what, parts(connections), |world| world.shard.set_blocked(blocked));
    }
    world.step("a second's chores", all_queues, |world| world.now_ms += 1000);
    // An evacuation visits each queue, and each definition of a queue.
    world.step("an evacuation", 2 * all_queues, |world| {
        world.shard.handle_mail(vec![Mail::Evacuate { file: 0 }]);
    });
    world.step("the api lists", all_queues, |world| world.list_everything(queues, &ids));
    world.step("a stop", 2 * parts(connections), |world| {
        world.shard.set_blocked(true);
        world.settle();
        world.shard.shut_down("bye");
    });
    assert!(world.shard.most_rows_walked() <= ROWS_PER_TURN, "{}", world.shard.most_rows_walked());
    world
}

impl World {
    /// Begins a step and runs turns until the shard is idle. Asserts that it took at least `turns_min` turns:
    /// so the rows were walked and not skipped.
    fn step(&mut self, what: &'static str, turns_min: usize, begin: impl FnOnce(&mut Self)) {
        self.doing = what;
        let before = self.turns.len();
        begin(self);
        self.settle();
        self.take_dirty();
        let turns = self.turns.len() - before;
        assert!(turns >= turns_min, "{what}: {turns} turns, of {turns_min} at least");
    }

    /// Asks a shard and waits for the answer.
    fn ask<T: 'static>(&mut self, question: impl FnOnce(AnswerTo<T>) -> Question) -> T {
        let reply = Rc::new(RefCell::new(None));
        let answer = reply.clone();
        let to = keep(move |reply| _ = answer.borrow_mut().replace(reply));
        let began = Instant::now();
        self.shard.handle_question(question(to));
        self.handed += began.elapsed();
        loop {
            self.turn();
            if let Some(reply) = reply.borrow_mut().take() {
                return reply;
            }
        }
    }

    fn look<L: Look>(&mut self, look: L) -> L::Answer {
        self.ask(|to| Question::look(look, to))
    }

    fn read<T: Send + 'static>(
        &mut self,
        rows: impl Fn(&Catalog) -> usize + Send + 'static,
        read: impl FnOnce(&Catalog, &Placements) -> T + Send + 'static,
    ) -> T {
        self.ask(|to| Question::Read(Read::new(rows, read, to)))
    }

    /// Reads every list to its end, as the admin API does.
    fn list_everything(&mut self, queues: usize, ids: &[QueueId]) {
        let (mut listed, mut next) = (0, Some(0));
        while let Some(from) = next {
            let rows = move |catalog: &Catalog| Part::<()>::len_of(from, catalog.queue_places());
            let part = self.read(rows, move |catalog, _| {
                Part::of(from, catalog.queue_places(), |place| catalog.queue_at(place))
            });
            (listed, next) = (listed + part.rows.len(), part.next);
        }
        assert_eq!(listed, queues);
        let (mut listed, mut next) = (0, Some(0));
        while let Some(from) = next {
            let part = self.look(Connections { node: "n".into(), names: None, from });
            (listed, next) = (listed + part.rows.len(), part.next);
        }
        assert_eq!(listed, 0, "none has logged in");
        for ids in ids.chunks(PLACES_PER_PART) {
            let queues = ids.to_vec();
            let homes = move |_: &_, placements: &Placements| {
                queues.iter().map(|queue| placements.home(*queue)).collect::<Vec<_>>()
            };
            let count = ids.len();
            assert_eq!(self.read(move |_| count, homes).len(), count);
            self.look(Reports(ids.to_vec()));
        }
        // Three questions arrive at once. Those that are too much for one turn wait.
        let first: Vec<QueueId> = ids.iter().copied().take(PLACES_PER_PART).collect();
        let answered = Rc::new(RefCell::new(0));
        for _ in 0..3 {
            let answered = answered.clone();
            let began = Instant::now();
            self.shard.ask_look(Reports(first.clone()), move |_| *answered.borrow_mut() += 1);
            self.handed += began.elapsed();
        }
        self.settle();
        assert_eq!(*answered.borrow(), 3);
        let (mut counted, mut next) = (0, Some(0));
        while let Some(from) = next {
            let part = self.look(WhatIsWrong { of: None, from }).part;
            counted += part.rows.iter().map(|(_, troubles)| troubles.queues).sum::<u64>();
            next = part.next;
        }
        assert_eq!(counted, queues as u64);
        let totals = self.look(Sums);
        assert_eq!(totals.depth.ready, queues.div_ceil(10) as u64);
        let (mut listed, mut next) = (0, Some(BindingCursor::default()));
        while let Some(from) = next {
            let read = move |catalog: &Catalog, _: &_| catalog.bindings_from(from, PLACES_PER_PART);
            let (rows, after) = self.read(|_| PLACES_PER_PART, read);
            (listed, next) = (listed + rows.len(), after);
        }
        assert_eq!(listed, queues, "each queue has one with the default exchange");
    }
}

/// Prints the durations of each step's turns with `--nocapture`. The figures are in docs/performance.md.
#[test]
#[expect(clippy::print_stdout, reason = "these are the figures")]
fn no_turn_walks_more_than_its_rows() {
    let world = walk_everything(100_000, 10_000);
    let mut steps: Vec<&str> = world.turns.iter().map(|(what, _)| *what).collect();
    steps.dedup();
    for step in steps {
        let of_step = || world.turns.iter().filter(|(what, _)| *what == step).map(|(_, took)| *took);
        let (longest, all) = (of_step().max().unwrap_or_default(), of_step().sum::<Duration>());
        println!("{step}: {} turns, {all:.1?}, the longest {longest:.2?}", of_step().count());
    }
}
