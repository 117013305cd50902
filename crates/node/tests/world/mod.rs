//! The world of the simulation. It does everything that `runtime` does, in small steps, in an order that the
//! seed decides.

mod client;
mod damaged;
mod drain;
mod examination;
mod faults;
mod lives;
mod peer091;
mod peer10;
mod story;
mod streams;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use amqp10::Value;
use broker::mail::Mail;
use broker::settings::Settings;
use bytes::BytesMut;
use catalog::Arguments;
use catalog::access::{Access, Hashing, Permissions, User};
use catalog::ids::ShardId;
use node::shard::questions::{Act, Question};
use node::shard::{Migration, Occupancy, Shard, Writes};
use wal::{
    BlockRead, Completion, Extent, FillJob, Handover, Log, PackJob, PackReader, Packed, Packs, ReadJob,
    StreamAnswer, StreamJob, SyncEnd, SyncJob,
};
use wal_testing::{CHANGES, Op, Random, SimDisk};

use crate::asks::{Asks, keep};
use crate::quiet::assert_nothing_waits;
use client::Client;
pub(crate) use client::take;
pub(crate) use damaged::Counts;
use damaged::Damaged;
pub(crate) use faults::{Contents, Fault, PLACES, Place, Suspects, make as make_fault};
use story::Story;
use streams::StreamWorld;

/// The operations of packs that may fail, reads included.
const ANY: [Op; 6] = [Op::Create, Op::Open, Op::Write, Op::Sync, Op::Read, Op::SyncDir];

/// The number of steps after which all messages must have been received.
const DRAIN_STEPS_MAX: u32 = 1_000_000;

/// More steps than an idle broker needs to free its log: half an hour.
const IDLE_STEPS_MAX: u32 = 200_000;

const QUEUE: &str = "q";
const ADDRESS: &str = "/queues/q";
/// The queue for dead letters, in worlds that have one.
const DEAD_QUEUE: &str = "dead";
const DEAD_ADDRESS: &str = "/queues/dead";
/// The most messages that one run publishes.
const MESSAGES_MAX: u64 = 3000;

/// This fraction of the log's reserve may be in flight (one half). The rest is for the copies that free
/// space.
const RESERVE_PART: u64 = 2;

pub(crate) struct World {
    pub random: Random,
    shard_count: ShardId,
    now_ms: u64,
    disk: SimDisk,
    log: Option<Log<SimDisk>>,
    packs_disk: SimDisk,
    packs: Option<(Packs<SimDisk>, PackReader<SimDisk>)>,
    /// The copies of unclaimed records.
    unclaimed_disk: SimDisk,
    shards: Vec<Shard>,
    /// The mail in flight from one shard to another.
    mail: BTreeMap<(ShardId, ShardId), VecDeque<Vec<Mail>>>,
    to_log: Vec<Handover>,
    /// In worlds whose log may write directly: see [`wal::Options::direct_after`].
    direct_after: Option<u32>,
    fill: Option<FillJob>,
    /// The number of direct writes that have ended.
    pub written_directly: u64,
    /// The progress of a sync in flight.
    sync: Option<Syncing>,
    from_log: VecDeque<Completion>,
    to_packs: VecDeque<PackJob>,
    from_packs: VecDeque<Packed>,
    to_reader: VecDeque<ReadJob>,
    from_reader: VecDeque<BlockRead>,
    released: Vec<Extent>,
    last_pack: Option<u64>,
    /// The number of packs that the shards were told to empty.
    pub sparse: u64,
    /// The number of runs that were paged out.
    pub paged_out: u64,
    forget: Option<u64>,
    /// If set, every client connects to this shard.
    pub all_on: Option<usize>,
    /// The table for connections that follow their queues to other shards.
    occupancy: Option<Arc<Occupancy>>,
    follows: bool,
    /// The number of connections that have moved.
    pub followed: u64,
    /// The number of log files that were deleted.
    pub forgotten: u64,
    /// The number of messages that were settled before they were written.
    pub never_written: u64,
    /// The value of [`StorageLimits::unwritten_max`] in this world.
    unwritten_max: u64,
    /// The number of handovers that a shard has written itself, and the number of such appends to streams.
    pub at_once: [u64; 2],
    /// True if an operator forces checkpoints and reclaims memory at random.
    is_operated: bool,
    /// The number of checkpoints that were written.
    pub checkpoints: Rc<Cell<u64>>,
    /// The bytes that the log reserves for a full disk.
    reserve_bytes: u64,
    clients: Vec<Placed>,
    settings: Arc<Settings>,
    access: Arc<Access>,
    pub story: Story,
    /// The streams, in worlds that have some.
    pub streams: Option<StreamWorld>,
    /// The queues besides the main one and that for dead letters, in worlds that have some: names and stories.
    others: Vec<(String, Story)>,
    /// What is known about damage, in worlds that meet some.
    damaged: Damaged,
}

/// A sync of the log, which runs in parallel with everything else.
enum Syncing {
    Begun(SyncJob),
    Ended(SyncEnd),
}

/// The log and the streams of a shard. At random they write at once, as if their threads slept.
struct Threads<'a> {
    random: &'a mut Random,
    log: Option<&'a mut Log<SimDisk>>,
    to_log: &'a mut Vec<Handover>,
    streams: Option<&'a mut StreamWorld>,
    reserve_bytes: u64,
    at_once: &'a mut [u64; 2],
}

impl Writes for Threads<'_> {
    fn write(&mut self, handover: Handover) -> Option<Completion> {
        let bytes = handover.records.bytes() as u64;
        let fits = self.reserve_bytes == 0 || bytes <= self.reserve_bytes;
        assert!(fits, "{bytes} bytes at once do not fit into the reserve");
        let written = match self.log.as_mut().filter(|_| self.random.one_in(2)) {
            Some(log) => log.append_at_once(handover),
            None => Err(handover),
        };
        self.at_once[0] += u64::from(written.is_ok());
        written.unwrap_or_else(|handover| {
            self.to_log.push(handover);
            None
        })
    }

    fn hurry(&mut self) {
        self.to_log.extend(self.log.as_mut().map(|log| log.take_kept()).into_iter().flatten());
    }

    fn append(&mut self, job: StreamJob) -> Option<StreamAnswer> {
        let answer = self.streams.as_mut()?.take_job(job, self.random.one_in(2));
        self.at_once[1] += u64::from(answer.is_some());
        answer
    }
}

/// A client, and where its connection is.
struct Placed {
    client: Client,
    shard: usize,
    key: usize,
    /// The shard to which the connection is moving, and the connection itself.
    moving: Option<(usize, Migration)>,
    of: Of,
    /// The bytes in flight from the client to its shard.
    up: Vec<u8>,
    down: Vec<u8>,
}

/// What a client publishes to or reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// The main queue, or that for dead letters.
    Queue,
    /// One of [`World::others`].
    Other(usize),
    Stream(usize),
}

impl Of {
    fn is_stream(self) -> bool {
        matches!(self, Self::Stream(_))
    }
}

impl World {
    pub(crate) fn new(seed: u64, fsync: bool) -> Self {
        let mut world = Self::without_queues(seed);
        world.declare(QUEUE, arguments(fsync));
        world
    }

    /// Makes a world where rejected messages of the queue go to a dead-letter queue. In some worlds messages
    /// also expire, or are dropped when there are too many.
    pub(crate) fn with_dead_letters(seed: u64, fsync: bool) -> Self {
        Self::dead_lettering(seed, &arguments(fsync))
    }

    /// Makes a world with a quorum queue.
    pub(crate) fn with_quorum_queue(seed: u64, _: bool) -> Self {
        let mut world = Self::without_queues(seed);
        world.declare(QUEUE, quorum());
        world.is_operated = true;
        world
    }

    /// Makes a world like [`World::with_dead_letters`], with quorum queues.
    pub(crate) fn with_quorum_dead_letters(seed: u64, _: bool) -> Self {
        Self::dead_lettering(seed, &quorum())
    }

    fn dead_lettering(seed: u64, arguments: &Arguments) -> Self {
        let mut world = Self::without_queues(seed);
        let mut of_queue = arguments.clone();
        of_queue.insert("x-dead-letter-exchange".into(), "".into());
        of_queue.insert("x-dead-letter-routing-key".into(), DEAD_QUEUE.into());
        if world.random.one_in(2) {
            of_queue.insert("x-message-ttl".into(), Value::Ulong(100 + world.random.below(4000)));
        }
        if world.random.one_in(2) {
            of_queue.insert("x-max-length".into(), Value::Ulong(20 + world.random.below(400)));
        }
        world.declare(QUEUE, of_queue);
        world.declare(DEAD_QUEUE, arguments.clone());
        world.story.has_dead_letters = true;
        world
    }

    fn without_queues(seed: u64) -> Self {
        let user = User {
            name: "guest".into(),
            hash: Hashing::Sha256.hash([1; 16], &amqp10::sasl::Secret::new("guest")),
            tags: Vec::new(),
            loopback_only: true,
            permissions: [("/".into(), Permissions::ALL)].into_iter().collect(),
        };
        let mut world = Self {
            random: Random(seed),
            shard_count: 1 + (seed % 3) as ShardId,
            now_ms: 1_000_000,
            disk: SimDisk::new(seed),
            // Independent of everything else that depends on the seed.
            direct_after: Random(seed).one_in(3).then_some(seed as u32 % 3),
            fill: None,
            written_directly: 0,
            log: None,
            packs_disk: SimDisk::new(!seed),
            packs: None,
            unclaimed_disk: SimDisk::new(seed),
            shards: Vec::new(),
            mail: BTreeMap::new(),
            to_log: Vec::new(),
            sync: None,
            from_log: VecDeque::new(),
            to_packs: VecDeque::new(),
            from_packs: VecDeque::new(),
            to_reader: VecDeque::new(),
            from_reader: VecDeque::new(),
            released: Vec::new(),
            last_pack: None,
            sparse: 0,
            paged_out: 0,
            forget: None,
            all_on: None,
            occupancy: None,
            follows: seed / 3 % 4 == 1,
            followed: 0,
            forgotten: 0,
            never_written: 0,
            unwritten_max: [u64::MAX, 4096, 0][seed as usize % 3],
            at_once: [0; 2],
            is_operated: false,
            checkpoints: Rc::default(),
            reserve_bytes: 0,
            clients: Vec::new(),
            // Clients stay silent while a test waits for something.
            settings: Arc::new(Settings { heartbeat_s: 0, ..Settings::default() }),
            access: Arc::new(Access::new([user])),
            story: Story { left: MESSAGES_MAX, in_flight_max: u64::MAX, ..Story::default() },
            streams: None,
            others: Vec::new(),
            damaged: Damaged::default(),
        };
        if world.direct_after.is_some() {
            world.disk.allow_direct();
        }
        world.start();
        world
    }

    /// Returns true if the log's disk is full.
    pub(crate) fn is_on_reserve(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.size().on_reserve)
    }

    /// Frees the disk of the packs.
    pub(crate) fn empty_packs(&mut self) {
        self.packs_disk.limit(u64::MAX);
    }

    /// Does one random step.
    pub(crate) fn step(&mut self, disk_errors: bool) {
        if disk_errors && self.random.one_in(40) {
            match self.random.below(4) {
                0 => self.disk.fail(&CHANGES, 300, 28),
                1 => self.packs_disk.fail(&ANY, 300, 5),
                2 => self.packs_disk.heal(),
                _ => self.disk.heal(),
            }
        }
        if let Some(streams) = self.streams.as_mut().filter(|_| disk_errors)
            && self.random.one_in(40)
        {
            streams.trouble(&mut self.random);
        }
        match self.random.below(10) {
            0 if self.clients.len() < 6 => self.connect(),
            0..4 => self.step_client(),
            _ => self.step_broker(),
        }
        self.check_totals();
    }

    fn connect(&mut self) {
        if !self.others.is_empty() {
            self.connect_to_any();
            return;
        }
        if self.streams.is_some() && !self.random.one_in(4) {
            let (client, stream) = self.client_of_stream();
            self.place(client, Of::Stream(stream));
            return;
        }
        let any = self.random.below(u64::from(self.shard_count)) as usize;
        let shard = self.all_on.unwrap_or(any);
        let client = if self.random.one_in(2) {
            self.story.publishers += 1;
            Client::publisher(self.story.publishers, ADDRESS, self.now_ms)
        } else {
            let of_dead = self.story.has_dead_letters && self.random.one_in(2);
            let address = if of_dead { DEAD_ADDRESS } else { ADDRESS };
            Client::consumer(1 + self.random.below(300) as u32, address, self.now_ms)
        };
        let client = client.in_any_protocol(&mut self.random, self.now_ms);
        self.place_on(shard, client, Of::Queue);
    }

    /// Connects a client to a random shard.
    fn place(&mut self, client: Client, of: Of) {
        let shard = self.random.below(u64::from(self.shard_count)) as usize;
        self.place_on(shard, client, of);
    }

    fn place_on(&mut self, shard: usize, client: Client, of: Of) {
        let peer: SocketAddr = "127.0.0.1:1".parse().unwrap();
        if let Some(occupancy) = &self.occupancy {
            occupancy.add(shard as ShardId);
        }
        let key = self.shards[shard].connect(peer, peer);
        let (up, down) = (Vec::new(), Vec::new());
        self.clients.push(Placed { client, shard, key, moving: None, of, up, down });
    }

    fn disconnect(&mut self, mut gone: Placed) {
        self.adopt(&mut gone);
        self.shards[gone.shard].disconnect(gone.key);
    }

    /// Completes the move of a connection.
    fn adopt(&mut self, placed: &mut Placed) {
        if let Some((shard, moved)) = placed.moving.take() {
            (placed.shard, placed.key) = (shard, self.shards[shard].adopt(moved));
            self.followed += 1;
        }
    }

    /// Passes bytes of a client to its shard. Its connection may then move to another shard.
    fn arrive(&mut self, placed: &mut Placed, bytes: &[u8]) {
        let shard = &mut self.shards[placed.shard];
        shard.handle_input(placed.key, &mut BytesMut::from(bytes));
        let Some(to) = shard.leaving(placed.key) else { return };
        match self.random.one_in(4) {
            true => shard.stay(placed.key),
            false => placed.moving = Some((to.into(), shard.release(placed.key).expect("it is leaving"))),
        }
    }

    /// Lets a client act, and passes on some of its bytes.
    fn step_client(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let i = self.random.below(self.clients.len() as u64) as usize;
        let mut placed = self.clients.remove(i);
        let story = story_of(&mut self.story, &mut self.others, &mut self.streams, placed.of);
        placed.client.act(story, &mut self.random);
        placed.client.take_output(&mut placed.up);
        if placed.moving.is_some() {
            self.adopt(&mut placed);
        } else {
            let n = some(&mut self.random, placed.up.len());
            let arrived: Vec<u8> = placed.up.drain(..n).collect();
            self.arrive(&mut placed, &arrived);
        }
        let n = some(&mut self.random, placed.down.len());
        let arrived: Vec<u8> = placed.down.drain(..n).collect();
        let story = story_of(&mut self.story, &mut self.others, &mut self.streams, placed.of);
        placed.client.handle_input(&arrived, story, self.now_ms);
        match self.random.one_in(400) && placed.client.fickle || placed.client.over {
            true => self.disconnect(placed),
            false => self.clients.insert(i, placed),
        }
    }

    /// Passes on all bytes in flight.
    fn exchange_bytes(&mut self) {
        for i in 0..self.clients.len() {
            let mut placed = self.clients.remove(i);
            placed.client.take_output(&mut placed.up);
            self.adopt(&mut placed);
            let arrived = std::mem::take(&mut placed.up);
            self.arrive(&mut placed, &arrived);
            let story = story_of(&mut self.story, &mut self.others, &mut self.streams, placed.of);
            placed.client.handle_input(&std::mem::take(&mut placed.down), story, self.now_ms);
            self.clients.insert(i, placed);
        }
    }

    /// Runs a turn of a shard, delivers mail, or does a step of a storage thread.
    fn step_broker(&mut self) {
        self.now_ms += self.random.below(20);
        self.forget_the_gone();
        if self.streams.is_some() && self.random.one_in(2) {
            self.step_streams();
            return;
        }
        match self.random.below(8) {
            6 => self.step_packs(),
            7 => self.step_reader(),
            0..3 => {
                let id = self.random.below(u64::from(self.shard_count)) as usize;
                self.turn(id);
            }
            3 => {
                let count = u64::from(self.shard_count);
                let (from, to) = (self.random.below(count) as ShardId, self.random.below(count) as ShardId);
                if let Some(mail) = self.mail.get_mut(&(from, to)).and_then(VecDeque::pop_front) {
                    self.shards[usize::from(to)].handle_mail(mail);
                }
            }
            4 => self.step_log(),
            _ => {
                if let Some(completion) = self.from_log.pop_front() {
                    let shard = &mut self.shards[completion.shard as usize];
                    let short = completion.size.on_reserve;
                    shard.handle_logged(completion);
                    if !short {
                        shard.retry_log();
                    }
                }
            }
        }
    }

    /// Once no record waits for the log, publishers that have left have nothing in flight. So their share of
    /// `in_flight` is removed.
    fn forget_the_gone(&mut self) {
        if self.reserve_bytes == 0 || self.shards.iter().any(Shard::has_unlogged) {
            return;
        }
        (0..self.shards.len()).for_each(|id| self.take_mail(id));
        if self.mail.values().all(VecDeque::is_empty) {
            self.story.in_flight = self.clients.iter().map(|placed| placed.client.in_flight_bytes()).sum();
        }
    }

    /// Lets the log write, delete files, or progress with its sync.
    fn step_log(&mut self) {
        let Some(log) = &mut self.log else { return };
        let mut done = Vec::new();
        if self.direct_after.is_some() {
            if let Some(end) = log.ended_direct(false) {
                log.end_sync(end, &mut done);
                self.to_log.extend(log.write_kept(&mut done));
                self.written_directly += 1;
            }
            self.fill = match self.fill.take() {
                None => log.begin_fill(),
                Some(job) => {
                    log.end_fill(job.run());
                    None
                }
            };
        }
        match self.random.below(3) {
            0 => {
                self.sync = match self.sync.take() {
                    None => log.begin_sync(&mut done).map(Syncing::Begun),
                    Some(Syncing::Begun(job)) => Some(Syncing::Ended(job.run())),
                    Some(Syncing::Ended(end)) => {
                        log.end_sync(end, &mut done);
                        self.to_log.extend(log.write_kept(&mut done));
                        None
                    }
                };
            }
            _ => log.append(&mut self.to_log, &mut done),
        }
        self.from_log.extend(done);
        if let Some(file) = self.forget.take() {
            log.forget(file);
            self.forgotten += 1;
        }
    }

    /// Lets the packs do a job, or delivers their answer.
    fn step_packs(&mut self) {
        if let Some(packed) = self.from_packs.pop_front() {
            self.shards[packed.shard as usize].handle_packed(packed);
            return;
        }
        let Some((packs, _)) = &mut self.packs else { return };
        self.released.drain(..).for_each(|extent| packs.release(extent));
        if let Some(PackJob { shard, ticket, runs }) = self.to_packs.pop_front() {
            self.paged_out += runs.len() as u64;
            let result = packs.write(runs);
            self.last_pack = result.iter().flatten().last().map(|extent| extent.pack).or(self.last_pack);
            self.from_packs.push_back(Packed { shard, ticket, result });
        }
        // Any pack may consist mostly of dead runs of other queues.
        let pack = self.last_pack.filter(|_| self.random.one_in(20));
        if let Some(pack) = pack.map(|last| last.saturating_sub(self.random.below(3))).or(packs.sparse()) {
            self.sparse += 1;
            self.shards.iter_mut().for_each(|shard| shard.handle_sparse(pack));
        }
    }

    /// Reads a block, or delivers one.
    fn step_reader(&mut self) {
        if let Some(read) = self.from_reader.pop_front() {
            self.shards[read.shard as usize].handle_block(read);
            return;
        }
        let Some((_, reader)) = &mut self.packs else { return };
        if let Some(ReadJob { shard, ticket, extent, owner, at }) = self.to_reader.pop_front() {
            let result = reader.read(extent, owner, at);
            self.from_reader.push_back(BlockRead { shard, ticket, result });
        }
    }

    fn turn(&mut self, id: usize) {
        let shard = &mut self.shards[id];
        shard.set_now(self.now_ms);
        // The log is retried less often than mail is delivered, as in a real node.
        if shard.log_refuses() && self.random.one_in(50) {
            shard.retry_log();
        }
        shard.handle_timeout();
        if self.is_operated && self.random.one_in(30) {
            operate(shard, &self.checkpoints, self.random.one_in(2));
        }
        let mut is_left = shard.turn();
        shard.take_replies();
        for (ticket, login) in shard.poll_logins() {
            shard.handle_login(ticket, self.access.check(&login));
            is_left = true;
        }
        is_left |= shard.write(&mut Threads {
            random: &mut self.random,
            log: self.log.as_mut(),
            to_log: &mut self.to_log,
            streams: self.streams.as_mut(),
            reserve_bytes: self.reserve_bytes,
            at_once: &mut self.at_once,
        });
        self.forget = shard.poll_forget().or(self.forget);
        self.to_packs.extend(shard.poll_pack_job());
        is_left |= shard.has_receipts_to_send();
        self.to_reader.extend(shard.poll_reads());
        self.released.extend(shard.poll_released());
        if let Some(streams) = &mut self.streams {
            streams.take_reads(shard.poll_chunk_jobs());
        }
        self.take_mail(id);
        let mut dirty = Vec::new();
        self.shards[id].take_dirty(&mut dirty);
        if !is_left {
            assert_nothing_waits(&mut self.shards[id], self.shard_count);
            assert!(!self.shards[id].is_dirty(), "output was left");
        }
        let shard = &mut self.shards[id];
        for key in dirty {
            let Some(placed) =
                self.clients.iter_mut().find(|c| c.shard == id && c.key == key && c.moving.is_none())
            else {
                continue;
            };
            let Some(conn) = shard.conn(key) else { continue };
            client::take(conn.gate.output(), &mut placed.down);
            if conn.gate.has_pending() {
                shard.touch(key);
            }
        }
    }

    fn take_mail(&mut self, id: usize) {
        for to in 0..self.shard_count {
            let mail = self.shards[id].poll_mail(to);
            if !mail.is_empty() {
                self.mail.entry((id as ShardId, to)).or_default().push_back(mail);
            }
        }
    }

    /// Checks that the sums that each shard keeps are those of its rows.
    fn check_totals(&self) {
        for shard in &self.shards {
            let mut depth = queue::Depth::default();
            for report in shard.catalog().queues().filter_map(|queue| shard.queue_report(queue.id)) {
                depth += report.depth();
            }
            assert_eq!(shard.totals().depth, depth, "of shard {}", shard.id());
        }
    }
}

/// Does what an operator may do at any time: writes a new base of each group, or reclaims the memory of each queue.
fn operate(shard: &mut Shard, checkpoints: &Rc<Cell<u64>>, reclaims: bool) {
    let queues: Vec<_> = shard.catalog().queues().map(|queue| queue.id).collect();
    for queue in queues {
        let checkpoints = checkpoints.clone();
        let act = match reclaims {
            true => Act::Reclaim { queue, to: keep(|_| ()) },
            false => {
                let count =
                    move |index: Result<u64, _>| checkpoints.update(|count| count + u64::from(index.is_ok()));
                Act::Checkpoint { queue, to: keep(count) }
            }
        };
        shard.handle_question(Question::Act(act));
    }
}

/// Clients of these worlds fail often, so there is no limit of deliveries.
fn quorum() -> Arguments {
    let limit = ("x-delivery-limit".to_owned(), Value::Int(-1));
    [("x-queue-type".to_owned(), Value::from("quorum")), limit].into_iter().collect()
}

fn arguments(fsync: bool) -> Arguments {
    [("x-fsync".to_owned(), Value::Boolean(fsync))].into_iter().collect()
}

/// Returns the story of a queue or stream.
fn story_of<'a>(
    queue: &'a mut Story,
    others: &'a mut [(String, Story)],
    streams: &'a mut Option<StreamWorld>,
    of: Of,
) -> &'a mut Story {
    match of {
        Of::Queue => queue,
        Of::Other(other) => &mut others[other].1,
        Of::Stream(stream) => &mut streams.as_mut().expect("there are streams").stories[stream],
    }
}

/// Returns `len`, or by chance a smaller number.
fn some(random: &mut Random, len: usize) -> usize {
    match random.one_in(3) {
        true => random.below(len as u64 + 1) as usize,
        false => len,
    }
}
