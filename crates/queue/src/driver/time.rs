//! The time of a replicated queue.
//!
//! A leader decides arrival times, and whoever leads next must not decide earlier ones, although its clock may show less: it is the clock
//! of another node, or that of this node after a restart. So the time of the queue is the shard's clock and an offset. Whatever the
//! member learns, it moves the time to at least the arrival time in that fact. While the member leads, it learns nothing, so the offset
//! is fixed and the time goes on as the clock does. It never stands.
//!
//! All times in facts, and all times inside the machine, are times of the queue. A timer is late by at most the difference of two clocks.

/// The offset between the shard's clock and the time of the queue. Both are in milliseconds since the epoch.
#[derive(Debug, Default)]
pub(super) struct Time {
    /// It only grows: otherwise the time would go back when the member leads again.
    ahead_ms: u64,
}

impl Time {
    /// Moves the time to `at_ms`, if the shard's clock shows `now_ms` and the time has not come so far. Returns true if it was moved.
    pub(super) fn advance(&mut self, at_ms: u64, now_ms: u64) -> bool {
        let ahead_ms = at_ms.saturating_sub(now_ms);
        let is_moved = ahead_ms > self.ahead_ms;
        self.ahead_ms = self.ahead_ms.max(ahead_ms);
        is_moved
    }

    /// Returns the time of the queue when the shard's clock shows `shard_ms`.
    pub(super) fn of_queue(&self, shard_ms: u64) -> u64 {
        shard_ms.saturating_add(self.ahead_ms)
    }

    /// Returns what the shard's clock shows at this time of the queue.
    pub(super) fn of_shard(&self, queue_ms: u64) -> u64 {
        queue_ms.saturating_sub(self.ahead_ms)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use message::{Message, Parts, Route};
    use proptest::prelude::*;

    use crate::fifo::{Fifo, Output, Restoring};
    use crate::{
        Carrier, Config, Deliver, DeliveryRef, Drive, Driver, EntryAt, Fact, Leadership, Publish,
        PublisherId, Put, Request,
    };

    const TTL_MS: u64 = 60_000;
    const HOUR_MS: u64 = 3_600_000;
    const MEMBERS: usize = 3;

    #[derive(Clone, Debug)]
    enum Step {
        /// All clocks go on.
        Pass(u64),
        Publish,
        /// This member leads from now on.
        Lead(usize),
        /// This member restarts. Afterwards its clock shows as much more than the true time, or less.
        Restart(usize, i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let hours = -(HOUR_MS as i64)..=HOUR_MS as i64;
        prop_oneof![
            4 => prop_oneof![0..2_000_u64, 0..2 * TTL_MS].prop_map(Step::Pass),
            4 => Just(Step::Publish),
            1 => (0..MEMBERS).prop_map(Step::Lead),
            1 => (0..MEMBERS, hours).prop_map(|(member, ahead_ms)| Step::Restart(member, ahead_ms)),
        ]
    }

    /// Collects the facts of messages.
    #[derive(Default)]
    struct Facts(Vec<Fact>);

    impl Deliver for Facts {
        fn deliver(&mut self, _: DeliveryRef<'_>) -> bool {
            false
        }
    }

    impl Carrier for Facts {
        fn put(&mut self, put: Put<'_>) -> bool {
            let Put { seq, message, at_ms, .. } = put;
            self.0.push(Fact::Put { seq, message: message.clone(), at_ms });
            false
        }
    }

    fn config() -> Arc<Config> {
        Arc::new(Config { message_ttl_ms: Some(TTL_MS), ..Config::new("q") })
    }

    struct Member {
        driver: Driver,
        fifo: Fifo,
        /// What its clock shows more than the true time.
        ahead_ms: i64,
    }

    impl Member {
        fn restored(facts: &[Fact], ahead_ms: i64, true_ms: u64) -> Self {
            let mut driver = Driver::replicated();
            let facts: Restoring = facts.iter().cloned().collect();
            let fifo = driver.restore(config(), facts, true_ms.strict_add_signed(ahead_ms));
            Self { driver, fifo, ahead_ms }
        }

        fn queue_ms(&self, true_ms: u64) -> u64 {
            self.driver.queue_ms(true_ms.strict_add_signed(self.ahead_ms))
        }
    }

    /// A group whose facts are committed at once.
    struct World {
        true_ms: u64,
        members: Vec<Member>,
        leader: usize,
        facts: Vec<Fact>,
        index: u64,
        /// The true times of the messages that have not expired.
        alive: Vec<u64>,
        /// The least and the most that any clock has shown more than the true time.
        skew: (i64, i64),
    }

    impl World {
        fn new() -> Self {
            let true_ms = 400_000 * HOUR_MS;
            let members = (0..MEMBERS).map(|_| Member::restored(&[], 0, true_ms)).collect();
            let (facts, alive) = (Vec::new(), Vec::new());
            let mut world = Self { true_ms, members, leader: 0, facts, index: 1, alive, skew: (0, 0) };
            world.lead(0);
            world
        }

        fn lead(&mut self, member: usize) {
            let shown_ms = self.shown_ms(self.leader);
            let Member { driver, fifo, .. } = &mut self.members[self.leader];
            if driver.decides() {
                let mut out = Output::default();
                driver.depose(fifo, shown_ms, &mut out);
                driver.close(fifo, &mut out);
            }
            self.members[member].driver.handle_leadership(Leadership::Leads);
            self.leader = member;
            // As the driver does when it leads.
            self.decide(|fifo, queue_ms, out, deliver| fifo.decide_again(queue_ms, out, deliver));
        }

        fn shown_ms(&self, member: usize) -> u64 {
            self.true_ms.strict_add_signed(self.members[member].ahead_ms)
        }

        /// Lets the leader decide, commits that, and lets the others learn it.
        fn decide(&mut self, act: impl FnOnce(&mut Fifo, u64, &mut Output, &mut Facts)) {
            let shown_ms = self.shown_ms(self.leader);
            let Member { driver, fifo, .. } = &mut self.members[self.leader];
            let (mut out, mut facts) = (Output::default(), Facts::default());
            act(fifo, driver.queue_ms(shown_ms), &mut out, &mut facts);
            driver.close(fifo, &mut out);
            facts.0.append(&mut out.facts);
            self.index += 1;
            driver.handle_proposed(EntryAt { term: 1, index: self.index });
            let deliver = &mut Facts::default();
            driver.handle_entries_committed(self.index, fifo, shown_ms, &mut out, deliver);
            for member in (0..MEMBERS).filter(|member| *member != self.leader) {
                let shown_ms = self.shown_ms(member);
                let Member { driver, fifo, .. } = &mut self.members[member];
                for fact in &facts.0 {
                    driver.learn(fact.clone(), shown_ms, fifo, &mut out);
                }
                driver.close(fifo, &mut out);
            }
            self.facts.append(&mut facts.0);
        }

        fn publish(&mut self) {
            let parts = Parts { wire: b"x".to_vec().into(), ..Parts::default() };
            let message = Message::new(parts, Arc::new(Route::simple("", "q")));
            let publish = Publish { publisher: PublisherId(1), seq: 1, message, pipelines: false };
            self.decide(|fifo, queue_ms, out, facts| {
                fifo.apply(Request::Publish(publish), queue_ms, out, facts);
            });
            self.alive.push(self.true_ms);
        }

        /// Handles the timers that are due by the leader's clock.
        fn handle_timeouts(&mut self) {
            let Member { driver, fifo, .. } = &self.members[self.leader];
            if driver.next_timeout(fifo).is_some_and(|due_ms| due_ms <= self.shown_ms(self.leader)) {
                self.decide(|fifo, queue_ms, out, facts| fifo.handle_timeout(queue_ms, out, facts));
            }
        }

        fn play(&mut self, step: &Step) {
            let before = (self.leader, self.members[self.leader].queue_ms(self.true_ms));
            match *step {
                Step::Pass(ms) => {
                    self.true_ms += ms;
                    let now_ms = self.members[self.leader].queue_ms(self.true_ms);
                    assert_eq!(now_ms - before.1, ms, "the time goes on as the clock of the leader");
                }
                Step::Publish => self.publish(),
                Step::Lead(member) => self.lead(member),
                Step::Restart(member, ahead_ms) => {
                    self.skew = (self.skew.0.min(ahead_ms), self.skew.1.max(ahead_ms));
                    self.members[member] = Member::restored(&self.facts, ahead_ms, self.true_ms);
                    if member == self.leader {
                        self.lead(member);
                    }
                }
            }
            self.handle_timeouts();
            self.check();
        }

        fn check(&mut self) {
            let arrivals = self.facts.iter().filter_map(|fact| match fact {
                Fact::Put { at_ms, .. } => Some(*at_ms),
                _ => None,
            });
            assert!(arrivals.is_sorted(), "no message arrives before an earlier one");
            // The time is between the clocks. So a message expires too early, or too late, by the skew at most.
            let (least, most) = self.skew;
            for member in &self.members {
                let ahead_ms = member.queue_ms(self.true_ms) as i64 - self.true_ms as i64;
                assert!((least..=most).contains(&ahead_ms), "{ahead_ms}, clocks are {:?} ahead", self.skew);
            }
            let skew_ms = (most - least) as u64;
            let ready = self.members[self.leader].fifo.report().ready as usize;
            let expired = self.alive.drain(..self.alive.len() - ready);
            let is_early = |at: u64| at + TTL_MS > self.true_ms + skew_ms;
            assert!(!expired.into_iter().any(is_early), "a message expires too early");
            let is_late = |at: &u64| at + TTL_MS + skew_ms <= self.true_ms;
            assert!(!self.alive.iter().any(is_late), "a message expires too late");
        }
    }

    proptest! {
        #[test]
        fn the_time_of_a_queue_neither_goes_back_nor_stands(steps in prop::collection::vec(step(), 1..60)) {
            let mut world = World::new();
            steps.iter().for_each(|step| world.play(step));
        }
    }

    /// The plain case: a restart on a clock that was set back by an hour.
    #[test]
    fn a_message_expires_in_time_although_the_clock_was_set_back() {
        let mut world = World::new();
        world.publish();
        world.play(&Step::Restart(0, -(HOUR_MS as i64)));
        world.play(&Step::Pass(TTL_MS - 1));
        assert_eq!(world.alive.len(), 1);
        world.play(&Step::Publish);
        world.play(&Step::Pass(1));
        assert_eq!(world.alive.len(), 1);
        world.play(&Step::Pass(TTL_MS - 1));
        assert_eq!(world.alive.len(), 0);
    }
}
