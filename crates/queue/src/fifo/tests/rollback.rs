//! Tests turns that are committed late or rolled back, in random order. The real machine runs under [`Late`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use proptest::prelude::*;

use super::late::Late;
use super::model::note;
use super::properties::check_deliveries;
use super::shelf::Shelf;
use super::transcript::{config, dead_letters, message};
use crate::fifo::entry::Entry;
use crate::fifo::unsettled::Unsettled;
use crate::fifo::{Fifo, Output};
use crate::*;

const PUBLISHER: PublisherId = PublisherId(1);

/// A step of a run. Numbers that select something are taken modulo the number of candidates.
#[derive(Clone, Debug)]
enum Step {
    Publish {
        priority: u8,
        ttl_ms: Option<u64>,
        len: usize,
    },
    Settle {
        reader: usize,
        first: u64,
        len: u64,
        outcome: Outcome,
    },
    DeadLettered {
        which: usize,
        taken: bool,
    },
    Purge,
    Delete {
        if_unused: bool,
        if_empty: bool,
    },
    Attach {
        priority: i32,
        settled: bool,
    },
    Grant {
        reader: usize,
        credit: u32,
    },
    Cancel {
        reader: usize,
    },
    Detach {
        reader: usize,
        failed: bool,
    },
    Fetch {
        n: u32,
        settled: bool,
    },
    Tick {
        ms: u64,
    },
    Close,
    Commit {
        which: usize,
    },
    RollBack {
        which: usize,
    },
    Pause,
    Refuse,
    /// Starts to write a run, or ends the writing that was started.
    PageOut {
        messages: u64,
    },
    /// Copies the live messages of a run.
    Move {
        which: usize,
    },
    Forget,
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let keys = prop_oneof![Just("x-a"), Just("x-b")];
    let notes = (keys, any::<u32>()).prop_map(|(key, value)| note(key, value));
    let times = (900..1300u32).prop_map(|time| note("x-opt-delivery-time", time));
    let annotations = prop::option::of(prop_oneof![notes, times]);
    let modified =
        (any::<bool>(), any::<bool>(), annotations).prop_map(|(failed, undeliverable_here, annotations)| {
            Outcome::Modified { failed, undeliverable_here, annotations: annotations.map(Box::new) }
        });
    prop_oneof![
        3 => Just(Outcome::Accepted),
        2 => Just(Outcome::Released),
        1 => Just(Outcome::Unsent),
        1 => Just(Outcome::Rejected),
        2 => modified,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let ttl_ms = prop_oneof![5 => Just(None), 1 => (0..40u64).prop_map(Some)];
    prop_oneof![
        12 => (0..4u8, ttl_ms, 1..4usize)
            .prop_map(|(priority, ttl_ms, len)| Step::Publish { priority, ttl_ms, len }),
        8 => (any::<usize>(), 0..10u64, 0..4u64, outcome())
            .prop_map(|(reader, first, len, outcome)| Step::Settle { reader, first, len, outcome }),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(which, taken)| Step::DeadLettered { which, taken }),
        1 => Just(Step::Purge),
        1 => (any::<bool>(), any::<bool>())
            .prop_map(|(if_unused, if_empty)| Step::Delete { if_unused, if_empty }),
        2 => (0..3i32, prop::bool::weighted(0.2))
            .prop_map(|(priority, settled)| Step::Attach { priority, settled }),
        6 => (any::<usize>(), 0..6u32).prop_map(|(reader, credit)| Step::Grant { reader, credit }),
        1 => any::<usize>().prop_map(|reader| Step::Cancel { reader }),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(reader, failed)| Step::Detach { reader, failed }),
        1 => (0..4u32, any::<bool>()).prop_map(|(n, settled)| Step::Fetch { n, settled }),
        2 => (0..30u64).prop_map(|ms| Step::Tick { ms }),
        10 => Just(Step::Close),
        6 => any::<usize>().prop_map(|which| Step::Commit { which }),
        4 => any::<usize>().prop_map(|which| Step::RollBack { which }),
        1 => Just(Step::Pause),
        1 => Just(Step::Refuse),
        6 => (1..12u64).prop_map(|messages| Step::PageOut { messages }),
        2 => any::<usize>().prop_map(|which| Step::Move { which }),
        1 => Just(Step::Forget),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..100)
}

fn configs() -> impl Strategy<Value = Config> {
    let overflow = prop_oneof![Just(Overflow::DropHead), Just(Overflow::RejectPublish)];
    let limits = (prop::option::weighted(0.3, 0..6u64), prop::option::weighted(0.2, 0..12u64));
    let dead_letter = prop::option::of(Just(false));
    let ttl_ms = prop::option::weighted(0.2, 0..50u64);
    let max_priority = prop::option::weighted(0.3, 1..4u8);
    let single_active = prop::bool::weighted(0.2);
    let ends = (prop::bool::weighted(0.2), prop::option::weighted(0.2, 20..60u64));
    (overflow, limits, dead_letter, ttl_ms, max_priority, single_active, prop::option::of(quorum()), ends)
        .prop_map(
            |(
                overflow,
                limits,
                dead_letter,
                message_ttl_ms,
                max_priority,
                single_active_consumer,
                quorum,
                ends,
            )| {
                Config {
                    overflow,
                    max_length: limits.0,
                    max_length_bytes: limits.1,
                    dead_letter: dead_letter.and_then(dead_letters),
                    message_ttl_ms,
                    max_priority,
                    single_active_consumer,
                    quorum,
                    auto_delete: ends.0,
                    expires_ms: ends.1,
                    ..config()
                }
            },
        )
}

fn quorum() -> impl Strategy<Value = QuorumConfig> {
    use RetryKind::{All, Disabled, Failed, Returned};
    let kind = prop::sample::select(vec![Disabled, All, Failed, Returned]);
    let times = (prop::option::weighted(0.8, 0..20u64), prop::option::of(0..60u64));
    (prop::option::of(0..3i64), kind, times).prop_map(|(delivery_limit, kind, (min_ms, max_ms))| {
        QuorumConfig { delivery_limit, retry: DelayedRetry { kind, min_ms, max_ms }, ..Default::default() }
    })
}

/// A request that can be repeated on another machine.
#[derive(Clone, Debug)]
enum Call {
    Publish(Publish),
    Settle {
        consumer: ConsumerId,
        first: u64,
        last: u64,
        outcome: Outcome,
    },
    /// Names the message, because another machine may have another token for it.
    DeadLettered {
        seq: u64,
        arrival: Arrival,
    },
    Purge {
        ticket: Ticket,
    },
    Delete {
        ticket: Ticket,
        if_unused: bool,
        if_empty: bool,
    },
    Attach {
        consumer: ConsumerId,
        priority: i32,
        settled: bool,
    },
    Grant {
        consumer: ConsumerId,
        delivery_count: u32,
        credit: u32,
        drain: bool,
    },
    Cancel {
        consumer: ConsumerId,
    },
    Detach {
        consumer: ConsumerId,
        failed: bool,
    },
    Fetch {
        holder: ConsumerId,
        n: u32,
        settled: bool,
    },
    Timeout,
}

impl Call {
    /// Returns the request, or `None` for the passing of time.
    fn request(&self, fifo: &Fifo) -> Option<Request> {
        Some(match self.clone() {
            Self::Publish(publish) => Request::Publish(publish),
            Self::Settle { consumer, first, last, outcome } => {
                Request::Settle { consumer, first, last, outcome, answer: SettleAnswer::Made }
            }
            Self::DeadLettered { seq, arrival } => {
                let token = fifo.leaving.token_of(seq).unwrap_or(0);
                Request::DeadLettered { token, arrival, taken_by: Vec::new() }
            }
            Self::Purge { ticket } => Request::Purge { ticket },
            Self::Delete { ticket, if_unused, if_empty } => Request::Delete { ticket, if_unused, if_empty },
            Self::Attach { consumer, priority, settled } => Request::Attach(Attach {
                consumer,
                mode: Mode::Take,
                priority,
                exclusive: false,
                settled,
                delivery_count: 0,
                message_bytes_max: None,
                timeout: ConsumerTimeout::default(),
            }),
            Self::Grant { consumer, delivery_count, credit, drain } => {
                Request::Grant { consumer, delivery_count, credit, drain, echo: false }
            }
            Self::Cancel { consumer } => Request::Cancel { consumer },
            Self::Detach { consumer, failed } => Request::Detach { consumer, failed },
            Self::Fetch { holder, n, settled } => Request::Fetch { ticket: Ticket(0), holder, n, settled },
            Self::Timeout => return None,
        })
    }

    fn apply(&self, fifo: &mut Fifo, now_ms: u64, out: &mut Output) {
        match self.request(fifo) {
            Some(request) => fifo.ask(request, now_ms, out),
            None => fifo.time(now_ms, out),
        }
    }
}

/// Something that happened to a machine.
#[derive(Clone, Debug)]
enum Event {
    /// A call, with the turn in which it was applied.
    Call(u64, Call),
    Close(u64),
    Committed(u64),
    Now(u64),
}

/// A consumer, as a client knows it.
#[derive(Clone, Debug)]
struct Reader {
    id: u64,
    /// The number of deliveries received, plus credit that drains used up.
    count: u32,
    /// The count up to which it has granted credit.
    limit: u32,
    /// The number of its last delivery.
    number: u64,
}

/// What happened to a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Its turn may still be rolled back.
    Open(u64),
    Committed,
    RolledBack,
    /// Refused by the driver.
    Refused,
    /// Rejected because of a length limit.
    Full,
    /// Gone with its queue.
    Released,
}

struct Run {
    fifo: Fifo,
    late: Late,
    shelf: Shelf,
    is_writing: bool,
    config: Config,
    now_ms: u64,
    /// The output of the open turn.
    out: Output,
    history: Vec<Event>,
    readers: Vec<Reader>,
    next_id: u64,
    refuses: bool,
    held: Vec<Call>,
    /// By publish.
    fates: BTreeMap<u64, Fate>,
    receipts: BTreeMap<u64, Vec<Verdict>>,
    /// The tickets of purges and deletions with their turns. Then those that were answered with success.
    purges: BTreeMap<u64, u64>,
    done: BTreeSet<u64>,
    refused: BTreeSet<u64>,
    /// Consumer, first number and turn of each settlement. Then those that were answered.
    settling: Vec<(u64, u64, u64)>,
    settled: Vec<(u64, u64)>,
    /// The tokens of dead letters that were sent.
    dead: BTreeSet<u64>,
    /// True if the fate of what is rolled back is known at once: it is lost. Otherwise it stays in doubt.
    loses: bool,
}

impl Run {
    fn new(config: Config) -> Self {
        let late = Late::new();
        Self {
            fifo: Fifo::new(config.clone()).with_policy(late.policy()),
            late,
            shelf: Shelf::default(),
            is_writing: false,
            config,
            now_ms: 1000,
            out: Output::default(),
            history: vec![],
            readers: vec![],
            next_id: 1,
            refuses: false,
            held: vec![],
            fates: BTreeMap::new(),
            receipts: BTreeMap::new(),
            purges: BTreeMap::new(),
            done: BTreeSet::new(),
            refused: BTreeSet::new(),
            settling: vec![],
            settled: vec![],
            dead: BTreeSet::new(),
            loses: true,
        }
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Returns the request of a step, if it has a target. With `drains`, every grant drains, so no credit is left after
    /// it.
    fn call(&mut self, step: &Step, drains: bool) -> Option<Call> {
        let chosen = |readers: &[Reader], at: usize| {
            (!readers.is_empty()).then(|| readers[at % readers.len()].clone())
        };
        Some(match *step {
            Step::Publish { priority, ttl_ms, len } => {
                let id = self.next_id();
                let mut text = format!("{:0len$}^{priority}", 0);
                if let Some(ttl_ms) = ttl_ms {
                    write!(text, "~{ttl_ms}").unwrap();
                }
                // The route identifies the publish.
                let message = message(&text).rerouted(message::Route::simple("", &id.to_string()).into());
                Call::Publish(Publish { publisher: PUBLISHER, seq: id, message, pipelines: false })
            }
            Step::Settle { reader, first, len, ref outcome } => {
                let reader = chosen(&self.readers, reader)?;
                let first = (reader.number + 1).saturating_sub(first);
                let consumer = ConsumerId(reader.id);
                Call::Settle { consumer, first, last: first + len, outcome: outcome.clone() }
            }
            Step::DeadLettered { which, taken } => {
                let seqs: Vec<u64> = self.fifo.leaving.iter().map(|entry| entry.seq).collect();
                let seq = *seqs.get(which % seqs.len().max(1))?;
                Call::DeadLettered { seq, arrival: if taken { Arrival::Taken } else { Arrival::Refused } }
            }
            Step::Purge => Call::Purge { ticket: Ticket(self.next_id()) },
            Step::Delete { if_unused, if_empty } => {
                Call::Delete { ticket: Ticket(self.next_id()), if_unused, if_empty }
            }
            Step::Attach { priority, settled } => {
                let id = self.next_id();
                self.readers.push(Reader { id, count: 0, limit: 0, number: 0 });
                Call::Attach { consumer: ConsumerId(id), priority, settled }
            }
            Step::Grant { reader, credit } => {
                let reader = chosen(&self.readers, reader)?;
                let (consumer, delivery_count) = (ConsumerId(reader.id), reader.count);
                Call::Grant { consumer, delivery_count, credit, drain: drains }
            }
            Step::Cancel { reader } => {
                Call::Cancel { consumer: ConsumerId(chosen(&self.readers, reader)?.id) }
            }
            Step::Detach { reader, failed } => {
                let reader = chosen(&self.readers, reader)?;
                self.readers.retain(|other| other.id != reader.id);
                Call::Detach { consumer: ConsumerId(reader.id), failed }
            }
            Step::Fetch { n, settled } => {
                let id = self.next_id();
                self.readers.push(Reader { id, count: 0, limit: u32::MAX, number: 0 });
                Call::Fetch { holder: ConsumerId(id), n, settled }
            }
            _ => return None,
        })
    }

    /// Asks the driver, then applies the call if it is admitted.
    fn ask(&mut self, call: Call) {
        let health = Health { log_refuses: self.refuses, memory_is_stuck: false };
        if let Some(request) = call.request(&self.fifo) {
            match self.late.admit(&request, health) {
                Admission::Now => {}
                Admission::Hold => return self.held.push(call),
                other @ (Admission::Elsewhere(_) | Admission::NoLeader) => panic!("{other:?}"),
                Admission::Refuse(reason) => {
                    let Request::Publish(publish) = request else { panic!("{request:?}") };
                    self.fates.insert(publish.seq, Fate::Refused);
                    self.out.receipts.reject(publish.publisher, publish.seq, reason);
                    return;
                }
            }
        }
        match &call {
            Call::Grant { consumer, delivery_count, credit, .. } => {
                if let Some(reader) = self.readers.iter_mut().find(|reader| reader.id == consumer.0) {
                    reader.limit = delivery_count + credit;
                }
            }
            Call::Cancel { consumer } => {
                if let Some(reader) = self.readers.iter_mut().find(|reader| reader.id == consumer.0) {
                    reader.limit = reader.count;
                }
            }
            // Open until the turn is closed.
            Call::Publish(publish) => _ = self.fates.insert(publish.seq, Fate::Open(u64::MAX)),
            Call::Purge { ticket } | Call::Delete { ticket, .. } => {
                _ = self.purges.insert(ticket.0, u64::MAX)
            }
            Call::Settle { consumer, first, .. } => self.settling.push((consumer.0, *first, u64::MAX)),
            _ => {}
        }
        let (before, ages) = (self.fifo.report(), self.fifo.ages);
        call.apply(&mut self.fifo, self.now_ms, &mut self.out);
        if let Call::Publish(publish) = &call {
            let refused = Verdict::Rejected(RejectReason::MaxLength);
            let mut receipts = self.out.receipts.iter();
            let is_full = receipts.any(|r| r.verdict == refused && (r.first..=r.last).contains(&publish.seq));
            if is_full {
                self.fates.insert(publish.seq, Fate::Full);
            }
            if self.config.overflow == Overflow::RejectPublish
                && self.config.max_length_bytes.is_none()
                && !ages
            {
                let here = before.ready + before.staged + before.delayed;
                assert_eq!(is_full, self.config.max_length.is_some_and(|max| here >= max));
            }
        }
        self.history.push(Event::Call(u64::MAX, call));
        self.see_deliveries();
    }

    /// Checks the deliveries that were sent at once: only committed messages, and within the credit.
    fn see_deliveries(&mut self) {
        // The log has them before it learns of any later commit.
        self.late.note_local(&mut self.out);
        while let Some(load) = self.out.loads.pop() {
            let is_known = self.fifo.runs().any(|run| run == load.run);
            let block = if is_known { self.shelf.block(load) } else { Block::default() };
            self.fifo.bring(load, block, self.now_ms, &mut self.out);
        }
        let drained = std::mem::take(&mut self.out.effects);
        for effect in drained {
            match effect {
                Effect::Delivery(delivery) => self.see(&delivery, true),
                Effect::Fetched { deliveries, .. } => {
                    deliveries.iter().for_each(|delivery| self.see(delivery, false));
                }
                Effect::CreditState { consumer, state } => {
                    if let Some(reader) = self.readers.iter_mut().find(|reader| reader.id == consumer.0) {
                        assert!(!state.drained || state.delivery_count <= reader.limit.max(reader.count));
                        reader.count = state.delivery_count;
                    }
                }
                // A settlement of it was lost.
                Effect::Gone { consumer, reason: GoneReason::OutOfReach { node: None } } => {
                    self.readers.retain(|reader| reader.id != consumer.0);
                }
                other => self.out.effects.push(other),
            }
        }
    }

    fn see(&mut self, delivery: &Delivery, costs_credit: bool) {
        let publish: u64 = delivery.message.route().key().parse().unwrap();
        assert_eq!(self.fates[&publish], Fate::Committed, "{delivery:?}");
        // Its Detach may be on hold.
        let Some(reader) = self.readers.iter_mut().find(|reader| reader.id == delivery.consumer.0) else {
            return;
        };
        assert_eq!(delivery.number, reader.number + 1);
        reader.number += 1;
        if costs_credit {
            reader.count += 1;
            assert!(reader.count <= reader.limit, "{delivery:?}: credit up to {}", reader.limit);
        }
    }

    /// Ends the open turn, then sends everything that does not have to wait.
    fn close(&mut self) {
        let mark = self.late.close(&mut self.fifo, &mut self.out);
        assert!(self.out.receipts.iter().all(|receipt| !receipt.journaled));
        for event in self.history.iter_mut().rev() {
            match event {
                Event::Call(turn, _) if *turn == u64::MAX => *turn = mark.turn,
                Event::Close(_) => break,
                _ => {}
            }
        }
        self.history.push(Event::Close(mark.turn));
        let turns = self.late.turns();
        let is_open = turns[1..].contains(&mark.turn);
        for fate in self.fates.values_mut().filter(|fate| **fate == Fate::Open(u64::MAX)) {
            *fate = Fate::Open(mark.turn);
        }
        let purges = self.purges.values_mut().filter(|turn| **turn == u64::MAX);
        let settling = self.settling.iter_mut().map(|(_, _, turn)| turn).filter(|turn| **turn == u64::MAX);
        // Requests that need no fact have been answered.
        purges.chain(settling).for_each(|turn| *turn = if is_open { mark.turn } else { 0 });
        self.leave();
    }

    /// Sends everything in the output.
    fn leave(&mut self) {
        self.see_deliveries();
        assert!(self.out.facts.is_empty() && self.out.loads.is_empty());
        self.shelf.release(std::mem::take(&mut self.out.released));
        for Receipt { first, last, verdict, .. } in self.out.receipts.drain() {
            (first..=last).for_each(|publish| self.receipts.entry(publish).or_default().push(verdict));
        }
        for effect in self.out.effects.drain(..) {
            match effect {
                Effect::Settled { consumer, first, .. } => self.settled.push((consumer.0, first)),
                Effect::Done { ticket, .. } => assert!(self.done.insert(ticket.0)),
                Effect::Refused {
                    requester: Requester::Ticket(ticket),
                    why: Refusal::InUse | Refusal::NotEmpty,
                } => assert!(self.purges.remove(&ticket.0).is_some()),
                // A fetch that waits for a block.
                Effect::Refused { requester: Requester::Ticket(Ticket(0)), why: Refusal::NotFound } => {
                    assert!(self.fifo.ended().is_some());
                }
                Effect::Refused { requester: Requester::Ticket(ticket), why } => {
                    assert_eq!(why, Refusal::Unavailable);
                    assert!(self.refused.insert(ticket.0));
                }
                Effect::DeadLetter { token, message, .. } => {
                    assert!(self.dead.insert(token));
                    let publish: u64 = message.route().key().parse().unwrap();
                    assert_eq!(self.fates[&publish], Fate::Committed);
                }
                _ => {}
            }
        }
    }

    fn commit(&mut self, turn: u64) {
        // The queue may end with one of these turns. Then all of their messages go with it.
        let ends = self.fifo.ends_by(turn);
        for fate in self.fates.values_mut() {
            match fate {
                Fate::Open(_) if ends => *fate = Fate::Released,
                Fate::Open(open) if *open <= turn => *fate = Fate::Committed,
                _ => {}
            }
        }
        self.history.push(Event::Committed(turn));
        self.late.commit(turn, &mut self.fifo, self.now_ms, &mut self.out);
        assert_eq!(self.fifo.ended().is_some(), ends);
        self.see_deliveries();
        if ends {
            self.close();
        }
    }

    /// Asks again what the driver has held back.
    fn ask_again(&mut self) {
        for call in std::mem::take(&mut self.held) {
            self.ask(call);
        }
    }

    /// Closes the open turn and commits everything.
    fn commit_all(&mut self) {
        self.close();
        while let Some(last) = self.late.turns().last().copied()
            && !self.late.is_idle()
            && !self.has_ended()
        {
            self.commit(last);
            self.close();
        }
    }

    fn roll_back(&mut self, turn: u64) {
        for fate in self.fates.values_mut() {
            if matches!(fate, Fate::Open(open) if *open > turn) {
                *fate = Fate::RolledBack;
            }
        }
        self.purges.values_mut().filter(|open| **open > turn).for_each(|open| *open = u64::MAX - 1);
        self.settling.retain(|(_, _, open)| *open <= turn);
        self.history.retain(|event| !matches!(event, Event::Call(of, _) if *of > turn));
        self.late.roll_back(turn, &mut self.fifo, self.now_ms, &mut self.out);
        self.see_deliveries();
        if self.loses {
            self.late.lose(&mut self.fifo, self.now_ms, &mut self.out);
            self.see_deliveries();
        }
        self.ask_again();
    }

    fn has_ended(&self) -> bool {
        self.fifo.ended().is_some()
    }

    /// Performs a step that concerns turns or time. Returns false for other steps.
    fn step(&mut self, step: &Step) -> bool {
        let choose = |turns: &[u64], which: usize| turns[which % turns.len()];
        match *step {
            Step::Tick { ms } => {
                self.now_ms += ms;
                self.history.push(Event::Now(self.now_ms));
                self.ask(Call::Timeout);
            }
            Step::Close => self.close(),
            Step::Commit { which } => {
                let turns = self.late.turns();
                self.commit(choose(&turns, which));
            }
            Step::RollBack { which } => {
                self.close();
                let turns = self.late.turns();
                self.roll_back(choose(&turns, which));
            }
            Step::Pause => {
                self.late.set_paused(!self.late.is_paused());
                self.ask_again();
            }
            Step::Refuse => self.refuses ^= true,
            Step::PageOut { .. } if self.is_writing => {
                self.is_writing = false;
                self.fifo.handle_stored(&mut self.out);
                // Messages that leave memory may have expired.
                self.ask(Call::Timeout);
            }
            Step::PageOut { messages, .. } => {
                self.is_writing = self.shelf.page_out(&mut self.fifo, messages).is_some();
            }
            Step::Move { which } => {
                let runs: Vec<u32> = self.fifo.runs().collect();
                if !runs.is_empty()
                    && let run = runs[which % runs.len()]
                    && let Some(living) = self.fifo.living(run)
                {
                    let (messages, moved) = self.shelf.copy(run, &living);
                    if let Some(new) = self.fifo.handle_moved(run, &living, &moved, &mut self.out) {
                        self.shelf.add(new, messages);
                    }
                    self.see_deliveries();
                }
            }
            Step::Forget => self.fifo.forget_loaded(),
            _ => return false,
        }
        true
    }

    /// Returns a second machine that has seen only the calls that were not rolled back.
    fn twin(&self) -> Fifo {
        let mut fifo = Fifo::new(self.config.clone()).with_policy(FactPolicy::Always);
        let (mut now_ms, mut out) = (1000, Output::default());
        // The twin's own numbers of the turns.
        let mut turns = BTreeMap::from([(0, 0)]);
        for event in &self.history {
            match event {
                Event::Call(_, call) => call.apply(&mut fifo, now_ms, &mut out),
                Event::Close(turn) => _ = turns.insert(*turn, fifo.close_turn()),
                Event::Committed(turn) => {
                    let (_, own) = turns.range(..=turn).next_back().unwrap();
                    fifo.commit(*own, now_ms, &mut out);
                }
                // Time passes also in a turn that is rolled back: its request is not in the history then.
                Event::Now(now) => {
                    now_ms = *now;
                    fifo.time(now_ms, &mut out);
                }
            }
        }
        fifo.time(now_ms, &mut out);
        fifo
    }
}

fn drops_heads(config: &Config) -> bool {
    let is_limited = config.max_length.is_some() || config.max_length_bytes.is_some();
    is_limited && config.overflow == Overflow::DropHead
}

/// Describes the visible state of a machine and its runs. Sizes are left out, because those of runs are estimated after
/// a restart.
fn state(fifo: &Fifo, shelf: &Shelf, now_ms: u64) -> String {
    let mut report = fifo.report();
    // Deliveries, returns and refused publishes are not rolled back. The next number has its own place below.
    (report.delivered, report.redelivered, report.next_seq) = (0, 0, 0);
    (report.rejected, report.returned_again, report.tail_at_ms) = (Lately::NONE, Lately::NONE, None);
    (report.ready_bytes, report.next_bytes, report.reading, report.head_at_ms) = (0, None, false, None);
    (report.leaving_bytes, report.delayed_bytes, report.full) = (0, 0, false);
    // A message that has expired and is over the limit dies of one or the other, depending on what is in memory.
    if drops_heads(&fifo.config) {
        (report.expired, report.over_length) = (0, 0);
    }
    let entry = |entry: &Entry| {
        let key = shelf.message(entry).route().key().to_owned();
        let unread = shelf.unread_marks(fifo, entry).map(|marks| marks.acquired_count);
        let acquired = unread.unwrap_or_else(|| fifo.journal.acquired.count(entry));
        (entry.seq, key, entry.delivery_count, entry.redelivered, acquired, shelf.notes(fifo, entry))
    };
    let mut ready: Vec<Entry> = fifo.ready.copies();
    let mut delayed: Vec<(Entry, u64)> =
        fifo.delayed.range(0, u64::MAX).map(|(entry, due_ms)| (entry.clone(), due_ms)).collect();
    // Until a run from before a restart is read, its delayed messages count as ready.
    for unread in shelf.unread(fifo) {
        let due_ms = shelf.unread_marks(fifo, &unread).and_then(|marks| marks.due_ms);
        match due_ms.filter(|due_ms| *due_ms > now_ms) {
            Some(due_ms) => {
                (report.ready, report.delayed) = (report.ready - 1, report.delayed + 1);
                delayed.push((unread, due_ms));
            }
            None => ready.push(unread),
        }
    }
    delayed.sort_by_key(|(entry, _)| entry.seq);
    let delayed: Vec<_> = delayed.iter().map(|(of, due_ms)| (entry(of), due_ms)).collect();
    ready.sort_by_key(|entry| entry.seq);
    let ready: Vec<_> = ready.iter().map(entry).collect();
    let held: BTreeMap<u64, (Vec<u64>, BTreeSet<_>)> = fifo
        .consumers
        .iter()
        .map(|consumer| {
            let entries = consumer.unsettled.copies().iter().map(entry).collect();
            (consumer.id.0, (consumer.unsettled.numbers(0, u64::MAX), entries))
        })
        .collect();
    let leaving: BTreeSet<_> = fifo.leaving.iter().map(entry).collect();
    let next_seq = fifo.next_seq;
    let ended = fifo.ended();
    format!(
        "{ended:?} {report:?} next {next_seq}, \nready {ready:?}\nheld {held:?}\nleaving {leaving:?}\ndelayed {delayed:?}"
    )
}

/// Checks that the queue counts each of its messages once, and its bytes.
fn check_counts(fifo: &Fifo, shelf: &Shelf) {
    let report = fifo.report();
    check_deliveries(&report);
    let delayed = || fifo.delayed.range(0, u64::MAX).map(|(entry, _)| entry);
    let held = fifo.consumers.unsettled().flat_map(Unsettled::copies);
    let ready = fifo.ready.copies().into_iter().chain(shelf.unread(fifo));
    let others = fifo.leaving.iter().chain(delayed()).cloned();
    let seqs: Vec<u64> = ready.chain(held).chain(others).map(|entry| entry.seq).collect();
    assert_eq!(seqs.iter().collect::<BTreeSet<_>>().len(), seqs.len(), "{seqs:?}");
    assert_eq!(report.messages(), seqs.len() as u64, "{report:?} of {seqs:?}");
    assert_eq!(report.leaving_bytes, fifo.leaving.iter().map(Entry::len).sum::<u64>());
    assert_eq!(report.delayed_bytes, delayed().map(Entry::len).sum::<u64>());
}

/// Describes the state that these facts restore at the time of the run: sequence number, delivery count, redelivered flag,
/// acquired count and annotations.
fn restored_state(run: &Run, facts: impl IntoIterator<Item = Logged>) -> String {
    let config = Config { message_ttl_ms: None, ..run.config.clone() };
    let mut fifo = Fifo::restore(config, facts.into_iter().collect(), 0).with_policy(FactPolicy::Always);
    fifo.end_delays(run.now_ms);
    state(&fifo, &run.shelf, run.now_ms)
}

fn live_facts(fifo: &Fifo) -> Vec<Logged> {
    let mut facts = vec![];
    fifo.live_facts(0, u64::MAX, |fact| facts.push(fact.into()));
    let runs: Vec<u32> = fifo.runs().collect();
    fifo.run_facts(&runs, |fact| facts.push(fact.into()));
    // The base of a group says it.
    facts.extend(fifo.ended().map(|reason| Fact::Ended { reason }.into()));
    facts
}

/// Returns the facts that other members learn.
fn shared(facts: &[Logged]) -> impl Iterator<Item = Fact> {
    facts.iter().filter_map(|fact| match fact {
        Logged::Shared(fact) => Some(fact.clone()),
        Logged::Local(_) => None,
    })
}

/// Removes the next sequence number, which the facts of live messages cannot restore.
fn without_next(state: String) -> String {
    let from = state.find(" next ").unwrap();
    let to = from + state[from..].find(',').unwrap();
    state[..from].to_owned() + &state[to..]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// After a rollback, the machine equals one that has never seen the rolled-back requests. Attaching, granting,
    /// detaching and deliveries are never in a turn that is rolled back.
    #[test]
    fn a_rollback_restores_the_earlier_state(config in configs(), steps in steps()) {
        let drops = drops_heads(&config);
        // When the queue was used last is not rolled back.
        let mut run = Run::new(Config { expires_ms: None, ..config });
        run.loses = false;
        for step in &steps {
            if run.has_ended() {
                break;
            }
            match step {
                Step::RollBack { .. } => {
                    run.step(step);
                    run.ask(Call::Timeout);
                    check_counts(&run.fifo, &run.shelf);
                    let twin = run.twin();
                    prop_assert_eq!(state(&run.fifo, &run.shelf, run.now_ms), state(&twin, &Shelf::default(), run.now_ms));
                    prop_assert_eq!(run.fifo.report().ready_bytes, twin.report().ready_bytes);
                    if run.fifo.runs().next().is_none() {
                        prop_assert_eq!(run.fifo.live_bytes(), twin.live_bytes());
                    }
                }
                Step::Attach { .. }
                | Step::Grant { .. }
                | Step::Detach { .. }
                | Step::Fetch { .. } => {
                    run.commit_all();
                    if !run.has_ended() && let Some(call) = run.call(step, true) {
                        run.ask(call);
                    }
                    run.commit_all();
                }
                // After a rollback, drop-head may choose other messages than those it dropped when a turn was
                // committed.
                Step::Commit { .. } if drops => run.commit_all(),
                // Held requests may concern consumers, too. A cancelled consumer is removed when it has settled
                // everything.
                Step::Pause | Step::Cancel { .. } => {}
                step => {
                    if !run.step(step) && let Some(call) = run.call(step, true) {
                        run.ask(call);
                    }
                }
            }
        }
    }

    /// A member that learns the committed facts one by one has the messages of the member that decided them.
    #[test]
    fn learned_equals_live(config in configs(), steps in steps()) {
        let mut run = Run::new(config);
        let follower = Config { message_ttl_ms: None, ..run.config.clone() };
        let mut follower = Fifo::new(follower).with_policy(FactPolicy::Always);
        let mut learned = 0;
        for step in &steps {
            if run.has_ended() {
                break;
            }
            if !run.step(step) && let Some(call) = run.call(step, false) {
                run.ask(call);
            }
            for fact in shared(&run.late.facts[learned..]) {
                follower.learn(fact, &mut Output::default());
            }
            learned = run.late.facts.len();
            follower.end_delays(run.now_ms);
            let learned = state(&follower, &Shelf::default(), run.now_ms);
            let committed = restored_state(&run, run.late.facts.iter().cloned());
            prop_assert_eq!(&learned, &committed, "after {:?}", step);
            let live = restored_state(&run, live_facts(&run.fifo));
            prop_assert_eq!(without_next(learned), without_next(live), "after {:?}", step);
        }
    }

    /// A member that was restored with runs on the disk, and then learns what is committed later, has the messages of the
    /// member that decided. Its first facts may have been said again meanwhile.
    #[test]
    fn restored_then_learned_equals_live(config in configs(), steps in steps(), at in 0..100usize, again in any::<bool>()) {
        let mut run = Run::new(config);
        let config = Config { message_ttl_ms: None, ..run.config.clone() };
        let (mut restored, mut known) = (Restoring::default(), 0);
        let mut restart = None;
        for (number, step) in steps.iter().enumerate() {
            if run.has_ended() {
                break;
            }
            if !run.step(step) && let Some(call) = run.call(step, false) {
                run.ask(call);
            }
            if number == at.min(steps.len() / 2) {
                run.commit_all();
                restored.extend(run.late.facts[known..].iter().cloned());
                known = run.late.facts.len();
                if again {
                    restored.extend(live_facts(&run.fifo));
                }
                let fifo = Fifo::restore(config.clone(), std::mem::take(&mut restored), 0);
                restart = Some((fifo.with_policy(FactPolicy::Always), run.shelf.clone()));
            }
            // Runs are local: those of the member that decides from now on are not for the one that learns.
            let Some((learner, shelf)) = &mut restart else { continue };
            for fact in shared(&run.late.facts[known..]) {
                let mut out = Output::default();
                learner.learn(fact, &mut out);
                shelf.release(out.released);
            }
            known = run.late.facts.len();
            learner.end_delays(run.now_ms);
            let live = restored_state(&run, live_facts(&run.fifo));
            prop_assert_eq!(without_next(state(learner, shelf, run.now_ms)), without_next(live), "after {:?}", step);
        }
    }

    /// In any order of events: no staged message is delivered or dead-lettered, credit is never exceeded (see
    /// [`Run::see`]), no committed message is lost, and every request is answered once.
    #[test]
    fn committed_requests_are_kept_and_answered_once(config in configs(), steps in steps()) {
        let mut run = Run::new(config);
        for step in &steps {
            if run.has_ended() {
                break;
            }
            if !run.step(step) && let Some(call) = run.call(step, false) {
                run.ask(call);
            }
            check_counts(&run.fifo, &run.shelf);
            let committed = restored_state(&run, run.late.facts.iter().cloned());
            let live = restored_state(&run, live_facts(&run.fifo));
            prop_assert_eq!(without_next(committed), without_next(live), "after {:?}", step);
        }
        if run.has_ended() {
            // Nobody has told the requests that are held back. They are told that there is no such queue.
            run.held.clear();
        }
        run.late.set_paused(true);
        run.step(&Step::Pause);
        run.commit_all();
        run.held.clear();
        for (publish, fate) in &run.fates {
            let expected = match fate {
                Fate::Committed => vec![Verdict::Accepted],
                Fate::RolledBack | Fate::Refused => vec![Verdict::Rejected(RejectReason::Unavailable)],
                Fate::Full => vec![Verdict::Rejected(RejectReason::MaxLength)],
                Fate::Released => vec![Verdict::Released],
                Fate::Open(_) => panic!("{publish} is open"),
            };
            prop_assert_eq!(run.receipts.remove(publish).unwrap_or_default(), expected, "{}", publish);
        }
        prop_assert!(run.receipts.is_empty(), "{:?}", run.receipts);
        let is_rolled_back = |turn: &u64| *turn == u64::MAX - 1;
        let (rolled_back, committed): (Vec<_>, Vec<_>) = run.purges.iter().partition(|(_, turn)| is_rolled_back(turn));
        prop_assert!(run.refused.iter().eq(rolled_back.iter().map(|(ticket, _)| *ticket)));
        prop_assert!(run.done.iter().eq(committed.iter().map(|(ticket, _)| *ticket)));
        let mut asked: Vec<_> = run.settling.iter().map(|(consumer, first, _)| (*consumer, *first)).collect();
        asked.sort_unstable();
        run.settled.sort_unstable();
        prop_assert_eq!(&run.settled, &asked);
        // Everything is committed: the facts restore all messages, and each dead letter waits only for its answer.
        run.commit_all();
        for entry in run.fifo.leaving.iter() {
            let token = run.fifo.leaving.token_of(entry.seq);
            prop_assert!(token.is_some_and(|token| run.dead.contains(&token)), "{:?} is stuck", entry);
        }
        let restored = restored_state(&run, run.late.facts.iter().cloned());
        let report = run.fifo.report();
        let here = report.ready + report.unsettled + report.leaving;
        prop_assert!(restored.contains(&format!("ready: {here},")), "{} of {}", here, restored);
        let delayed = report.delayed;
        prop_assert!(restored.contains(&format!("delayed: {delayed},")), "{} of {}", delayed, restored);
    }
}
