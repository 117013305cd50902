//! Shards, their mail and what they hand to the log, without sockets, clock and disk. The test decides what
//! moves next; [`World::settle`] moves everything.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::asks::Asks;
use crate::asks_queues::AsksQueues;
use crate::quiet::assert_nothing_waits;
use amqp10::Value;
use broker::admin_api::ProtocolRow;
use broker::admin_api::amqp10_rows::SessionRow;
use broker::mail::Mail;
use broker::settings::Settings;
use bytes::BytesMut;
use catalog::access::{Access, Hashing, Permissions, User};
use catalog::ids::{QueueId, ShardId};
use catalog::{Command, DeclareQueue};
use node::facts::Restored;
use node::shard::Shard;
use node::{StorageLimits, make_shards};
use queue::{Report, Request};
use wal::{ChunkJob, ChunksRead, Completion, Handover, Step, StreamJob, StreamReader, Streams};
use wal_testing::SimDisk;

/// The number of rounds after which the broker is assumed to run in an endless loop.
const ROUNDS_MAX: usize = 10_000;

/// The socket of one client: the shard and the key of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Socket {
    pub shard: usize,
    pub key: usize,
}

pub(crate) struct World {
    pub now_ms: u64,
    pub shards: Vec<Shard>,
    mail: BTreeMap<(usize, usize), VecDeque<Vec<Mail>>>,
    /// For each shard: the handovers that the log has not answered, and the tickets that it has not synced.
    handovers: Vec<VecDeque<Handover>>,
    unsynced: Vec<VecDeque<u64>>,
    /// For each shard: the stream chunks to be written, and those to be read.
    stream_jobs: Vec<VecDeque<StreamJob>>,
    chunk_jobs: Vec<VecDeque<ChunkJob>>,
    streams: Streams<SimDisk>,
    stream_reader: StreamReader<SimDisk>,
    /// The number of bytes taken of each connection's output.
    taken: BTreeMap<Socket, u64>,
    /// The shards that run no turns. Everything that lives there is stalled.
    pub stalled: Vec<bool>,
    /// The shards whose records the log does not answer.
    pub log_stalled: Vec<bool>,
    /// True if the log writes, but no sync ends.
    pub syncs_stalled: bool,
    /// The number of turns of all shards together.
    pub turns: u64,
    access: Arc<Access>,
}

impl World {
    pub(crate) fn new(count: ShardId, settings: Settings) -> Self {
        let user = User {
            name: "guest".into(),
            hash: Hashing::Sha256.hash([1; 16], &amqp10::sasl::Secret::new("guest")),
            tags: Vec::new(),
            loopback_only: true,
            permissions: [("/".into(), Permissions::ALL)].into_iter().collect(),
        };
        let now_ms = 1_000_000;
        let (settings, access) = (Arc::new(settings), Arc::new(Access::new([user])));
        let shards =
            make_shards(Restored::default(), count, &settings, &access, StorageLimits::default(), now_ms);
        let (n, disk) = (shards.len(), SimDisk::new(1));
        Self {
            now_ms,
            shards,
            mail: BTreeMap::new(),
            handovers: (0..n).map(|_| VecDeque::new()).collect(),
            unsynced: vec![VecDeque::new(); n],
            stream_jobs: (0..n).map(|_| VecDeque::new()).collect(),
            chunk_jobs: (0..n).map(|_| VecDeque::new()).collect(),
            stream_reader: StreamReader::new(disk.clone()),
            streams: Streams::new(disk).expect("an empty disk"),
            taken: BTreeMap::new(),
            stalled: vec![false; n],
            log_stalled: vec![false; n],
            syncs_stalled: false,
            turns: 0,
            access,
        }
    }

    // ---- sockets ----------------------------------------------------------------------------------------------

    pub(crate) fn connect(&mut self, shard: usize) -> Socket {
        let peer: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let socket = Socket { shard, key: self.shards[shard].connect(peer, peer) };
        self.taken.insert(socket, 0);
        socket
    }

    pub(crate) fn takes_input(&self, at: Socket) -> bool {
        self.shards[at.shard].takes_input(at.key)
    }

    pub(crate) fn input(&mut self, at: Socket, bytes: &[u8]) {
        self.shards[at.shard].handle_input(at.key, &mut BytesMut::from(bytes));
    }

    /// Returns the number of bytes that the broker has sent to a connection so far, taken or not.
    pub(crate) fn said(&mut self, at: Socket) -> u64 {
        let waiting = self.waiting(at) as u64;
        self.taken.get(&at).copied().unwrap_or(0) + waiting
    }

    /// Returns the number of bytes of output that wait for the socket.
    pub(crate) fn waiting(&mut self, at: Socket) -> usize {
        self.shards[at.shard].conn(at.key).map_or(0, |c| c.gate.output().len())
    }

    /// Takes up to `max` bytes of output, as the socket does.
    pub(crate) fn output(&mut self, at: Socket, max: usize, into: &mut Vec<u8>) -> usize {
        let now_ms = self.now_ms;
        let Some(conn) = self.shards[at.shard].conn(at.key) else { return 0 };
        let output = conn.gate.output();
        let mut taken = 0;
        while taken < max && !output.is_empty() {
            let mut slices = [IoSlice::new(&[]); 16];
            let n = output.slices(&mut slices);
            let before = taken;
            for slice in &slices[..n] {
                let part = slice.len().min(max - taken);
                into.extend_from_slice(&slice[..part]);
                taken += part;
            }
            output.advance(taken - before);
        }
        if taken > 0 {
            conn.gate.handle_written(taken, now_ms);
            if conn.gate.has_pending() {
                self.shards[at.shard].touch(at.key);
            }
            *self.taken.entry(at).or_default() += taken as u64;
        }
        taken
    }

    // ---- the broker
    // -------------------------------------------------------------------------------------------

    /// Runs one turn of a shard and passes on its results. Returns true if something moved.
    pub(crate) fn turn(&mut self, id: usize) -> bool {
        if self.stalled[id] {
            return false;
        }
        self.turns += 1;
        let shard = &mut self.shards[id];
        shard.set_now(self.now_ms);
        shard.handle_timeout();
        let mut moved = shard.turn();
        shard.take_replies();
        for (ticket, login) in shard.poll_logins() {
            shard.handle_login(ticket, self.access.check(&login));
            moved = true;
        }
        if let Some(handover) = shard.poll_handover() {
            self.handovers[id].push_back(handover);
            moved = true;
        }
        let (writes, reads) = (&mut self.stream_jobs[id], &mut self.chunk_jobs[id]);
        let before = writes.len() + reads.len();
        writes.extend(self.shards[id].poll_stream_jobs());
        reads.extend(self.shards[id].poll_chunk_jobs());
        moved |= writes.len() + reads.len() > before;
        for to in 0..self.shards.len() {
            let mail = self.shards[id].poll_mail(to as ShardId);
            if !mail.is_empty() {
                moved = true;
                self.mail.entry((id, to)).or_default().push_back(mail);
            }
        }
        let mut dirty = Vec::new();
        self.shards[id].take_dirty(&mut dirty);
        moved
    }

    pub(crate) fn deliver_mail(&mut self, from: usize, to: usize) -> bool {
        let mail = self.mail.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let moved = mail.is_some();
        if let Some(mail) = mail {
            self.shards[to].handle_mail(mail);
        }
        moved
    }

    /// Returns the number of requests and other items in mail that is in flight.
    pub(crate) fn mail_len(&self, from: usize, to: usize) -> usize {
        let len = |mail: &Mail| if let Mail::Requests(requests) = mail { requests.len() } else { 1 };
        self.mail.get(&(from, to)).into_iter().flatten().flatten().map(len).sum()
    }

    /// Answers a shard's oldest handover, and its syncs.
    pub(crate) fn answer_log(&mut self, id: usize) -> bool {
        if self.log_stalled[id] {
            return false;
        }
        let written = self.handovers[id].pop_front();
        let moved = written.is_some();
        if let Some(Handover { ticket, sync, .. }) = written {
            self.unsynced[id].extend(sync.then_some(ticket));
            self.tell(id, ticket, Step::Written);
        }
        let synced = if self.syncs_stalled { 0 } else { self.unsynced[id].len() };
        for ticket in self.unsynced[id].drain(..synced).collect::<Vec<_>>() {
            self.tell(id, ticket, Step::Synced);
        }
        moved || synced > 0
    }

    /// Does a shard's oldest stream job.
    pub(crate) fn write_stream(&mut self, id: usize) -> bool {
        let Some(job) = self.stream_jobs[id].pop_front() else { return false };
        let mut answers = Vec::new();
        assert!(self.streams.handle(job, &mut answers).is_none(), "nothing is to be synced");
        answers.into_iter().for_each(|answer| self.shards[id].handle_stream_answer(answer));
        true
    }

    /// Does a shard's oldest chunk job.
    pub(crate) fn read_stream(&mut self, id: usize) -> bool {
        let Some(job) = self.chunk_jobs[id].pop_front() else { return false };
        let ChunkJob { shard, ticket, .. } = job;
        let result = self.stream_reader.read(&job);
        self.shards[id].handle_chunks(ChunksRead { shard, ticket, result });
        true
    }

    fn tell(&mut self, id: usize, ticket: u64, step: Step) {
        let (shard, size) = (id as u32, wal::Size::default());
        self.shards[id].handle_logged(Completion { shard, ticket, step, result: Ok(()), file: 0, size });
    }

    /// Moves everything that can move. Output that clients leave unread stays.
    pub(crate) fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let mut moved = false;
            let n = self.shards.len();
            for id in 0..n {
                moved |= self.turn(id);
                moved |= self.answer_log(id);
                moved |= self.write_stream(id);
                moved |= self.read_stream(id);
                for to in 0..n {
                    moved |= !self.stalled[to] && self.deliver_mail(id, to);
                }
            }
            if !moved {
                return self.assert_nothing_waits();
            }
        }
        panic!("the broker runs in an endless loop");
    }

    /// Asserts that no shard has left work for its next timer.
    fn assert_nothing_waits(&mut self) {
        let count = self.shards.len() as ShardId;
        let working = self.shards.iter_mut().zip(&self.stalled).filter(|(_, is_stalled)| !**is_stalled);
        working.for_each(|(shard, _)| assert_nothing_waits(shard, count));
    }

    // ---- the operator
    // -----------------------------------------------------------------------------------------

    /// Proposes a queue. It exists after [`World::settle`].
    pub(crate) fn declare(&mut self, name: &str, arguments: &[(&str, Value)]) {
        let declare = DeclareQueue::new(
            "/",
            name,
            arguments.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
        );
        self.shards[0].propose(Command::DeclareQueue(declare), Box::new(|_| {}));
    }

    /// Requests the deletion of a queue.
    pub(crate) fn delete(&mut self, name: &str) {
        let Some(id) = self.queue(name) else { return };
        let request = |ticket| Request::Delete { ticket, if_unused: false, if_empty: false };
        self.shards[0].ask(id, request, Box::new(|_| {}));
    }

    /// Makes this shard the home of a queue.
    pub(crate) fn place(&mut self, name: &str, shard: usize) {
        self.settle();
        let id = self.queue(name).expect("it is declared");
        let placed = Arc::new(Mutex::new(false));
        let seen = placed.clone();
        let then = Box::new(move |_| *seen.lock().unwrap() = true);
        self.shards[shard].ask(id, |ticket| Request::Report { ticket }, then);
        self.settle();
        assert!(*placed.lock().unwrap());
    }

    pub(crate) fn queue(&self, name: &str) -> Option<QueueId> {
        self.shards[0].catalog().listed_queue("/", name).map(|q| q.id)
    }

    /// Returns the report of a queue, if it has a home.
    pub(crate) fn report(&self, name: &str) -> Option<Report> {
        let id = self.queue(name)?;
        self.shards.iter().find_map(|shard| shard.queue_report(id))
    }

    /// Returns the report of a connection's first session.
    pub(crate) fn session(&mut self, at: Socket) -> SessionRow {
        let conn = self.shards[at.shard].conn(at.key).expect("it is there");
        let node: Arc<str> = "n".into();
        let row = conn.gate.report(&node, (0, 0), 0).expect("it is open");
        let ProtocolRow::Amqp10(mut row) = row.protocol else { panic!("only AMQP 1.0 clients are here") };
        row.sessions.remove(0)
    }

    pub(crate) fn alarm(&mut self, on: bool) {
        self.shards.iter_mut().for_each(|shard| shard.set_blocked(on));
    }
}
