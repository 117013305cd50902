//! Generated orders of methods against a naive model of queues and of one channel with transactions.

use std::collections::{BTreeMap, BTreeSet};

use amqp091::{
    BasicAck, BasicConsume, BasicGet, BasicNack, BasicQos, BasicRecover, BasicReject, ConfirmSelect,
    ExchangeDeclare, ExchangeDelete, Method, QueueBind, TxCommit, TxRollback, TxSelect, Value,
};
use catalog::access::Permissions;
use catalog::pattern::Pattern;
use catalog::{AccountChange, Command};
use proptest::collection::vec;
use proptest::prelude::*;

use super::broker::{Broker, CHANNEL, Killed, Kind, Seen};

/// The queues. The second part of a pair is true if the order of its messages is known.
const QUEUES: [(&str, bool); 4] = [("a", true), ("b", true), ("full", true), ("dead", false)];

/// The exchange, which leads to the second queue.
const EXCHANGE: &str = "x";

/// `x-max-length` of the queue that rejects more.
const FULL: usize = 2;

/// The prefetch count of the consumer of the first queue.
const PREFETCH: usize = 3;

/// Where a message of the transaction goes.
#[derive(Clone, Copy, Debug)]
enum To {
    Queue(usize),
    Exchange,
    Nowhere { mandatory: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Ack,
    Requeue,
    Reject,
}

#[derive(Clone, Debug)]
enum Op {
    /// Another client publishes to a queue.
    Feed(usize),
    Publish(To),
    Get(usize),
    Consume,
    /// Settles the delivery with the tag that is this remainder, by `basic.reject` if it is not an ack and not multiple.
    Settle {
        tag: u64,
        multiple: bool,
        how: How,
    },
    Recover,
    Commit,
    /// An alarm begins before the commit, and ends after it. In between, the client may lose its right to write.
    CommitUnderAlarm {
        withdraw: bool,
    },
    Rollback,
    Close,
    /// Gives the client the right to write, or takes it.
    Right(bool),
    /// Declares or deletes the exchange.
    Exchange(bool),
}

fn op() -> impl Strategy<Value = Op> {
    let to = prop_oneof![
        4 => (0..3usize).prop_map(To::Queue),
        1 => Just(To::Exchange),
        1 => any::<bool>().prop_map(|mandatory| To::Nowhere { mandatory }),
    ];
    let how = prop_oneof![3 => Just(How::Ack), 2 => Just(How::Requeue), 1 => Just(How::Reject)];
    prop_oneof![
        6 => (0..3usize).prop_map(Op::Feed),
        6 => to.prop_map(Op::Publish),
        6 => (0..3usize).prop_map(Op::Get),
        1 => Just(Op::Consume),
        12 => (any::<u64>(), any::<bool>(), how).prop_map(|(tag, multiple, how)| Op::Settle { tag, multiple, how }),
        2 => Just(Op::Recover),
        6 => Just(Op::Commit),
        1 => any::<bool>().prop_map(|withdraw| Op::CommitUnderAlarm { withdraw }),
        2 => Just(Op::Rollback),
        1 => Just(Op::Close),
        2 => prop_oneof![3 => Just(true), 1 => Just(false)].prop_map(Op::Right),
        2 => prop_oneof![3 => Just(true), 1 => Just(false)].prop_map(Op::Exchange),
    ]
}

/// A delivery that is not settled, or only in the transaction.
#[derive(Clone, Copy, Debug)]
struct HeldDelivery {
    queue: usize,
    place: u64,
    number: u64,
    consumed: bool,
    settled: Option<How>,
}

/// Knows everything.
#[derive(Debug)]
struct Model {
    /// The ready messages of each queue, by their places.
    ready: [BTreeMap<u64, u64>; 4],
    next: u64,
    messages: Vec<(To, u64)>,
    held: BTreeMap<u64, HeldDelivery>,
    last_tag: u64,
    consumes: bool,
    may_write: bool,
    has_exchange: bool,
}

impl Model {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Puts a message at the end of a queue. Returns false if the queue rejects it.
    fn put(&mut self, queue: usize, number: u64) -> bool {
        if QUEUES[queue].0 == "full" && self.ready[queue].len() >= FULL {
            return false;
        }
        let place = self.next();
        self.ready[queue].insert(place, number);
        true
    }

    fn settle(&mut self, held: HeldDelivery, how: How) {
        match how {
            How::Ack => {}
            How::Requeue => _ = self.ready[held.queue].insert(held.place, held.number),
            How::Reject => {
                let place = self.next();
                self.ready[3].insert(place, held.number);
            }
        }
    }

    /// The channel ends, and with it what was not committed.
    fn close(&mut self) {
        for (_, held) in std::mem::take(&mut self.held) {
            self.settle(held, How::Requeue);
        }
        self.messages.clear();
        (self.last_tag, self.consumes) = (0, false);
    }

    /// Returns the code with which a message is refused.
    fn refusal(&self, to: To) -> Option<u16> {
        match to {
            _ if !self.may_write => Some(403),
            To::Exchange if !self.has_exchange => Some(404),
            _ => None,
        }
    }

    /// Returns what the client is told about a commit.
    fn commit(&mut self) -> Vec<Seen> {
        if let Some(code) = self.messages.iter().find_map(|(to, _)| self.refusal(*to)) {
            self.close();
            return vec![Seen::Closed(code)];
        }
        let (mut told, mut is_rejected) = (Vec::new(), false);
        for (to, number) in std::mem::take(&mut self.messages) {
            match to {
                To::Queue(queue) => is_rejected |= !self.put(queue, number),
                To::Exchange => is_rejected |= !self.put(1, number),
                To::Nowhere { mandatory: true } => told.push(Seen::Returned(number)),
                To::Nowhere { mandatory: false } => {}
            }
        }
        if is_rejected {
            self.close();
            told.push(Seen::Closed(406));
            return told;
        }
        let settled: Vec<_> = self.held.extract_if(.., |_, held| held.settled.is_some()).collect();
        for (_, held) in settled {
            held.settled.into_iter().for_each(|how| self.settle(held, how));
        }
        told.push(Seen::Answer("tx.commit-ok"));
        told
    }

    fn rollback(&mut self) {
        self.messages.clear();
        self.held.values_mut().for_each(|held| held.settled = None);
    }

    /// Settles in the transaction. Returns false if there is no such delivery.
    fn mark(&mut self, tag: u64, multiple: bool, how: How) -> bool {
        let to = if multiple && tag == 0 { u64::MAX } else { tag };
        let from = if multiple { 0 } else { tag };
        let mut is_known = multiple && tag == 0;
        for held in self.held.range_mut(from..=to).map(|(_, held)| held).filter(|held| held.settled.is_none())
        {
            held.settled = Some(how);
            is_known = true;
        }
        is_known
    }

    /// Notes a delivery: the message must be ready. Unless the channel has ended, it is held.
    fn deliver(&mut self, tag: u64, queue: usize, number: u64, consumed: bool, is_open: bool) {
        let found = self.ready[queue].iter().find(|(_, ready)| **ready == number);
        let place =
            *found.unwrap_or_else(|| panic!("message {number} of {} is not ready", QUEUES[queue].0)).0;
        if is_open {
            self.ready[queue].remove(&place);
            self.held.insert(tag, HeldDelivery { queue, place, number, consumed, settled: None });
            self.last_tag = self.last_tag.max(tag);
        }
    }
}

struct Run {
    broker: Broker,
    model: Model,
    /// The client with transactions, and the other one.
    tx: usize,
    other: usize,
}

impl Run {
    fn new(count: u8, kinds: [Kind; 3]) -> Result<Self, Killed> {
        let mut broker = Broker::new(count, 1);
        let other = broker.connect(0, "guest")?;
        for (at, (queue, _)) in QUEUES.iter().enumerate() {
            let limit = [
                ("x-max-length", Value::I32(FULL as i32)),
                ("x-overflow", Value::LongString(b"reject-publish")),
            ];
            let more: &[_] = if *queue == "full" { &limit } else { &[] };
            broker.declare(other, (queue, kinds.get(at).copied().unwrap_or(Kind::Classic)), more)?;
        }
        let confirms = Method::ConfirmSelect(ConfirmSelect { nowait: false });
        assert_eq!(broker.ask(other, &confirms)?, [Seen::Answer("confirm.select-ok")]);
        let tx = broker.connect(usize::from(count) - 1, "tx")?;
        let model = Model {
            ready: Default::default(),
            next: 0,
            messages: Vec::new(),
            held: BTreeMap::new(),
            last_tag: 0,
            consumes: false,
            may_write: true,
            has_exchange: false,
        };
        let mut run = Self { broker, model, tx, other };
        run.select()?;
        run.exchange(true)?;
        Ok(run)
    }

    fn select(&mut self) -> Result<(), Killed> {
        let told = self.broker.ask(self.tx, &Method::TxSelect(TxSelect))?;
        assert_eq!(told, [Seen::Answer("tx.select-ok")]);
        Ok(())
    }

    fn exchange(&mut self, exists: bool) -> Result<(), Killed> {
        if exists == std::mem::replace(&mut self.model.has_exchange, exists) {
            return Ok(());
        }
        if exists {
            let declare =
                ExchangeDeclare { exchange: EXCHANGE, kind: "fanout", ..ExchangeDeclare::default() };
            self.broker.ask(self.other, &Method::ExchangeDeclare(declare))?;
            let bind = QueueBind { queue: QUEUES[1].0, exchange: EXCHANGE, ..QueueBind::default() };
            self.broker.ask(self.other, &Method::QueueBind(bind))?;
        } else {
            let delete = ExchangeDelete { exchange: EXCHANGE, ..ExchangeDelete::default() };
            self.broker.ask(self.other, &Method::ExchangeDelete(delete))?;
        }
        Ok(())
    }

    fn right(&mut self, may_write: bool) -> Result<(), Killed> {
        self.model.may_write = may_write;
        let write = if may_write { Pattern::Everything } else { Pattern::Nothing };
        self.broker.change(Command::Account(AccountChange::SetPermissions {
            user: "tx".into(),
            vhost: "/".into(),
            permissions: Permissions { write, ..Permissions::ALL },
        }))
    }

    /// Does an operation, and compares everything.
    fn act(&mut self, op: &Op) -> Result<(), Killed> {
        let tx = self.tx;
        let mut fetched = None;
        let expected = match *op {
            Op::Feed(queue) => {
                let number = self.model.next();
                self.broker.clients[self.other].publish(("", QUEUES[queue].0), false, number);
                self.broker.settle()?;
                let told = if self.model.put(queue, number) { Seen::Confirmed } else { Seen::Rejected };
                assert_eq!(self.broker.take_seen(self.other), [told]);
                Vec::new()
            }
            Op::Publish(to) => {
                let number = self.model.next();
                let (route, mandatory) = match to {
                    To::Queue(queue) => (("", QUEUES[queue].0), true),
                    To::Exchange => ((EXCHANGE, ""), false),
                    To::Nowhere { mandatory } => (("", "nowhere"), mandatory),
                };
                self.broker.clients[tx].publish(route, mandatory, number);
                match self.model.refusal(to) {
                    Some(code) => {
                        self.model.close();
                        vec![Seen::Closed(code)]
                    }
                    None => {
                        self.model.messages.push((to, number));
                        Vec::new()
                    }
                }
            }
            Op::Get(queue) => {
                let get = BasicGet { queue: QUEUES[queue].0, ..BasicGet::default() };
                self.broker.clients[tx].conn.send(CHANNEL, &Method::BasicGet(get));
                fetched = Some(queue);
                match self.model.ready[queue].is_empty() {
                    true => vec![Seen::Answer("basic.get-empty")],
                    false => Vec::new(),
                }
            }
            Op::Consume if self.model.consumes => return Ok(()),
            Op::Consume => {
                let qos = BasicQos { prefetch_count: PREFETCH as u16, ..BasicQos::default() };
                let consume = BasicConsume { queue: QUEUES[0].0, ..BasicConsume::default() };
                self.broker.clients[tx].conn.send(CHANNEL, &Method::BasicQos(qos));
                self.broker.clients[tx].conn.send(CHANNEL, &Method::BasicConsume(consume));
                self.model.consumes = true;
                vec![Seen::Answer("basic.qos-ok"), Seen::Answer("basic.consume-ok")]
            }
            Op::Settle { tag, multiple, how } => {
                let tag = tag % (self.model.last_tag + 2);
                let method = match (how, multiple) {
                    (How::Ack, multiple) => Method::BasicAck(BasicAck { delivery_tag: tag, multiple }),
                    (how, true) => {
                        let requeue = how == How::Requeue;
                        Method::BasicNack(BasicNack { delivery_tag: tag, multiple, requeue })
                    }
                    (how, false) => {
                        Method::BasicReject(BasicReject { delivery_tag: tag, requeue: how == How::Requeue })
                    }
                };
                self.broker.clients[tx].conn.send(CHANNEL, &method);
                let is_known = if multiple && tag > self.model.last_tag {
                    false
                } else {
                    self.model.mark(tag, multiple, how)
                };
                if is_known {
                    Vec::new()
                } else {
                    self.model.close();
                    vec![Seen::Closed(406)]
                }
            }
            Op::Recover => {
                let recover = Method::BasicRecover(BasicRecover { requeue: true });
                self.broker.clients[tx].conn.send(CHANNEL, &recover);
                let unsettled: Vec<_> =
                    self.model.held.extract_if(.., |_, held| held.settled.is_none()).collect();
                unsettled.into_iter().for_each(|(_, held)| self.model.settle(held, How::Requeue));
                vec![Seen::Answer("basic.recover-ok")]
            }
            Op::Commit => {
                self.broker.clients[tx].conn.send(CHANNEL, &Method::TxCommit(TxCommit));
                self.model.commit()
            }
            Op::CommitUnderAlarm { withdraw } => {
                self.broker.alarm(true)?;
                self.broker.clients[tx].conn.send(CHANNEL, &Method::TxCommit(TxCommit));
                self.broker.settle()?;
                let told = self.broker.take_seen(tx);
                if self.model.messages.is_empty() {
                    assert!(told.contains(&Seen::Answer("tx.commit-ok")), "it only settles: {told:?}");
                } else {
                    assert_eq!(told, [], "it waits for the end of the alarm");
                    self.compare_depths();
                    if withdraw {
                        self.right(false)?;
                    }
                }
                self.broker.alarm(false)?;
                let later = self.broker.take_seen(tx);
                self.broker.clients[tx].seen = [told, later].concat();
                self.model.commit()
            }
            Op::Rollback => {
                self.broker.clients[tx].conn.send(CHANNEL, &Method::TxRollback(TxRollback));
                self.model.rollback();
                vec![Seen::Answer("tx.rollback-ok")]
            }
            Op::Close => {
                self.broker.clients[tx].conn.close_channel(CHANNEL, "");
                self.model.close();
                vec![Seen::Closed(200)]
            }
            Op::Right(may_write) => {
                self.right(may_write)?;
                Vec::new()
            }
            Op::Exchange(exists) => {
                self.exchange(exists)?;
                Vec::new()
            }
        };
        self.broker.settle()?;
        let told = self.broker.take_seen(tx);
        let is_closed = told.iter().any(|seen| matches!(seen, Seen::Closed(_)));
        let mut answers = Vec::new();
        for seen in told {
            match seen {
                Seen::Delivery { tag, number, fetched: true } => {
                    let queue = fetched.take().expect("it was asked for");
                    let first = self.model.ready[queue].first_key_value().map(|(_, number)| *number);
                    assert_eq!(Some(number), first, "basic.get takes the first message");
                    self.model.deliver(tag, queue, number, false, !is_closed);
                }
                Seen::Delivery { tag, number, fetched: false } => {
                    self.model.deliver(tag, 0, number, true, !is_closed);
                }
                answer => answers.push(answer),
            }
        }
        assert_eq!(answers, expected);
        self.compare_depths();
        let consumed = self.model.held.values().filter(|held| held.consumed).count();
        assert!(consumed <= PREFETCH, "what is settled in the transaction counts");
        let waits = self.model.consumes && consumed < PREFETCH;
        assert!(!waits || self.model.ready[0].is_empty(), "the consumer has room");
        if is_closed {
            assert!(self.broker.clients[tx].conn.open_channel(CHANNEL));
            self.broker.settle()?;
            self.select()?;
        }
        Ok(())
    }

    /// Compares the numbers of ready and of unsettled messages.
    fn compare_depths(&self) {
        for (at, (queue, _)) in QUEUES.iter().enumerate() {
            let unsettled = self.model.held.values().filter(|held| held.queue == at).count();
            let expected = (self.model.ready[at].len() as u64, unsettled as u64);
            assert_eq!(self.broker.depth(queue), expected, "of {queue}");
        }
    }

    /// Takes everything out of all queues.
    fn drain(mut self) -> Result<(), Killed> {
        self.act(&Op::Close)?;
        for (at, (queue, is_ordered)) in QUEUES.iter().enumerate() {
            let get = Method::BasicGet(BasicGet { queue, no_ack: true });
            let mut got = Vec::new();
            while let [Seen::Delivery { number, .. }] = self.broker.ask(self.other, &get)?[..] {
                got.push(number);
            }
            let expected: Vec<u64> = self.model.ready[at].values().copied().collect();
            match is_ordered {
                true => assert_eq!(got, expected, "of {queue}"),
                false => {
                    let sorted = |numbers: Vec<u64>| numbers.into_iter().collect::<BTreeSet<_>>();
                    assert_eq!((got.len(), sorted(got)), (expected.len(), sorted(expected)), "of {queue}");
                }
            }
        }
        Ok(())
    }
}

fn run(count: u8, kinds: [Kind; 3], ops: &[Op], searches: bool) {
    let result = Run::new(count, kinds).and_then(|mut run| {
        if searches {
            run.broker.shards.iter_mut().for_each(|shard| shard.search_all(1));
        }
        ops.iter().try_for_each(|op| run.act(op))?;
        run.drain()
    });
    result.expect("nobody kills the broker");
}

proptest! {
    // A case has hundreds of steps.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn transactions_do_what_the_model_does(ops in vec(op(), 1..80), count in 1u8..=2, searches: bool) {
        let (classic, synced, quorum) = (Kind::Classic, Kind::Synced, Kind::Quorum);
        for kinds in [[classic, quorum, classic], [quorum, classic, quorum], [synced, synced, quorum]] {
            run(count, kinds, &ops, searches);
        }
    }
}
