//! No turn walks more rows than the bound, however many queues and connections there are. One thread, a false clock, and a
//! log that writes at once.

mod asks;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use amqp10::Value;
use asks::Asks;
use broker::access::Access;
use broker::catalog::{Answer, CatalogError, Command, DeclareQueue, SetPolicy};
use broker::ids::QueueId;
use broker::mail::Mail;
use broker::settings::Settings;
use bytes::Bytes;
use message::{Message, Parts, Route};
use node::facts::Restored;
use node::shard::Shard;
use node::{StorageLimits, make_shards};
use queue::{Publish, PublisherId, Request};
use wal::{Completion, Step};

/// The bound, as the shard has it.
const ROWS_PER_TURN: usize = 1000;

/// Turns after which a shard must be at rest.
const TURNS_MAX: usize = 10_000;

struct World {
    shard: Shard,
    now_ms: u64,
    seq: u64,
}

impl World {
    fn new() -> Self {
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let limits = StorageLimits::default();
        let shard = make_shards(Restored::default(), 1, &settings, &access, limits, 1000).remove(0);
        Self { shard, now_ms: 1000, seq: 0 }
    }

    /// One turn as the runtime makes it. Returns true if there must be another at once.
    fn turn(&mut self) -> bool {
        self.shard.set_now(self.now_ms);
        self.shard.handle_timeout();
        let is_left = self.shard.turn();
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
        panic!("the shard finds no rest");
    }

    /// Declares `count` queues, each with a time after which it expires.
    fn declare(&mut self, prefix: &str, count: usize, expires_ms: i32) {
        for i in 0..count {
            let arguments = [("x-expires".to_owned(), Value::Int(expires_ms))].into();
            let declare = DeclareQueue::new("/", format!("{prefix}{i}"), arguments);
            self.shard.propose(Command::DeclareQueue(declare), Box::new(|answer| drop(answer.unwrap())));
        }
        self.settle();
    }

    /// Asks for a policy of all queues. Returns what says whether it was answered.
    fn policy(&mut self, key: &str, value: i32) -> Arc<AtomicBool> {
        let set = SetPolicy {
            vhost: "/".into(),
            name: "p".into(),
            operator: false,
            pattern: "".into(),
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

    /// Has a message for the next turn.
    fn publish(&mut self, queue: QueueId) {
        self.seq += 1;
        let parts = Parts { wire: Bytes::from_static(b"m"), durable: true, ..Parts::default() };
        let message = Message::new(parts, Arc::new(Route::simple("h", "k")));
        let publish = Publish { publisher: PublisherId(0), seq: self.seq, message, patient: false };
        self.shard.handle_mail(vec![Mail::Requests(vec![(queue, Request::Publish(publish))])]);
    }

    fn ready(&self, queue: QueueId) -> u64 {
        self.shard.queue_report(queue).unwrap().ready
    }

    /// Connections that have something to write.
    fn told(&mut self) -> Vec<usize> {
        let mut keys = Vec::new();
        self.shard.take_dirty(&mut keys);
        keys
    }

    fn queues(&self) -> usize {
        self.shard.catalog().queues().count()
    }
}

#[test]
fn only_queues_that_are_due_are_looked_at() {
    let mut world = World::new();
    world.declare("late", 5000, 60_000);
    world.declare("soon", 3, 100);
    world.now_ms += 100;
    world.settle();
    assert_eq!(world.queues(), 5000);
    assert_eq!(world.shard.most_rows_walked(), 3);
    world.now_ms += 60_000;
    world.settle();
    assert_eq!(world.queues(), 0, "those that were too many for one turn come next");
    assert!(world.shard.most_rows_walked() <= ROWS_PER_TURN, "{}", world.shard.most_rows_walked());
}

#[test]
fn chores_go_on_in_the_next_turn() {
    let mut world = World::new();
    world.declare("q", 2500, 3_600_000);
    world.now_ms += 1000;
    let turns = (0..).take_while(|_| world.turn()).count();
    assert_eq!(world.shard.most_rows_walked(), ROWS_PER_TURN);
    assert_eq!(turns, 2, "and the third has nothing left");
}

#[test]
fn a_queue_has_its_new_settings_before_the_walk_comes_to_it() {
    let mut world = World::new();
    world.declare("q", 3500, 3_600_000);
    let [first, last] = ["q0", "q3499"].map(|name| world.shard.catalog().queue("/", name).unwrap().id);
    for queue in [first, last] {
        (0..3).for_each(|_| world.publish(queue));
    }
    world.settle();
    let answered = world.policy("max-length", 1);
    // The change is synced behind the first turn.
    (0..2).for_each(|_| _ = world.turn());
    assert!(answered.load(Ordering::Relaxed), "the answer does not wait for the walk");
    assert!(world.shard.is_walking());
    assert_eq!([world.ready(first), world.ready(last)], [1, 3]);
    world.publish(last);
    world.turn();
    assert!(world.shard.is_walking(), "the walk has not come there");
    assert_eq!(world.ready(last), 1);
    // Another one while the walk is under way: it comes to those again that it has visited.
    let answered = world.policy("max-length", 0);
    world.settle();
    assert!(answered.load(Ordering::Relaxed));
    assert_eq!([world.ready(first), world.ready(last)], [0, 0], "nobody asked for anything");
    assert_eq!(world.shard.most_rows_walked(), ROWS_PER_TURN);
}

#[test]
fn connections_are_told_in_parts() {
    let mut world = World::new();
    let address = "127.0.0.1:5672".parse().unwrap();
    let keys: BTreeSet<usize> = (0..2500).map(|_| world.shard.connect(address, address)).collect();
    world.settle();
    world.told();
    for what in [|shard: &mut Shard| shard.set_blocked(true), |shard: &mut Shard| shard.shut_down("bye")] {
        what(&mut world.shard);
        let mut told = BTreeSet::new();
        while world.shard.is_telling() {
            world.turn();
            let part = world.told();
            assert!(part.len() <= ROWS_PER_TURN, "{}", part.len());
            told.extend(part);
        }
        assert_eq!(told, keys);
    }
    assert_eq!(world.shard.most_rows_walked(), ROWS_PER_TURN);
}
