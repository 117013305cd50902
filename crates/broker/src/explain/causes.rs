//! Decides the causes from the facts.

use message::DeliveryMax;
use queue::Standing;

use super::{Cause, Facts, LinkId, LinkInPlace, LogFacts, QueueFacts, Role, ShardFacts};

/// A cause, and the link at which it was found.
pub type CauseAt<'a> = (Cause, Option<&'a LinkId>);

/// Returns the causes, the worst first. There is at least one, and each is there once.
pub fn causes<'a>(facts: Facts<'a>, log: LogFacts) -> Vec<CauseAt<'a>> {
    let mut causes = match facts {
        Facts::Link(link) => at(link, of_link(&link, log)),
        Facts::Queue { queue, consumers, moved, blocked } => of_queue(queue, consumers, moved, blocked, log),
        Facts::Connection { links, .. } if links.iter().any(|link| link.moved) => {
            let mut all: Vec<CauseAt<'a>> =
                links.iter().flat_map(|link| at(*link, of_publisher(link, log))).collect();
            type Links<'a> = Vec<&'a LinkInPlace<'a>>;
            let (round, others): (Links<'a>, Links<'a>) =
                links.iter().filter(|link| link.moved).partition(|link| link.looped_a_minute() > 0);
            all.extend(round.first().map(|link| (Cause::RequeueLoop, Some(&link.link.place))));
            if !others.is_empty() {
                let slow = others.iter().find(|link| link.shard_at_limit().is_some());
                all.push(
                    slow.map_or((Cause::Moving, None), |link| (Cause::ShardAtLimit, Some(&link.link.place))),
                );
            }
            all
        }
        Facts::Connection { connection, links } => {
            let mut all: Vec<CauseAt<'a>> =
                links.iter().flat_map(|link| at(*link, of_link(link, log))).collect();
            // It is the same for all links.
            all.retain(|(cause, _)| *cause != Cause::SocketNotRead);
            if connection.unwritten_bytes > 0 {
                all.push((Cause::SocketNotRead, None));
            }
            // What stops nothing explains a connection only if nothing else does. Then one is enough.
            match all.iter().any(|(cause, _)| cause.stops()) {
                true => all.retain(|(cause, _)| cause.stops()),
                false => all = all.into_iter().min_by_key(|(cause, _)| *cause).into_iter().collect(),
            }
            if all.is_empty() {
                all.push((Cause::NoLinks, None));
            }
            all
        }
    };
    causes.sort_by_key(|(cause, _)| *cause);
    causes.dedup_by_key(|(cause, _)| *cause);
    causes
}

fn at<'a>(link: LinkInPlace<'a>, causes: Vec<Cause>) -> Vec<CauseAt<'a>> {
    causes.into_iter().map(|cause| (cause, Some(&link.link.place))).collect()
}

/// What stops publishers of a queue, and what stops its messages.
fn of_queue<'a>(
    queue: &QueueFacts,
    consumers: &'a [LinkInPlace<'a>],
    moved: bool,
    blocked: bool,
    log: LogFacts,
) -> Vec<CauseAt<'a>> {
    let report = &queue.report;
    let mut all = Vec::new();
    let stops = [
        (log.failed, Cause::LogFailed),
        (report.damaged, Cause::QueueDamaged),
        (blocked, Cause::Alarm),
        (queue.refuses(), Cause::QueueFull),
    ];
    all.extend(stops.into_iter().filter(|(is, _)| *is).map(|(_, cause)| (cause, None)));
    match () {
        () if report.damaged => {}
        () if queue.looped_a_minute > 0 => all.push((Cause::RequeueLoop, looping(consumers))),
        () if moved => all.push((moving(queue.home), None)),
        () if report.ready == 0 => all.push((nothing_ready(report), None)),
        () if report.consumers == 0 && report.stream.is_some() => all.push((Cause::NoReader, None)),
        () if report.consumers == 0 => all.push((Cause::NoConsumer, None)),
        () => {
            // One consumer that can get a message is enough. So the consumer with the best cause explains the queue. Consumers that
            // are not the single active one stop nothing. A delivery over the link was one of a message that came back, or the
            // queue would have moved.
            let of = |consumer: &LinkInPlace<'a>| {
                let stays = LinkInPlace { moved: false, ..*consumer };
                at(stays, sorted(of_link(&stays, log)))
            };
            let candidates = consumers.iter().map(of).filter(|causes| !causes.iter().any(is_inactive));
            match candidates.max_by_key(|causes| causes.first().map(|(cause, _)| *cause)) {
                Some(causes) => all.extend(causes),
                // The last consumer has just left, or another one is becoming the active one.
                None => all.push((moving(queue.home), None)),
            }
        }
    }
    all
}

/// Returns the consumer that gives back most. One that has just got a delivery comes first: the others may have stopped.
fn looping<'a>(consumers: &'a [LinkInPlace<'a>]) -> Option<&'a LinkId> {
    let counted = consumers.iter().map(|consumer| (consumer.looped_a_minute(), consumer));
    let found =
        counted.filter(|(count, _)| *count > 0).max_by_key(|(count, consumer)| (consumer.moved, *count));
    found.map(|(_, consumer)| &consumer.link.place)
}

fn is_inactive((cause, _): &CauseAt<'_>) -> bool {
    *cause == Cause::InactiveConsumer
}

fn sorted(mut causes: Vec<Cause>) -> Vec<Cause> {
    causes.sort_unstable();
    causes
}

/// Returns the cause if nothing stops the messages that this shard handles.
fn moving(shard: Option<ShardFacts>) -> Cause {
    match shard {
        Some(ShardFacts { is_at_limit: true, .. }) => Cause::ShardAtLimit,
        _ => Cause::Moving,
    }
}

fn of_link(at: &LinkInPlace<'_>, log: LogFacts) -> Vec<Cause> {
    let LinkInPlace { connection, link, moved, .. } = at;
    let mut causes = of_publisher(at, log);
    if *moved {
        let goes_round = at.looped_a_minute() > 0;
        causes.push(if goes_round { Cause::RequeueLoop } else { moving(at.shard_at_limit()) });
        return causes;
    }
    if connection.unwritten_bytes > 0 {
        causes.push(Cause::SocketNotRead);
    }
    if !link.answered {
        causes.push(Cause::AttachUnanswered);
        return causes;
    }
    match &link.role {
        Role::Publishing { unconfirmed, .. } => of_unconfirmed(at, *unconfirmed, log, &mut causes),
        Role::Consuming { .. } => of_consumer(at, &mut causes),
        Role::Replies => {
            let stops =
                [(link.waits_for_window(), Cause::ClientWindowClosed), (link.credit == 0, Cause::NoCredit)];
            causes.extend(stops.into_iter().filter(|(is, _)| *is).map(|(_, cause)| cause));
            if causes.is_empty() {
                causes.push(Cause::QueueEmpty);
            }
        }
        Role::Management if causes.is_empty() => causes.push(Cause::ClientSilent),
        Role::Management => {}
    }
    causes
}

/// Returns what stops a publisher or lets its messages be refused, whether or not it goes on sending.
fn of_publisher(at: &LinkInPlace<'_>, log: LogFacts) -> Vec<Cause> {
    if !matches!(at.link.role, Role::Publishing { .. }) {
        return Vec::new();
    }
    let is_damaged = at.queue.is_some_and(|queue| queue.report.damaged);
    let stops = [
        (log.failed, Cause::LogFailed),
        (is_damaged, Cause::QueueDamaged),
        (at.connection.blocked, Cause::Alarm),
        (at.queue.is_some_and(QueueFacts::refuses), Cause::QueueFull),
    ];
    stops.into_iter().filter(|(is, _)| *is).map(|(_, cause)| cause).collect()
}

/// Adds why messages of a publisher wait for their receipts, or why it sends none.
fn of_unconfirmed(at: &LinkInPlace<'_>, unconfirmed: u32, log: LogFacts, causes: &mut Vec<Cause>) {
    let LinkInPlace { connection, link, queue, .. } = at;
    let stores = !log.failed && !causes.contains(&Cause::QueueDamaged);
    match () {
        () if unconfirmed > 0 && stores => causes.push(match () {
            () if log.memory_receipts_held > 0 => Cause::WaitingForMemory,
            () if queue.is_some_and(|q| q.report.staged > 0) => Cause::WaitingForCommit,
            () if log.receipts_held > 0 => Cause::WaitingForLog,
            // The queue is not known, or its group has just begun to elect its leader.
            () if log.groups_held > 0 => Cause::WaitingForCommit,
            () => Cause::WaitingForReceipts,
        }),
        () if unconfirmed > 0 => {}
        () if connection.held_back => causes.push(Cause::HeldBack),
        // The rest of a delivery may have been sent, but is not read during an alarm.
        () if link.incomplete_bytes > 0 && !connection.blocked => causes.push(Cause::DeliveryIncomplete),
        () => {}
    }
    if causes.is_empty() {
        causes.push(match link.credit {
            // The broker grants credit again as soon as nothing is in its way.
            0 => moving(at.shard_at_limit()),
            _ => Cause::ClientSilent,
        });
    }
}

fn of_consumer(at: &LinkInPlace<'_>, causes: &mut Vec<Cause>) {
    let LinkInPlace { connection, link, queue, .. } = at;
    let Role::Consuming { consumer, unsettled, unsettled_max, message_bytes_max, revoked, standing, .. } =
        &link.role
    else {
        return;
    };
    let report = queue.map(|q| &q.report);
    let active = report.and_then(|r| r.active_consumer);
    if link.waits_for_window() {
        causes.push(Cause::ClientWindowClosed);
    }
    // Its message is on its way back, or with the consumer again.
    if active.is_none_or(|active| active == *consumer) && at.looped_a_minute() > 0 {
        causes.push(Cause::RequeueLoop);
        return;
    }
    // Without a message for it, only what holds back its deliveries counts.
    let no_message = match report {
        Some(report) if report.ready == 0 => Some(nothing_ready(report)),
        _ if *standing == Some(Standing::AtEnd) => Some(Cause::EndOfStream),
        _ => None,
    };
    if let Some(cause) = no_message {
        if causes.is_empty() {
            causes.push(cause);
        }
        return;
    }
    if active.is_some_and(|active| active != *consumer) {
        causes.push(Cause::InactiveConsumer);
        return;
    }
    if *revoked > 0 {
        causes.push(Cause::ConsumerTimedOut);
    }
    // More credit would bring it nothing.
    if active.is_some() && report.is_some_and(|r| r.yielding) {
        causes.push(Cause::GivingWay);
        return;
    }
    let is_too_large = report.zip(*message_bytes_max).is_some_and(|(report, max)| match max {
        DeliveryMax::Whole(max) => report.next_bytes > Some(max),
        DeliveryMax::Head(max) => report.next_head_bytes > Some(max),
    });
    if is_too_large {
        causes.push(Cause::MessageTooLarge);
    }
    let is_at_limit = unsettled >= unsettled_max;
    if connection.held_back && (is_at_limit || link.credit == 0) {
        // What the client has settled and granted may have been sent, but not read.
        causes.push(Cause::HeldBack);
    } else {
        if is_at_limit {
            causes.push(Cause::UnsettledLimit);
        }
        // Without sessions, the limit is the credit: what the client settles gives it new credit.
        if link.credit == 0 && (!is_at_limit || link.session.is_some()) {
            causes.push(Cause::NoCredit);
        }
    }
    if causes.is_empty() {
        let is_reading = report.is_some_and(|r| r.reading) || *standing == Some(Standing::Reading);
        causes.push(if is_reading { Cause::ReadingBacklog } else { moving(at.shard_at_limit()) });
    }
}

/// Returns the reason why a queue has nothing to deliver.
fn nothing_ready(report: &queue::Report) -> Cause {
    match () {
        () if report.staged > 0 => Cause::WaitingForCommit,
        () if report.unsettled > 0 => Cause::AllUnsettled,
        () if report.delayed > 0 => Cause::AllDelayed,
        () if report.leaving > 0 => Cause::DeadLettersLeaving,
        () if report.last_was_over_limit => Cause::OverDeliveryLimit,
        () => Cause::QueueEmpty,
    }
}

impl Cause {
    /// Returns false if nothing stops the messages, or nothing is there to be stopped.
    const fn stops(self) -> bool {
        !matches!(
            self,
            Self::OverDeliveryLimit
                | Self::QueueEmpty
                | Self::EndOfStream
                | Self::NoReader
                | Self::ClientSilent
                | Self::NoLinks
                | Self::ShardAtLimit
                | Self::Moving
        )
    }
}
