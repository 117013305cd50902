//! A node without threads, sockets and files: the admin API of the product and one shard, which holds the catalog, the queues and the
//! permissions. What clients of AMQP would bring about is made up: the answers to looks are those of the shard, with the figures of
//! [`State`] in them.

mod figures;
mod state;

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use broker::admin_api::{BrowsedRow, Reclaimed};
use broker::explain::Resources;
use broker::settings::Settings;
use catalog::access::{Access, Hashing, Resource, Verb};
use catalog::ids::QueueId;
use catalog::{Catalog, Command};
use message::{Message, Parts, Route, trim};
use node::admin_api::detached::{Detached, ShardEnd, ToShard};
use node::facts::Restored;
use node::shard::questions::{Act, AnswerTo, Question};
use node::shard::{Shard, Writes};
use node::{AdminApi, ClusterView, SeenNodes, StorageLimits, make_shards};
use queue::{
    ConsumerId, Delivery, Effect, Peek, PeekEnd, Peeked, PeekedMessage, Refusal, Replay, Request, Requester,
    Start, Ticket,
};
use wal::{Completion, Handover, Step, StreamAnswer, StreamJob, Streams};
use wal_testing::SimDisk;

pub(super) use self::state::State;

/// The time of the shard, in milliseconds.
const NOW_MS: u64 = 8_000;

/// An admin API and what is behind it.
#[derive(Clone)]
pub(super) struct TestNode {
    api: AdminApi,
    inside: Arc<Inside>,
}

struct Inside {
    state: Mutex<State>,
    shard: Mutex<RunningShard>,
    access: Arc<Access>,
    resources: Arc<Mutex<Resources>>,
    cluster: Arc<Mutex<ClusterView>>,
}

impl Deref for TestNode {
    type Target = AdminApi;

    fn deref(&self) -> &AdminApi {
        &self.api
    }
}

/// What tests choose about a node before it starts.
pub(super) struct Options {
    /// The name of the node.
    pub name: &'static str,
    /// The first shard is real. The others have nothing but their figures.
    pub shards: u8,
    /// True if there are listeners.
    pub listens: bool,
    /// True if logins are counted by their source.
    pub tracks_sources: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { name: "n@h", shards: 1, listens: true, tracks_sources: false }
    }
}

impl TestNode {
    pub(super) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(super) fn with(Options { name, shards, listens, tracks_sources }: Options) -> Self {
        let settings = Arc::new(Settings {
            node_name: name.into(),
            cluster_name: "c".into(),
            connection_max: Some(2),
            handshake_max: 1,
            ..Settings::default()
        });
        let access = Arc::new(
            Access::new(state::users()).tracking_sources(tracks_sources).with_hashing(Hashing::Sha256),
        );
        let limits = StorageLimits::default();
        let shard = make_shards(Restored::default(), 1, &settings, &access, limits, NOW_MS).remove(0);
        let resources =
            Resources { memory_limit: 1_000, disk_free: 2_000, disk_free_limit: 500, ..Resources::default() };
        let resources = Arc::new(Mutex::new(resources));
        let listener = |protocol: &str, port| (protocol.to_owned(), "127.0.0.1".to_owned(), port);
        let listeners = [listener("amqp", 5672), listener("http", 15672)];
        let cluster = Arc::new(Mutex::new(ClusterView::alone(name.into())));
        let seen = cluster.clone();
        let mut identity = wal::Identity { boots: 3, ..wal::Identity::default() };
        identity.node[0] = 0x0a;
        let detached = Detached {
            shards,
            settings,
            access: access.clone(),
            identity,
            listeners: listeners.into_iter().filter(|_| listens).collect(),
            resources: resources.clone(),
            nodes: SeenNodes::new(move || seen.lock().unwrap().clone()),
        };
        let (api, ends) = AdminApi::detached(detached).expect("threads for passwords");
        let (state, shard) = (Mutex::new(State::new(shards)), Mutex::new(RunningShard::new(shard)));
        let inside = Arc::new(Inside { state, shard, access, resources, cluster });
        for (shard, end) in (0..).zip(ends) {
            tokio::spawn(serve(inside.clone(), shard, end));
        }
        Self { api, inside }
    }

    /// The admin API alone.
    pub(super) fn api(&self) -> AdminApi {
        self.api.clone()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.inside.state.lock().unwrap()
    }

    pub(super) fn access(&self) -> &Access {
        &self.inside.access
    }

    /// The memory and the disk, with their alarms.
    pub(super) fn resources(&self) -> MutexGuard<'_, Resources> {
        self.inside.resources.lock().unwrap()
    }

    /// What is seen of the nodes. Who decides is in [`State::sight`].
    pub(super) fn cluster(&self) -> MutexGuard<'_, ClusterView> {
        self.inside.cluster.lock().unwrap()
    }

    pub(super) fn with_catalog<T>(&self, read: impl FnOnce(&Catalog) -> T) -> T {
        read(self.inside.shard.lock().unwrap().shard.catalog())
    }

    /// Publishes messages with bodies of ten bytes to a queue.
    pub(super) fn publish(&self, queue: &str, count: usize) {
        let mut shard = self.inside.shard.lock().unwrap();
        let message = || {
            let route = Arc::new(Route::simple("", queue));
            moved(Message::new(Parts { wire: vec![b'x'; 10].into(), ..Parts::default() }, route))
        };
        let (to, _) = AnswerTo::new(0);
        shard.handle(Question::Act(Act::Move {
            vhost: "/".into(),
            messages: (0..count).map(|_| message()).collect(),
            to,
        }));
    }
}

fn moved(message: Message) -> broker::moving::Moving {
    let queue = Some(message.route().key().into());
    broker::moving::Moving { message, queue }
}

/// Answers what the admin API asks a shard.
async fn serve(inside: Arc<Inside>, number: u8, mut end: ShardEnd) {
    while let Some(question) = end.next().await {
        let (mut state, mut shard) = (inside.state.lock().unwrap(), inside.shard.lock().unwrap());
        match question {
            ToShard::Connection(connection) if state.keeps_open => state.opened.push(connection),
            ToShard::Connection(_) => {}
            ToShard::GiveUp(question) => shard.shard.give_up(question),
            // Nobody gets an answer while the shards are stuck.
            ToShard::Question(Question::Look(_)) if state.stuck => {}
            ToShard::Question(Question::Look(look)) => {
                figures::answer(&mut state, &mut shard.shard, number, look)
            }
            ToShard::Question(Question::Act(act)) => {
                if let Some(act) = state.answer(shard.shard.catalog(), act) {
                    shard.act(act);
                }
            }
            ToShard::Question(question) => shard.handle(question),
        }
    }
}

/// The shard, its log and its streams.
struct RunningShard {
    shard: Shard,
    streams: Streams<SimDisk>,
}

impl RunningShard {
    fn new(shard: Shard) -> Self {
        Self { shard, streams: Streams::new(SimDisk::new(1)).expect("an empty disk") }
    }

    /// Carries out an act. Queues that it declares get their homes.
    fn act(&mut self, act: Act) {
        let declared = match &act {
            Act::Change { command, .. } => declared(command),
            _ => Vec::new(),
        };
        self.handle(Question::Act(act));
        for (vhost, name) in declared {
            let queue = self.shard.catalog().listed_queue(&vhost, &name);
            if let Some(queue) = queue.filter(|queue| !queue.is_stream()) {
                let (to, _) = AnswerTo::new(0);
                self.handle(Question::Act(Act::Post { queue: queue.id, requests: vec![Request::Use], to }));
            }
        }
    }

    fn handle(&mut self, question: Question) {
        self.shard.handle_question(question);
        let mut written = Vec::new();
        loop {
            self.shard.set_now(NOW_MS);
            self.shard.handle_timeout();
            let mut moved = self.shard.turn();
            moved |= self.shard.write(&mut Disks { written: &mut written, streams: &mut self.streams });
            let mail = self.shard.poll_mail(0);
            moved |= !mail.is_empty() || !written.is_empty();
            self.shard.handle_mail(mail);
            for Handover { shard, ticket, .. } in written.drain(..) {
                for step in [Step::Written, Step::Synced] {
                    let size = Default::default();
                    self.shard.handle_logged(Completion {
                        shard,
                        ticket,
                        step,
                        file: 0,
                        size,
                        result: Ok(()),
                    });
                }
            }
            if !moved {
                return;
            }
        }
    }
}

/// Returns the queues that a command declares.
fn declared(command: &Command) -> Vec<(Arc<str>, Arc<str>)> {
    match command {
        Command::DeclareQueue(declare) => vec![(declare.vhost.clone(), declare.name.clone())],
        Command::Batch(commands) => commands.iter().flat_map(declared).collect(),
        _ => Vec::new(),
    }
}

struct Disks<'a> {
    written: &'a mut Vec<Handover>,
    streams: &'a mut Streams<SimDisk>,
}

impl Writes for Disks<'_> {
    fn write(&mut self, handover: Handover) -> Option<Completion> {
        self.written.push(handover);
        None
    }

    fn append(&mut self, job: StreamJob) -> Option<StreamAnswer> {
        let mut answers = Vec::new();
        assert!(self.streams.handle(job, &mut answers).is_none(), "nothing is to be synced");
        answers.pop()
    }
}

impl State {
    /// Answers an act about what is made up. Returns it if the shard must carry it out.
    fn answer(&mut self, catalog: &Catalog, act: Act) -> Option<Act> {
        match act {
            Act::Peek { peek, to, .. } => to.send(self.peek(&peek)),
            Act::Checkpoint { queue, to } => {
                let group =
                    catalog.queue_by_id(queue).and_then(|queue| self.groups.get(&*queue.name).copied());
                to.send(group.map(|group| group.applied_index).ok_or(Refusal::NotSupported));
            }
            Act::Reclaim { to, .. } => to.send(Ok(Reclaimed { freed_bytes: 5, paging_bytes: 70 })),
            Act::Request { request: Request::Browse { ticket, replay, n }, to, .. } => {
                to.send(self.browse(ticket, &replay, n));
            }
            Act::Request { queue, request: Request::Report { ticket }, to } if is_stream(catalog, queue) => {
                let mut report = Box::default();
                if let Some(queue) = catalog.queue_by_id(queue) {
                    self.set_report(&queue, &mut report);
                }
                to.send(Effect::Report { ticket, report });
            }
            Act::Close { who, name, reason, to } => {
                self.close_reasons.push(reason);
                let Some(at) = self.connections.iter().position(|row| *row.name == *name) else {
                    to.send(Ok(false));
                    return None;
                };
                let row = &self.connections[at];
                let resource = [Resource::Connection(row.owner())];
                let permitted = catalog.users().permit(&who, &row.vhost, Verb::CloseConnection, &resource);
                if permitted.is_ok() {
                    self.connections.remove(at);
                }
                to.send(permitted.map(|()| true));
            }
            act => return Some(act),
        }
        None
    }

    /// A message has arrived as many seconds after 1970 as its offset says.
    fn browse(&mut self, ticket: Ticket, replay: &Replay, count: u32) -> Effect {
        self.looks.push((replay.start, count));
        let from = match replay.start {
            Start::Offset(offset) => offset,
            Start::Time(ms) => ms.div_ceil(1000),
            _ => 0,
        };
        let end = self.damaged_from.unwrap_or(u64::MAX);
        if from >= end {
            return Effect::Refused { requester: Requester::Ticket(ticket), why: Refusal::Damaged };
        }
        let rows = self.messages.iter().filter(|row| (from..end).contains(&row.offset));
        let deliveries = rows.take(count as usize).map(|row| Delivery {
            consumer: ConsumerId(0),
            number: 0,
            seq: row.offset,
            message: message(row),
            delivery_count: 0,
            acquired_count: 0,
        });
        Effect::Fetched { ticket, deliveries: deliveries.collect(), ready: 0 }
    }

    fn peek(&self, peek: &Peek) -> Result<Peeked, Refusal> {
        let readable = self.damaged_from.map_or(u64::MAX, |from| from - 1);
        if peek.position > readable {
            return Err(Refusal::Damaged);
        }
        let count = u64::from(peek.count).min(readable - peek.position + 1) as usize;
        let from = self.messages.iter().skip(peek.position as usize - 1);
        let messages = from.clone().take(count).map(|row| PeekedMessage {
            seq: row.offset,
            message: message(row),
            at_ms: row.offset * 1000,
            delivery_count: 2,
            acquired_count: 3,
            redelivered: true,
        });
        let messages: Vec<_> = messages.collect();
        let end = if from.len() > messages.len() { PeekEnd::Enough(None) } else { PeekEnd::Queue };
        Ok(Peeked { messages, end })
    }
}

fn is_stream(catalog: &Catalog, queue: QueueId) -> bool {
    catalog.queue_by_id(queue).is_some_and(|queue| queue.is_stream())
}

/// Returns a message as a queue has it. One that cannot be read is kept as it is.
fn message(row: &BrowsedRow) -> Message {
    let BrowsedRow { exchange, routing_key, message, .. } = row;
    let route = Arc::new(Route::simple(exchange, routing_key));
    let parts = match amqp10::sections::scan(message) {
        Ok(sections) => {
            let trimmed = trim(&sections, false);
            let wire = message.slice(trimmed.range.clone());
            trimmed.into_parts(wire)
        }
        Err(_) => Parts { wire: message.clone(), ..Parts::default() },
    };
    Message::new(parts, route)
}
