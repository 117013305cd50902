//! The answer: the causes, in words and with numbers.

use message::DeliveryMax;

use super::texts::{CREDIT_USED_UP, DELAYS, EMPTIED, REJECTS, UNUSED};
use super::{
    Cause, ConnectionFacts, Facts, LinkFacts, LinkId, LinkInPlace, LogFacts, QueueFacts, Role, SessionFacts,
    Text, causes,
};

/// The names and values of numbers, in the order in which a message passes them. A name ends with its unit, unless the value is a
/// count.
pub type Numbers = Vec<(&'static str, u64)>;

/// The causes and the facts that they are based on. The first cause is the worst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub cause: Cause,
    /// The link at which the cause was found.
    pub at: Option<LinkId>,
    pub numbers: Numbers,
    /// Further remarks, one sentence each: about this link, and which alarms there are.
    pub notes: Vec<String>,
    /// All causes, the worst first. The first one is [`Explanation::cause`].
    pub causes: Vec<Reason>,
}

/// One of several causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub cause: Cause,
    /// The link at which it was found.
    pub at: Option<LinkId>,
    /// Those that show it.
    pub numbers: Numbers,
    /// In one sentence.
    pub sentence: String,
    pub text: Text,
}

/// How many deliveries a consumer has acknowledged in a time, and how many it has given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    pub acknowledged: u64,
    pub returned: u64,
    pub ms: u64,
}

impl Pace {
    /// Returns a number in a second, rounded to the nearest.
    fn a_second(self, number: u64) -> u64 {
        (number * 1000 + self.ms / 2) / self.ms.max(1)
    }
}

impl Explanation {
    /// Decides the causes and collects the numbers of the objects that were inspected. `pace` returns that of a link, if it was
    /// measured.
    pub fn of(facts: Facts<'_>, log: LogFacts, pace: impl Fn(&LinkId) -> Option<Pace>) -> Self {
        let causes = causes(facts, log);
        let reasons: Vec<Reason> = causes
            .iter()
            .map(|(cause, at)| {
                let (sentence, text) = words(*cause, *at, facts, &pace);
                let mut numbers = numbers_at(facts, *cause, *at, log, &pace);
                numbers.retain(|(name, _)| text.numbers.contains(name));
                Reason { cause: *cause, at: at.cloned(), numbers, sentence, text }
            })
            .collect();
        let (cause, at) = causes.first().copied().unwrap_or((Cause::Moving, None));
        let mut notes = Vec::new();
        if let Some(link) = link_at(facts, at) {
            link_notes(link.link, &mut notes);
        }
        if let Facts::Connection { links, .. } = facts {
            let others = links.iter().filter(|link| Some(&link.link.place) != at);
            others.for_each(|link| link_notes(link.link, &mut notes));
            notes.truncate(NOTES_MAX);
        }
        let numbers = numbers_at(facts, cause, at, log, &pace);
        Self { cause, at: at.cloned(), numbers, notes, causes: reasons }
    }

    /// Returns true if how fast the client acknowledges or gives back says more about a cause.
    pub fn wants_pace(&self) -> bool {
        let paces = [ACKNOWLEDGED_A_SECOND, RETURNED_A_SECOND];
        self.causes.iter().any(|reason| paces.iter().any(|pace| reason.text.numbers.contains(pace)))
    }
}

const ACKNOWLEDGED_A_SECOND: &str = "link_acknowledged_a_second";
const RETURNED_A_SECOND: &str = "link_returned_a_second";

/// The most notes of an explanation. A connection may have thousands of links that have one each.
const NOTES_MAX: usize = 10;

/// Returns the sentence and the text of a cause, which depend on how it arose.
fn words(
    cause: Cause,
    at: Option<&LinkId>,
    facts: Facts<'_>,
    pace: &impl Fn(&LinkId) -> Option<Pace>,
) -> (String, Text) {
    let usual = || (cause.sentence().to_owned(), cause.text());
    let queue = match facts {
        Facts::Queue { queue, .. } => Some(queue),
        Facts::Link(LinkInPlace { queue, .. }) => queue,
        Facts::Connection { .. } => link_at(facts, at).and_then(|link| link.queue),
    };
    match (cause, queue) {
        (Cause::NoConsumer, Some(queue)) if queue.delays => {
            let sentence =
                "no consumer is attached: the messages wait until they expire and are dead-lettered";
            (sentence.to_owned(), DELAYS)
        }
        (Cause::NoConsumer | Cause::QueueEmpty, Some(queue)) => match losses(queue) {
            None if cause == Cause::QueueEmpty && queue.report.consumers == 0 => {
                (cause.sentence().to_owned(), UNUSED)
            }
            None => usual(),
            Some(losses) => {
                let text = if cause == Cause::QueueEmpty { EMPTIED } else { cause.text() };
                (format!("{}; since the broker started: {losses}", cause.sentence()), text)
            }
        },
        (Cause::QueueFull, Some(queue)) if queue.rejected_a_minute > 0 => {
            let is = if queue.report.full { "is" } else { "was" };
            let sentence = format!(
                "the queue {is} at its length limit: it has refused {} within the last minute",
                messages(queue.rejected_a_minute)
            );
            (sentence, REJECTS)
        }
        (Cause::RequeueLoop, Some(queue)) => {
            let pace = link_at(facts, at).and_then(|link| pace(&link.link.place));
            let how_often = match pace.map(|pace| pace.a_second(pace.returned)) {
                None | Some(0) => format!("{} times within the last minute", queue.looped_a_minute),
                Some(a_second) => format!("{a_second} times a second"),
            };
            let sentence = format!("the consumer gives messages back {how_often}, and none leaves the queue");
            (sentence, cause.text())
        }
        (Cause::NoCredit | Cause::UnsettledLimit, _) => {
            let Some(link) = link_at(facts, at) else { return usual() };
            let Role::Consuming { unsettled, sent, .. } = link.link.role else { return usual() };
            if cause == Cause::NoCredit && sent == 0 {
                return usual();
            }
            let (begin, text) = match cause {
                Cause::NoCredit => ("the client has used up its credit", CREDIT_USED_UP),
                _ => (cause.sentence(), cause.text()),
            };
            let acknowledged = match pace(&link.link.place) {
                Some(pace) => format!(" and acknowledges {} a second", pace.a_second(pace.acknowledged)),
                None => String::new(),
            };
            (format!("{begin}: it holds {}{acknowledged}", messages(unsettled.into())), text)
        }
        _ => usual(),
    }
}

/// Says how many messages the limits of the queue have removed or refused. `None` if there are none. Refusals that go on have a
/// cause of their own.
fn losses(queue: &QueueFacts) -> Option<String> {
    let report = &queue.report;
    let refused = if queue.refuses() { 0 } else { report.rejected.total() };
    let counts = [
        (report.expired, "expired"),
        (report.over_length, "dropped by the length limit"),
        (refused, "refused at the length limit"),
    ];
    let lost = counts.into_iter().filter(|(count, _)| *count > 0);
    let lost: Vec<String> = lost.map(|(count, how)| format!("{count} {how}")).collect();
    (!lost.is_empty()).then(|| lost.join(", "))
}

fn messages(count: u64) -> String {
    format!("{count} message{}", if count == 1 { "" } else { "s" })
}

/// Returns the link at which a cause was found, or the link that is explained.
fn link_at<'a>(facts: Facts<'a>, at: Option<&LinkId>) -> Option<LinkInPlace<'a>> {
    match facts {
        Facts::Link(link) => Some(link),
        Facts::Queue { consumers: links, .. } | Facts::Connection { links, .. } => {
            links.iter().find(|link| Some(&link.link.place) == at).copied()
        }
    }
}

/// Collects the numbers for a cause that was found at this link.
fn numbers_at(
    facts: Facts<'_>,
    cause: Cause,
    at: Option<&LinkId>,
    log: LogFacts,
    pace: &impl Fn(&LinkId) -> Option<Pace>,
) -> Numbers {
    let mut numbers = Numbers::new();
    let found = link_at(facts, at);
    match facts {
        Facts::Link(LinkInPlace { connection, link, queue, .. }) => {
            connection_numbers(connection, &mut numbers);
            link_numbers(link, pace(&link.place), &mut numbers);
            queue.into_iter().for_each(|queue| queue_numbers(queue, &mut numbers));
        }
        Facts::Queue { queue, .. } => {
            queue_numbers(queue, &mut numbers);
            if let Some(found) = found {
                connection_numbers(found.connection, &mut numbers);
                link_numbers(found.link, pace(&found.link.place), &mut numbers);
            }
        }
        Facts::Connection { connection, links, .. } => {
            connection_numbers(connection, &mut numbers);
            numbers.push(("links", links.len() as u64));
            if let Some(found) = found {
                link_numbers(found.link, pace(&found.link.place), &mut numbers);
            }
        }
    }
    if cause == Cause::ShardAtLimit
        && let Some(shard) = facts.shard_at_limit(|link| Some(&link.link.place) == at)
    {
        numbers.extend(shard.numbers());
    }
    numbers.push(("log_receipts_held", log.receipts_held));
    numbers.push(("log_groups_held", log.groups_held));
    numbers.push(("memory_receipts_held", log.memory_receipts_held));
    numbers
}

fn connection_numbers(connection: &ConnectionFacts, numbers: &mut Numbers) {
    numbers.push(("connection_unwritten_bytes", connection.unwritten_bytes));
}

fn link_numbers(link: &LinkFacts, pace: Option<Pace>, numbers: &mut Numbers) {
    if let Some(SessionFacts { incoming_window, remote_incoming_window, pending }) = link.session {
        numbers.extend([
            ("session_incoming_window", u64::from(incoming_window)),
            ("session_remote_incoming_window", u64::from(remote_incoming_window)),
            ("session_pending", pending),
        ]);
    }
    numbers.extend([
        ("session_incomplete_bytes", link.incomplete_bytes),
        ("link_credit", u64::from(link.credit)),
        ("link_delivery_count", u64::from(link.delivery_count)),
    ]);
    match &link.role {
        Role::Publishing { unconfirmed, .. } => numbers.push(("link_unconfirmed", u64::from(*unconfirmed))),
        Role::Consuming { unsettled, unsettled_max, message_bytes_max, revoked, .. } => {
            numbers.extend([
                ("link_unsettled", u64::from(*unsettled)),
                ("link_unsettled_max", u64::from(*unsettled_max)),
            ]);
            if let Some(pace) = pace {
                numbers.push((ACKNOWLEDGED_A_SECOND, pace.a_second(pace.acknowledged)));
                let returned = pace.a_second(pace.returned);
                numbers.extend((returned > 0).then_some((RETURNED_A_SECOND, returned)));
            }
            numbers.extend((*revoked > 0).then_some(("link_revoked", *revoked)));
            numbers.extend(message_bytes_max.map(|max| match max {
                DeliveryMax::Whole(max) => ("link_message_max_bytes", max),
                DeliveryMax::Head(max) => ("link_frame_max_bytes", max),
            }));
        }
        Role::Replies | Role::Management => {}
    }
}

fn link_notes(link: &LinkFacts, notes: &mut Vec<String>) {
    if let Role::Consuming { left_out: Some(filters), .. } = &link.role {
        notes.extend_from_slice(filters);
    }
}

fn queue_numbers(queue: &QueueFacts, numbers: &mut Numbers) {
    let report = &queue.report;
    numbers.extend([
        ("queue_staged", report.staged),
        ("queue_ready", report.ready),
        ("queue_unsettled", report.unsettled),
        ("queue_delayed", report.delayed),
        ("queue_leaving", report.leaving),
        ("queue_over_limit", report.over_limit),
        ("queue_consumers", u64::from(report.consumers)),
    ]);
    let seldom = [
        ("queue_looped_a_minute", queue.looped_a_minute),
        ("queue_expired", report.expired),
        ("queue_over_length", report.over_length),
    ];
    numbers.extend(seldom.into_iter().filter(|(_, count)| *count > 0));
    if report.rejected.total() > 0 {
        numbers.push(("queue_rejected_a_minute", queue.rejected_a_minute));
        numbers.push(("queue_rejected", report.rejected.total()));
    }
    numbers.extend(report.next_bytes.map(|bytes| ("queue_next_bytes", bytes)));
    numbers.extend(report.next_head_bytes.map(|bytes| ("queue_next_header_bytes", bytes)));
}
