//! Tests who is answered when a member leads, is deposed, and leads again, in random order. A naive model of the group's
//! log says which entries are committed.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;
use crate::driver::mutation::Mutation;
use crate::{Depth, Receipt, Refusal, Requester};

#[derive(Clone, Copy, Debug)]
enum Step {
    Publish,
    /// Settles the oldest delivery that the consumer holds.
    Settle,
    Purge,
    /// Deletes the queue.
    Delete,
    /// Ends the turn.
    Close,
    /// Makes an entry of the closed turns.
    Propose,
    /// This member leads, and the next entry is committed.
    Commit,
    Depose,
    /// The next leader has the next entry of this member, and commits it.
    CommitMine,
    /// The next leader commits an entry of its own in its place.
    CommitOther,
    Lead,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Publish),
        5 => Just(Step::Settle),
        1 => Just(Step::Purge),
        1 => Just(Step::Delete),
        6 => Just(Step::Close),
        4 => Just(Step::Propose),
        3 => Just(Step::Commit),
        2 => Just(Step::Depose),
        2 => Just(Step::CommitMine),
        1 => Just(Step::CommitOther),
        2 => Just(Step::Lead),
    ];
    prop::collection::vec(step, 1..80)
}

/// Something that must be answered once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Publish(u64),
    /// A consumer, and the number of its delivery.
    Settle(u64, u64),
    Purge(u64),
}

/// Where a request is, as the model knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the open turn.
    Open,
    /// In a closed turn that is in no entry.
    Closed,
    Entry(EntryAt),
    /// In no entry, and never will be.
    Nowhere,
    /// It had to wait for nothing.
    Committed,
}

/// An entry of the group's log.
#[derive(Debug)]
struct Logged {
    at: EntryAt,
    turn: u64,
    facts: Vec<Fact>,
}

struct World {
    queue: Queue,
    leads: bool,
    term: u64,
    /// Facts of turns that are in no entry.
    facts: Vec<Fact>,
    /// The newest turn that was closed.
    turn: u64,
    /// All entries of this member's log. The first `committed` are committed.
    log: Vec<Logged>,
    committed: usize,
    places: BTreeMap<Asked, Place>,
    /// The turns of requests that are in an entry or will be.
    turns: BTreeMap<Asked, u64>,
    /// True for success.
    answers: BTreeMap<Asked, bool>,
    next: u64,
    consumer: u64,
    /// True if the queue has decided to end, and the fact is in this member's log or will be.
    is_ending: bool,
    /// Publishes whose messages went with the queue.
    released: BTreeSet<u64>,
    /// What the consumer holds, by its own numbers.
    held: BTreeSet<u64>,
    /// Consumers that have ended.
    lost: BTreeSet<u64>,
}

/// Collects the messages that are put. Takes no delivery: each becomes an effect.
struct Putting<'a>(&'a mut Vec<Fact>);

impl Deliver for Putting<'_> {
    fn deliver(&mut self, _: DeliveryRef<'_>) -> bool {
        false
    }
}

impl Carrier for Putting<'_> {
    fn put(&mut self, put: Put<'_>) -> bool {
        self.0.push(Fact::from(put));
        false
    }
}

impl World {
    fn new(mutation: Option<Mutation>) -> Self {
        let mut queue = replicated();
        queue.replica().mutation = mutation;
        Self {
            queue,
            leads: true,
            term: 1,
            facts: vec![],
            turn: 0,
            log: vec![],
            committed: 0,
            places: BTreeMap::new(),
            turns: BTreeMap::new(),
            answers: BTreeMap::new(),
            next: 1,
            consumer: 1,
            is_ending: false,
            released: BTreeSet::new(),
            held: BTreeSet::new(),
            lost: BTreeSet::new(),
        }
    }

    fn ask(&mut self, request: Request, asked: Option<Asked>) {
        asked.into_iter().for_each(|asked| _ = self.places.insert(asked, Place::Open));
        let Queue { fifo, out, .. } = &mut self.queue;
        fifo.apply(request, 1000, out, &mut Putting(&mut self.facts));
    }

    /// Returns true if an entry that is committed says that the queue has ended.
    fn has_ended(&self) -> bool {
        let facts = self.log[..self.committed].iter().flat_map(|entry| &entry.facts);
        facts.into_iter().any(|fact| matches!(fact, Fact::Ended { .. }))
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            // The driver holds requests, or there is nothing to ask any more.
            Step::Publish | Step::Settle | Step::Purge | Step::Delete
                if self.is_ending || self.has_ended() => {}
            Step::Publish if self.leads => {
                let asked = Asked::Publish(self.next);
                self.ask(publish(self.next, true), Some(asked));
                self.next += 1;
            }
            Step::Settle if self.leads => {
                let Some(number) = self.held.pop_first() else { return Ok(()) };
                let consumer = ConsumerId(self.consumer);
                let (outcome, answer) = (Outcome::Accepted, SettleAnswer::Made);
                let settle = Request::Settle { consumer, first: number, last: number, outcome, answer };
                self.ask(settle, Some(Asked::Settle(self.consumer, number)));
            }
            Step::Purge if self.leads => {
                let ticket = Ticket(self.next);
                self.next += 1;
                self.ask(Request::Purge { ticket }, Some(Asked::Purge(ticket.0)));
            }
            Step::Delete if self.leads => {
                let ticket = Ticket(self.next);
                self.next += 1;
                self.is_ending = true;
                let delete = Request::Delete { ticket, if_unused: false, if_empty: false };
                self.ask(delete, Some(Asked::Purge(ticket.0)));
            }
            Step::Close => return self.close(),
            Step::Propose if self.leads => {
                self.close()?;
                if self.queue.replica().has_unproposed() {
                    self.propose();
                }
            }
            Step::Commit if self.leads && self.committed < self.log.len() => return self.commit(),
            Step::Depose if self.leads => {
                self.close()?;
                return self.depose();
            }
            Step::CommitMine if !self.leads && self.committed < self.log.len() => return self.learn(),
            Step::CommitOther if !self.leads => {
                self.log.truncate(self.committed);
                self.term += 1;
                self.push(Vec::new());
                return self.learn();
            }
            Step::Lead if !self.leads => return self.lead(),
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, facts: Vec<Fact>) -> EntryAt {
        let at = EntryAt { term: self.term, index: self.log.len() as u64 + 1 };
        self.log.push(Logged { at, turn: self.turn, facts });
        at
    }

    fn close(&mut self) -> Result<(), String> {
        let Queue { driver, fifo, out } = &mut self.queue;
        let Awaits::Commit(mark) = driver.close(fifo, out) else { panic!("it is replicated") };
        self.facts.append(&mut out.facts);
        let is_new = mark.turn > self.turn;
        self.turn = mark.turn;
        // A turn that has changed nothing depends on the turn before it.
        let before = match self.log[self.committed..].last() {
            Some(entry) if entry.turn == mark.turn => Place::Entry(entry.at),
            _ if self.queue.replica().has_unproposed() => Place::Closed,
            _ => Place::Committed,
        };
        let place = if is_new { Place::Closed } else { before };
        for (asked, at) in self.places.iter_mut().filter(|(_, place)| **place == Place::Open) {
            *at = place;
            self.turns.insert(*asked, mark.turn);
        }
        self.take()
    }

    fn propose(&mut self) {
        let facts = std::mem::take(&mut self.facts);
        let at = self.push(facts);
        self.queue.replica().handle_proposed(at);
        for place in self.places.values_mut().filter(|place| **place == Place::Closed) {
            *place = Place::Entry(at);
        }
    }

    fn commit(&mut self) -> Result<(), String> {
        self.close()?;
        self.committed += 1;
        let Queue { driver, fifo, out } = &mut self.queue;
        driver.handle_entries_committed(self.committed as u64, fifo, 1000, out, &mut Nobody);
        self.close()
    }

    fn depose(&mut self) -> Result<(), String> {
        self.leads = false;
        for place in self.places.values_mut().filter(|place| **place == Place::Closed) {
            *place = Place::Nowhere;
        }
        self.facts.clear();
        self.is_ending = false;
        let Queue { driver, fifo, out } = &mut self.queue;
        driver.depose(fifo, 1000, out);
        self.take()?;
        self.close()
    }

    /// The next entry of the log is committed while the member does not lead.
    fn learn(&mut self) -> Result<(), String> {
        self.committed += 1;
        let Logged { at, ref facts, .. } = self.log[self.committed - 1];
        let Queue { driver: Driver::Replica(replica), fifo, out } = &mut self.queue else { panic!() };
        facts.iter().cloned().for_each(|fact| fifo.learn(fact, out));
        replica.close(fifo, out);
        replica.handle_decided(at, fifo, 1000, out);
        self.take()?;
        self.close()
    }

    /// The member is elected with the log that it has, and commits all of it.
    fn lead(&mut self) -> Result<(), String> {
        self.term += 1;
        self.push(Vec::new());
        while self.committed < self.log.len() {
            self.learn()?;
        }
        self.leads = true;
        self.queue.replica().lead();
        Ok(())
    }

    fn is_committed(&self, asked: Asked) -> bool {
        match self.places[&asked] {
            Place::Committed => true,
            Place::Entry(at) => self.log[..self.committed].iter().any(|entry| entry.at == at),
            Place::Open | Place::Closed | Place::Nowhere => false,
        }
    }

    fn answer(&mut self, asked: Asked, success: bool) -> Result<(), String> {
        if success && !self.is_committed(asked) {
            return Err(format!("{asked:?} is answered, and not committed: {:?}", self.places[&asked]));
        }
        match self.answers.insert(asked, success) {
            Some(_) => Err(format!("{asked:?} is answered twice")),
            None => Ok(()),
        }
    }

    /// Takes the answers and deliveries out of the output.
    fn take(&mut self) -> Result<(), String> {
        let receipts: Vec<Receipt> = self.queue.out.receipts.drain().collect();
        let effects: Vec<Effect> = self.queue.out.effects.drain(..).collect();
        for Receipt { first, last, verdict, .. } in receipts {
            if verdict == Verdict::Released {
                if !self.has_ended() {
                    return Err(format!("{first}..={last} are released, and the queue has not ended"));
                }
                self.released.extend(first..=last);
            }
            for publish in first..=last {
                self.answer(Asked::Publish(publish), verdict == Verdict::Accepted)?;
            }
        }
        let mut is_lost = false;
        for effect in effects {
            match effect {
                Effect::Delivery(delivery) if delivery.consumer.0 == self.consumer => {
                    self.held.insert(delivery.number);
                }
                Effect::Settled { consumer, first, .. } => {
                    self.answer(Asked::Settle(consumer.0, first), true)?;
                }
                Effect::Done { ticket, .. } => self.answer(Asked::Purge(ticket.0), true)?,
                Effect::Refused { requester: Requester::Ticket(ticket), why: Refusal::Unavailable } => {
                    self.answer(Asked::Purge(ticket.0), false)?;
                }
                Effect::Gone { consumer, reason: GoneReason::OutOfReach { node: None } } => {
                    assert!(self.lost.insert(consumer.0), "it ends once");
                    is_lost |= consumer.0 == self.consumer;
                }
                _ => {}
            }
        }
        // What is refused now, another leader may commit later. So all answers are checked each time.
        for (asked, success) in &self.answers {
            let is_released = matches!(asked, Asked::Publish(number) if self.released.contains(number));
            if !success && !is_released && self.is_committed(*asked) {
                return Err(format!("{asked:?} was refused, and is committed"));
            }
        }
        if is_lost {
            self.attach();
            return self.take();
        }
        Ok(())
    }

    /// The client comes back with a new consumer.
    fn attach(&mut self) {
        self.consumer += 1;
        self.held.clear();
        let consumer = ConsumerId(self.consumer);
        self.ask(
            Request::Attach(crate::Attach {
                consumer,
                mode: crate::Mode::Take,
                priority: 0,
                exclusive: false,
                settled: false,
                delivery_count: 0,
                message_bytes_max: None,
                timeout: crate::ConsumerTimeout::default(),
            }),
            None,
        );
        let credit = 99;
        self.ask(Request::Grant { consumer, delivery_count: 0, credit, drain: false, echo: false }, None);
    }

    /// Checks that the queue has the messages that the committed entries leave. Nothing may be uncommitted.
    fn check_messages(&self) -> Result<(), String> {
        let mut alive = BTreeSet::new();
        for fact in self.log[..self.committed].iter().flat_map(|entry| &entry.facts) {
            match *fact {
                Fact::Put { seq, .. } => _ = alive.insert(seq),
                Fact::Gone(Span { first, last }) => alive.retain(|seq| !(first..=last).contains(seq)),
                Fact::Returned { .. } => {}
                Fact::Ended { .. } => {
                    alive.clear();
                    break;
                }
            }
        }
        let Depth { ready, unsettled, delayed, leaving } = self.queue.fifo.depth();
        let here = ready + unsettled + delayed + leaving;
        match here == alive.len() as u64 {
            true => Ok(()),
            false => Err(format!("{here} messages in place of {alive:?}")),
        }
    }

    /// The group ends. Then nobody waits any more.
    fn end(&mut self) -> Result<(), String> {
        if self.leads {
            self.close()?;
            self.depose()?;
        }
        self.check_messages()?;
        let Queue { driver: Driver::Replica(replica), fifo, out } = &mut self.queue else { panic!() };
        replica.handle_closed(fifo, 1000, out);
        self.take()?;
        for asked in self.places.keys() {
            let is_told = match asked {
                Asked::Settle(consumer, _) => self.lost.contains(consumer),
                Asked::Publish(_) | Asked::Purge(_) => false,
            };
            if !is_told && !self.answers.contains_key(asked) {
                return Err(format!("{asked:?} is never answered"));
            }
        }
        Ok(())
    }
}

/// Performs the steps. Returns what is wrong.
fn run(steps: &[Step], mutation: Option<Mutation>) -> Result<(), String> {
    let mut world = World::new(mutation);
    for step in steps {
        world.step(*step).map_err(|wrong| format!("after {step:?}: {wrong}"))?;
        if !world.leads {
            world.check_messages().map_err(|wrong| format!("after {step:?}: {wrong}"))?;
        }
    }
    world.end().map_err(|wrong| format!("at the end: {wrong}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Everybody is answered once, nobody with success before the commit, and nobody with a refusal of what is committed
    /// then or later.
    #[test]
    fn everybody_is_answered_once_and_rightly(steps in steps()) {
        let result = run(&steps, None);
        prop_assert!(result.is_ok(), "{:?}", result);
    }
}

#[test]
fn each_mutation_of_a_rollback_is_found() {
    for mutation in Mutation::ALL {
        let mut runner = TestRunner::deterministic();
        let mut tries = (0..2000).map(|_| steps().new_tree(&mut runner).expect("steps").current());
        assert!(tries.any(|steps| run(&steps, Some(mutation)).is_err()), "{mutation:?} is not found");
    }
}
