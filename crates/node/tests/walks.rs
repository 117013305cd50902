//! No turn walks more rows than the bound, however many queues and connections there are. One thread, a false clock, and a
//! log that writes at once.

use std::sync::Arc;

use amqp10::Value;
use broker::access::Access;
use broker::catalog::{Command, DeclareQueue};
use broker::settings::Settings;
use log::{Completion, Step};
use node::facts::Restored;
use node::shard::Shard;
use node::{StorageLimits, make_shards};

/// The bound, as the shard has it.
const ROWS_PER_TURN: usize = 1000;

/// Turns after which a shard must be at rest.
const TURNS_MAX: usize = 10_000;

struct World {
    shard: Shard,
    now_ms: u64,
}

impl World {
    fn new() -> Self {
        let (settings, access) = (Arc::new(Settings::default()), Arc::new(Access::default()));
        let limits = StorageLimits::default();
        let shard = make_shards(Restored::default(), 1, &settings, &access, limits, 1000).remove(0);
        Self { shard, now_ms: 1000 }
    }

    /// One turn as the runtime makes it. Returns true if there must be another at once.
    fn turn(&mut self) -> bool {
        self.shard.set_now(self.now_ms);
        self.shard.handle_timeout();
        let is_left = self.shard.turn();
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
