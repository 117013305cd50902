//! Tests the table of causes: which facts lead to which cause.

use catalog::CatalogError;
use catalog::access::Authority;
use queue::{Lately, Report};

use super::*;
use crate::ids::Where;

/// Returns the worst cause.
fn cause<'a>(facts: Facts<'a>, log: LogFacts) -> CauseAt<'a> {
    causes(facts, log)[0]
}

const LOG: LogFacts = LogFacts { failed: false, receipts_held: 0, groups_held: 0, memory_receipts_held: 0 };
const QUEUE: QueueId = QueueId::new(1, 0);
const ME: u64 = 7;
/// When everything is looked at.
pub(super) const NOW_MS: u64 = 1_000_000;
const SESSION: SessionFacts = SessionFacts { incoming_window: 400, remote_incoming_window: 5000, pending: 0 };
/// Two deliveries wait for a window that is closed.
const SHUT: SessionFacts = SessionFacts { remote_incoming_window: 0, pending: 2, ..SESSION };

pub(super) fn connection() -> ConnectionFacts {
    let (name, user, vhost) = ("c".into(), "u".into(), "/".into());
    ConnectionFacts {
        name,
        user,
        authority: Authority::Internal,
        vhost,
        blocked: false,
        held_back: false,
        unwritten_bytes: 0,
        shard: ShardFacts::default(),
        links: Vec::new(),
    }
}

fn link(role: Role) -> LinkFacts {
    LinkFacts {
        place: LinkId { connection: "c".into(), session: 0, handle: 0, name: "l".into() },
        role,
        answered: true,
        credit: 10,
        delivery_count: 0,
        session: Some(SESSION),
        incomplete_bytes: 0,
    }
}

fn publishing(unconfirmed: u32) -> LinkFacts {
    link(Role::Publishing { queue: Some("q".into()), unconfirmed })
}

pub(super) fn consuming(unsettled: u32) -> LinkFacts {
    link(consuming_role(ME, unsettled))
}

fn consuming_role(consumer: u64, unsettled: u32) -> Role {
    Role::Consuming {
        queue: QUEUE,
        consumer,
        unsettled,
        unsettled_max: 100,
        sent: 0,
        acknowledged: 0,
        returned: Lately::NONE,
        message_bytes_max: Some(DeliveryMax::Whole(1000)),
        revoked: 0,
        standing: None,
        left_out: None,
    }
}

pub(super) fn queue(report: Report) -> QueueFacts {
    QueueFacts {
        id: QUEUE,
        vhost: "/".into(),
        name: "q".into(),
        looped_a_minute: trouble::looped_a_minute(&report, NOW_MS),
        report,
        home: None,
        rejected_a_minute: 0,
        at_ms: NOW_MS,
        delays: false,
    }
}

/// Returns the count of so many events that have just happened.
pub(super) fn lately(events: u64) -> Lately {
    let mut count = Lately::NONE;
    count.count_all(events, NOW_MS);
    count
}

fn ready(ready: u64) -> Report {
    Report { ready, consumers: 1, ..Report::default() }
}

/// Returns the cause at one link.
fn at(
    link: &LinkFacts,
    report: Report,
    log: LogFacts,
    change: impl Fn(&mut ConnectionFacts, &mut QueueFacts),
) -> Cause {
    let (mut connection, mut queue) = (connection(), queue(report));
    change(&mut connection, &mut queue);
    let moved = false;
    let place = LinkInPlace { connection: &connection, link, queue: Some(&queue), moved };
    cause(Facts::Link(place), log).0
}

#[test]
fn the_cause_at_a_publishing_link() {
    let failed = LogFacts { failed: true, receipts_held: 3, ..LOG };
    let held = LogFacts { receipts_held: 3, ..LOG };
    let crowded = LogFacts { memory_receipts_held: 3, ..held };
    let partial = LinkFacts { incomplete_bytes: 5, ..publishing(0) };
    let unanswered = LinkFacts { answered: false, ..publishing(3) };
    let stuck = |c: &mut ConnectionFacts, _: &mut QueueFacts| c.unwritten_bytes = 1;
    let alarm = |c: &mut ConnectionFacts, _: &mut QueueFacts| c.blocked = true;
    let full = |_: &mut ConnectionFacts, q: &mut QueueFacts| q.report.full = true;
    let as_is = |_: &mut ConnectionFacts, _: &mut QueueFacts| {};
    // The rows begin with the worst cause. Each row lacks the causes of the rows above.
    assert_eq!(at(&publishing(3), ready(1), failed, stuck), Cause::LogFailed);
    let damaged = Report { damaged: true, ..Report::default() };
    assert_eq!(at(&publishing(3), damaged, held, alarm), Cause::QueueDamaged);
    assert_eq!(at(&publishing(3), ready(1), held, stuck), Cause::SocketNotRead);
    assert_eq!(at(&unanswered, ready(1), LOG, alarm), Cause::Alarm);
    assert_eq!(at(&unanswered, ready(1), LOG, as_is), Cause::AttachUnanswered);
    assert_eq!(at(&publishing(3), ready(1), held, alarm), Cause::Alarm);
    assert_eq!(at(&publishing(3), ready(1), crowded, alarm), Cause::Alarm);
    assert_eq!(at(&publishing(3), ready(1), crowded, full), Cause::WaitingForMemory);
    let staged = Report { staged: 2, ..ready(1) };
    assert_eq!(at(&publishing(3), staged, held, full), Cause::WaitingForCommit);
    assert_eq!(at(&publishing(3), ready(1), held, full), Cause::WaitingForLog);
    let groups = LogFacts { groups_held: 1, ..LOG };
    assert_eq!(at(&publishing(3), ready(1), groups, full), Cause::WaitingForCommit);
    assert_eq!(at(&publishing(3), ready(1), LOG, full), Cause::WaitingForReceipts);
    let ahead = |c: &mut ConnectionFacts, q: &mut QueueFacts| (c.held_back, q.report.full) = (true, true);
    assert_eq!(at(&publishing(3), ready(1), LOG, ahead), Cause::WaitingForReceipts);
    assert_eq!(at(&partial, ready(1), held, ahead), Cause::HeldBack);
    assert_eq!(at(&partial, ready(1), held, full), Cause::QueueFull);
    assert_eq!(at(&partial, ready(1), held, as_is), Cause::DeliveryIncomplete);
    assert_eq!(at(&publishing(0), ready(1), held, full), Cause::QueueFull);
    assert_eq!(at(&publishing(0), ready(1), held, as_is), Cause::ClientSilent);
    assert_eq!(at(&LinkFacts { credit: 0, ..publishing(0) }, ready(1), LOG, as_is), Cause::Moving);
}

#[test]
fn the_cause_at_a_consuming_link() {
    let shut = LinkFacts { session: Some(SHUT), credit: 0, ..consuming(100) };
    let no_credit = LinkFacts { credit: 0, ..consuming(0) };
    let waits = Report { active_consumer: Some(ME + 1), ..ready(1) };
    let stuck = |c: &mut ConnectionFacts, _: &mut QueueFacts| c.unwritten_bytes = 1;
    // An alarm and a full queue stop only publishers.
    let other = |c: &mut ConnectionFacts, q: &mut QueueFacts| (c.blocked, q.report.full) = (true, true);
    assert_eq!(at(&shut, ready(0), LOG, stuck), Cause::SocketNotRead);
    assert_eq!(
        at(&LinkFacts { answered: false, ..shut.clone() }, ready(0), LOG, other),
        Cause::AttachUnanswered
    );
    assert_eq!(at(&shut, ready(0), LOG, other), Cause::ClientWindowClosed);
    assert_eq!(at(&no_credit, ready(0), LOG, other), Cause::QueueEmpty);
    // What the client has sent is not read, its settlements included.
    let ahead = |c: &mut ConnectionFacts, _: &mut QueueFacts| c.held_back = true;
    let at_limit = LinkFacts { session: None, ..consuming(100) };
    assert_eq!(at(&at_limit, ready(1), LOG, ahead), Cause::HeldBack);
    assert_eq!(at(&at_limit, ready(0), LOG, ahead), Cause::QueueEmpty);
    assert_eq!(at(&consuming(0), ready(1), LOG, ahead), Cause::Moving);
    assert_eq!(
        at(&no_credit, Report { unsettled: 1, leaving: 1, ..ready(0) }, LOG, other),
        Cause::AllUnsettled
    );
    assert_eq!(at(&no_credit, Report { leaving: 1, ..ready(0) }, LOG, other), Cause::DeadLettersLeaving);
    assert_eq!(at(&no_credit, Report { delayed: 1, leaving: 1, ..ready(0) }, LOG, other), Cause::AllDelayed);
    assert_eq!(
        at(&no_credit, Report { staged: 1, unsettled: 1, ..ready(0) }, LOG, other),
        Cause::WaitingForCommit
    );
    let limited = Report { over_limit: 3, last_was_over_limit: true, ..ready(0) };
    assert_eq!(
        at(&no_credit, Report { leaving: 1, ..limited.clone() }, LOG, other),
        Cause::DeadLettersLeaving
    );
    assert_eq!(at(&no_credit, limited, LOG, other), Cause::OverDeliveryLimit);
    assert_eq!(at(&no_credit, Report { over_limit: 3, ..ready(0) }, LOG, other), Cause::QueueEmpty);
    assert_eq!(at(&no_credit, waits.clone(), LOG, other), Cause::InactiveConsumer);
    let large = Report { next_bytes: Some(1001), ..ready(1) };
    let fits = Report { next_bytes: Some(1000), ..ready(1) };
    assert_eq!(
        at(&no_credit, Report { next_bytes: Some(1001), ..waits.clone() }, LOG, other),
        Cause::InactiveConsumer
    );
    assert_eq!(at(&no_credit, large.clone(), LOG, other), Cause::MessageTooLarge);
    assert_eq!(at(&consuming(100), large, LOG, other), Cause::MessageTooLarge);
    assert_eq!(at(&no_credit, fits, LOG, other), Cause::NoCredit);
    let mut small_frames = consuming(0);
    if let Role::Consuming { message_bytes_max, .. } = &mut small_frames.role {
        *message_bytes_max = Some(DeliveryMax::Head(4096));
    }
    for (bytes, cause) in
        [(None, Cause::Moving), (Some(4096), Cause::Moving), (Some(4097), Cause::MessageTooLarge)]
    {
        let report = Report { next_bytes: Some(1 << 20), next_head_bytes: bytes, ..ready(1) };
        assert_eq!(at(&small_frames, report, LOG, other), cause, "{bytes:?}");
    }
    let serves = Report { active_consumer: Some(ME), ..waits };
    assert_eq!(at(&consuming(100), serves.clone(), LOG, other), Cause::UnsettledLimit);
    let yields = Report { yielding: true, ..serves };
    assert_eq!(at(&consuming(100), yields.clone(), LOG, other), Cause::GivingWay);
    assert_eq!(at(&no_credit, yields.clone(), LOG, other), Cause::GivingWay);
    assert_eq!(at(&no_credit, Report { ready: 0, unsettled: 1, ..yields }, LOG, other), Cause::AllUnsettled);
    let mut timed_out = consuming(100);
    if let Role::Consuming { revoked, .. } = &mut timed_out.role {
        *revoked = 1;
    }
    assert_eq!(at(&timed_out, ready(1), LOG, other), Cause::ConsumerTimedOut);
    assert_eq!(at(&no_credit, ready(1), LOG, other), Cause::NoCredit);
    let reading = Report { reading: true, ..ready(1) };
    assert_eq!(at(&no_credit, reading.clone(), LOG, other), Cause::NoCredit);
    assert_eq!(at(&consuming(99), reading, LOG, other), Cause::ReadingBacklog);
    assert_eq!(at(&consuming(99), ready(1), LOG, other), Cause::Moving);
}

#[test]
fn the_cause_at_a_stream() {
    let stream = |ready| Report { stream: Some(queue::Retained::default()), ..self::ready(ready) };
    let consuming = |unsettled, credit, standing| {
        let standing = Some(standing);
        let role = Role::Consuming {
            queue: QUEUE,
            consumer: ME,
            unsettled,
            unsettled_max: 100,
            sent: 0,
            acknowledged: 0,
            returned: Lately::NONE,
            message_bytes_max: None,
            revoked: 0,
            standing,
            left_out: None,
        };
        LinkFacts { credit, ..link(role) }
    };
    let as_is = |_: &mut ConnectionFacts, _: &mut QueueFacts| {};
    let at = |link: &LinkFacts, ready| at(link, stream(ready), LOG, as_is);
    assert_eq!(at(&consuming(100, 0, Standing::AtEnd), 0), Cause::QueueEmpty);
    assert_eq!(at(&consuming(100, 0, Standing::AtEnd), 5), Cause::EndOfStream);
    assert_eq!(at(&consuming(100, 0, Standing::Reading), 5), Cause::UnsettledLimit);
    assert_eq!(at(&consuming(0, 0, Standing::Reading), 5), Cause::NoCredit);
    assert_eq!(at(&consuming(0, 9, Standing::Reading), 5), Cause::ReadingBacklog);
    assert_eq!(at(&consuming(0, 9, Standing::Behind), 5), Cause::Moving);

    let connection = connection();
    let of = |report: Report, links: &[LinkFacts]| {
        let queue = queue(report);
        let place = |link| LinkInPlace { connection: &connection, link, queue: Some(&queue), moved: false };
        let consumers: Vec<_> = links.iter().map(place).collect();
        cause(Facts::Queue { queue: &queue, consumers: &consumers, moved: false, blocked: false }, LOG).0
    };
    assert_eq!(of(Report { consumers: 0, ..stream(5) }, &[]), Cause::NoReader);
    assert_eq!(of(Report { consumers: 0, ..stream(0) }, &[]), Cause::QueueEmpty);
    assert_eq!(
        of(stream(5), &[consuming(0, 0, Standing::Behind), consuming(0, 9, Standing::AtEnd)]),
        Cause::EndOfStream,
        "the best cause"
    );
}

#[test]
fn the_cause_at_a_link_without_a_queue() {
    let as_is = |_: &mut ConnectionFacts, _: &mut QueueFacts| {};
    let replies = |credit, pending, remote_incoming_window| {
        let session = Some(SessionFacts { pending, remote_incoming_window, ..SESSION });
        let link = LinkFacts { credit, session, ..link(Role::Replies) };
        at(&link, ready(0), LOG, as_is)
    };
    assert_eq!(replies(0, 1, 0), Cause::ClientWindowClosed);
    assert_eq!(replies(0, 0, 9), Cause::NoCredit);
    assert_eq!(replies(1, 0, 9), Cause::QueueEmpty);
    assert_eq!(at(&link(Role::Management), ready(0), LOG, as_is), Cause::ClientSilent);
}

#[test]
fn the_cause_at_a_queue() {
    let connection = connection();
    let of = |report: Report, links: &[LinkFacts], log: LogFacts, moved: bool| {
        let queue = queue(report);
        let place = |link| LinkInPlace { connection: &connection, link, queue: Some(&queue), moved: false };
        let consumers: Vec<_> = links.iter().map(place).collect();
        cause(Facts::Queue { queue: &queue, consumers: &consumers, moved, blocked: false }, log).0
    };
    let failed = LogFacts { failed: true, ..LOG };
    let no_credit = LinkFacts { credit: 0, ..consuming(0) };
    let other = LinkFacts { role: consuming_role(ME + 1, 0), ..no_credit.clone() };
    let none = Report { consumers: 0, ..ready(1) };
    let single = Report { active_consumer: Some(ME), ..ready(1) };
    assert_eq!(of(none.clone(), &[], LOG, true), Cause::Moving);
    assert_eq!(of(none.clone(), &[], failed, true), Cause::LogFailed);
    assert_eq!(of(none.clone(), &[], failed, false), Cause::LogFailed);
    assert_eq!(of(none, &[], LOG, false), Cause::NoConsumer);
    assert_eq!(
        of(Report { unsettled: 1, ..ready(0) }, std::slice::from_ref(&no_credit), LOG, false),
        Cause::AllUnsettled
    );
    assert_eq!(of(ready(0), std::slice::from_ref(&no_credit), LOG, false), Cause::QueueEmpty);
    assert_eq!(
        of(ready(1), &[consuming(100), no_credit.clone()], LOG, false),
        Cause::NoCredit,
        "the best cause"
    );
    assert_eq!(
        of(single, &[other, consuming(100)], LOG, false),
        Cause::UnsettledLimit,
        "the active consumer"
    );
    assert_eq!(of(ready(1), &[], LOG, false), Cause::Moving, "its consumers could not be inspected");
}

#[test]
fn the_cause_at_a_connection() {
    let of = |links: &[(LinkFacts, bool)], unwritten_bytes| {
        let connection = ConnectionFacts { unwritten_bytes, ..connection() };
        let queue = queue(ready(1));
        let place = |(link, moved): &'_ (LinkFacts, bool)| (link.clone(), *moved);
        let links: Vec<_> = links.iter().map(place).collect();
        let links: Vec<_> = links
            .iter()
            .map(|(link, moved)| LinkInPlace {
                connection: &connection,
                link,
                queue: Some(&queue),
                moved: *moved,
            })
            .collect();
        cause(Facts::Connection { connection: &connection, links: &links }, LOG).0
    };
    assert_eq!(of(&[(publishing(3), false), (consuming(0), true)], 9), Cause::Moving);
    assert_eq!(of(&[(publishing(3), false)], 9), Cause::SocketNotRead);
    assert_eq!(
        of(&[(consuming(100), false), (publishing(3), false)], 0),
        Cause::WaitingForReceipts,
        "the worst cause"
    );
    assert_eq!(of(&[], 0), Cause::NoLinks);
}

const FULL: ShardFacts =
    ShardFacts { number: 3, busy_percent: 97, is_at_limit: true, queues: 12, shards: 4, is_blocked: false };
const FREE: ShardFacts =
    ShardFacts { number: 1, busy_percent: 94, is_at_limit: false, queues: 1, shards: 4, is_blocked: false };

/// A shard at its limit explains what moves, and what nothing else stops. It hides no other cause.
#[test]
fn a_shard_at_its_limit_takes_the_place_of_moving() {
    let of = |link: &LinkFacts, report: Report, [home, own]: [ShardFacts; 2], moved| {
        let (mut connection, mut queue) = (connection(), queue(report));
        (connection.shard, queue.home) = (own, Some(home));
        cause(Facts::Link(LinkInPlace { connection: &connection, link, queue: Some(&queue), moved }), LOG).0
    };
    let no_credit = LinkFacts { credit: 0, ..consuming(0) };
    let waits = LinkFacts { credit: 0, ..publishing(0) };
    for (home, own, expected) in [
        (FREE, FREE, Cause::Moving),
        (FULL, FREE, Cause::ShardAtLimit),
        (FREE, FULL, Cause::ShardAtLimit),
        (FULL, FULL, Cause::ShardAtLimit),
    ] {
        let shards = [home, own];
        // It moves.
        assert_eq!(of(&publishing(3), ready(1), shards, true), expected);
        assert_eq!(of(&no_credit, ready(0), shards, true), expected);
        assert_eq!(of(&link(Role::Management), ready(0), shards, true), expected);
        // Nothing stops it.
        assert_eq!(of(&waits, ready(1), shards, false), expected);
        assert_eq!(of(&consuming(0), ready(1), shards, false), expected);
        // Something else stops it.
        assert_eq!(of(&publishing(3), ready(1), shards, false), Cause::WaitingForReceipts);
        assert_eq!(of(&publishing(0), ready(1), shards, false), Cause::ClientSilent);
        assert_eq!(of(&no_credit, ready(1), shards, false), Cause::NoCredit);
        assert_eq!(of(&consuming(100), ready(1), shards, false), Cause::UnsettledLimit);
        assert_eq!(of(&consuming(0), ready(0), shards, false), Cause::QueueEmpty);
    }
}

#[test]
fn a_shard_at_its_limit_explains_queues_and_connections() {
    let numbers = |number, busy, queues| {
        [("shard", number), ("shard_busy_percent", busy), ("shard_queues", queues), ("node_shards", 4)]
    };
    let is_shown = |explanation: &Explanation, numbers: &[(&str, u64)]| {
        numbers.iter().all(|number| explanation.numbers.contains(number))
    };
    let of_queue = |home, own, links: &[LinkFacts], moved| {
        let queue = QueueFacts { home, ..queue(ready(1)) };
        let connection = ConnectionFacts { shard: own, ..connection() };
        let place = |link| LinkInPlace { connection: &connection, link, queue: Some(&queue), moved: false };
        let consumers: Vec<_> = links.iter().map(place).collect();
        Explanation::of(
            Facts::Queue { queue: &queue, consumers: &consumers, moved, blocked: false },
            LOG,
            |_| None,
        )
    };
    let free = of_queue(Some(FREE), FREE, &[consuming(0)], true);
    assert_eq!(free.cause, Cause::Moving);
    assert!(!free.numbers.iter().any(|(name, _)| *name == "shard"), "{free:?}");
    let full = of_queue(Some(FULL), FREE, &[], true);
    assert_eq!((full.cause, &full.at), (Cause::ShardAtLimit, &None));
    assert!(is_shown(&full, &numbers(3, 97, 12)), "{full:?}");
    // Its consumers could not be inspected.
    assert_eq!(of_queue(Some(FULL), FREE, &[], false).cause, Cause::ShardAtLimit);
    assert_eq!(of_queue(None, FREE, &[], true).cause, Cause::Moving);
    let alone = ShardFacts { queues: 1, ..FULL };
    let of_consumer = of_queue(Some(FREE), alone, &[consuming(0)], false);
    assert_eq!(of_consumer.cause, Cause::ShardAtLimit, "the shard of the consumer is full");
    assert!(of_consumer.at.is_some() && is_shown(&of_consumer, &numbers(3, 97, 1)), "{of_consumer:?}");

    let of_connection = |links: &[(LinkFacts, bool, ShardFacts)]| {
        let connection = ConnectionFacts { shard: FREE, ..connection() };
        let queues: Vec<_> =
            links.iter().map(|(_, _, home)| QueueFacts { home: Some(*home), ..queue(ready(1)) }).collect();
        let places: Vec<_> = links
            .iter()
            .zip(&queues)
            .map(|((link, moved, _), queue)| LinkInPlace {
                connection: &connection,
                link,
                queue: Some(queue),
                moved: *moved,
            })
            .collect();
        let facts = Facts::Connection { connection: &connection, links: &places };
        Explanation::of(facts, LOG, |_| None)
    };
    let other = LinkFacts { place: LinkId { handle: 1, ..consuming(0).place }, ..consuming(0) };
    let [moves, stands] = [true, false].map(|moved| (publishing(0), moved, FREE));
    assert_eq!(of_connection(&[moves.clone(), (other.clone(), false, FULL)]).cause, Cause::Moving);
    let slow = of_connection(&[moves, (other.clone(), true, FULL)]);
    assert_eq!((slow.cause, slow.at.as_ref()), (Cause::ShardAtLimit, Some(&other.place)));
    assert!(is_shown(&slow, &numbers(3, 97, 12)), "{slow:?}");
    assert_eq!(of_connection(&[stands, (other, false, FULL)]).cause, Cause::ClientSilent, "the worst cause");
}

#[test]
fn queues_get_the_shards_of_their_homes() {
    let queues = [1, 2, 3].map(|_| queue(ready(0))).to_vec();
    let mut look = Look { queues, shards: vec![FREE, FULL], ..Look::default() };
    look.set_homes(&[Where::Here(1), Where::Unplaced, Where::Here(2)]);
    assert_eq!(look.queues.iter().map(|queue| queue.home).collect::<Vec<_>>(), [Some(FULL), None, None]);
}

#[test]
fn a_link_name_may_be_ambiguous() {
    let with = |name: &str| {
        let mut connection = ConnectionFacts { name: name.into(), ..connection() };
        let place = LinkId { connection: name.into(), ..publishing(0).place };
        connection.links.push(LinkFacts { place, ..publishing(0) });
        connection
    };
    let look = Look { connections: vec![with("a"), with("b")], ..Look::default() };
    let link = |connection: Option<&str>| {
        let connection = connection.map(str::to_owned);
        look.explain(&look, &Subject::Link { vhost: None, name: "l".into(), connection })
            .map(|e| (e.cause, e.at.map(|p| p.connection)))
    };
    assert_eq!(link(Some("b")), Ok((Cause::ClientSilent, Some("b".into()))));
    let reason =
        "2 links have the name 'l': 'a' session 0 handle 0, 'b' session 0 handle 0; specify the connection"
            .into();
    assert_eq!(link(None), Err(CatalogError::PreconditionFailed { reason }));
    assert_eq!(link(Some("c")), Err(CatalogError::NotFound { reason: "no link 'l'".into() }));
}

#[test]
fn a_delivery_between_two_looks_is_movement() {
    let mut before =
        Look { connections: vec![connection()], queues: vec![queue(ready(1))], ..Look::default() };
    before.connections[0].links = vec![LinkFacts { credit: 0, ..consuming(0) }];
    let mut now = before.clone();
    let subjects = [
        Subject::Link { vhost: None, name: "l".into(), connection: None },
        Subject::Connection { name: "c".into() },
        Subject::Queue { vhost: "/".into(), name: "q".into() },
    ];
    let causes = |now: &Look| subjects.clone().map(|s| now.explain(&before, &s).unwrap().cause);
    assert_eq!(causes(&now), [Cause::NoCredit; 3]);
    now.connections[0].links[0].delivery_count += 1;
    now.queues[0].report.delivered += 1;
    assert_eq!(causes(&now), [Cause::Moving; 3]);
}

/// Only so many connections are looked at.
#[test]
fn consumers_that_wait_for_their_turn_hide_the_active_one_from_nobody() {
    let consumer = |id| {
        let link = LinkFacts { credit: 0, role: consuming_role(id, 0), ..consuming(0) };
        ConnectionFacts { links: vec![link], ..connection() }
    };
    let all = || (1..=9).map(|i| consumer(ME + i)).chain([consumer(ME)]).collect::<Vec<_>>();
    let seen = |active| {
        let report = Report { active_consumer: active, ..ready(1) };
        let mut look = Look { queues: vec![queue(report)], log: LOG, ..Look::default() };
        look.add(all(), active);
        let subject = Subject::Queue { vhost: "/".into(), name: "q".into() };
        (look.connections.len(), look.explain(&look, &subject).unwrap().cause)
    };
    assert_eq!(seen(Some(ME)), (1, Cause::NoCredit));
    assert_eq!(seen(None), (10, Cause::NoCredit));
}

/// Returns the sentence and the text for one consumer.
fn words_for(link: &LinkFacts, pace: Option<Pace>) -> (String, Text, Numbers) {
    let (connection, queue) = (connection(), queue(ready(1)));
    let place = LinkInPlace { connection: &connection, link, queue: Some(&queue), moved: false };
    let reason = Explanation::of(Facts::Link(place), LOG, |_| pace).causes.remove(0);
    (reason.sentence, reason.text, reason.numbers)
}

#[test]
fn a_slow_consumer_is_told_from_one_that_asks_for_nothing() {
    let mut link = LinkFacts { credit: 0, ..consuming(5) };
    let never = words_for(&link, None);
    assert_eq!((&*never.0, never.1), ("the client has granted no credit", Cause::NoCredit.text()));
    if let Role::Consuming { sent, .. } = &mut link.role {
        *sent = 9;
    }
    assert_eq!(words_for(&link, None).0, "the client has used up its credit: it holds 5 messages");
    let pace = Some(Pace { acknowledged: 7, returned: 0, ms: 1_000 });
    let slow = words_for(&link, pace);
    assert_eq!(slow.0, "the client has used up its credit: it holds 5 messages and acknowledges 7 a second");
    assert_ne!(slow.1, never.1, "there is other advice");
    assert!(slow.2.contains(&("link_acknowledged_a_second", 7)), "{slow:?}");
    let at_limit = words_for(&consuming(100), Some(Pace { acknowledged: 1, returned: 0, ms: 2_100 }));
    let expected = "the client has reached its limit of unsettled deliveries: it holds 100 messages and acknowledges 0 a second";
    assert_eq!(at_limit.0, expected);
}

/// Returns a consumer that has given so many deliveries back.
fn returning(returned: u64, unsettled: u32) -> LinkFacts {
    let mut link = consuming(unsettled);
    if let Role::Consuming { returned: count, .. } = &mut link.role {
        *count = lately(returned);
    }
    link
}

/// Whether the message is on its way back, or with the consumer again.
#[test]
fn messages_that_go_round_are_no_movement_and_wait_for_nobody() {
    let connection = connection();
    let of = |returned_again: u64, ready, consumers: &[(LinkFacts, bool)]| {
        let report =
            Report { unsettled: 1 - ready, returned_again: lately(returned_again), ..self::ready(ready) };
        let queue = queue(report);
        let mut links = Vec::new();
        for (link, moved) in consumers {
            let (queue, moved) = (Some(&queue), *moved);
            links.push(LinkInPlace { connection: &connection, link, queue, moved });
        }
        let words = |facts| causes(facts, LOG).into_iter().map(|(cause, _)| cause).collect::<Vec<_>>();
        let facts = Facts::Queue { queue: &queue, consumers: &links, moved: false, blocked: false };
        let at = causes(facts, LOG)[0].1.is_some();
        let connection = words(Facts::Connection { connection: &connection, links: &links });
        let link = words(Facts::Link(*links.last().unwrap()));
        (words(facts), at, link, connection)
    };
    let full = || LinkFacts { session: None, credit: 0, ..returning(500, 100) };
    for ready in [0, 1] {
        for moved in [false, true] {
            let round = vec![Cause::RequeueLoop];
            let found = of(500, ready, &[(full(), moved)]);
            assert_eq!(found, (round.clone(), true, round.clone(), round), "{ready} {moved}");
        }
        let (queue, at, link, _) = of(500, ready, &[(returning(0, 100), false)]);
        assert_eq!((queue, at), (vec![Cause::RequeueLoop], false), "another consumer gave them back");
        assert_ne!(link, [Cause::RequeueLoop]);
        assert_ne!(of(9, ready, &[(full(), false)]).0, [Cause::RequeueLoop], "so few are no loop");
    }
    let (.., connection) = of(500, 1, &[(returning(0, 0), true), (full(), true)]);
    assert_eq!(connection, [Cause::RequeueLoop, Cause::Moving], "one of its links works");
}

#[test]
fn a_loop_says_how_fast_it_is() {
    let connection = connection();
    let queue = queue(Report { returned_again: lately(700), ..ready(1) });
    let link = returning(700, 1);
    let of = |pace: Option<Pace>| {
        let place = LinkInPlace { connection: &connection, link: &link, queue: Some(&queue), moved: true };
        Explanation::of(Facts::Link(place), LOG, |_| pace)
    };
    let first = of(None);
    assert!(first.wants_pace(), "{first:?}");
    let expected =
        "the consumer gives messages back 700 times within the last minute, and none leaves the queue";
    assert_eq!(first.causes[0].sentence, expected);
    assert_eq!(of(Some(Pace { acknowledged: 0, returned: 0, ms: 1_000 })).causes[0].sentence, expected);
    let fast = of(Some(Pace { acknowledged: 0, returned: 2_000, ms: 500 })).causes.remove(0);
    let expected = "the consumer gives messages back 4000 times a second, and none leaves the queue";
    assert_eq!(fast.sentence, expected);
    for number in [("link_returned_a_second", 4_000), ("queue_looped_a_minute", 700)] {
        assert!(fast.numbers.contains(&number), "{fast:?}");
    }
}

#[test]
fn a_queue_that_refuses_or_delays_says_so() {
    let of = |queue: QueueFacts| {
        let facts = Facts::Queue { queue: &queue, consumers: &[], moved: false, blocked: true };
        let reasons = Explanation::of(facts, LOG, |_| None).causes;
        reasons.into_iter().map(|reason| (reason.cause, reason.sentence)).collect::<Vec<_>>()
    };
    let alone = Report { consumers: 0, full: true, ..ready(1) };
    let reasons = of(QueueFacts { rejected_a_minute: 1, delays: true, ..queue(alone) });
    let causes: Vec<Cause> = reasons.iter().map(|(cause, _)| *cause).collect();
    assert_eq!(causes, [Cause::Alarm, Cause::QueueFull, Cause::NoConsumer]);
    assert_eq!(
        reasons[1].1,
        "the queue is at its length limit: it has refused 1 message within the last minute"
    );
    assert!(reasons[2].1.contains("wait until they expire"), "{reasons:?}");
    let reasons = of(QueueFacts { rejected_a_minute: 2, ..queue(ready(0)) });
    assert_eq!(
        reasons[1].1,
        "the queue was at its length limit: it has refused 2 messages within the last minute"
    );
}

#[test]
fn consumers_are_said_to_wait_only_where_there_are_some() {
    let meaning = |consumers: u32| {
        let queue = queue(Report { consumers, ..ready(0) });
        let facts = Facts::Queue { queue: &queue, consumers: &[], moved: false, blocked: false };
        let reasons = Explanation::of(facts, LOG, |_| None).causes;
        assert_eq!(reasons[0].cause, Cause::QueueEmpty);
        reasons[0].text.meaning
    };
    assert!(meaning(1).contains("Consumers wait"), "{}", meaning(1));
    assert!(meaning(0).contains("No consumer is attached"), "{}", meaning(0));
}

/// A publisher whose messages are refused goes on sending them.
#[test]
fn a_publisher_is_told_what_is_refused_while_it_sends() {
    let (connection, link) = (connection(), publishing(0));
    let queue = QueueFacts { rejected_a_minute: 3, ..queue(ready(1)) };
    let place = LinkInPlace { connection: &connection, link: &link, queue: Some(&queue), moved: true };
    let of = |facts| causes(facts, LOG).into_iter().map(|(cause, _)| cause).collect::<Vec<_>>();
    assert_eq!(of(Facts::Link(place)), [Cause::QueueFull, Cause::Moving]);
    let facts = Facts::Connection { connection: &connection, links: &[place] };
    assert_eq!(of(facts), [Cause::QueueFull, Cause::Moving]);
}

#[test]
fn every_cause_is_in_the_operators_page() {
    let page = include_str!("../../../../docs/operations/slow.md");
    for cause in Cause::ALL {
        assert!(
            page.contains(&format!("| `{}` |", cause.word())),
            "{cause:?} is not in docs/operations/slow.md"
        );
    }
    assert!(Cause::ALL.is_sorted(), "in the order of the enum");
}
