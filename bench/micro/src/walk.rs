//! The whole way of a message: one shard with a publisher and a consumer, and every byte between their
//! sockets. There is no socket, log or thread. Everything that the shard hands over is completed at once, so
//! that only the broker is counted.
//!
//! ```text
//!   TRANSFERs of a turn ──> handle_input ──> turn ──> handovers, stream jobs ──> completed at once
//!   DISPOSITION, FLOW   ──> handle_input ──> turn ──> output of both connections, dropped
//! ```
//!
//! Both clients send what Qpid Proton sends, in its encodings. In the walk of AMQP 0.9.1 ([`crate::amqp091`]) a publisher with
//! confirms takes the place of the TRANSFERs, and one `basic.ack` that of the DISPOSITION.

use std::net::SocketAddr;
use std::sync::Arc;

use amqp10::sasl::Secret;
use amqp10::{DeliveryState, Flow, Role, put_disposition_frame, put_frame};
use broker::settings::Settings;
use bytes::BytesMut;
use catalog::access::{Access, Hashing, Permissions, User};
use catalog::{Arguments, Command, DEFAULT_VHOST, DeclareQueue};
use node::facts::Restored;
use node::shard::Shard;
use node::shard::questions::{Act, AnswerTo, Question};
use node::{StorageLimits, make_shards};
use wal::{Completion, Retained, Size, Step, StreamAnswer, StreamJob};

use crate::amqp091;
use crate::cases::TURN;
use crate::changes::QUEUES;

const QUEUE: &str = "q";

/// The frames that a client sends before it attaches: SASL, OPEN and BEGIN.
const HELLO: &[u8] = b"AMQP\x03\x01\x00\x00\
    \x00\x00\x00$\x02\x01\x00\x00\x00SA\xc0\x17\x02\xa3\x09ANONYMOUS\xa0\x09anonymous\
    AMQP\x00\x01\x00\x00\
    \x00\x00\x003\x02\x00\x00\x00\x00S\x10\xc0&\x0a\xa1\x0aarrow-8479\xa1\x09127.0.0.1p\x00\x02\x00\x00`\x7f\xff@@@@@@\
    \x00\x00\x00\x1a\x02\x00\x00\x00\x00S\x11\xc0\x0d\x04@Cp\x7f\xff\xff\xffp\x7f\xff\xff\xff";

/// Attaches a link that publishes to `/queues/q`.
const ATTACH_SENDER: &[u8] = b"\x00\x00\x00O\x02\x00\x00\x00\x00S\x12\xc0B\x0e\xa1\x0aarrow-8485CBP\x00P\x00\
    \x00S(\xc0\x0c\x0b@C@CB@@@@@@\x00S)\xc0\x12\x07\xa1\x09/queues/qC@CB@@@@CD@@@";

/// Attaches a link that consumes from `/queues/q`.
const ATTACH_RECEIVER: &[u8] =
    b"\x00\x00\x00O\x02\x00\x00\x00\x00S\x12\xc0B\x0e\xa1\x0aarrow-8479CAP\x00P\x00\
    \x00S(\xc0\x16\x0b\xa1\x09/queues/qC@CB@@@@@@\x00S)\xc0\x08\x07@C@CB@@@@CD@@@";

/// A durable message of 12 bytes with an id and one application property.
const TRANSFER: &[u8] = b"\x00\x00\x00_\x02\x00\x00\x00\x00S\x14\xc0\x12\x04Cp\x00\x00\x00\x00\
    \xa0\x08\x00\x00\x00\x00\x00\x00\x00\x00C\
    \x00Sp\xc0\x02\x01A\x00Ss\xc0\x0a\x01\x80\x00\x00\x00\x00\x00\x00\x00\x07\
    \x00St\xc1\x14\x02\xa1\x08SendTime\x81\x00\x00\x00\x00\x00\x00\x00\x07\x00Su\xa0\x0cxxxxxxxxxxxx";

/// The offset of the delivery-id in [`TRANSFER`], and the offset of the delivery-tag.
const ID_AT: usize = 16;
const TAG_AT: usize = 22;

/// The credit of the link. It is more than a turn uses.
const CREDIT: u32 = 200;

/// Returns the steps of a message to a classic queue and out of it.
pub(crate) fn classic() -> Box<dyn FnMut() -> u64> {
    walk(Arguments::default(), Some(CREDIT))
}

/// Returns the same steps for messages that all wait for credit, as with a consumer that is slower than the
/// publisher.
pub(crate) fn waiting() -> Box<dyn FnMut() -> u64> {
    walk(Arguments::default(), None)
}

/// Returns the steps of a message to a stream and to its reader, which never lags.
pub(crate) fn stream() -> Box<dyn FnMut() -> u64> {
    walk([("x-queue-type".into(), "stream".into())].into(), Some(CREDIT))
}

/// Returns the steps of a message to a quorum queue and out of it. Its group has one member.
pub(crate) fn quorum() -> Box<dyn FnMut() -> u64> {
    walk([("x-queue-type".into(), "quorum".into())].into(), Some(CREDIT))
}

/// Returns the steps of a message of AMQP 0.9.1 to a classic queue and out of it.
pub(crate) fn amqp091() -> Box<dyn FnMut() -> u64> {
    let mut world = World::new(Arguments::default(), Some(CREDIT), true);
    per_message(TURN, move || world.move_a_turn_091())
}

/// Returns the steps of a change of the catalog: a client declares a queue and deletes it.
pub(crate) fn change() -> Box<dyn FnMut() -> u64> {
    let mut world = World::new(Arguments::default(), Some(CREDIT), true);
    for i in 0..QUEUES {
        let declare = DeclareQueue::new(DEFAULT_VHOST, format!("q{i}"), Arguments::default());
        declare_queue(&mut world.shard, declare);
        world.turn();
    }
    let frames = amqp091::declare_and_delete("one more");
    Box::new(move || {
        let before = world.shard.counters.queues_created;
        let answers = frames.each_ref().map(|frame| {
            world.shard.handle_input(world.publisher, &mut BytesMut::from(&frame[..]));
            world.turn()
        });
        assert!(answers.iter().all(|&bytes| bytes > 0), "both are answered");
        assert_eq!(world.shard.counters.queues_created, before + 1);
        answers.iter().sum()
    })
}

/// Returns an operation that counts one message. The consumer grants the credit `ahead` at once, or with `None` credit for a
/// turn after its messages.
fn walk(arguments: Arguments, ahead: Option<u32>) -> Box<dyn FnMut() -> u64> {
    let mut world = World::new(arguments, ahead, false);
    per_message(TURN, move || world.move_a_turn())
}

/// Returns an operation that counts one message. Each `batch`th call moves all messages of a batch.
pub(crate) fn per_message(
    batch: u64,
    mut move_all: impl FnMut() -> u64 + 'static,
) -> Box<dyn FnMut() -> u64> {
    let mut sent = 0;
    Box::new(move || {
        sent += 1;
        if sent % batch == 0 { move_all() } else { 0 }
    })
}

/// Returns the one user, who may do everything.
pub(crate) fn access() -> Arc<Access> {
    let user = User {
        name: "guest".into(),
        hash: Hashing::Sha256.hash([1; 16], &Secret::new("guest")),
        tags: Vec::new(),
        loopback_only: true,
        permissions: [("/".into(), Permissions::ALL)].into_iter().collect(),
    };
    Arc::new(Access::new([user]))
}

/// Declares a queue as the admin API does. Nobody waits for the answer.
pub(crate) fn declare_queue(shard: &mut Shard, declare: DeclareQueue) {
    let (command, (to, _)) = (Command::DeclareQueue(declare), AnswerTo::new(0));
    shard.handle_question(Question::Act(Act::Change { command, by: "guest".into(), to }));
}

struct World {
    shard: Shard,
    publisher: usize,
    consumer: usize,
    /// The TRANSFERs of one turn.
    transfers: Vec<u8>,
    /// The buffer into which the socket is read.
    input: BytesMut,
    answer: BytesMut,
    /// The number of messages sent so far. All of them were received.
    moved: u32,
    ahead: Option<u32>,
    retained: Retained,
    dirty: Vec<usize>,
    access: Arc<Access>,
    now_ms: u64,
}

impl World {
    fn new(arguments: Arguments, ahead: Option<u32>, speaks_091: bool) -> Self {
        let (settings, access) = (Arc::new(Settings::default()), access());
        let (now_ms, limits) = (1000, StorageLimits::default());
        let shards = make_shards(Restored::default(), 1, &settings, &access, limits, now_ms);
        let mut shard = shards.into_iter().next().expect("one shard was requested");
        let declare = DeclareQueue::new(DEFAULT_VHOST, QUEUE, arguments);
        declare_queue(&mut shard, declare);
        let local: SocketAddr = ([127, 0, 0, 1], 1000).into();
        let (publisher, consumer) = (shard.connect(local, local), shard.connect(local, local));
        let message = if speaks_091 { amqp091::publish(QUEUE) } else { TRANSFER.to_vec() };
        let (transfers, retained) = (message.repeat(TURN as usize), Retained::default());
        let (input, answer, dirty) = (BytesMut::new(), BytesMut::new(), Vec::new());
        let moved = 0;
        let mut world = Self {
            shard,
            publisher,
            consumer,
            transfers,
            input,
            answer,
            moved,
            ahead,
            retained,
            dirty,
            access,
            now_ms,
        };
        world.turn();
        if speaks_091 {
            let begin = [(publisher, amqp091::confirm()), (consumer, amqp091::consume(QUEUE, CREDIT as u16))];
            for (client, begin) in begin {
                world.shard.handle_input(client, &mut BytesMut::from(&amqp091::hello()[..]));
                world.turn();
                world.shard.handle_input(client, &mut BytesMut::from(&begin[..]));
                world.turn();
            }
            return world;
        }
        for (client, attach) in [(publisher, ATTACH_SENDER), (consumer, ATTACH_RECEIVER)] {
            world.shard.handle_input(client, &mut BytesMut::from(HELLO));
            world.turn();
            world.shard.handle_input(client, &mut BytesMut::from(attach));
            world.turn();
        }
        world.answer(ahead);
        world.turn();
        world
    }

    /// Sends, receives and settles the messages of a turn. Returns the bytes that were sent to both clients.
    fn move_a_turn(&mut self) -> u64 {
        for (transfer, id) in self.transfers.chunks_exact_mut(TRANSFER.len()).zip(self.moved..) {
            transfer[ID_AT..ID_AT + 4].copy_from_slice(&id.to_be_bytes());
            transfer[TAG_AT..TAG_AT + 4].copy_from_slice(&id.to_le_bytes());
        }
        self.input.extend_from_slice(&self.transfers);
        self.shard.handle_input(self.publisher, &mut self.input);
        self.input.clear();
        let mut bytes = self.turn();
        if self.ahead.is_none() {
            assert_eq!(
                self.shard.counters.traffic().deliveries().sent(),
                u64::from(self.moved),
                "no message is sent without credit"
            );
            self.answer(Some(TURN as u32));
            bytes += self.turn();
        }
        let (first, last) = (self.moved, self.moved + TURN as u32 - 1);
        self.moved = last + 1;
        assert_eq!(
            self.shard.counters.traffic().deliveries().sent(),
            u64::from(self.moved),
            "the turn sends all messages"
        );
        let accepted = DeliveryState::Accepted;
        put_disposition_frame(&mut self.answer, 0, Role::Receiver, first, Some(last), true, &accepted);
        self.answer(self.ahead);
        bytes += self.turn();
        assert_eq!(
            self.shard.counters.traffic().confirmed,
            u64::from(self.moved),
            "each message has its receipt"
        );
        bytes
    }

    /// Does the same as [`World::move_a_turn`] in AMQP 0.9.1.
    fn move_a_turn_091(&mut self) -> u64 {
        self.input.extend_from_slice(&self.transfers);
        self.shard.handle_input(self.publisher, &mut self.input);
        self.input.clear();
        let mut bytes = self.turn();
        self.moved += TURN as u32;
        let moved = u64::from(self.moved);
        assert_eq!(self.shard.counters.traffic().deliveries().sent(), moved, "the turn sends all messages");
        amqp091::put_ack(&mut self.answer, moved);
        self.shard.handle_input(self.consumer, &mut self.answer);
        self.answer.clear();
        bytes += self.turn();
        assert_eq!(self.shard.counters.traffic().confirmed, moved, "each message has its receipt");
        bytes
    }

    /// Sends the consumer's frames. If there is a credit, its FLOW is the last one.
    fn answer(&mut self, credit: Option<u32>) {
        if credit.is_some() {
            let flow = Flow {
                next_incoming_id: Some(self.moved),
                incoming_window: i32::MAX as u32,
                outgoing_window: i32::MAX as u32,
                handle: Some(0),
                delivery_count: Some(self.moved),
                link_credit: credit,
                ..Flow::default()
            };
            put_frame(&mut self.answer, 0, &flow);
        }
        self.shard.handle_input(self.consumer, &mut self.answer);
        self.answer.clear();
    }

    /// Runs turns until nothing moves any more, as the runtime does. Returns the bytes that were sent to both
    /// clients.
    fn turn(&mut self) -> u64 {
        let (mut bytes, mut moved) = (0, true);
        while moved {
            self.now_ms += 1;
            self.shard.set_now(self.now_ms);
            self.shard.handle_timeout();
            moved = self.shard.turn();
            for (ticket, login) in self.shard.poll_logins() {
                self.shard.handle_login(ticket, self.access.check(&login));
                moved = true;
            }
            if let Some(handover) = self.shard.poll_handover() {
                moved = true;
                let (shard, ticket) = (handover.shard, handover.ticket);
                let steps = [Some(Step::Written), handover.sync.then_some(Step::Synced)];
                drop(handover);
                for step in steps.into_iter().flatten() {
                    let (file, size, result) = (0, Size::default(), Ok(()));
                    self.shard.handle_logged(Completion { shard, ticket, step, result, file, size });
                }
            }
            let jobs: Vec<StreamJob> = self.shard.poll_stream_jobs().collect();
            for job in jobs {
                moved = true;
                let answer = self.written(job);
                self.shard.handle_stream_answer(answer);
            }
            if moved {
                // The next turn flushes what the answers have moved. Only then are the connections written.
                continue;
            }
            self.shard.take_dirty(&mut self.dirty);
            for key in self.dirty.drain(..) {
                let Some(conn) = self.shard.conn(key) else { continue };
                let output = conn.gate.output();
                bytes += output.len() as u64;
                output.advance(output.len());
                output.shrink();
            }
        }
        bytes
    }

    /// Returns the answer of the streams' thread when it has done a job.
    fn written(&mut self, job: StreamJob) -> StreamAnswer {
        match job {
            StreamJob::Open { shard, stream, .. } => StreamAnswer::Opened {
                shard,
                stream,
                result: Ok(self.retained.clone()),
                cut: None,
                readable: None,
            },
            StreamJob::Append { shard, stream, chunks, .. } => {
                let last = chunks.last().expect("an append has at least one chunk");
                self.retained.next = last.first + u64::from(last.entries);
                StreamAnswer::Appended { shard, stream, result: Ok(self.retained.clone()) }
            }
            other => panic!("nobody has changed the stream: {other:?}"),
        }
    }
}
