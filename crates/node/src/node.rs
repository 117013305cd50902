//! A node: opens the storage, starts the shards on their threads, and stops them all.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Instant;

use broker::ids::{NODE_SHARD, Where};
use broker::placements::Placements;
use broker::settings::Settings;
use broker::unguessable::Names;
use catalog::QueueRecord;
use catalog::access::Access;
use catalog::ids::ShardId;
use catalog::unguessable::KEY_BYTES;
use tokio::sync::mpsc;
use wal::files::Sharing;
use wal::{
    CopyFile, Identity, IdentityError, Options, PackOptions, PackReader, RealDisk, Records, StreamReader,
    Writer,
};

use crate::admin_api::{AdminApi, Run, Ways};
use crate::admission::Admission;
use crate::alarms::{AlarmChange, AlarmLimits, Publishers, Watch};
use crate::clock::Clock;
use crate::cluster::{self, Cluster};
use crate::cluster_settings::ClusterSettings;
use crate::data_dir::{
    PACKS_DIR, STREAMS_DIR, StartError, UNCLAIMED_DIR, open_dir, open_folder, refuse_newer,
    remove_empty_unclaimed, this_start, tighten,
};
use crate::facts::Restored;
use crate::handshakes::Handshakes;
use crate::incoming::{Incoming, Shards};
use crate::logins::{Backends, Logins};
use crate::notices::NoticeWay;
use crate::quarantine;
use crate::randomness::random;
use crate::recovery::{Disks, Purpose, Recovered, Start, recover};
use crate::runtime::{self, Beside, Listening, Punctuality, Storage};
use crate::shard::{DECIDER, DirectWrites, NodeBudgets, Occupancy, Setup, Shard, StorageLimits};
use crate::tls_steps::TlsSteps;
use crate::users_copy;

/// The options with which a node is started.
#[derive(Debug)]
pub struct NodeOptions {
    pub settings: Settings,
    pub access: Access,
    /// What checks logins; `None` means the users of the catalog alone.
    pub backends: Option<Backends>,
    /// The number of event loops, each with its own thread. At least 1, at most 255.
    pub shards: usize,
    /// The directory of the log, the packs and the streams. It is created if it does not exist.
    pub data_dir: PathBuf,
    /// Who may use what is in the data directory.
    pub sharing: Sharing,
    pub alarms: AlarmLimits,
    pub storage: StorageLimits,
    /// The number of file descriptors that are reserved for everything except connections and storage.
    pub reserved_descriptors: u64,
    /// How the node forms a cluster with others. `None` for a node that is alone.
    pub cluster: Option<ClusterSettings>,
    /// True to start even if definitions may be lost. Every known durable queue is then closed, and its data
    /// is kept.
    pub accept_lost_definitions: bool,
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    shards: Shards,
    threads: Vec<JoinHandle<io::Result<()>>>,
    storage: Storage,
    admission: Arc<Admission>,
    api: AdminApi,
    watch: Watch,
    publishers: Arc<Publishers>,
    cluster: Option<Cluster>,
}

impl Node {
    /// Recovers the log and starts the shards. No socket listens yet for clients. A node that forms a cluster waits until it is a member of one.
    /// That may take until an operator starts the other nodes.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(options: NodeOptions) -> Result<Self, StartError> {
        let NodeOptions {
            settings,
            access,
            backends,
            shards: count,
            data_dir,
            sharing,
            alarms,
            storage,
            reserved_descriptors,
            cluster,
            accept_lost_definitions,
        } = options;
        let bound = cluster.map(cluster::bind).transpose().map_err(StartError::Cluster)?;
        let count = count.clamp(1, usize::from(ShardId::MAX)) as ShardId;
        let packs_dir = data_dir.join(PACKS_DIR);
        let mut disk = open_dir(&data_dir, sharing)?;
        let of_log = |error| StartError::Log { data_dir: data_dir.clone(), error };
        wal::lock(&mut disk).map_err(of_log)?;
        refuse_newer(&data_dir)?;
        tighten(&data_dir, sharing)?;
        let of_identity = |error| StartError::Identity { data_dir: data_dir.clone(), error };
        let former = Identity::look(&mut disk).map_err(of_identity)?;
        if let Some(membership) = former.and_then(|former| former.membership)
            && bound.is_none()
        {
            return Err(StartError::NoClusterSettings { data_dir, membership });
        }
        let boots = former.map_or(0, |former| former.boots).saturating_add(1);
        let mut copy = CopyFile::new(open_dir(&data_dir, sharing)?, boots);
        let kept = users_copy::adopt(&mut copy);
        // The start is counted before anything but the copy is written, so that no two runs have the same number.
        let identity = Identity::begin(&mut disk).map_err(of_identity)?;
        tracing::info!("identity of the data directory: {}, start {}", identity.node_hex(), identity.boots);
        let (cluster, identity) = match bound {
            None => (None, identity),
            Some(bound) => {
                let has_log = wal::has_log(&mut disk);
                let has_log = has_log.map_err(|error| of_identity(IdentityError::Io { file: "", error }))?;
                let cluster = Cluster::start(bound, &settings.node_name, &identity, !has_log)
                    .map_err(|error| StartError::Cluster(format!("cannot form a cluster: {error}")))?;
                let identity = cluster.form(identity, &mut disk).map_err(of_identity)?;
                (Some(cluster), identity)
            }
        };
        let streams_dir = data_dir.join(STREAMS_DIR);
        let (disk, bells) = with_direct_writes(disk, count, storage.direct_writes);
        let disks = Disks {
            log: disk,
            packs: &mut |make| open_folder(&data_dir, PACKS_DIR, sharing, make),
            streams: &mut |make| open_folder(&data_dir, STREAMS_DIR, sharing, make),
            log_options: Options { reserve_bytes: storage.reserve_bytes, ..Options::default() },
            pack_options: PackOptions::default(),
            unclaimed: &mut |make| open_folder(&data_dir, UNCLAIMED_DIR, sharing, make),
            origin: this_start(&identity),
            in_cluster: identity.membership.map(|membership| membership.number),
            mutation: None,
            keep_damaged: &mut |restored, recovery| {
                quarantine::keep_files(&data_dir, sharing, restored, recovery)
            },
        };
        let start = Start {
            accept_lost_definitions,
            users: kept.users.as_ref(),
            rules: &settings.declare_rules,
            access: &access,
        };
        let recovered = recover(disks, Purpose::Start(start));
        let Recovered { restored, log, packs, streams, .. } =
            recovered.map_err(|error| StartError::recovering(&data_dir, error))?;
        remove_empty_unclaimed(&data_dir);
        let unclaimed = restored.unclaimed_sums();
        let copied = users_copy::renew(&mut copy, kept, restored.catalog.users());
        let reader = PackReader::new(open_dir(&packs_dir, sharing)?);
        let stream_reader = StreamReader::new(open_dir(&streams_dir, sharing)?);

        let (settings, access) = (Arc::new(settings), Arc::new(access));
        let clock = Clock::start();
        let mut machines = make_named_shards(
            restored,
            count,
            &settings,
            &access,
            storage,
            clock.now_ms(),
            Names { origin: this_start(&identity), random: random_key },
        );
        // The node shard may have garbage to free before anybody writes something.
        machines.iter_mut().take(1).for_each(|shard| shard.note_log_size(log.size()));
        let occupancy = Arc::new(Occupancy::new(count));
        machines.iter_mut().for_each(|shard| shard.follow_queues(occupancy.clone()));
        machines.iter_mut().take(1).for_each(|shard| shard.copy_users(&copied));
        let (shards, receivers): (Shards, Vec<_>) = (0..count).map(|_| mpsc::unbounded_channel()).unzip();
        let thread = |what: &str| {
            let what = format!("cannot start the thread of the {what}");
            move |error| StartError::Io { what, error }
        };
        let completions = shards.clone();
        let on_done: wal::OnDone = Box::new(move |done| {
            for completion in done.drain(..) {
                send_to(&completions, completion.shard, Incoming::Logged(completion));
            }
        });
        let log = Writer::spawn(log, on_done).map_err(thread("log"))?;
        let copied = shards.clone();
        let on_copied: wal::OnCopied =
            Box::new(move |end| send_to(&copied, u32::from(NODE_SHARD), Incoming::Copied(end)));
        let copy = copy.spawn(on_copied).map_err(thread("copy of the users"))?;
        let packed = shards.clone();
        let on_round: wal::OnPackRound = Box::new(move |round| {
            for answer in round.packed {
                send_to(&packed, answer.shard, Incoming::Packed(answer));
            }
            if let Some(pack) = round.sparse {
                packed.iter().for_each(|shard| drop(shard.send(Incoming::Sparse(pack))));
            }
        });
        let packs = packs.spawn(on_round).map_err(thread("packs"))?;
        let blocks = shards.clone();
        let on_read: wal::OnBlockRead =
            Box::new(move |read| send_to(&blocks, read.shard, Incoming::Block(read)));
        let reader = reader.spawn(on_read).map_err(thread("pack reader"))?;
        let answered = shards.clone();
        let on_answers: wal::OnStreamAnswers = Box::new(move |answers| {
            for answer in answers.drain(..) {
                send_to(&answered, answer.shard(), Incoming::Stream(answer));
            }
        });
        let streams = streams.spawn(on_answers).map_err(thread("streams"))?;
        let chunks = shards.clone();
        let on_chunks: wal::OnChunksRead =
            Box::new(move |read| send_to(&chunks, read.shard, Incoming::Chunks(read)));
        let stream_reader = stream_reader.spawn(on_chunks).map_err(thread("stream reader"))?;
        let storage = Storage { log, packs, reader, streams, stream_reader, copy };
        let logins =
            Logins::start(shards.clone(), access.clone(), backends, clock).map_err(thread("logins"))?;
        let tls_steps = TlsSteps::start().map_err(thread("TLS handshakes"))?;
        let peers = cluster.as_ref().map(Cluster::mail);
        let beside = Beside { storage: storage.clone(), logins: logins.clone(), tls_steps, peers };
        let mut punctualities = Vec::new();
        let mut threads = Vec::new();
        for (shard, receiver) in machines.drain(..).zip(receivers) {
            let (shards, beside) = (shards.clone(), beside.clone());
            let bell = bells.get(usize::from(shard.id())).cloned();
            let punctuality = Arc::new(Punctuality::start(Instant::now()));
            punctualities.push(punctuality.clone());
            let thread = std::thread::Builder::new()
                .name(format!("shard-{}", shard.id()))
                .spawn(move || runtime::run(shard, clock, receiver, shards, beside, bell, punctuality))
                .map_err(|error| StartError::Io { what: "cannot start a shard's thread".into(), error })?;
            threads.push(thread);
        }
        let handshakes = Handshakes::new(settings.handshake_max, settings.handshake_max_per_address);
        let of_cluster = cluster.as_ref().map_or(0, |cluster| cluster.descriptors(count.into()));
        let reserved_descriptors = reserved_descriptors + of_cluster;
        let admission = Arc::new(Admission::new(reserved_descriptors, handshakes, occupancy, shards.clone()));
        let notices = NoticeWay::new(shards.clone());
        let publishers = Arc::new(Publishers::new(shards.clone()));
        let (to_stop, to_count) = (publishers.clone(), admission.clone());
        let (on_alarm, alarm_settings) = (notices.clone(), settings.clone());
        let to_log = storage.log.clone();
        let on_change = move |change| match change {
            AlarmChange::Publishers { stop } => {
                // While publishers wait for space, the log keeps no files only to overwrite them.
                to_log.keep_spares(!stop);
                to_stop.set_own(stop);
            }
            AlarmChange::Alarm { source, is_set } => {
                if let Some(vhost) = alarm_settings.event_vhost() {
                    let node = &alarm_settings.node_name;
                    on_alarm.send(broker::notices::alarm(vhost, source, node, is_set, clock.now_ms()));
                }
            }
        };
        let watch =
            Watch::start(alarms, &data_dir, on_change, move || to_count.count(Instant::now())).map_err(
                |error| StartError::Io { what: "cannot start the watch over memory and disk".into(), error },
            )?;
        let nodes = cluster.as_ref().map(Cluster::seen).unwrap_or_default();
        let api = AdminApi::new(
            Ways { shards: shards.clone(), notices },
            settings,
            access,
            logins,
            Run { clock, identity, unclaimed, nodes },
            watch.measured(),
            admission.clone(),
        );
        if let Some(cluster) = &cluster {
            cluster.begin(shards.clone(), api.clone(), punctualities, watch.measured(), publishers.clone());
        }
        Ok(Self { shards, threads, storage, admission, api, watch, publishers, cluster })
    }

    /// Waits until clients may connect. A node that is alone is ready at once. A node in a cluster waits until the cluster has decided about
    /// its start. One that has the definitions already waits for `cluster_formation.wait` at most.
    pub async fn ready(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.ready().await;
        }
    }

    /// The management front end of this node.
    pub fn api(&self) -> &AdminApi {
        &self.api
    }

    /// Sets the limits at which publishers are stopped. They count from now on.
    pub fn set_alarm_limits(&self, limits: AlarmLimits) {
        self.watch.set_limits(limits);
    }

    /// Takes those of these settings that a running broker takes ([`Settings::reloaded`]). They count for what is opened from now
    /// on.
    pub fn reload_settings(&self, new: &Settings) {
        let settings = self.api.reload_settings(new);
        for shard in &self.shards {
            // A shard that has ended needs no settings.
            drop(shard.send(Incoming::Settings(settings.clone())));
        }
    }

    /// Accepts AMQP connections until the returned future is dropped.
    pub fn listen(&self, listener: tokio::net::TcpListener) -> impl Future<Output = ()> + Send + 'static {
        self.listen_with(listener, Listening::default())
    }

    /// Like [`Node::listen`], with TLS or behind proxies.
    pub fn listen_with(
        &self,
        listener: tokio::net::TcpListener,
        listening: Listening,
    ) -> impl Future<Output = ()> + Send + 'static {
        if let Ok(address) = listener.local_addr() {
            self.add_listener(if listening.tls.is_some() { "amqp/ssl" } else { "amqp" }, address);
        }
        runtime::accept_all(listener, listening, self.shards.clone(), self.admission.clone())
    }

    /// Accepts AMQP connections over the Unix domain socket of this path until the returned future is dropped. A client
    /// counts as being on this machine.
    pub fn listen_unix(
        &self,
        listener: tokio::net::UnixListener,
        path: &str,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.api.add_listener("amqp", format!("unix:{path}"), 0);
        runtime::accept_all_unix(listener, path.into(), self.shards.clone(), self.admission.clone())
    }

    /// Adds another listener to the overview.
    pub fn add_listener(&self, protocol: &'static str, address: SocketAddr) {
        self.api.add_listener(protocol, address.ip().to_string(), address.port());
    }

    /// Stops the publishers, then every connection, then the log, which is marked as cleanly closed. Call it
    /// only when no listener accepts any more.
    ///
    /// # Errors
    /// The log could not be closed cleanly. Confirmed messages are safe nevertheless.
    pub fn stop(self, why: &str) -> Result<(), StopError> {
        self.watch.stop();
        self.publishers.end();
        for shard in &self.shards {
            drop(shard.send(Incoming::Stop(why.to_owned())));
        }
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!("a shard ended early: {error}"),
                Err(_) => tracing::error!("a shard panicked"),
            }
        }
        let Storage { log, packs, reader, streams, stream_reader, copy } = self.storage;
        for (what, ended) in [
            ("packs", packs.stop()),
            ("pack reader", reader.stop()),
            ("streams", streams.stop()),
            ("stream reader", stream_reader.stop()),
            ("copy of the users", copy.stop()),
        ] {
            if let Err(error) = ended {
                tracing::error!("the thread of the {what} ended early: {error}");
            }
        }
        let stopped = log.stop();
        // Last: the other nodes count this one as alive until then.
        if let Some(cluster) = self.cluster {
            cluster.stop();
        }
        stopped.map_err(|error| StopError(error.to_string()))
    }
}

/// Sends a message to a shard. A shard that has ended ignores it.
fn send_to(shards: &Shards, shard: u32, what: Incoming) {
    if let Some(shard) = shards.get(shard as usize) {
        drop(shard.send(what));
    }
}

/// The log could not be closed cleanly.
#[derive(Debug)]
pub struct StopError(String);

impl fmt::Display for StopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log could not be closed cleanly: {}", self.0)
    }
}

impl std::error::Error for StopError {}

/// Makes the shards with the restored catalog. Each queue that has messages, or that may expire, is placed on
/// one of them.
pub fn make_shards(
    restored: Restored,
    count: ShardId,
    settings: &Arc<Settings>,
    access: &Arc<Access>,
    limits: StorageLimits,
    now_ms: u64,
) -> Vec<Shard> {
    let names = Names { origin: restored.origin(), random: random_key };
    make_named_shards(restored, count, settings, access, limits, now_ms, names)
}

fn random_key() -> Option<[u8; KEY_BYTES]> {
    random().ok()
}

fn make_named_shards(
    mut restored: Restored,
    count: ShardId,
    settings: &Arc<Settings>,
    access: &Arc<Access>,
    limits: StorageLimits,
    now_ms: u64,
    names: Names,
) -> Vec<Shard> {
    // A recovery has done this already, and written it. Without one it is done at each start.
    restored.catalog.set_rules(settings.declare_rules.clone());
    let (number, is_alone) = (restored.node(), restored.is_alone());
    let mut begun = match is_alone {
        true => restored.begin(access).expect("the node is alone"),
        // The nodes decide together what the start changes.
        false => Records::new(),
    };
    if begun.is_empty() {
        begun = restored.take_unwritten();
    }
    let (mut member, applied) = restored.take_member();
    let founded = restored.founded();
    let Restored { mut catalog, mut queues, keeps_log, .. } = restored;
    catalog.refresh_all();
    access.publish(catalog.users().clone());
    // A queue with messages needs its machine at once, and so does a queue that may expire. The others get
    // their machine with their first link.
    queues.retain(|_, queue| !queue.is_unused());
    // A quorum queue whose group has no records was never founded, else it would be closed.
    let founding = catalog.queues().filter(|queue| {
        let has_group =
            queues.get(&queue.id).is_some_and(|restored| restored.has_group() || restored.is_damaged());
        queue.is_quorum() && queue.members.has(number) && !has_group
    });
    let founding: Vec<_> = founding.map(|queue| (queue.declared, queue.id)).collect();
    let newest = catalog.queues().filter(|queue| queue.is_quorum()).map(|queue| queue.declared).max();
    for (_, queue) in &founding {
        queues.entry(*queue).or_default();
    }
    // A stream is opened at the start and checked.
    let is_here = |queue: &QueueRecord| catalog.node_with(queue, number).is_none();
    for queue in catalog.queues().filter(|queue| queue.may_expire() || queue.is_stream()) {
        if is_here(&queue) {
            queues.entry(queue.id).or_default();
        }
    }
    let mut placed: Vec<_> = queues.into_iter().collect();
    placed.sort_by_key(|(id, _)| *id);
    let mut placements = Placements::default();
    for (queue, node) in catalog.queues_elsewhere(number) {
        placements.place(queue, Where::On(node));
    }
    for (i, (queue, _)) in placed.iter().enumerate() {
        placements.place(*queue, Where::Here((i % usize::from(count)) as ShardId));
    }
    let live: Arc<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
    let budgets = NodeBudgets::new(count, settings);
    let mut shards: Vec<Shard> = (0..count)
        .map(|id| {
            let (settings, access) = (settings.clone(), access.clone());
            Shard::new(Setup {
                id,
                shards: count,
                number,
                settings,
                access,
                catalog: catalog.clone(),
                member: if id == DECIDER { member.take() } else { None },
                applied,
                placements: placements.clone(),
                live: live.clone(),
                limits,
                names,
                budgets: budgets.clone(),
            })
        })
        .collect();
    shards.iter_mut().for_each(|shard| shard.set_now(now_ms));
    shards[usize::from(DECIDER)].push_begun(begun);
    shards[usize::from(NODE_SHARD)].begin_founding(founded, newest.unwrap_or(0), &founding);
    if !is_alone {
        shards[usize::from(DECIDER)].begin_in_cluster();
    }
    if keeps_log {
        shards.iter_mut().for_each(Shard::keep_log);
    }
    for (i, (queue, facts)) in placed.into_iter().enumerate() {
        shards[i % usize::from(count)].place_queue(queue, facts);
        shards[i % usize::from(count)].check_stream(queue);
    }
    shards
}

/// Lets the log write directly, if this is wanted and the system can. Also returns the bell of each shard, which rings when a direct write
/// of the shard has ended.
fn with_direct_writes(disk: RealDisk, shards: ShardId, on: DirectWrites) -> (RealDisk, Vec<Arc<OwnedFd>>) {
    let without = "light traffic of quorum queues takes more CPU than it could";
    match on {
        DirectWrites::None => return (disk, Vec::new()),
        DirectWrites::Known if !disk.syncs_direct_writes() => {
            tracing::info!(
                "{without}: the file system of the data directory is not known to sync direct writes; see data_dir.direct_writes"
            );
            return (disk, Vec::new());
        }
        DirectWrites::Known | DirectWrites::All => {}
    }
    match aio::Writes::new(usize::from(shards)) {
        Ok(writes) => {
            let bells = writes.bells().to_vec();
            (disk.with_direct(writes), bells)
        }
        Err(error) => {
            tracing::info!("{without}: the system has no AIO for direct writes: {error}");
            (disk, Vec::new())
        }
    }
}
