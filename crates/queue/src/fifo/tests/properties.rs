//! Compares the machine with the naive model, for random sequences of steps.

use std::collections::BTreeSet;
use std::fmt::Write;

use message::DeliveryMax;
use proptest::prelude::*;

use super::model::{Model, Notes, Observed, Stage, note, notes};
use super::shelf::Shelf;
use super::transcript::{config, dead_letters, message};
use crate::fifo::unsettled::Unsettled;
use crate::fifo::{DEAD_LETTER_RETRY_MS, Fifo, Output};
use crate::*;

/// The initial delivery count of all consumers. It is so high that every run wraps.
const START: u64 = u32::MAX as u64 - 1;

/// A step of a run. Numbers that select something are taken modulo the number of candidates.
#[derive(Clone, Debug)]
enum Step {
    Publish {
        durable: bool,
        priority: u8,
        ttl_ms: Option<u64>,
        len: usize,
    },
    Attach {
        priority: i32,
        settled: bool,
        /// The size of the largest delivery that it accepts, in bytes.
        bytes_max: Option<u64>,
    },
    Grant {
        reader: usize,
        lag: u64,
        credit: u32,
        drain: bool,
        echo: bool,
    },
    Settle {
        reader: usize,
        first: u64,
        len: u64,
        outcome: Outcome,
    },
    Cancel {
        reader: usize,
    },
    Detach {
        reader: usize,
        failed: bool,
    },
    /// If `unsent`, the holder returns all of the messages, because its peer cannot take them.
    Fetch {
        n: u32,
        settled: bool,
        unsent: bool,
    },
    DeadLettered {
        which: usize,
        arrival: Arrival,
    },
    Purge,
    Tick {
        ms: u64,
    },
    /// Starts to write a run, or ends the writing that was started.
    PageOut {
        messages: u64,
    },
    Forget,
    /// Starts to copy the live messages of a run, or ends the copying that was started.
    Move {
        which: usize,
    },
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let keys = prop_oneof![Just("x-a"), Just("x-b"), Just("x-c")];
    let annotations = prop::option::of((keys, any::<u32>()).prop_map(|(key, value)| note(key, value)));
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

fn arrival() -> impl Strategy<Value = Arrival> {
    prop_oneof![Just(Arrival::Taken), Just(Arrival::Refused), Just(Arrival::Unavailable)]
}

fn step() -> impl Strategy<Value = Step> {
    let ttl_ms = prop_oneof![4 => Just(None), 1 => (0..40u64).prop_map(Some)];
    prop_oneof![
        12 => (any::<bool>(), 0..5u8, ttl_ms, 1..4usize)
            .prop_map(|(durable, priority, ttl_ms, len)| Step::Publish { durable, priority, ttl_ms, len }),
        2 => (0..3i32, prop::bool::weighted(0.2), prop::option::weighted(0.3, 48..68u64))
            .prop_map(|(priority, settled, bytes_max)| Step::Attach { priority, settled, bytes_max }),
        8 => (any::<usize>(), 0..3u64, 0..7u32, prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(reader, lag, credit, drain, echo)| Step::Grant { reader, lag, credit, drain, echo }),
        8 => (any::<usize>(), 0..12u64, 1..5u64, outcome())
            .prop_map(|(reader, first, len, outcome)| Step::Settle { reader, first, len, outcome }),
        1 => any::<usize>().prop_map(|reader| Step::Cancel { reader }),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(reader, failed)| Step::Detach { reader, failed }),
        2 => (0..4u32, any::<bool>(), any::<bool>())
            .prop_map(|(n, settled, unsent)| Step::Fetch { n, settled, unsent }),
        3 => (any::<usize>(), arrival()).prop_map(|(which, arrival)| Step::DeadLettered { which, arrival }),
        1 => Just(Step::Purge),
        6 => (1..12u64).prop_map(|messages| Step::PageOut { messages }),
        1 => Just(Step::Forget),
        3 => any::<usize>().prop_map(|which| Step::Move { which }),
        2 => prop_oneof![0..30u64, Just(DEAD_LETTER_RETRY_MS)].prop_map(|ms| Step::Tick { ms }),
    ]
}

fn configs() -> impl Strategy<Value = Config> {
    let overflow = prop_oneof![
        Just(Overflow::DropHead),
        Just(Overflow::RejectPublish),
        Just(Overflow::RejectPublishDlx)
    ];
    let limits = (prop::option::weighted(0.3, 0..6u64), prop::option::weighted(0.2, 0..12u64));
    let dead_letter = prop::option::of(any::<bool>());
    let ttl_ms = prop::option::weighted(0.3, 0..50u64);
    let max_priority = prop::option::weighted(0.3, prop_oneof![1..4u8, Just(255)]);
    (overflow, limits, dead_letter, ttl_ms, max_priority, prop::bool::weighted(0.2)).prop_map(
        |(overflow, limits, dead_letter, message_ttl_ms, max_priority, single_active_consumer)| Config {
            overflow,
            max_length: limits.0,
            max_length_bytes: limits.1,
            dead_letter: dead_letter.and_then(dead_letters),
            message_ttl_ms,
            max_priority,
            stream: None,
            single_active_consumer,
            ..config()
        },
    )
}

/// The machine and the model side by side.
struct Run {
    fifo: Fifo,
    model: Model,
    config: Config,
    now_ms: u64,
    publishes: u64,
    next_id: u64,
    journal: Vec<Logged>,
    shelf: Shelf,
    writing: bool,
    moving: Option<(u32, Living, Vec<Loaded>, Vec<Moved>)>,
    /// True if messages may be paged out. The model has no reads, so it cannot predict what expires during one.
    pages: bool,
    /// True if consumers may refuse large messages.
    sizes: bool,
    /// True if blocks arrive one step late.
    late: bool,
    coming: Option<Load>,
    purged: u64,
}

impl Run {
    fn new(config: Config) -> Self {
        let (fifo, model) = (Fifo::new(config.clone()), Model::new(config.clone()));
        Self {
            fifo,
            model,
            config,
            now_ms: 1000,
            publishes: 0,
            next_id: 1,
            journal: vec![],
            shelf: Shelf::default(),
            writing: false,
            moving: None,
            pages: true,
            sizes: true,
            late: false,
            coming: None,
            purged: 0,
        }
    }

    /// Performs one step on both sides. Returns the machine's output and what the model expects.
    fn step(&mut self, step: &Step) -> (Output, Vec<Observed>) {
        let mut out = Output::default();
        let coming = self.coming.take();
        self.model.observed.clear();
        match step {
            Step::Tick { ms } => {
                self.now_ms += ms;
                self.model.timeout(self.now_ms);
                self.model.dispatch(self.now_ms);
                self.fifo.time(self.now_ms, &mut out);
            }
            Step::PageOut { .. } if !self.pages => {}
            Step::PageOut { .. } if self.writing => {
                self.writing = false;
                self.fifo.handle_stored(&mut out);
            }
            Step::PageOut { messages, .. } => {
                self.writing = self.shelf.page_out(&mut self.fifo, *messages).is_some();
            }
            Step::Forget => self.fifo.forget_loaded(),
            Step::Move { which } => match self.moving.take() {
                None => {
                    let runs: Vec<u32> = self.fifo.runs().collect();
                    if let Some(run) = (!runs.is_empty()).then(|| runs[which % runs.len()]) {
                        let living = self.fifo.living(run).unwrap();
                        let (messages, moved) = self.shelf.copy(run, &living);
                        self.moving = Some((run, living, messages, moved));
                    }
                }
                Some((old, living, messages, moved)) => {
                    if let Some(new) = self.fifo.handle_moved(old, &living, &moved, &mut out) {
                        self.shelf.add(new, messages);
                    }
                }
            },
            step => {
                let request = self.request(step);
                self.model.dispatch(self.now_ms);
                if let Some(request) = request {
                    self.fifo.ask(request, self.now_ms, &mut out);
                }
            }
        }
        if matches!(step, Step::PageOut { .. }) {
            // Messages that leave memory may already have expired.
            self.model.timeout(self.now_ms);
            self.model.dispatch(self.now_ms);
            self.fifo.time(self.now_ms, &mut out);
        }
        self.read(coming, &mut out);
        if let Step::Fetch { unsent: true, .. } = step {
            let (id, (first, last), outcome) = (self.next_id - 1, (1, u64::MAX), Outcome::Unsent);
            self.model.settle(id, first, last, &outcome, self.now_ms);
            self.forget_cancelled();
            let (consumer, answer) = (ConsumerId(id), SettleAnswer::Never);
            self.fifo.ask(Request::Settle { consumer, first, last, outcome, answer }, self.now_ms, &mut out);
            self.read(None, &mut out);
        }
        if self.late
            && let Some(load) = out.loads.pop()
        {
            assert!(self.coming.replace(load).is_none(), "at most one load is in flight");
        }
        self.purged += out
            .effects
            .iter()
            .map(|e| if let Effect::Done { messages, .. } = e { *messages } else { 0 })
            .sum::<u64>();
        self.shelf.release(std::mem::take(&mut out.released));
        self.journal.extend(out.facts.iter().cloned().map(Logged::Shared));
        self.journal.extend(out.local.iter().cloned().map(Logged::Local));
        (out, std::mem::take(&mut self.model.observed))
    }

    /// Brings the blocks that are wanted.
    fn read(&mut self, mut coming: Option<Load>, out: &mut Output) {
        while let Some(load) = coming.take().or_else(|| out.loads.pop()) {
            assert!(out.loads.is_empty(), "at most one load is in flight");
            // A block of a run that was released is of no use.
            if self.fifo.runs().any(|run| run == load.run) {
                self.fifo.bring(load, self.shelf.block(load), self.now_ms, out);
            } else {
                self.fifo.bring(load, Block::default(), self.now_ms, out);
            }
            if self.late {
                break;
            }
        }
    }

    /// Applies a step to the model. Returns the same step as a request to the machine.
    fn request(&mut self, step: &Step) -> Option<Request> {
        let (now_ms, model) = (self.now_ms, &mut self.model);
        model.expire(now_ms);
        let chosen = |model: &Model, at: usize| {
            let all = &model.readers;
            (!all.is_empty()).then(|| all[at % all.len()].clone())
        };
        Some(match *step {
            Step::Publish { durable, priority, ttl_ms, len } => {
                self.publishes += 1;
                let mut text = format!("{:0len$}^{priority}", 0);
                text += if durable { "!" } else { "" };
                if let Some(ttl_ms) = ttl_ms {
                    write!(text, "~{ttl_ms}").unwrap();
                }
                // The route identifies the publish in a dead letter.
                let route = message::Route::simple("", &self.publishes.to_string());
                let message = message(&text).rerouted(route.into());
                model.publish(self.publishes, &message, now_ms);
                Request::Publish(Publish {
                    publisher: PublisherId(1),
                    seq: self.publishes,
                    message,
                    pipelines: false,
                })
            }
            Step::Attach { priority, settled, bytes_max } => {
                let bytes_max = bytes_max.filter(|_| self.sizes);
                let id = self.next_id;
                self.next_id += 1;
                model.attach(id, priority, settled, START, bytes_max);
                Request::Attach(Attach {
                    consumer: ConsumerId(id),
                    mode: Mode::Take,
                    priority,
                    exclusive: false,
                    settled,
                    delivery_count: START as u32,
                    message_bytes_max: bytes_max.map(DeliveryMax::Whole),
                    timeout: ConsumerTimeout::default(),
                })
            }
            Step::Grant { reader, lag, credit, drain, echo } => {
                let reader = chosen(model, reader)?;
                let serial = reader.serial.saturating_sub(lag);
                if serial == 0 {
                    return None;
                }
                model.grant(reader.id, serial, u64::from(credit), drain, echo, now_ms);
                let (consumer, delivery_count) = (ConsumerId(reader.id), serial as u32);
                Request::Grant { consumer, delivery_count, credit, drain, echo }
            }
            Step::Settle { reader, first, len, ref outcome } => {
                let reader = chosen(model, reader)?;
                // Close to the newest number, so that ranges hit. Numbers that they miss are unknown.
                let first = (reader.numbers + 2).saturating_sub(first);
                model.settle(reader.id, first, first + len, outcome, now_ms);
                let (consumer, last, outcome) = (ConsumerId(reader.id), first + len, outcome.clone());
                self.forget_cancelled();
                Request::Settle { consumer, first, last, outcome, answer: SettleAnswer::Never }
            }
            Step::Cancel { reader } => {
                let reader = chosen(model, reader).filter(|reader| reader.live)?;
                model.cancel(reader.id, now_ms);
                self.forget_cancelled();
                Request::Cancel { consumer: ConsumerId(reader.id) }
            }
            Step::Detach { reader, failed } => {
                let reader = chosen(model, reader)?;
                model.detach(reader.id, failed, now_ms);
                Request::Detach { consumer: ConsumerId(reader.id), failed }
            }
            Step::Fetch { n, settled, .. } => {
                let id = self.next_id;
                self.next_id += 1;
                model.fetch(id, n, settled, now_ms);
                self.forget_cancelled();
                Request::Fetch { ticket: Ticket(0), holder: ConsumerId(id), n, settled }
            }
            Step::DeadLettered { which, arrival } => {
                let leaving = |place| matches!(place, Stage::Leaving { .. });
                let tokens: Vec<u64> = model
                    .in_place(leaving)
                    .map(|item| match item.place {
                        Stage::Leaving { token } => token,
                        _ => 0,
                    })
                    .collect();
                let token = if tokens.is_empty() { 0 } else { tokens[which % tokens.len()] };
                model.dead_letter_answer(token, arrival, now_ms, DEAD_LETTER_RETRY_MS);
                Request::DeadLettered { token, arrival, taken_by: Vec::new() }
            }
            Step::Purge => {
                // The answer does not count the dead letters that are purged.
                if self.config.dead_letter.as_ref().is_some_and(|to| to.at_least_once) {
                    self.purged += self.fifo.report().leaving;
                }
                model.purge();
                Request::Purge { ticket: Ticket(0) }
            }
            Step::Tick { .. } | Step::PageOut { .. } | Step::Forget | Step::Move { .. } => {
                return None;
            }
        })
    }

    /// Removes cancelled consumers that have nothing to settle.
    fn forget_cancelled(&mut self) {
        let items = &self.model.items;
        self.model.readers.retain(|reader| {
            let id = reader.id;
            let holds = |place| matches!(place, Stage::Held { consumer, .. } if consumer == id);
            reader.live || items.iter().any(|item| holds(item.place))
        });
    }

    /// Returns the messages that must survive, with their marks.
    fn marks(&self, fifo: &Fifo) -> Vec<(u64, u32, bool, Notes)> {
        let held = fifo.consumers.unsettled().flat_map(Unsettled::copies);
        let unread = self.shelf.unread(fifo);
        let all =
            fifo.ready.copies().into_iter().chain(held).chain(fifo.leaving.iter().cloned()).chain(unread);
        let mut marks: Vec<_> = all
            .filter(|entry| entry.journaled)
            .map(|entry| {
                let notes = self.shelf.notes(fifo, &entry);
                (entry.seq, entry.delivery_count, entry.redelivered, notes)
            })
            .collect();
        marks.sort_unstable();
        marks
    }
}

/// Checks that each delivery is counted as one of a consumer or a fetch, and as settled or not.
pub(super) fn check_deliveries(report: &Report) {
    assert!(report.fetched_settled <= report.delivered_settled, "{report:?}");
    let fetched = report.fetched.checked_sub(report.fetched_settled).expect("those settled are fewer");
    let unsettled =
        report.delivered.checked_sub(report.delivered_settled).and_then(|n| n.checked_sub(fetched));
    assert_eq!(unsettled, Some(report.delivered_unsettled()), "{report:?}");
}

/// Translates the machine's output to the model's form.
fn observed(out: &Output) -> Vec<Observed> {
    let delivery = |d: &Delivery| Observed::Delivery {
        consumer: d.consumer.0,
        number: d.number,
        seq: d.seq,
        count: d.delivery_count,
        again: d.acquired_count > 0,
        notes: notes(d.message.annotations()),
    };
    let mut observed = vec![];
    for receipt in out.receipts.iter() {
        let taken = receipt.verdict == Verdict::Accepted;
        observed.extend((receipt.first..=receipt.last).map(|publish| Observed::Receipt { publish, taken }));
    }
    for effect in &out.effects {
        match effect {
            Effect::Delivery(d) => observed.push(delivery(d)),
            Effect::Fetched { deliveries, .. } => observed.extend(deliveries.iter().map(delivery)),
            Effect::CreditState { consumer, state: s } => observed.push(Observed::Credit {
                consumer: consumer.0,
                serial: s.delivery_count,
                credit: s.credit,
                available: s.available,
                drained: s.drained,
            }),
            Effect::DeadLetter { token, message, reason, .. } => {
                let publish = message.route().key().parse().unwrap();
                let notes = notes(message.annotations());
                observed.push(Observed::Dead { token: *token, publish, reason: *reason, notes });
            }
            Effect::Done { messages, .. } => observed.push(Observed::Done { messages: *messages }),
            _ => (),
        }
    }
    observed
}

/// Sorts deaths last. The deliveries of a fetch are in one effect, which comes after the deaths that happened during
/// it.
fn deaths_last(mut observed: Vec<Observed>) -> Vec<Observed> {
    observed.sort_by_key(|event| matches!(event, Observed::Dead { .. }));
    observed
}

fn attach(id: u64) -> Request {
    Request::Attach(Attach {
        consumer: ConsumerId(id),
        mode: Mode::Take,
        priority: 0,
        exclusive: false,
        settled: false,
        delivery_count: START as u32,
        message_bytes_max: None,
        timeout: ConsumerTimeout::default(),
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_machine_does_what_the_model_expects(config in configs(), steps in steps(), sizes in any::<bool>()) {
        let mut run = Run::new(config);
        run.sizes = sizes;
        let limits = run.config.max_length.is_some() || run.config.max_length_bytes.is_some();
        // If a message is too large for one consumer, the machine reports that consumer's credit before it reads for
        // the others.
        run.pages = !sizes && !limits && (run.config.dead_letter.is_none() || run.config.max_priority.is_none());
        for step in &steps {
            let (out, expected) = run.step(step);
            let mut observed = observed(&out);
            let mut expected = expected;
            if run.fifo.ages {
                // Expired messages on the disk count as available until they are checked.
                observed.iter_mut().chain(&mut expected).for_each(|event| {
                    if let Observed::Credit { available, .. } = event {
                        *available = 0;
                    }
                });
            }
            prop_assert_eq!(deaths_last(observed), deaths_last(expected), "at {:?}", step);
            let (report, model) = (run.fifo.report(), &run.model);
            check_deliveries(&report);
            let len = |place: fn(Stage) -> bool| model.in_place(place).map(|item| item.len).sum::<u64>();
            let held = |place| matches!(place, Stage::Held { .. });
            prop_assert_eq!(report.ready, model.ready());
            prop_assert_eq!(report.ready_bytes, len(|place| place == Stage::Ready));
            prop_assert_eq!(report.unsettled, model.in_place(held).count() as u64);
            prop_assert_eq!(report.unsettled_bytes, len(|place| matches!(place, Stage::Held { .. })));
            prop_assert_eq!(report.leaving, model.in_place(Stage::is_dead).count() as u64);
            prop_assert_eq!(report.leaving_bytes, len(Stage::is_dead));
            prop_assert_eq!((report.messages(), report.bytes()), (model.items.len() as u64, len(|_| true)));
            prop_assert_eq!(report.consumers, model.readers.iter().filter(|r| r.live).count() as u32);
            prop_assert_eq!(report.expired, model.expired);
            prop_assert_eq!(report.dropped, model.dropped);
            prop_assert_eq!(report.acknowledged, model.accepted);
            prop_assert_eq!(report.dead_lettered, model.dead_lettered);
        }
    }

    #[test]
    fn nothing_is_lost_or_duplicated(config in configs(), steps in steps(), late in any::<bool>()) {
        let mut run = Run::new(config);
        run.late = late;
        for step in &steps {
            run.step(step);
            let report = run.fifo.report();
            check_deliveries(&report);
            let here = report.messages();
            let gone = report.acknowledged + report.dropped + report.dead_lettered + run.purged;
            if run.config.overflow != Overflow::RejectPublishDlx {
                prop_assert_eq!(report.published, here + gone);
            }
            let unread = run.shelf.unread(&run.fifo);
            let held = run.fifo.consumers.unsettled().flat_map(Unsettled::copies);
            let ready = run.fifo.ready.copies().into_iter().chain(unread);
            let here: Vec<u64> = ready.chain(held).map(|entry| entry.seq).collect();
            let distinct: BTreeSet<u64> = here.iter().copied().collect();
            prop_assert_eq!(here.len(), distinct.len());
            prop_assert_eq!(here.len() as u64, report.ready + report.unsettled);
            prop_assert!(late || report.published == run.model.published());
        }
    }

    #[test]
    fn credit_is_never_exceeded(config in configs(), steps in steps()) {
        let mut run = Run::new(config);
        // What each consumer knows from its own grants and deliveries, without wrapping.
        let mut seen: Vec<(u64, u64, u64)> = vec![];
        for step in &steps {
            let granted = match step {
                Step::Grant { reader, lag, credit, .. } if !run.model.readers.is_empty() => {
                    let reader = &run.model.readers[reader % run.model.readers.len()];
                    Some((reader.id, reader.serial.saturating_sub(*lag) + u64::from(*credit)))
                }
                _ => None,
            };
            let (out, _) = run.step(step);
            for effect in &out.effects {
                if let Effect::Attached { consumer, .. } = effect {
                    seen.push((consumer.0, START, START));
                }
            }
            if let Some((id, limit)) = granted
                && let Some(seen) = seen.iter_mut().find(|seen| seen.0 == id)
            {
                seen.2 = limit;
            }
            for effect in &out.effects {
                match effect {
                    Effect::Delivery(Delivery { consumer, .. }) => {
                        let seen = seen.iter_mut().find(|seen| seen.0 == consumer.0).unwrap();
                        seen.1 += 1;
                        prop_assert!(seen.1 <= seen.2, "delivery {} of {}", seen.1, seen.2);
                    }
                    Effect::CreditState { consumer, state } => {
                        if let Some(seen) = seen.iter_mut().find(|seen| seen.0 == consumer.0) {
                            // The count only increases, and never exceeds the limit.
                            let forward = state.delivery_count.wrapping_sub(seen.1 as u32);
                            prop_assert!(forward == 0 || state.drained);
                            seen.1 += u64::from(forward);
                            prop_assert!(forward == 0 || seen.1 <= seen.2);
                        }
                    }
                    _ => (),
                }
            }
        }
    }

    #[test]
    fn restore_equals_live(config in configs(), steps in steps(), late in any::<bool>()) {
        let mut run = Run::new(config);
        run.late = late;
        for step in &steps {
            run.step(step);
            let restored = Fifo::restore(run.config.clone(), run.journal.iter().cloned().collect(), run.now_ms);
            prop_assert_eq!(run.marks(&restored), run.marks(&run.fifo), "after {:?}", step);
            prop_assert!(restored.next_seq() <= run.fifo.next_seq());
            prop_assert_eq!(restored.journal.live_bytes, run.fifo.journal.live_bytes);
            prop_assert_eq!(restored.report().ready, run.marks(&restored).len() as u64);
        }
    }

    #[test]
    fn live_facts_restore_the_queue(config in configs(), steps in steps(), cut in 0u64..40) {
        let mut run = Run::new(config);
        for step in &steps {
            run.step(step);
        }
        let mut facts = vec![];
        run.fifo.live_facts(cut + 1, u64::MAX, |fact| facts.push(Logged::Shared(fact)));
        run.fifo.live_facts(0, cut, |fact| facts.push(fact.into()));
        let (some, others): (Vec<u32>, Vec<u32>) = run.fifo.runs().partition(|run| run % 2 == 0);
        run.fifo.run_facts(&some, |fact| facts.push(fact.into()));
        run.fifo.run_facts(&others, |fact| facts.push(fact.into()));
        let restored = Fifo::restore(run.config.clone(), facts.into_iter().collect(), run.now_ms);
        prop_assert_eq!(run.marks(&restored), run.marks(&run.fifo));
    }

    /// Anything may happen between the parts. The ranges and runs are those of a log that forgets all earlier facts.
    #[test]
    fn facts_repeated_in_parts_restore_the_queue(
        config in configs(),
        (before, after) in (steps(), steps()),
        rows in 1usize..6,
        cut in 1u64..40,
    ) {
        let mut run = Run::new(config);
        for step in &before {
            run.step(step);
        }
        let last = run.fifo.next_seq();
        let ranges = [(1, cut.min(last)), (cut + 1, last)].into_iter().filter(|(first, last)| first <= last);
        let runs = run.fifo.runs().collect();
        run.fifo.begin_repeat(ranges.collect(), runs);
        run.journal.clear();
        let part = |run: &mut Run| {
            let mut facts = vec![];
            run.fifo.repeat(rows, |fact| facts.push(fact));
            run.journal.extend(facts);
        };
        for step in &after {
            part(&mut run);
            run.step(step);
        }
        for _ in 0..10_000 {
            part(&mut run);
        }
        prop_assert!(!run.fifo.is_repeating());
        // A repetition without anything to repeat ends, too.
        run.fifo.begin_repeat(vec![], vec![]);
        for _ in 0..10_000 {
            run.fifo.repeat(rows, |_| ());
        }
        prop_assert!(!run.fifo.is_repeating());
        let restored = Fifo::restore(run.config.clone(), run.journal.iter().cloned().collect(), run.now_ms);
        prop_assert_eq!(run.marks(&restored), run.marks(&run.fifo));
    }

    /// A restored machine reads all live messages in order, and leaves nothing on the disk.
    #[test]
    fn a_restored_machine_delivers_all_live_messages(config in configs(), steps in steps()) {
        let mut run = Run::new(config);
        for step in &steps {
            run.step(step);
        }
        let config = Config { message_ttl_ms: None, max_length: None, max_length_bytes: None, ..run.config.clone() };
        let mut restored = Fifo::restore(config, run.journal.iter().cloned().collect(), run.now_ms);
        run.shelf.retain(&restored);
        let mut expected = run.marks(&restored);
        let mut out = Output::default();
        let mut got = vec![];
        restored.ask(attach(99), 0, &mut out);
        let (consumer, credit) = (ConsumerId(99), 1000);
        let grant = Request::Grant { consumer, delivery_count: START as u32, credit, drain: true, echo: false };
        // Long before any message expires.
        restored.ask(grant, 0, &mut out);
        while let Some(load) = out.loads.pop() {
            restored.bring(load, run.shelf.block(load), 0, &mut out);
        }
        for effect in &out.effects {
            if let Effect::Delivery(d) = effect {
                got.push((d.seq, d.delivery_count, d.acquired_count > 0, notes(d.message.annotations())));
            }
        }
        if run.config.max_priority.is_none() {
            prop_assert_eq!(&got, &expected);
        }
        got.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(&got, &expected);
        let (first, last, outcome) = (1, 1000, Outcome::Accepted);
        restored.ask(Request::Settle { consumer, first, last, outcome, answer: SettleAnswer::Never }, 0, &mut out);
        run.shelf.release(out.released);
        prop_assert_eq!(run.shelf.runs(), Vec::<u32>::new());
        prop_assert_eq!(restored.report().ready + restored.report().unsettled, 0);
    }

    #[test]
    fn facts_are_in_order(config in configs(), steps in steps()) {
        let mut run = Run::new(config);
        run.pages = false;
        let (mut put, mut gone) = (0, BTreeSet::new());
        for step in &steps {
            let (out, _) = run.step(step);
            let mut after = 0;
            for fact in &out.facts {
                match *fact {
                    Fact::Put { seq, .. } => {
                        prop_assert!(seq > put && after == 0);
                        put = seq;
                    }
                    Fact::Gone(Span { first, last }) => {
                        prop_assert!(first <= last && (after == 0 || first > after + 1));
                        after = last;
                        for seq in first..=last {
                            prop_assert!(seq <= put && gone.insert(seq), "{} is removed twice", seq);
                        }
                    }
                    Fact::Returned { seq, .. } => prop_assert!(!gone.contains(&seq)),
                    Fact::Ended { .. } => panic!("the turns of this queue cannot be rolled back"),
                }
            }
            let puts = out.facts.iter().filter(|fact| matches!(fact, Fact::Put { .. })).count();
            let journaled = out.receipts.iter().filter(|receipt| receipt.journaled);
            prop_assert_eq!(journaled.map(|r| r.last - r.first + 1).sum::<u64>(), puts as u64);
        }
    }

    #[test]
    fn the_deadline_is_when_there_is_something_to_do(config in configs(), steps in steps()) {
        let mut run = Run::new(config);
        for step in &steps {
            run.step(step);
            if let Some(deadline) = run.fifo.next_deadline() {
                let later = deadline > run.now_ms;
                prop_assert!(later, "after {:?}", step);
            }
        }
    }
}
