//! Compares explanations with what an omniscient reader of a naive world says, in generated states.

use std::collections::BTreeSet;

use proptest::prelude::*;
use queue::{Report, Standing};

use super::tests::{connection, consuming, lately, queue};
use super::*;

/// A queue with its consumers, and what its publishers meet.
#[derive(Clone, Debug)]
struct World {
    is_stream: bool,
    /// The messages that could go to a consumer now, and where the others are.
    ready: u64,
    held: u64,
    staged: u64,
    waiting_for_retry: u64,
    dead: u64,
    failed_last: bool,
    damaged: bool,
    /// At the length limit, and the messages that were refused within a minute.
    full: bool,
    refused: u64,
    alarm: bool,
    disk_fails: bool,
    shard_is_full: bool,
    /// The next message is on the disk.
    is_on_disk: bool,
    next_bytes: u64,
    /// The consumer that alone gets messages, if the queue has one, and whether it has to give way.
    single: Option<usize>,
    gives_way: bool,
    consumers: Vec<Reader>,
    /// What happened while the broker looked: publishers came, a consumer returned a message and got it again, a consumer got a
    /// message for the first time, or settled one.
    published: bool,
    /// Consumers give back all that they get, again and again, and have done so for seconds.
    is_in_a_loop: bool,
    went_in_circles: bool,
    taken: bool,
    settled: bool,
}

#[derive(Clone, Debug)]
struct Reader {
    /// Over AMQP 0.9.1, the credit is what is left of the limit.
    has_credit_of_its_own: bool,
    credit: u32,
    holds: u32,
    may_hold: u32,
    got: u64,
    reads_socket: bool,
    window_is_open: bool,
    is_answered: bool,
    /// The broker does not read its connection, because a publisher on it is ahead of its queues.
    is_ahead: bool,
    timed_out: bool,
    takes_bytes: u64,
    is_at_end: bool,
    gives_back: bool,
}

/// Messages went round, and there are some: nobody has purged the queue since.
fn goes_round(world: &World) -> bool {
    world.is_in_a_loop && world.ready + world.held + world.waiting_for_retry + world.dead > 0
}

/// Returns everything that keeps the next message from this consumer, or the news that it can have it.
fn of_reader(world: &World, number: usize) -> BTreeSet<Cause> {
    let reader = &world.consumers[number];
    let mut all = BTreeSet::new();
    let mut say = |is: bool, cause: Cause| _ = is.then(|| all.insert(cause));
    say(!reader.reads_socket, Cause::SocketNotRead);
    if !reader.is_answered {
        say(true, Cause::AttachUnanswered);
        return all;
    }
    say(!reader.window_is_open, Cause::ClientWindowClosed);
    if goes_round(world) && reader.gives_back && world.single.is_none_or(|single| single == number) {
        say(true, Cause::RequeueLoop);
        return all;
    }
    if world.ready == 0 {
        say(reader.reads_socket && reader.window_is_open, where_messages_are(world));
        return all;
    }
    if world.is_stream && reader.is_at_end {
        say(reader.reads_socket && reader.window_is_open, Cause::EndOfStream);
        return all;
    }
    if world.single.is_some_and(|single| single != number) {
        say(true, Cause::InactiveConsumer);
        return all;
    }
    say(reader.timed_out, Cause::ConsumerTimedOut);
    if world.single.is_some() && world.gives_way {
        say(true, Cause::GivingWay);
        return all;
    }
    say(reader.takes_bytes < world.next_bytes, Cause::MessageTooLarge);
    let is_at_limit = reader.holds >= reader.may_hold;
    let has_none = reader.credit_left() == 0;
    say(reader.is_ahead && (is_at_limit || has_none), Cause::HeldBack);
    say(!reader.is_ahead && is_at_limit, Cause::UnsettledLimit);
    let asks_for_none = has_none && (reader.has_credit_of_its_own || !is_at_limit);
    say(!reader.is_ahead && asks_for_none, Cause::NoCredit);
    all
}

/// Returns where the messages of a queue are that has none for its consumers.
fn where_messages_are(world: &World) -> Cause {
    match world {
        World { staged: 1.., .. } => Cause::WaitingForCommit,
        World { held: 1.., .. } => Cause::AllUnsettled,
        World { waiting_for_retry: 1.., .. } => Cause::AllDelayed,
        World { dead: 1.., .. } => Cause::DeadLettersLeaving,
        World { failed_last: true, .. } => Cause::OverDeliveryLimit,
        _ => Cause::QueueEmpty,
    }
}

impl Reader {
    fn credit_left(&self) -> u32 {
        match self.has_credit_of_its_own {
            true => self.credit,
            false => self.may_hold.saturating_sub(self.holds),
        }
    }
}

/// Returns what may be said of the queue. Several consumers may be equally close to a message.
fn of_world(world: &World) -> Vec<BTreeSet<Cause>> {
    let mut says = BTreeSet::new();
    says.extend(world.disk_fails.then_some(Cause::LogFailed));
    says.extend(world.damaged.then_some(Cause::QueueDamaged));
    says.extend(world.alarm.then_some(Cause::Alarm));
    says.extend((world.full || world.refused > 0).then_some(Cause::QueueFull));
    let with = |more: BTreeSet<Cause>| vec![says.union(&more).copied().collect()];
    let goes = if world.shard_is_full { Cause::ShardAtLimit } else { Cause::Moving };
    if world.damaged {
        return with([].into());
    }
    if goes_round(world) && !world.consumers.is_empty() {
        return with([Cause::RequeueLoop].into());
    }
    if world.taken || world.settled {
        return with([goes].into());
    }
    if world.ready == 0 {
        return with([where_messages_are(world)].into());
    }
    if world.consumers.is_empty() {
        let nobody = if world.is_stream { Cause::NoReader } else { Cause::NoConsumer };
        return with([nobody].into());
    }
    let all = (0..world.consumers.len()).map(|number| of_reader(world, number));
    let all = all.filter(|causes| !causes.contains(&Cause::InactiveConsumer)).map(|causes| {
        match causes.is_empty() {
            true => [if world.is_on_disk { Cause::ReadingBacklog } else { goes }].into(),
            false => causes,
        }
    });
    let all: Vec<BTreeSet<Cause>> = all.collect();
    let best = all.iter().filter_map(|causes| causes.first()).max().copied();
    match best {
        None => with([goes].into()),
        Some(best) => {
            let closest = all.iter().filter(|causes| causes.first() == Some(&best));
            closest.flat_map(|causes| with(causes.clone())).collect()
        }
    }
}

/// Returns what the broker sees of the world: before and after.
fn looks(world: &World) -> [Look; 2] {
    let home =
        ShardFacts { is_at_limit: world.shard_is_full, is_blocked: world.alarm, ..ShardFacts::default() };
    let report = Report {
        ready: world.ready,
        unsettled: world.held,
        staged: world.staged,
        delayed: world.waiting_for_retry,
        leaving: world.dead,
        last_was_over_limit: world.failed_last,
        damaged: world.damaged,
        full: world.full,
        reading: world.is_on_disk,
        next_bytes: Some(world.next_bytes),
        active_consumer: world.single.map(|single| single as u64),
        yielding: world.gives_way,
        consumers: world.consumers.len() as u32,
        stream: world.is_stream.then(queue::Retained::default),
        published: 10,
        delivered: 10,
        redelivered: 5,
        acknowledged: 3,
        returned_again: lately(if world.is_in_a_loop { 100 } else { 0 }),
        ..Report::default()
    };
    let before = Report {
        published: 10 - u64::from(world.published),
        delivered: 10 - u64::from(world.taken) - u64::from(world.went_in_circles),
        redelivered: 5 - u64::from(world.went_in_circles),
        acknowledged: 3 - u64::from(world.settled),
        ..report.clone()
    };
    let connections = world.consumers.iter().enumerate().map(|(number, reader)| {
        let name: Arc<str> = format!("c{number}").into();
        let remote_incoming_window = u32::from(reader.window_is_open);
        let session = SessionFacts { incoming_window: 1, remote_incoming_window, pending: 1 };
        let mut link = LinkFacts {
            place: LinkId { connection: name.clone(), session: 0, handle: 0, name: "l".into() },
            answered: reader.is_answered,
            credit: reader.credit_left(),
            session: Some(session).filter(|_| reader.has_credit_of_its_own),
            ..consuming(reader.holds)
        };
        if let Role::Consuming {
            consumer,
            unsettled_max,
            message_bytes_max,
            revoked,
            standing,
            sent,
            returned,
            ..
        } = &mut link.role
        {
            *returned = lately(reader.gives_back.into());
            (*consumer, *unsettled_max, *sent) = (number as u64, reader.may_hold, reader.got);
            *message_bytes_max = Some(message::DeliveryMax::Whole(reader.takes_bytes));
            *revoked = reader.timed_out.into();
            let place = if reader.is_at_end { Standing::AtEnd } else { Standing::Behind };
            *standing = world.is_stream.then_some(place);
        }
        ConnectionFacts {
            name,
            held_back: reader.is_ahead,
            unwritten_bytes: u64::from(!reader.reads_socket),
            links: vec![link],
            ..connection()
        }
    });
    let mut connections: Vec<ConnectionFacts> = connections.collect();
    let log = LogFacts { failed: world.disk_fails, ..LogFacts::default() };
    let look = |report: Report, connections: &[ConnectionFacts]| Look {
        connections: connections.to_vec(),
        queues: vec![QueueFacts { home: Some(home), rejected_a_minute: world.refused, ..queue(report) }],
        log,
        shards: vec![home],
    };
    let first = look(before, &connections);
    // Each consumer got what came back, or what is new.
    let passed = u32::from(world.went_in_circles || world.taken);
    connections.iter_mut().for_each(|connection| connection.links[0].delivery_count += passed);
    [first, look(report, &connections)]
}

fn explained(world: &World) -> Explanation {
    let [before, now] = looks(world);
    now.explain(&before, &Subject::Queue { vhost: "/".into(), name: "q".into() }).unwrap()
}

/// Does what helps against a cause.
fn cure(world: &mut World, reason: &Reason) {
    let consumer = reason.at.as_ref().map(|at| at.connection[1..].parse::<usize>().unwrap());
    let reader = consumer.map(|number| &mut world.consumers[number]);
    match (reason.cause, reader) {
        (Cause::LogFailed, _) => world.disk_fails = false,
        (Cause::QueueDamaged, _) => world.damaged = false,
        (Cause::Alarm, _) => world.alarm = false,
        (Cause::RequeueLoop, _) => world.is_in_a_loop = false,
        (Cause::QueueFull, _) => (world.full, world.refused) = (false, 0),
        (Cause::NoConsumer, _) => world.consumers.push(FREE_READER),
        (Cause::GivingWay, _) => world.gives_way = false,
        (Cause::SocketNotRead, Some(reader)) => reader.reads_socket = true,
        (Cause::AttachUnanswered, Some(reader)) => reader.is_answered = true,
        (Cause::ClientWindowClosed, Some(reader)) => reader.window_is_open = true,
        (Cause::ConsumerTimedOut, Some(reader)) => reader.timed_out = false,
        (Cause::MessageTooLarge, Some(reader)) => reader.takes_bytes = u64::MAX,
        (Cause::HeldBack, Some(reader)) => reader.is_ahead = false,
        (Cause::UnsettledLimit, Some(reader)) => reader.holds = 0,
        (Cause::NoCredit, Some(reader)) => reader.credit = 1,
        (cause, reader) => panic!("nobody cures {cause:?} at {reader:?}"),
    }
}

const FREE_READER: Reader = Reader {
    has_credit_of_its_own: true,
    credit: 1,
    holds: 0,
    may_hold: 1,
    got: 0,
    reads_socket: true,
    window_is_open: true,
    is_answered: true,
    is_ahead: false,
    timed_out: false,
    takes_bytes: u64::MAX,
    is_at_end: false,
    gives_back: false,
};

/// True once in so many times.
fn seldom(times: u32) -> impl Strategy<Value = bool> {
    (0..times).prop_map(|draw| draw == 0)
}

fn readers() -> impl Strategy<Value = Vec<Reader>> {
    let numbers = (any::<bool>(), 0..2_u32, 0..3_u32, 1..3_u32, 0..2_u64, 50..150_u64);
    let states = (seldom(4), seldom(4), seldom(6), seldom(4), seldom(4), seldom(3), any::<bool>());
    let reader = (numbers, states).prop_map(|(numbers, states)| {
        let (has_credit_of_its_own, credit, holds, may_hold, got, takes_bytes) = numbers;
        let (unread, shut, unanswered, is_ahead, timed_out, is_at_end, gives_back) = states;
        Reader {
            has_credit_of_its_own,
            credit,
            holds,
            may_hold,
            got,
            reads_socket: !unread,
            window_is_open: !(shut && has_credit_of_its_own),
            is_answered: !unanswered,
            is_ahead,
            timed_out,
            takes_bytes,
            is_at_end,
            gives_back,
        }
    });
    prop::collection::vec(reader, 0..4)
}

prop_compose! {
    fn worlds()(
        (ready, held, staged, waiting_for_retry, dead) in (0..3_u64, 0..2_u64, 0..2_u64, 0..2_u64, 0..2_u64),
        (is_stream, failed_last, damaged, full, alarm, disk_fails) in
            (seldom(4), any::<bool>(), seldom(8), seldom(4), seldom(4), seldom(6)),
        (refused, shard_is_full, is_on_disk, next_bytes) in (0..2_u64, seldom(4), seldom(4), 0..150_u64),
        (single, gives_way, at) in (seldom(3), seldom(3), any::<prop::sample::Index>()),
        consumers in readers(),
        (published, went_in_circles, taken, settled, loops) in
            (any::<bool>(), seldom(3), seldom(5), seldom(5), seldom(4)),
    ) -> World {
        let single = (single && !consumers.is_empty() && !is_stream).then(|| at.index(consumers.len()));
        // Nothing is settled in a stream.
        let settled = settled && !is_stream;
        // What is settled ends a loop.
        let is_in_a_loop = loops && !settled && !is_stream;
        World {
            is_stream, ready, held, staged, waiting_for_retry, dead, failed_last, damaged, full, refused, alarm,
            disk_fails, shard_is_full, is_on_disk, next_bytes, single, gives_way, consumers, published,
            is_in_a_loop, went_in_circles, taken, settled,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The explanation says what the reader says: all of it, nothing else, and the worst first.
    #[test]
    fn explanations_say_what_an_omniscient_reader_says(world in worlds()) {
        let explanation = explained(&world);
        let causes: Vec<Cause> = explanation.causes.iter().map(|reason| reason.cause).collect();
        let said: BTreeSet<Cause> = causes.iter().copied().collect();
        prop_assert!(of_world(&world).contains(&said), "{:?}, not {:?}", said, of_world(&world));
        prop_assert!(causes.is_sorted() && causes.len() == said.len(), "{:?}", causes);
        prop_assert_eq!(explanation.cause, causes[0]);
        prop_assert_eq!(&explanation.at, &explanation.causes[0].at);
        if let Some(found) = explanation.causes.iter().find(|reason| reason.cause == Cause::RequeueLoop) {
            let place = found.at.as_ref().map(|at| at.connection[1..].parse::<usize>().unwrap());
            prop_assert_eq!(place.is_some(), world.consumers.iter().any(|reader| reader.gives_back));
            prop_assert!(place.is_none_or(|number| world.consumers[number].gives_back));
        }
    }

    /// So do explanations of consumers.
    #[test]
    fn each_consumer_is_explained(world in worlds()) {
        let world = World { taken: false, went_in_circles: false, ..world };
        let [before, now] = looks(&world);
        for number in 0..world.consumers.len() {
            let subject = Subject::Link { vhost: None, name: "l".into(), connection: Some(format!("c{number}")) };
            let explanation = now.explain(&before, &subject).unwrap();
            let mut expected = of_reader(&world, number);
            if expected.is_empty() {
                let goes = if world.shard_is_full { Cause::ShardAtLimit } else { Cause::Moving };
                expected.insert(if world.is_on_disk { Cause::ReadingBacklog } else { goes });
            }
            let said: BTreeSet<Cause> = explanation.causes.iter().map(|reason| reason.cause).collect();
            prop_assert_eq!(&said, &expected);
            let connection = now.explain(&before, &Subject::Connection { name: format!("c{number}") }).unwrap();
            prop_assert_eq!(connection.cause, explanation.cause);
        }
    }

    /// Whoever does something against each cause that is named gets messages that move. What is not named stops nothing.
    #[test]
    fn curing_all_causes_helps(world in worlds()) {
        let mut world = World { taken: false, settled: false, is_on_disk: false, ..world };
        // At the end of a stream, and in a queue without messages, nothing is to be cured.
        world.ready += 1;
        world.consumers.iter_mut().for_each(|reader| reader.is_at_end = false);
        // What comes after an unanswered link or a damaged queue is known only when these are mended, so there are some rounds.
        for _ in 0..20 {
            let reasons = explained(&world).causes;
            let stops = reasons.iter().filter(|reason| {
                !matches!(reason.cause, Cause::Moving | Cause::ShardAtLimit | Cause::NoReader)
            });
            let stops: Vec<&Reason> = stops.collect();
            if stops.is_empty() {
                return Ok(());
            }
            stops.into_iter().for_each(|reason| cure(&mut world, reason));
        }
        prop_assert!(false, "still {:?}", explained(&world).causes);
    }

    /// What publishers do is no movement, and neither is a message that comes back.
    #[test]
    fn only_removals_are_movement(world in worlds()) {
        let quiet = World { published: false, went_in_circles: false, ..world.clone() };
        prop_assert_eq!(explained(&world).causes, explained(&quiet).causes);
    }
}
