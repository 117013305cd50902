//! Tests the drivers of the product with the real machine.

mod doubts;

use std::sync::Arc;

use message::{Message, Parts, Route};

use super::*;
use crate::{
    Carrier, Config, ConsumerId, DeletedReason, Deliver, DeliveryRef, Fact, GoneReason, LocalFact, Outcome,
    Publish, PublisherId, Put, SettleAnswer, Span, Ticket, Verdict,
};

const HEALTHY: Health = Health { log_refuses: false, memory_is_stuck: false };

fn publish(seq: u64, durable: bool) -> Request {
    let parts = Parts { wire: b"x".to_vec().into(), durable, ..Parts::default() };
    let message = Message::new(parts, Arc::new(Route::simple("", "q")));
    Request::Publish(Publish { publisher: PublisherId(1), seq, message, pipelines: true })
}

/// A receipt: the first and the last publish, the verdict, and whether it depends on facts.
type Answer = (u64, u64, Verdict, bool);

/// A queue with its driver, as a shard holds it.
struct Queue {
    driver: Driver,
    fifo: Fifo,
    out: Output,
}

/// Takes messages as a shard does: the driver Solo may defer them. Collects the numbers of all others.
struct Upward<'a>(&'a mut Driver, Vec<u64>);

impl Deliver for Upward<'_> {
    fn deliver(&mut self, _: DeliveryRef<'_>) -> bool {
        true
    }
}

impl Carrier for Upward<'_> {
    fn put(&mut self, put: Put<'_>) -> bool {
        let is_deferred = match self.0 {
            Driver::Transient => panic!("a transient queue has no facts"),
            Driver::Solo(solo) => solo.defer(put, u64::MAX).is_some(),
            Driver::Replica(_) => false,
        };
        self.1.extend((!is_deferred).then_some(put.seq));
        is_deferred
    }
}

impl Queue {
    fn new(driver: Driver) -> Self {
        let fifo = Fifo::new(Config::new("q")).with_policy(driver.policy());
        let mut queue = Self { driver, fifo, out: Output::default() };
        queue.attach(ConsumerId(1));
        queue.close();
        queue
    }

    fn attach(&mut self, consumer: ConsumerId) {
        self.ask(Request::Attach(crate::Attach {
            consumer,
            mode: crate::Mode::Take,
            priority: 0,
            exclusive: false,
            settled: false,
            delivery_count: 0,
            message_bytes_max: None,
            timeout: crate::ConsumerTimeout::default(),
        }));
        self.ask(Request::Grant { consumer, delivery_count: 0, credit: 99, drain: false, echo: false });
    }

    /// Returns the messages that go to the journal at once.
    fn ask(&mut self, request: Request) -> Vec<u64> {
        assert_eq!(self.driver.admit(&request, HEALTHY), Admission::Now);
        let mut upward = Upward(&mut self.driver, Vec::new());
        self.fifo.apply(request, 1000, &mut self.out, &mut upward);
        upward.1
    }

    fn settle(&mut self, first: u64, last: u64, outcome: Outcome) {
        self.ask(Request::Settle {
            consumer: ConsumerId(1),
            first,
            last,
            outcome,
            answer: SettleAnswer::Never,
        });
    }

    /// Returns the receipts and facts of a turn, and what they wait for.
    fn close(&mut self) -> (Vec<Answer>, String, Awaits) {
        let awaits = self.driver.close(&mut self.fifo, &mut self.out);
        let receipts = self.out.receipts.drain().map(|r| (r.first, r.last, r.verdict, r.journaled)).collect();
        let facts = self.out.facts.drain(..).map(|fact| match fact {
            Fact::Put { seq, .. } => format!("put {seq}"),
            Fact::Gone(Span { first, last }) => format!("gone {first}..={last}"),
            Fact::Returned { seq, .. } => format!("returned {seq}"),
            Fact::Ended { reason } => format!("ended {reason:?}"),
        });
        let facts: Vec<String> = facts.collect();
        assert!(self.out.local.is_empty(), "nothing is paged out");
        self.out.effects.clear();
        (receipts, facts.join("; "), awaits)
    }
}

#[test]
fn only_publishes_that_cannot_be_stored_are_refused() {
    let unavailable = Admission::Refuse(RejectReason::Unavailable);
    let log = Health { log_refuses: true, ..HEALTHY };
    let memory = Health { memory_is_stuck: true, ..HEALTHY };
    let (transient, solo) = (Driver::classic(false, false), Driver::classic(true, false));
    for (driver, durable, health, expected) in [
        (&transient, true, log, Admission::Now),
        (&transient, false, memory, unavailable),
        (&solo, true, HEALTHY, Admission::Now),
        (&solo, true, log, unavailable),
        (&solo, false, log, Admission::Now),
        (&solo, false, memory, unavailable),
    ] {
        assert_eq!(driver.admit(&publish(1, durable), health), expected, "{driver:?} {durable} {health:?}");
        assert_eq!(driver.admit(&Request::Purge { ticket: Ticket(1) }, health), Admission::Now);
    }
}

#[test]
fn nothing_of_a_transient_queue_survives() {
    let mut queue = Queue::new(Driver::classic(false, true));
    assert_eq!(queue.ask(publish(1, true)), []);
    queue.settle(1, 1, Outcome::Released);
    assert_eq!(
        queue.close(),
        (vec![(1, 1, Verdict::Accepted, false)], String::new(), Awaits::Log(Level::Written))
    );
}

#[test]
fn a_queue_with_fsync_defers_nothing_and_waits_for_a_sync() {
    let mut queue = Queue::new(Driver::classic(true, true));
    assert_eq!(queue.ask(publish(1, true)), [1]);
    queue.ask(publish(2, false));
    let receipts = vec![(1, 1, Verdict::Accepted, true), (2, 2, Verdict::Accepted, false)];
    assert_eq!(queue.close(), (receipts, String::new(), Awaits::Log(Level::Synced)));
}

#[test]
fn messages_settled_in_time_have_no_facts() {
    let mut queue = Queue::new(Driver::classic(true, false));
    (1..=4).for_each(|seq| assert_eq!(queue.ask(publish(seq, true)), []));
    assert_eq!(queue.close(), (vec![], String::new(), Awaits::Log(Level::Written)));
    assert_eq!(queue.driver.deferral().messages, 4);
    queue.settle(1, 2, Outcome::Accepted);
    assert_eq!(
        queue.close(),
        (vec![(1, 2, Verdict::Accepted, false)], String::new(), Awaits::Log(Level::Written))
    );
    // Deferred messages are written before any other fact of the queue.
    queue.settle(4, 4, Outcome::Released);
    let receipts = vec![(3, 4, Verdict::Accepted, true)];
    assert_eq!(
        queue.close(),
        (receipts, "put 3; put 4; returned 4; returned 4".into(), Awaits::Log(Level::Written))
    );
    assert_eq!(queue.driver.deferral(), Deferral::default());
}

/// The record of the run stores them, so their receipts wait for it.
#[test]
fn deferred_messages_in_a_run_need_no_records_of_their_own() {
    let mut queue = Queue::new(Driver::classic(true, false));
    (1..=2).for_each(|seq| assert_eq!(queue.ask(publish(seq, true)), []));
    queue.close();
    assert_eq!(queue.fifo.page_out(1000, 0, |_| 0).map(|out| out.messages), Some(2));
    queue.fifo.handle_stored(&mut queue.out);
    assert_eq!(queue.driver.close(&mut queue.fifo, &mut queue.out), Awaits::Log(Level::Written));
    let local = std::mem::take(&mut queue.out.local);
    assert!(matches!(local[..], [LocalFact::Stored(_)]), "{local:?}");
    let receipts = vec![(1, 2, Verdict::Accepted, true)];
    assert_eq!(queue.close(), (receipts, String::new(), Awaits::Log(Level::Written)));
    assert_eq!(queue.driver.deferral(), Deferral::default());
}

#[test]
fn deferred_messages_are_released_when_the_queue_ends() {
    let mut queue = Queue::new(Driver::classic(true, false));
    queue.ask(publish(1, true));
    queue.ask(publish(2, true));
    queue.settle(1, 1, Outcome::Accepted);
    queue.ask(Request::Delete { ticket: Ticket(1), if_unused: false, if_empty: false });
    let receipts = vec![(1, 1, Verdict::Accepted, false), (2, 2, Verdict::Released, false)];
    assert_eq!(queue.close().0, receipts);
}

impl Queue {
    fn replica(&mut self) -> &mut Replica {
        match &mut self.driver {
            Driver::Replica(replica) => replica,
            other => panic!("{other:?}"),
        }
    }

    /// Commits the entries up to `index`. Returns the receipts, and the deliveries and answers as text.
    fn commit(&mut self, index: u64) -> (Vec<Answer>, String) {
        let Self { driver, fifo, out } = self;
        driver.handle_entries_committed(index, fifo, 1000, out, &mut Nobody);
        self.sent()
    }

    /// Commits the entries up to `index`. The last of them ends the queue.
    fn end_with(&mut self, index: u64) -> (Vec<Answer>, String) {
        let Self { driver, fifo, out } = self;
        driver.handle_entries_committed(index, fifo, 1000, out, &mut Nobody);
        driver.close(fifo, out);
        self.sent()
    }

    fn sent(&mut self) -> (Vec<Answer>, String) {
        let receipts = self.out.receipts.drain().map(|r| (r.first, r.last, r.verdict, r.journaled)).collect();
        let effects = self.out.effects.drain(..).map(|effect| match effect {
            Effect::Delivery(delivery) => format!("deliver {}", delivery.number),
            Effect::Settled { first, last, journaled: false, .. } => format!("settled {first}..={last}"),
            Effect::Refused { .. } => "refused".into(),
            Effect::Done { messages, journaled: false, .. } => format!("done {messages}"),
            Effect::Gone { consumer, reason: GoneReason::OutOfReach { node: None } } => {
                format!("lost {}", consumer.0)
            }
            Effect::Gone { consumer, reason: GoneReason::QueueDeleted } => format!("gone {}", consumer.0),
            Effect::Deleted { reason } => format!("deleted {reason:?}"),
            other => panic!("{other:?}"),
        });
        let effects: Vec<String> = effects.collect();
        (receipts, effects.join("; "))
    }
}

/// Takes no delivery: each becomes an effect.
struct Nobody;

impl Deliver for Nobody {
    fn deliver(&mut self, _: DeliveryRef<'_>) -> bool {
        false
    }
}

/// Returns the entry with this index in the first term.
fn entry(index: u64) -> EntryAt {
    EntryAt { term: 1, index }
}

fn replicated() -> Queue {
    let mut driver = Driver::replicated();
    if let Driver::Replica(replica) = &mut driver {
        replica.lead();
    }
    Queue::new(driver)
}

#[test]
fn a_member_that_does_not_lead_decides_nothing() {
    let mut driver = Driver::replicated();
    let log_refuses = Health { log_refuses: true, ..HEALTHY };
    assert_eq!(driver.admit(&publish(1, true), HEALTHY), Admission::Hold);
    assert_eq!(driver.admit(&Request::Purge { ticket: Ticket(1) }, log_refuses), Admission::Hold);
    let unavailable = Admission::Refuse(RejectReason::Unavailable);
    assert_eq!(
        driver.admit(&publish(1, true), log_refuses),
        unavailable,
        "nobody waits for a disk that refuses"
    );
    let Driver::Replica(replica) = &mut driver else { panic!() };
    replica.lead();
    assert_eq!(driver.admit(&publish(1, true), HEALTHY), Admission::Now);
}

#[test]
fn a_member_that_does_not_lead_holds_requests_or_says_who_leads() {
    let Driver::Replica(mut replica) = Driver::replicated() else { panic!() };
    let (consumer, ticket) = (ConsumerId(1), Ticket(1));
    let (outcome, answer) = (Outcome::Accepted, SettleAnswer::Made);
    let requests = [
        publish(1, true),
        Request::Purge { ticket },
        Request::Settle { consumer, first: 1, last: 1, outcome, answer },
        Request::Configure(Arc::new(Config::new("q"))),
    ];
    let mut admitted = |leadership: Option<Leadership>| {
        leadership.into_iter().for_each(|leadership| replica.handle_leadership(leadership));
        let admitted = requests.each_ref().map(|request| replica.admit(request, HEALTHY));
        (admitted, replica.handle_timeout(6000), replica.next_deadline())
    };
    use Admission::{Elsewhere, Hold, NoLeader, Now};
    // Its disk may take as long as it likes.
    assert_eq!(admitted(None), ([Hold; 4], false, None));
    assert_eq!(admitted(Some(Leadership::Leads)), ([Now; 4], false, None));
    let elsewhere = [Elsewhere(7), Elsewhere(7), Elsewhere(7), Hold];
    assert_eq!(admitted(Some(Leadership::Follows { leader: 7 })), (elsewhere, false, None));
    assert_eq!(
        admitted(Some(Leadership::Leaderless { since_ms: 1001 })),
        ([Hold; 4], false, Some(1001 + NO_LEADER_MS))
    );
    // Another election does not give more time.
    assert_eq!(admitted(Some(Leadership::Leaderless { since_ms: 5000 })), ([Hold; 4], false, Some(6001)));
    assert_eq!(admitted(Some(Leadership::Leaderless { since_ms: 1000 })), ([Hold; 4], true, None));
    let refused = [NoLeader, NoLeader, Hold, Hold];
    assert_eq!(admitted(None), (refused, false, None));
    assert_eq!(admitted(Some(Leadership::Leaderless { since_ms: 5500 })), (refused, false, None));
    assert_eq!(admitted(Some(Leadership::Leads)), ([Now; 4], false, None));
    assert_eq!(admitted(Some(Leadership::Leaderless { since_ms: 5999 })).0, [Hold; 4]);
}

#[test]
fn a_full_disk_of_a_member_that_follows_does_not_concern_its_leader() {
    let Driver::Replica(mut replica) = Driver::replicated() else { panic!() };
    let log_refuses = Health { log_refuses: true, ..HEALTHY };
    replica.handle_leadership(Leadership::Follows { leader: 7 });
    assert_eq!(replica.admit(&publish(1, true), log_refuses), Admission::Elsewhere(7));
    replica.handle_leadership(Leadership::Leaderless { since_ms: 1000 });
    let unavailable = Admission::Refuse(RejectReason::Unavailable);
    assert_eq!(replica.admit(&publish(1, true), log_refuses), unavailable);
}

#[test]
fn a_replicated_publish_is_delivered_and_answered_when_its_entry_is_committed() {
    let mut queue = replicated();
    // Each message has a fact, even one that is not durable.
    assert_eq!((queue.ask(publish(1, true)), queue.ask(publish(2, false))), (vec![1], vec![2]));
    assert_eq!(queue.close(), (vec![], String::new(), Awaits::Commit(Mark { turn: 1 })));
    assert!(queue.replica().is_waited_for());
    queue.replica().handle_proposed(entry(7));
    assert!(!queue.replica().is_waited_for());
    queue.ask(publish(3, true));
    queue.close();
    queue.replica().handle_proposed(entry(8));
    assert_eq!(queue.commit(6), (vec![], String::new()));
    assert_eq!(queue.commit(7), (vec![(1, 2, Verdict::Accepted, false)], "deliver 1; deliver 2".into()));
    assert_eq!(queue.commit(8), (vec![(3, 3, Verdict::Accepted, false)], "deliver 3".into()));
}

/// A queue with one message, which is committed and delivered.
fn with_a_delivery() -> Queue {
    let mut queue = replicated();
    queue.ask(publish(1, true));
    queue.close();
    queue.replica().handle_proposed(entry(1));
    queue.commit(1);
    queue.close();
    queue
}

#[test]
fn a_settlement_of_a_replicated_queue_is_answered_when_it_is_committed() {
    let mut queue = with_a_delivery();
    let (consumer, outcome) = (ConsumerId(1), Outcome::Accepted);
    queue.ask(Request::Settle { consumer, first: 1, last: 1, outcome, answer: SettleAnswer::Made });
    assert_eq!(queue.close().1, "gone 1..=1");
    queue.replica().handle_proposed(entry(2));
    assert_eq!(queue.commit(2), (vec![], "settled 1..=1".into()));
}

#[test]
fn a_settlement_of_a_classic_queue_is_answered_when_its_record_is_stored_if_it_is_to_be() {
    use SettleAnswer::{Made, Stored};
    for (driver, answer, waits) in [
        (Driver::classic(true, false), Stored, true),
        (Driver::classic(true, false), Made, false),
        (Driver::classic(true, true), Stored, true),
        (Driver::classic(false, false), Stored, false),
    ] {
        let mut queue = Queue::new(driver);
        queue.ask(publish(1, true));
        queue.close();
        let (consumer, outcome) = (ConsumerId(1), Outcome::Accepted);
        queue.ask(Request::Settle { consumer, first: 1, last: 1, outcome, answer });
        let journaled: Vec<bool> = queue.out.effects.iter().map(Effect::is_journaled).collect();
        assert_eq!(journaled, [waits], "{answer:?}");
        queue.close();
    }
}

#[test]
fn a_purge_is_answered_when_it_is_committed_and_at_once_by_a_classic_queue() {
    for (mut queue, waits) in [(Queue::new(Driver::classic(true, false)), false), (replicated(), true)] {
        // The consumer has credit for one message less.
        (1..=100).for_each(|seq| _ = queue.ask(publish(seq, true)));
        queue.close();
        if waits {
            queue.replica().handle_proposed(entry(1));
            queue.commit(1);
        }
        queue.ask(Request::Purge { ticket: Ticket(1) });
        queue.driver.close(&mut queue.fifo, &mut queue.out);
        let is_answered =
            queue.out.effects.iter().any(|effect| matches!(effect, Effect::Done { messages: 1, .. }));
        assert_eq!(is_answered, !waits);
    }
}

impl Queue {
    /// The member leads no longer.
    fn depose(&mut self) -> (Vec<Answer>, String) {
        let Self { driver, fifo, out } = self;
        driver.depose(fifo, 1000, out);
        self.sent()
    }

    /// An entry is committed while the member does not lead.
    fn decide(&mut self, at: EntryAt) -> (Vec<Answer>, String) {
        let Self { driver: Driver::Replica(replica), fifo, out } = self else { panic!() };
        replica.handle_decided(at, fifo, 1000, out);
        self.sent()
    }

    /// Publishes, settles the only delivery and purges, in one turn.
    fn ask_everything(&mut self) {
        self.ask(publish(2, true));
        let (consumer, outcome) = (ConsumerId(1), Outcome::Accepted);
        self.ask(Request::Settle { consumer, first: 1, last: 1, outcome, answer: SettleAnswer::Made });
        self.ask(Request::Purge { ticket: Ticket(1) });
        assert_eq!(self.close().0, []);
    }
}

fn rejected(first: u64, last: u64) -> Vec<Answer> {
    vec![(first, last, Verdict::Rejected(RejectReason::Unavailable), false)]
}

#[test]
fn a_deposed_member_refuses_what_is_in_no_entry() {
    let mut queue = with_a_delivery();
    queue.ask_everything();
    assert_eq!(queue.depose(), (rejected(2, 2), "lost 1; refused".into()));
    assert!(!queue.replica().has_doubts());
    let report = queue.fifo.report();
    assert_eq!((report.staged, report.ready, report.unsettled, report.consumers), (0, 1, 0, 0));
    assert_eq!(queue.driver.admit(&publish(3, true), HEALTHY), Admission::Hold);
}

#[test]
fn a_deposed_member_answers_what_is_in_an_entry_when_its_fate_is_known() {
    let accepted = vec![(2, 2, Verdict::Accepted, false)];
    let nothing = || (vec![], String::new());
    let entry = |term, index| EntryAt { term, index };
    for (committed, answers) in [
        // The next leader has the entry, or a later one of the same leader.
        (vec![entry(1, 2)], (accepted.clone(), "settled 1..=1; done 0".to_owned())),
        (vec![entry(1, 3)], (accepted, "settled 1..=1; done 0".to_owned())),
        // It has another entry in its place, or before it.
        (vec![entry(1, 1), entry(2, 2)], (rejected(2, 2), "lost 1; refused".to_owned())),
        (vec![entry(2, 1)], (rejected(2, 2), "lost 1; refused".to_owned())),
        (vec![], (rejected(2, 2), "lost 1; refused".to_owned())),
    ] {
        let mut queue = with_a_delivery();
        queue.ask_everything();
        queue.replica().handle_proposed(entry(1, 2));
        assert_eq!(queue.depose(), nothing(), "a rollback answers nothing");
        assert_eq!((queue.fifo.report().staged, queue.fifo.report().unsettled), (0, 1));
        assert!(queue.replica().has_doubts());
        let Some((last, before)) = committed.split_last() else {
            let Queue { driver: Driver::Replica(replica), fifo, out } = &mut queue else { panic!() };
            replica.handle_closed(fifo, 1000, out);
            assert_eq!(queue.sent(), answers, "the group is closed");
            continue;
        };
        before.iter().for_each(|at| assert_eq!(queue.decide(*at), nothing(), "{at:?}"));
        assert_eq!(queue.decide(*last), answers, "{committed:?}");
        assert!(!queue.replica().has_doubts());
    }
}

#[test]
fn a_queue_that_ends_after_a_rollback_releases_what_is_in_doubt() {
    let mut queue = replicated();
    queue.ask(publish(1, true));
    queue.close();
    queue.replica().handle_proposed(entry(1));
    queue.depose();
    queue.replica().lead();
    queue.ask(DELETE);
    assert_eq!(queue.close().0, vec![]);
    queue.replica().handle_proposed(entry(2));
    let released = (vec![(1, 1, Verdict::Released, false)], "done 0; gone 1; deleted Requested".into());
    assert_eq!(queue.end_with(2), released);
    assert!(!queue.replica().has_doubts());
}

const DELETE: Request = Request::Delete { ticket: Ticket(1), if_unused: false, if_empty: false };

#[test]
fn a_replicated_queue_ends_when_its_entry_is_committed_and_not_before() {
    let mut queue = replicated();
    queue.ask(publish(1, true));
    queue.close();
    queue.replica().handle_proposed(entry(1));
    queue.ask(publish(2, true));
    queue.ask(DELETE);
    assert_eq!(queue.close(), (vec![], "ended Requested".into(), Awaits::Commit(Mark { turn: 2 })));
    assert!(queue.replica().is_waited_for() && queue.fifo.ended().is_none());
    // Nothing is admitted from now on, not even a repetition.
    assert_eq!(queue.driver.admit(&publish(3, true), HEALTHY), Admission::Hold);
    assert_eq!(queue.driver.admit(&DELETE, HEALTHY), Admission::Hold);
    queue.replica().handle_proposed(entry(2));
    // The message of the first entry was in the queue for a moment.
    assert_eq!(queue.commit(1), (vec![(1, 1, Verdict::Accepted, false)], "deliver 1".into()));
    assert_eq!(queue.close(), (vec![], String::new(), Awaits::Commit(Mark { turn: 2 })));
    let released = (vec![(2, 2, Verdict::Released, false)], "done 0; gone 1; deleted Requested".into());
    assert_eq!(queue.end_with(2), released);
    assert_eq!(queue.fifo.ended(), Some(DeletedReason::Requested));
    queue.ask(publish(3, true));
    assert_eq!(
        queue.close(),
        (vec![(3, 3, Verdict::Released, false)], String::new(), Awaits::Commit(Mark { turn: 2 }))
    );
}

/// A leader that was cut off has decided on old state that its queue ends.
#[test]
fn a_deposed_member_does_not_end_its_queue() {
    for is_proposed in [false, true] {
        let mut queue = replicated();
        queue.ask(publish(1, true));
        queue.ask(DELETE);
        queue.close();
        if is_proposed {
            queue.replica().handle_proposed(entry(1));
        }
        let refused = (vec![(1, 1, Verdict::Rejected(RejectReason::Unavailable), false)], "refused".into());
        let nothing = (vec![], String::new());
        let expected = if is_proposed { nothing } else { refused.clone() };
        assert_eq!(queue.depose(), expected);
        assert_eq!(queue.fifo.ended(), None);
        // The next leader has committed another entry.
        let Queue { driver, fifo, out } = &mut queue;
        driver.handle_decided(EntryAt { term: 2, index: 1 }, fifo, 1000, out);
        let expected = if is_proposed { refused } else { (vec![], String::new()) };
        assert_eq!(queue.sent(), expected);
        queue.replica().lead();
        queue.ask(publish(2, true));
        queue.close();
        queue.replica().handle_proposed(EntryAt { term: 3, index: 2 });
        assert_eq!(queue.commit(2), (vec![(2, 2, Verdict::Accepted, false)], "deliver 1".into()));
    }
}

#[test]
fn what_the_next_leader_commits_ends_the_queue_of_a_deposed_member() {
    let mut queue = replicated();
    queue.ask(publish(1, true));
    queue.ask(DELETE);
    queue.close();
    queue.replica().handle_proposed(entry(1));
    assert_eq!(queue.depose(), (vec![], String::new()));
    let Queue { driver, fifo, out } = &mut queue;
    driver.learn(Fact::Ended { reason: DeletedReason::Requested }, 1000, fifo, out);
    driver.close(fifo, out);
    let released = (vec![(1, 1, Verdict::Released, false)], "done 0; gone 1; deleted Requested".into());
    assert_eq!(queue.sent(), released);
    assert!(!queue.replica().has_doubts() && queue.fifo.ended().is_some());
}

/// Clients that use the queue are elsewhere. What has happened to it here is not forgotten.
#[test]
fn a_queue_without_its_last_consumer_ends_when_its_member_leads_again() {
    let driver = Driver::replicated();
    let config = Config { auto_delete: true, ..Config::new("q") };
    let fifo = Fifo::new(config).with_policy(driver.policy());
    let mut out = Output::default();
    let mut queue = Queue { driver, fifo, out: Output::default() };
    queue.replica().lead();
    let consumer = ConsumerId(1);
    queue.attach(consumer);
    queue.ask(publish(1, true));
    queue.close();
    queue.replica().handle_proposed(entry(1));
    queue.commit(1);
    queue.close();
    queue.ask(Request::Detach { consumer, failed: true });
    assert_eq!(queue.close().1, "ended Unused; returned 1");
    queue.depose();
    let message = queue.fifo.depth();
    assert_eq!((message.ready, message.unsettled), (1, 0), "the message is back");
    let Queue { driver, fifo, .. } = &mut queue;
    driver.lead(fifo, 1000, &mut out, &mut Nobody);
    assert!(matches!(out.facts[..], [Fact::Ended { reason: DeletedReason::Unused }]));
}

#[test]
fn a_damaged_queue_ends_without_a_commit() {
    let mut queue = replicated();
    queue.ask(publish(1, true));
    queue.close();
    queue.depose();
    queue.fifo.quarantine(&mut queue.out);
    queue.out.effects.clear();
    queue.out.local.clear();
    queue.replica().lead();
    queue.ask(DELETE);
    let Queue { driver, fifo, out } = &mut queue;
    driver.close(fifo, out);
    assert!(ends(&out.effects) && out.facts.is_empty());
}

#[test]
fn a_deposed_member_expires_nothing_until_it_leads_again() {
    let mut driver = Driver::replicated();
    let config = Config { message_ttl_ms: Some(10), ..Config::new("q") };
    let mut fifo = Fifo::new(config).with_policy(driver.policy());
    let (mut out, mut upward) = (Output::default(), Nobody);
    driver.lead(&mut fifo, 1000, &mut out, &mut upward);
    let mut taken = Driver::replicated();
    fifo.apply(publish(1, true), 1000, &mut out, &mut Upward(&mut taken, Vec::new()));
    driver.close(&mut fifo, &mut out);
    driver.handle_proposed(EntryAt { term: 2, index: 3 });
    driver.handle_entries_committed(3, &mut fifo, 1000, &mut out, &mut upward);
    out.facts.clear();
    driver.depose(&mut fifo, 2000, &mut out);
    assert_eq!((out.facts.len(), fifo.report().ready), (0, 1));
    driver.lead(&mut fifo, 2000, &mut out, &mut upward);
    assert!(matches!(out.facts[..], [Fact::Gone(Span { first: 1, last: 1 })]));
    assert_eq!(fifo.report().ready, 0);
}
