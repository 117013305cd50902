//! Every cause of `sluice explain`, produced by the real machines.

use std::collections::BTreeSet;
use std::sync::Arc;

use amqp10::{Described, Map, Role, Source, Symbol, Target, Value};
use broker::explain::{Cause, Explanation, Look, QueueFacts, Subject, Wanted};
use broker::load::BusyTime;
use broker::settings::Settings;
use bytes::BytesMut;
use catalog::QueueRecord;
use node::StorageLimits;
use wal::{BlockRead, Completion, Extent, Flaw, PackJob, Packed, ReadError, ReadJob, Step, WriteError};

use super::client091::Client091;
use super::house::House;

impl House {
    fn record(&self, name: &str) -> Arc<QueueRecord> {
        self.shards[0].catalog().listed_queue("/", name).expect("the queue is declared").clone()
    }

    fn facts(&self, record: &QueueRecord) -> QueueFacts {
        let report = self.shards[0]
            .placements()
            .home(record.id)
            .here()
            .and_then(|home| self.shards[usize::from(home)].queue_report(record.id));
        QueueFacts::new(record, report.unwrap_or_default(), self.now_ms)
    }

    /// Returns what the admin API collects from all shards.
    fn look(&self, subject: &Subject) -> Look {
        let wanted = match subject {
            Subject::Link { vhost, name, .. } => Wanted::Link { vhost: vhost.clone(), name: name.clone() },
            Subject::Connection { name } => Wanted::Connection(name.clone()),
            Subject::Queue { name, .. } => Wanted::Consumers(self.record(name).id),
        };
        let mut look = Look::default();
        for shard in &self.shards {
            let (connections, log) = shard.look(&wanted, 0);
            look.connections.extend(connections.rows);
            look.log.add(log);
            look.shards.push(shard.facts());
        }
        look.queues = match subject {
            Subject::Queue { name, .. } => vec![self.facts(&self.record(name))],
            _ => {
                let mut records: Vec<_> =
                    look.ends().iter().filter_map(|end| end.queue(self.shards[0].catalog())).collect();
                records.sort_unstable_by_key(|record| record.id);
                records.dedup_by_key(|record| record.id);
                records.iter().map(|record| self.facts(record)).collect()
            }
        };
        let home = |queue: &QueueFacts| self.shards[0].placements().home(queue.id);
        let homes: Vec<_> = look.queues.iter().map(home).collect();
        look.set_homes(&homes);
        look
    }

    /// Returns what `sluice explain` says.
    pub(super) fn explain(&self, subject: &Subject) -> Explanation {
        let look = self.look(subject);
        look.explain(&look, subject).expect("it is there")
    }

    /// Returns the subject for the link number `nth` of a peer.
    fn link(&self, peer: usize, nth: usize) -> Subject {
        Subject::Link { vhost: None, name: format!("link-{peer}-{nth}"), connection: None }
    }

    fn connection(&mut self, peer: usize) -> Subject {
        let (shard, key) = (self.peers[peer].shard, self.peers[peer].key);
        let name = self.shards[shard].conn(key).expect("it is open").gate.peer().name.to_string();
        Subject::Connection { name }
    }
}

impl House {
    /// Lets a shard have turns for some seconds, during which its thread is awake for this part of the time.
    fn work(&mut self, shard: usize, seconds: u64, busy_percent: u64) {
        const TURN_NS: u64 = 100_000_000;
        for _ in 0..seconds * 10 {
            let BusyTime { busy_ns, total_ns } = self.shards[shard].totals().shard.busy;
            let busy_ns = busy_ns + TURN_NS / 100 * busy_percent;
            self.shards[shard].set_busy(BusyTime { busy_ns, total_ns: total_ns + TURN_NS });
            self.shards[shard].begin_turn(None);
        }
    }
}

fn queue() -> Subject {
    Subject::Queue { vhost: "/".into(), name: "q".into() }
}

/// Makes a queue, a publisher on one shard and a consumer on the other. The queue lives on the shard that its
/// first message comes from. Returns the house, the two peers, and the publisher's link.
fn house(settings: Settings, arguments: &[(&str, Value)]) -> (House, usize, usize, u32) {
    let mut house = House::new(2, settings);
    house.declare("q", arguments.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect());
    let (publisher, consumer) = (house.connect(0), house.connect(1));
    let out = house.sender(publisher, "/queues/q");
    (house, publisher, consumer, out)
}

fn plain() -> (House, usize, usize, u32) {
    house(Settings::default(), &[])
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

/// Returns all causes.
fn words(explanation: &Explanation) -> Vec<Cause> {
    explanation.causes.iter().map(|reason| reason.cause).collect()
}

/// A case: the expected cause, the explanation found, and the numbers that it must contain.
type Case = (Cause, Explanation, &'static [(&'static str, u64)]);

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut case = |cause, explanation, numbers| cases.push((cause, explanation, numbers));

    let (mut h, publisher, _, out) = plain();
    h.log_stopped = true;
    h.send(publisher, out, b"1");
    case(
        Cause::WaitingForLog,
        h.explain(&h.link(publisher, 0)),
        &[("link_unconfirmed", 1), ("log_receipts_held", 1)],
    );
    for handover in h.take_handovers() {
        let kind = std::io::ErrorKind::StorageFull;
        let error = WriteError { kind, errno: None, file: "1.log".into(), records: handover.records };
        let (shard, ticket) = (handover.shard, handover.ticket);
        let (step, file, size) = (Step::Written, 0, Default::default());
        let completion = Completion { shard, ticket, step, file, size, result: Err(error) };
        h.shards[shard as usize].handle_logged(completion);
    }
    case(Cause::LogFailed, h.explain(&h.link(publisher, 0)), &[]);
    case(Cause::LogFailed, h.explain(&queue()), &[("queue_ready", 1)]);

    let (mut h, publisher, consumer, out) = plain();
    let link = h.receiver(consumer, "/queues/q");
    h.peers[consumer].deaf = true;
    h.grant(consumer, link, 9);
    h.send(publisher, out, b"1");
    assert!(h.explain(&h.link(consumer, 0)).numbers[0].1 > 0, "bytes wait");
    case(Cause::SocketNotRead, h.explain(&h.link(consumer, 0)), &[]);
    let subject = h.connection(consumer);
    case(Cause::SocketNotRead, h.explain(&subject), &[("links", 1)]);

    let (mut h, publisher, _, _) = plain();
    h.shards.iter_mut().for_each(|shard| shard.set_blocked(true));
    h.settle();
    case(Cause::Alarm, h.explain(&h.link(publisher, 0)), &[("link_unconfirmed", 0)]);
    let subject = h.connection(publisher);
    case(Cause::Alarm, h.explain(&subject), &[("links", 1)]);

    let (mut h, publisher, consumer, out) = plain();
    h.send(publisher, out, b"1");
    case(Cause::NoConsumer, h.explain(&queue()), &[("queue_ready", 1), ("queue_consumers", 0)]);
    case(Cause::ClientSilent, h.explain(&h.link(publisher, 0)), &[("link_credit", 169), ("queue_ready", 1)]);
    h.mail_stopped = true;
    h.receiver(consumer, "/queues/q");
    case(Cause::AttachUnanswered, h.explain(&h.link(consumer, 0)), &[]);
    h.mail_stopped = false;
    h.settle();
    case(Cause::NoCredit, h.explain(&h.link(consumer, 0)), &[("link_credit", 0), ("queue_ready", 1)]);
    let numbers = &[("queue_consumers", 1), ("connection_unwritten_bytes", 0), ("link_credit", 0)];
    case(Cause::NoCredit, h.explain(&queue()), numbers);
    h.mail_stopped = true;
    h.grant(consumer, 0, 9);
    case(Cause::Moving, h.explain(&h.link(consumer, 0)), &[("link_credit", 9), ("queue_ready", 1)]);
    h.work(0, 6, 100);
    let numbers = &[("shard", 0), ("shard_busy_percent", 100), ("shard_queues", 1), ("node_shards", 2)];
    case(Cause::ShardAtLimit, h.explain(&h.link(consumer, 0)), numbers);
    h.work(0, 6, 50);
    let before = h.look(&queue());
    h.mail_stopped = false;
    h.settle();
    case(Cause::Moving, h.look(&queue()).explain(&before, &queue()).unwrap(), &[("queue_unsettled", 1)]);
    case(Cause::AllUnsettled, h.explain(&queue()), &[("queue_ready", 0), ("queue_unsettled", 1)]);

    // The member of a quorum queue is elected first. Then each entry waits for its sync.
    let quorum = [("x-queue-type", text("quorum")), ("x-delivery-limit", Value::Uint(0))];
    let (mut h, publisher, consumer, out) = house(Settings::default(), &quorum);
    h.log_stopped = true;
    h.send(publisher, out, b"1");
    let numbers = &[("link_unconfirmed", 1), ("queue_staged", 0), ("log_groups_held", 1)];
    case(Cause::WaitingForCommit, h.explain(&h.link(publisher, 0)), numbers);
    h.log_stopped = false;
    h.settle();
    case(Cause::NoConsumer, h.explain(&queue()), &[("queue_staged", 0), ("queue_ready", 1)]);
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 1);
    h.log_stopped = true;
    h.send(publisher, out, b"2");
    let numbers = &[("link_unconfirmed", 1), ("queue_staged", 1), ("log_receipts_held", 0)];
    case(Cause::WaitingForCommit, h.explain(&h.link(publisher, 0)), numbers);
    case(Cause::WaitingForCommit, h.explain(&queue()), &[("queue_staged", 1), ("queue_unsettled", 1)]);
    h.log_stopped = false;
    h.settle();
    h.grant(consumer, link, 1);
    (0..2).for_each(|id| h.fail(consumer, id));
    case(Cause::OverDeliveryLimit, h.explain(&queue()), &[("queue_over_limit", 2), ("queue_ready", 0)]);
    case(Cause::OverDeliveryLimit, h.explain(&h.link(consumer, 0)), &[("link_unsettled", 0)]);

    let timeout = [("x-queue-type", text("quorum")), ("x-consumer-timeout", Value::Uint(8000))];
    let (mut h, publisher, consumer, out) = house(Settings::default(), &timeout);
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 9);
    h.send(publisher, out, b"1");
    for _ in 0..2 {
        h.now_ms += 9000;
        h.settle();
    }
    case(Cause::ConsumerTimedOut, h.explain(&h.link(consumer, 0)), &[("queue_ready", 1)]);

    let retry = [
        ("x-queue-type", text("quorum")),
        ("x-delayed-retry-type", text("all")),
        ("x-delayed-retry-min", Value::Uint(1000)),
    ];
    let (mut h, publisher, consumer, out) = house(Settings::default(), &retry);
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 1);
    h.send(publisher, out, b"1");
    h.release(consumer, 0);
    case(Cause::AllDelayed, h.explain(&queue()), &[("queue_ready", 0), ("queue_delayed", 1)]);

    let (mut h, _, consumer, _) = plain();
    h.receiver(consumer, "/queues/q");
    let publisher = h.connect(1);
    let out = h.sender(publisher, "/queues/q");
    let far = h.connect(0);
    let far_out = h.sender(far, "/queues/q");
    h.send(publisher, out, b"1");
    h.mail_stopped = true;
    h.send(far, far_out, b"2");
    case(
        Cause::WaitingForReceipts,
        h.explain(&h.link(far, 0)),
        &[("link_unconfirmed", 1), ("log_receipts_held", 0)],
    );

    let (mut h, publisher, consumer, out) = plain();
    let link = h.receiver(consumer, "/queues/q");
    h.peers[consumer].conn.set_window_open(0, false);
    h.grant(consumer, link, 100);
    // More than the first batch that a queue is asked for.
    (0..60).for_each(|_| h.send(publisher, out, b"1"));
    let numbers = &[("session_remote_incoming_window", 0), ("session_pending", 16), ("link_credit", 84)];
    case(Cause::ClientWindowClosed, h.explain(&h.link(consumer, 0)), numbers);

    // Messages that were read of a stream wait at its reader, not in the session.
    let (mut h, publisher, consumer, out) = house(Settings::default(), &[("x-queue-type", text("stream"))]);
    let link = h.reader(consumer, "/queues/q");
    h.peers[consumer].conn.set_window_open(0, false);
    h.send(publisher, out, b"1");
    h.grant(consumer, link, 100);
    let numbers = &[("session_remote_incoming_window", 0), ("session_pending", 1), ("link_credit", 100)];
    case(Cause::ClientWindowClosed, h.explain(&h.link(consumer, 0)), numbers);

    let (mut h, publisher, consumer, out) =
        house(Settings { max_unsettled_per_consumer: 2, ..Settings::default() }, &[]);
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 9);
    (0..3).for_each(|_| h.send(publisher, out, b"1"));
    let numbers = &[("link_unsettled", 2), ("link_unsettled_max", 2), ("queue_ready", 1)];
    case(Cause::UnsettledLimit, h.explain(&h.link(consumer, 0)), numbers);

    let (mut h, publisher, consumer, out) = plain();
    let link = h.small_receiver(consumer, "/queues/q", 100);
    h.grant(consumer, link, 9);
    h.send(publisher, out, &[0; 100]);
    h.send(publisher, out, b"1");
    let numbers = &[("link_message_max_bytes", 100), ("link_credit", 9), ("queue_ready", 2)];
    case(Cause::MessageTooLarge, h.explain(&h.link(consumer, 0)), numbers);
    case(Cause::MessageTooLarge, h.explain(&queue()), &[("queue_ready", 2), ("link_message_max_bytes", 100)]);
    let numbers = h.explain(&queue()).numbers;
    let next = numbers.iter().find(|(name, _)| *name == "queue_next_bytes").map(|(_, bytes)| *bytes);
    assert!((101..300).contains(&next.expect("it is in memory")), "{numbers:?}");
    let second = h.receiver(consumer, "/queues/q");
    case(Cause::NoCredit, h.explain(&queue()), &[("queue_ready", 2)]);
    h.grant(consumer, second, 1);
    case(Cause::AllUnsettled, h.explain(&queue()), &[("queue_unsettled", 2)]);

    let (mut h, publisher, consumer, out) =
        house(Settings::default(), &[("x-single-active-consumer", Value::Boolean(true))]);
    h.receiver(consumer, "/queues/q");
    let second = h.receiver(consumer, "/queues/q");
    h.grant(consumer, second, 9);
    h.send(publisher, out, b"1");
    case(Cause::InactiveConsumer, h.explain(&h.link(consumer, 1)), &[("link_credit", 9), ("queue_ready", 1)]);
    case(Cause::NoCredit, h.explain(&queue()), &[("queue_consumers", 2)]);

    let single = [("x-queue-type", text("quorum")), ("x-single-active-consumer", Value::Boolean(true))];
    let (mut h, publisher, consumer, out) = house(Settings::default(), &single);
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 1);
    h.send(publisher, out, b"1");
    h.prior_receiver(consumer, "/queues/q", 1);
    h.send(publisher, out, b"2");
    h.grant(consumer, link, 9);
    case(Cause::GivingWay, h.explain(&h.link(consumer, 0)), &[("link_credit", 9), ("link_unsettled", 1)]);
    case(Cause::GivingWay, h.explain(&queue()), &[("queue_consumers", 2), ("queue_ready", 1)]);
    case(Cause::InactiveConsumer, h.explain(&h.link(consumer, 1)), &[]);

    let limits = [("x-max-length", Value::Uint(1)), ("x-overflow", text("reject-publish"))];
    let (mut h, publisher, _, out) = house(Settings::default(), &limits);
    (0..2).for_each(|_| h.send(publisher, out, b"1"));
    case(Cause::QueueFull, h.explain(&h.link(publisher, 0)), &[("queue_ready", 1)]);

    let kept = [
        ("x-queue-type", text("quorum")),
        ("x-max-length", Value::Uint(1)),
        ("x-overflow", text("reject-publish")),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("none")),
        ("x-dead-letter-strategy", text("at-least-once")),
    ];
    let (mut h, publisher, consumer, out) = house(Settings::default(), &kept);
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 1);
    h.send(publisher, out, b"1");
    h.reject(consumer, 0);
    let numbers = &[("queue_ready", 0), ("queue_leaving", 1)];
    case(Cause::QueueFull, h.explain(&h.link(publisher, 0)), numbers);
    case(Cause::QueueFull, h.explain(&queue()), numbers);
    assert_eq!(words(&h.explain(&queue())), [Cause::QueueFull, Cause::DeadLettersLeaving]);

    let dead = [
        ("x-max-length", Value::Uint(0)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
    ];
    let (mut h, publisher, consumer, out) = house(Settings::default(), &dead);
    h.declare("dead", Default::default());
    h.receiver(consumer, "/queues/dead");
    h.sender(publisher, "/queues/q");
    h.mail_stopped = true;
    h.send(publisher, out, b"1");
    // The queue has no home yet. Asking for one needs no mail between shards, because this is the deciding
    // shard.
    case(Cause::DeadLettersLeaving, h.explain(&queue()), &[("queue_ready", 0), ("queue_leaving", 1)]);

    let (mut h, publisher, _, _) = plain();
    // The bytes are the beginning of a TRANSFER.
    let mut beginning = BytesMut::from(&b"\x00\x00\x01\x00\x02\x00\x00\x00half"[..]);
    h.shards[0].handle_input(h.peers[publisher].key, &mut beginning);
    case(Cause::DeliveryIncomplete, h.explain(&h.link(publisher, 0)), &[("session_incomplete_bytes", 12)]);

    let (mut h, _, consumer, _) = plain();
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 1);
    case(Cause::QueueEmpty, h.explain(&h.link(consumer, 0)), &[("link_credit", 1), ("queue_consumers", 1)]);
    case(Cause::QueueEmpty, h.explain(&queue()), &[("queue_ready", 0)]);
    let (link, _) = h.replies(consumer);
    case(Cause::NoCredit, h.explain(&h.link(consumer, 1)), &[("link_credit", 0)]);
    h.grant(consumer, link, 1);
    case(Cause::QueueEmpty, h.explain(&h.link(consumer, 1)), &[("link_credit", 1)]);

    let (mut h, publisher, consumer, out) = house(Settings::default(), &[("x-queue-type", text("stream"))]);
    h.send(publisher, out, b"1");
    case(Cause::NoReader, h.explain(&queue()), &[("queue_ready", 1), ("queue_consumers", 0)]);
    let link = h.reader(consumer, "/queues/q");
    case(Cause::NoCredit, h.explain(&queue()), &[("queue_consumers", 1), ("link_credit", 0)]);
    h.reads_stopped = true;
    h.grant(consumer, link, 9);
    case(Cause::ReadingBacklog, h.explain(&h.link(consumer, 0)), &[("link_credit", 9), ("queue_ready", 1)]);
    h.reads_stopped = false;
    h.settle();
    case(Cause::EndOfStream, h.explain(&h.link(consumer, 0)), &[("link_credit", 8), ("queue_ready", 1)]);
    case(Cause::EndOfStream, h.explain(&queue()), &[("queue_ready", 1), ("queue_consumers", 1)]);

    let limits = StorageLimits { backlog_memory: 1024, ..StorageLimits::default() };
    let mut h = House::with(1, Settings::default(), limits);
    h.declare("q", Default::default());
    let (publisher, consumer) = (h.connect(0), h.connect(0));
    let out = h.sender(publisher, "/queues/q");
    (0..100).for_each(|_| h.send(publisher, out, b"1"));
    let PackJob { shard, ticket, .. } = h.shards[0].poll_pack_job().expect("a backlog");
    h.send(publisher, out, b"2");
    case(
        Cause::WaitingForMemory,
        h.explain(&h.link(publisher, 0)),
        &[("link_unconfirmed", 1), ("log_receipts_held", 0), ("memory_receipts_held", 1)],
    );
    let extent = Extent { pack: 1, offset: 48, bytes: 20_000 };
    h.shards[0].handle_packed(Packed { shard, ticket, result: Ok(vec![extent]) });
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 9);
    case(Cause::ReadingBacklog, h.explain(&h.link(consumer, 0)), &[("link_credit", 9), ("queue_ready", 101)]);
    case(Cause::ReadingBacklog, h.explain(&queue()), &[("queue_ready", 101)]);
    let ReadJob { shard, ticket, .. } = h.shards[0].poll_reads().next().expect("a block to be read");
    let what = Flaw::Payload;
    let result = Err(ReadError::Damaged { pack: 1, offset: 48, what });
    h.shards[0].handle_block(BlockRead { shard, ticket, result });
    case(Cause::QueueDamaged, h.explain(&queue()), &[("queue_consumers", 0)]);
    case(Cause::QueueDamaged, h.explain(&h.link(publisher, 0)), &[]);

    // In AMQP 0.9.1, a channel that is ahead of its queues stops the other channels of its connection.
    let mut h = House::new(1, Settings::default());
    h.declare("q", Default::default());
    let mut client = Client091::open(&mut h, &[1, 2]);
    client.publish(&mut h, 2, "q", 1);
    h.log_stopped = true;
    client.publish(&mut h, 1, "q", Settings::default().max_link_credit);
    let channel =
        |number: u16| Subject::Link { vhost: None, name: format!("channel {number}"), connection: None };
    case(Cause::WaitingForLog, h.explain(&channel(1)), &[("link_credit", 0), ("link_unconfirmed", 170)]);
    case(Cause::HeldBack, h.explain(&channel(2)), &[("link_credit", 169), ("link_unconfirmed", 0)]);

    // There, a consumer without a prefetch has the limit that consumers of AMQP 1.0 have.
    let mut h = House::new(1, Settings { max_unsettled_per_consumer: 2, ..Settings::default() });
    h.declare("q", Default::default());
    let mut client = Client091::open(&mut h, &[1]);
    client.consume(&mut h, 1, "q");
    client.publish(&mut h, 1, "q", 3);
    case(Cause::UnsettledLimit, h.explain(&queue()), &[("link_unsettled", 2), ("link_unsettled_max", 2)]);

    // There, all consumers of a channel may share a limit, and one of them may have used it up.
    let mut h = House::new(1, Settings::default());
    for queue in ["q", "other"] {
        h.declare(queue, Default::default());
    }
    let mut client = Client091::open(&mut h, &[1, 2]);
    client.share_prefetch(&mut h, 1, 2);
    ["q", "other"].into_iter().for_each(|queue| client.consume(&mut h, 1, queue));
    client.publish(&mut h, 2, "other", 2);
    client.publish(&mut h, 2, "q", 1);
    case(Cause::UnsettledLimit, h.explain(&queue()), &[("link_unsettled", 2), ("link_unsettled_max", 2)]);

    // A message that its consumer gives back is delivered again at once.
    for kind in ["classic", "quorum"] {
        let (mut h, publisher, consumer, out) = house(Settings::default(), &[("x-queue-type", text(kind))]);
        let link = h.receiver(consumer, "/queues/q");
        h.grant(consumer, link, 100);
        h.send(publisher, out, b"1");
        (0..11).for_each(|id| h.release(consumer, id));
        case(
            Cause::RequeueLoop,
            h.explain(&queue()),
            &[("queue_looped_a_minute", 10), ("queue_unsettled", 1)],
        );
        case(Cause::RequeueLoop, h.explain(&h.link(consumer, 0)), &[("queue_looped_a_minute", 10)]);
        let subject = h.connection(consumer);
        case(Cause::RequeueLoop, h.explain(&subject), &[("links", 1)]);

        let mut h = House::new(1, Settings::default());
        h.declare("q", [("x-queue-type".to_owned(), text(kind))].into_iter().collect());
        let mut client = Client091::open(&mut h, &[1]);
        client.limit_prefetch(&mut h, 1, 1);
        client.consume(&mut h, 1, "q");
        client.publish(&mut h, 1, "q", 1);
        (1..=11).for_each(|tag| client.give_back(&mut h, 1, tag));
        case(Cause::RequeueLoop, h.explain(&queue()), &[("queue_looped_a_minute", 10)]);
        let subject = client.subject(&mut h);
        case(Cause::RequeueLoop, h.explain(&subject), &[]);
    }

    let mut h = House::new(1, Settings::default());
    let peer = h.connect(0);
    let subject = h.connection(peer);
    case(Cause::NoLinks, h.explain(&subject), &[("links", 0)]);
    cases
}

#[test]
fn every_cause_is_found() {
    let cases = cases();
    for (i, (cause, explanation, numbers)) in cases.iter().enumerate() {
        assert_eq!(explanation.cause, *cause, "case {i}: {explanation:?}");
        for number in *numbers {
            assert!(explanation.numbers.contains(number), "case {i}: {number:?} is not in {explanation:?}");
        }
    }
    let found: BTreeSet<Cause> = cases.iter().map(|(cause, ..)| *cause).collect();
    let missing: Vec<_> = Cause::ALL.into_iter().filter(|cause| !found.contains(cause)).collect();
    assert_eq!(missing, [], "each has a case");
}

/// The queue and its publisher are on shard 0, the consumer is on shard 1.
#[test]
fn a_full_shard_is_the_cause_while_it_is_full() {
    let (mut h, publisher, consumer, out) = plain();
    h.send(publisher, out, b"1");
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 100);
    let connection = h.connection(consumer);
    let causes = |h: &mut House, work: &[(usize, u64, u64)]| {
        work.iter().for_each(|(shard, seconds, busy)| h.work(*shard, *seconds, *busy));
        let subjects = [queue(), h.link(consumer, 0), h.link(publisher, 0), connection.clone()];
        let before = subjects.each_ref().map(|subject| h.look(subject));
        h.send(publisher, out, b"1");
        let found = subjects.each_ref().map(|subject| h.look(subject));
        [0, 1, 2, 3].map(|i| found[i].explain(&before[i], &subjects[i]).unwrap().cause)
    };
    let (moving, full) = (Cause::Moving, Cause::ShardAtLimit);
    assert_eq!(causes(&mut h, &[(0, 5, 100)]), [moving; 4], "it has just begun");
    assert_eq!(causes(&mut h, &[(0, 1, 100)]), [full; 4]);
    assert_eq!(causes(&mut h, &[(0, 6, 92)]), [full; 4], "a little less changes nothing");
    assert_eq!(causes(&mut h, &[(0, 6, 85)]), [moving; 4]);
    assert_eq!(causes(&mut h, &[(0, 6, 92)]), [moving; 4], "nor does a little more");
    // The other shard does the work of the consumer's connection only.
    assert_eq!(causes(&mut h, &[(1, 6, 100)]), [moving, full, moving, full]);
    assert_eq!(causes(&mut h, &[(1, 6, 0)]), [moving; 4]);
}

/// Messages that arrive are no movement. Those that leave are.
#[test]
fn publishing_alone_is_no_movement() {
    let (mut h, publisher, consumer, out) = plain();
    h.send(publisher, out, b"1");
    let before = h.look(&queue());
    h.send(publisher, out, b"2");
    let cause = |h: &House, before: &Look| h.look(&queue()).explain(before, &queue()).unwrap().cause;
    assert_eq!(cause(&h, &before), Cause::NoConsumer);
    let link = h.receiver(consumer, "/queues/q");
    let before = h.look(&queue());
    h.send(publisher, out, b"3");
    assert_eq!(cause(&h, &before), Cause::NoCredit);
    h.grant(consumer, link, 1);
    assert_eq!(cause(&h, &before), Cause::Moving);
    // A message that comes back and is delivered again has not left.
    h.release(consumer, 0);
    let before = h.look(&queue());
    h.grant(consumer, link, 1);
    assert_ne!(cause(&h, &before), Cause::Moving);
}

#[test]
fn a_queue_says_what_stops_its_publishers() {
    let limits = [("x-max-length", Value::Uint(1)), ("x-overflow", text("reject-publish"))];
    let (mut h, publisher, _, out) = house(Settings::default(), &limits);
    (0..4).for_each(|_| h.send(publisher, out, b"1"));
    let full = h.explain(&queue());
    assert_eq!(words(&full), [Cause::QueueFull, Cause::NoConsumer]);
    assert!(full.causes[0].numbers.contains(&("queue_rejected_a_minute", 3)), "{full:?}");
    assert!(full.causes[0].sentence.contains("refused 3 messages"), "{full:?}");
    h.alarm(true);
    assert_eq!(words(&h.explain(&queue())), [Cause::Alarm, Cause::QueueFull, Cause::NoConsumer]);
}

#[test]
fn a_queue_says_what_its_limits_have_removed() {
    for kind in ["classic", "quorum"] {
        let limits = [
            ("x-queue-type", text(kind)),
            ("x-max-length", Value::Uint(2)),
            ("x-message-ttl", Value::Uint(1000)),
        ];
        let (mut h, publisher, _, out) = house(Settings::default(), &limits);
        (0..5).for_each(|_| h.send(publisher, out, b"1"));
        let reason = |h: &House| h.explain(&queue()).causes.remove(0);
        let waits = reason(&h);
        let expected = "messages are ready and no consumer is attached; since the broker started: 3 dropped by the length limit";
        assert_eq!((waits.cause, &*waits.sentence), (Cause::NoConsumer, expected), "{kind}");
        h.now_ms += 2_000;
        h.settle();
        let empty = reason(&h);
        let expected =
            "the queue is empty; since the broker started: 2 expired, 3 dropped by the length limit";
        assert_eq!((empty.cause, &*empty.sentence), (Cause::QueueEmpty, expected), "{kind}");
        assert!(empty.text.meaning.contains("message-ttl"), "{kind}: {empty:?}");
        for number in [("queue_expired", 2), ("queue_over_length", 3)] {
            assert!(empty.numbers.contains(&number), "{kind}: {empty:?}");
        }
    }
}

/// Its first message is held before its channel has a publisher.
#[test]
fn an_alarm_explains_a_client_that_connects_during_it() {
    let mut h = House::new(1, Settings::default());
    h.declare("q", Default::default());
    h.alarm(true);
    let mut client = Client091::open(&mut h, &[1, 2]);
    let connection = client.subject(&mut h);
    assert_eq!(h.explain(&connection).cause, Cause::NoLinks, "it has not published");
    client.consume(&mut h, 1, "q");
    client.publish(&mut h, 2, "q", 1);
    let causes = |explanation: &Explanation| -> Vec<Cause> {
        explanation.causes.iter().map(|reason| reason.cause).collect()
    };
    let explained = h.explain(&connection);
    assert_eq!(causes(&explained), [Cause::Alarm], "{explained:?}");
    assert_eq!(explained.at.as_ref().map(|place| &*place.name), Some("channel 2"));
    let channel = Subject::Link { vhost: None, name: "channel 2".to_owned(), connection: None };
    assert_eq!(h.explain(&channel).cause, Cause::Alarm);
    h.alarm(false);
    client.settle(&mut h);
    assert!(!causes(&h.explain(&connection)).contains(&Cause::Alarm));
}

#[test]
fn the_pace_of_a_consumer_is_counted() {
    let (mut h, publisher, consumer, out) = plain();
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 3);
    (0..4).for_each(|_| h.send(publisher, out, b"1"));
    let before = h.look(&queue());
    let now = h.look(&queue());
    let first = now.explain(&before, &queue()).unwrap();
    assert!(first.wants_pace(), "{first:?}");
    h.accept(consumer, 0);
    let later = h.look(&queue());
    let explained = now.explain_with_pace(&before, &queue(), &later, 1_000).unwrap();
    let expected = "the client has used up its credit: it holds 3 messages and acknowledges 1 a second";
    assert_eq!((explained.cause, &*explained.causes[0].sentence), (Cause::NoCredit, expected));
    assert!(explained.numbers.contains(&("link_acknowledged_a_second", 1)), "{explained:?}");
}

#[test]
fn the_pace_of_a_loop_is_counted() {
    let (mut h, publisher, consumer, out) = plain();
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 100);
    h.send(publisher, out, b"1");
    (0..11).for_each(|id| h.release(consumer, id));
    let before = h.look(&queue());
    let now = h.look(&queue());
    assert!(now.explain(&before, &queue()).unwrap().wants_pace());
    (11..31).for_each(|id| h.release(consumer, id));
    let later = h.look(&queue());
    let explained = now.explain_with_pace(&before, &queue(), &later, 1_000).unwrap();
    let expected = "the consumer gives messages back 20 times a second, and none leaves the queue";
    assert_eq!((explained.cause, &*explained.causes[0].sentence), (Cause::RequeueLoop, expected));
    assert!(explained.at.is_some_and(|at| at.name == format!("link-{consumer}-0")));
    h.accept(consumer, 31);
    assert_eq!(h.explain(&queue()).cause, Cause::QueueEmpty);
}

#[test]
fn a_dynamic_link_that_waits_is_found() {
    let mut house = House::new(2, Settings::default());
    let peer = house.connect(1);
    house.mail_stopped = true;
    let source = Source {
        dynamic: true,
        capabilities: vec![Symbol::from_static("temporary-queue")],
        ..Source::default()
    };
    house.attach(peer, Role::Receiver, source, Target::default());
    assert_eq!(house.explain(&house.link(peer, 0)).cause, Cause::AttachUnanswered);
}

#[test]
fn filters_that_are_not_in_place_are_named() {
    let (mut h, _, consumer, _) = plain();
    let expression =
        Described { descriptor: Symbol::from_static("amqp:sql-filter").into(), value: "a = 1".into() };
    let filter = Map(vec![(Symbol::from_static("f").into(), expression.into())]);
    let source = Source { address: Some("/queues/q".into()), filter: Some(filter), ..Source::default() };
    h.attach(consumer, Role::Receiver, source, Target::default());
    let notes = ["filter 'f' with expression 'a = 1' is left out: the queue is not a stream"];
    assert_eq!(h.explain(&h.link(consumer, 0)).notes, notes);
    let subject = h.connection(consumer);
    assert_eq!(h.explain(&subject).notes, notes);
    // The cause is found at the other link.
    let link = h.receiver(consumer, "/queues/q");
    h.grant(consumer, link, 1);
    h.peers[consumer].conn.set_window_open(0, false);
    let publisher = h.connect(0);
    let out = h.sender(publisher, "/queues/q");
    h.send(publisher, out, b"1");
    assert_eq!(h.explain(&subject).notes, notes);
}

#[test]
fn a_link_is_searched_in_the_virtual_host_of_its_connection() {
    let (h, publisher, _, _) = plain();
    let of = |vhost: &str| {
        let Subject::Link { name, .. } = h.link(publisher, 0) else { unreachable!() };
        let subject = Subject::Link { vhost: Some(vhost.to_owned()), name, connection: None };
        let look = h.look(&subject);
        look.explain(&look, &subject).map(|explanation| explanation.cause)
    };
    assert_eq!(of("/"), Ok(Cause::ClientSilent));
    let refused = of("other").unwrap_err().to_string();
    assert!(refused.ends_with("in vhost 'other'"), "{refused}");
}
