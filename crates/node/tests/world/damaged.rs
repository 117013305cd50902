//! Worlds whose files are damaged between two lives.
//!
//! ```text
//!   lives ──> kill or power cut ──> fault ──> doctor looks ──> start ──> the same start on copies ──> lives ──> ...
//!                                                               │ definitions may be lost
//!                                                               ├──> the files come back from a copy ──> lives
//!                                                               └──> accepted: all is closed, or unclaimed ──> three more lives
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use catalog::access::Users;
use catalog::ids::QueueId;
use catalog::{Arguments, Command, DeclareQueue};
use node::facts::Unclaimed;
use node::recovery::{Mutation, Purpose, RecoverError, Recovered};
use wal::StreamError;
use wal_testing::{Crash, Op, SimDisk};

use super::client::Client;
use super::examination::Examination;
use super::faults::{CATALOG, Contents, Fault, Place, Suspects, make};
use super::lives::PACKS;
use super::{Of, QUEUE, Story, World, arguments, quorum, story_of};
use crate::asks::Asks;
use crate::recovered::SimDisks;

/// The error of a full disk.
const ENOSPC: i32 = 28;

/// The lives after definitions were lost.
const LIVES_AFTER_LOSS: u64 = 3;

/// Message numbers of these queues begin at a multiple of this, so that a number tells its queue. Streams have the first ones.
const NUMBERS: u64 = 1 << 32;
const FIRST_OTHER: u64 = 10;

/// The steps without a delivery after which nothing more is expected from queues that are empty or closed, and from any queue.
const QUIET_STEPS: u32 = 1000;
const QUIET_STEPS_MAX: u32 = 50_000;

/// What is known about damage.
#[derive(Default)]
pub(super) struct Damaged {
    /// The queues and streams that were declared, by name.
    queues: BTreeMap<String, QueueId>,
    /// What the last start has found.
    found: View,
    /// Queues that may have lost records, although nothing in the log says so.
    unsure: BTreeSet<u64>,
    /// The copy of the users.
    users: Option<Users>,
    /// If set, every client uses this queue.
    only: Option<usize>,
    mutation: Option<Mutation>,
    /// True if everything that is confirmed is synced, so power may be lost.
    is_synced: bool,
    /// Whether `sluice doctor` has found nothing wrong before the last start, if it was asked.
    is_sound: Option<bool>,
    pub counts: Counts,
}

/// How often something has happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Starts that were refused, because definitions may be lost.
    pub refused: u64,
    /// Queues that were closed by a start.
    pub closed: u64,
    /// Queues and streams that were closed when something of them was read.
    pub closed_late: u64,
    /// Faults in the log that cost nobody anything.
    pub harmless: u64,
    /// Owners that were unclaimed.
    pub unclaimed: u64,
    /// Starts without room for copies of unclaimed records.
    pub without_room: u64,
    /// Starts that were interrupted.
    pub interrupted: u64,
    /// Queues and streams that had everything in spite of a fault elsewhere.
    pub whole: u64,
}

/// What a recovery has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct View {
    known: BTreeSet<u64>,
    closed: BTreeSet<u64>,
    /// The unclaimed owners, and how many records each of them has.
    unclaimed: BTreeMap<u64, u64>,
    flaws: Vec<String>,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.refused += other.refused;
        self.closed += other.closed;
        self.closed_late += other.closed_late;
        self.harmless += other.harmless;
        self.unclaimed += other.unclaimed;
        self.without_room += other.without_room;
        self.interrupted += other.interrupted;
        self.whole += other.whole;
    }
}

impl View {
    fn of(recovered: &Recovered<SimDisk>) -> Self {
        let Recovered { restored, flaws, .. } = recovered;
        let closed = restored.queues.iter().filter(|(_, queue)| queue.is_damaged());
        let unclaimed = restored.unclaimed.iter().map(|(id, Unclaimed { records, .. })| (id.0, *records));
        Self {
            known: restored.catalog.queues().map(|record| record.id.0).collect(),
            closed: closed.map(|(id, _)| id.0).collect(),
            unclaimed: unclaimed.collect(),
            flaws: flaws.iter().map(|flaw| format!("{flaw:?}")).collect(),
        }
    }

    fn unclaimed_owners(&self) -> Vec<u64> {
        self.unclaimed.keys().copied().collect()
    }
}

impl World {
    /// Makes a world with classic queues, a quorum queue and streams, whose starts make this mistake. Without `fsync`, power must
    /// not be lost.
    pub(crate) fn with_damage(seed: u64, fsync: bool, mutation: Option<Mutation>) -> Self {
        let mut world = Self::without_queues(seed);
        world.damaged.mutation = mutation;
        world.damaged.is_synced = fsync;
        world.add_streams(fsync);
        world.declare(QUEUE, arguments(fsync));
        world.add_other("classic", arguments(fsync));
        world.add_other("quorum", quorum());
        let catalog = world.shards[0].catalog();
        world.damaged.users = Some((**catalog.users()).clone());
        let queues = catalog.queues().map(|record| (record.name.to_string(), record.id));
        world.damaged.queues = queues.collect();
        world
    }

    fn add_other(&mut self, name: &str, arguments: Arguments) -> bool {
        let next = (FIRST_OTHER + self.others.len() as u64) * NUMBERS;
        let story = Story { next, left: self.story.left, in_flight_max: u64::MAX, ..Story::default() };
        let answered = Arc::new(Mutex::new(None));
        let seen = answered.clone();
        let declare = DeclareQueue::new("/", name, arguments);
        self.shards[0].propose(
            Command::DeclareQueue(declare),
            Box::new(move |answer| *seen.lock().unwrap() = Some(answer.is_ok())),
        );
        let is_declared = loop {
            if let Some(is_declared) = *answered.lock().unwrap() {
                break is_declared;
            }
            self.step_broker();
        };
        if is_declared {
            self.others.push((name.to_owned(), story));
        }
        is_declared
    }

    /// Connects a client to any queue or stream.
    pub(super) fn connect_to_any(&mut self) {
        let queues = 1 + self.others.len() as u64;
        let of = match (self.damaged.only, self.random.below(queues + 2)) {
            (Some(only), _) => Of::Other(only),
            (None, 0) => Of::Queue,
            (None, other) if other < queues => Of::Other(other as usize - 1),
            (None, _) => {
                let (client, stream) = self.client_of_stream();
                self.place(client, Of::Stream(stream));
                return;
            }
        };
        let address = format!("/queues/{}", self.name_of(of));
        let client = match self.random.one_in(2) {
            true => {
                let story = story_of(&mut self.story, &mut self.others, &mut self.streams, of);
                story.publishers += 1;
                Client::publisher(story.publishers, &address, self.now_ms)
            }
            false => Client::consumer(1 + self.random.below(300) as u32, &address, self.now_ms),
        };
        let client = client.in_any_protocol(&mut self.random, self.now_ms);
        self.place(client, of);
    }

    fn name_of(&self, of: Of) -> String {
        match of {
            Of::Queue => QUEUE.to_owned(),
            Of::Other(other) => self.others[other].0.clone(),
            Of::Stream(stream) => format!("s{stream}"),
        }
    }

    /// Returns the queues and streams that clients may use.
    fn used(&self) -> Vec<Of> {
        match self.damaged.only {
            Some(only) => vec![Of::Other(only)],
            None => {
                let streams = self.streams.iter().flat_map(|streams| 0..streams.stories.len());
                let others = (0..self.others.len()).map(Of::Other);
                [Of::Queue].into_iter().chain(others).chain(streams.map(Of::Stream)).collect()
            }
        }
    }

    /// Returns true if a queue or stream is reported as damaged.
    pub(super) fn is_closed(&self, of: Of) -> bool {
        let Some(id) = self.damaged.queues.get(&self.name_of(of)) else { return false };
        let report = self.shards.iter().find_map(|shard| shard.queue_report(*id));
        report.is_some_and(|report| report.damaged)
    }

    /// Returns true if a queue is open and has messages.
    fn has_more(&self, of: Of) -> bool {
        let id = self.damaged.queues[&self.name_of(of)];
        let report = self.shards.iter().find_map(|shard| shard.queue_report(id));
        report.is_some_and(|report| !report.damaged && report.ready + report.unsettled > 0)
    }

    /// Returns the name of a queue as `sluice doctor` shows it.
    fn listed_name(&self, id: u64) -> String {
        let found = self.damaged.queues.iter().find(|(_, queue)| queue.0 == id);
        format!("'{}' in vhost '/'", found.expect("a known queue").0)
    }

    fn id_of(&self, of: Of) -> u64 {
        self.damaged.queues[&self.name_of(of)].0
    }

    pub(crate) fn damage_counts(&self) -> Counts {
        self.damaged.counts
    }

    /// Ends the life, makes a fault, and starts again. Returns false if definitions are lost and nothing is left but to end the
    /// run.
    pub(crate) fn restart_with(&mut self, place: Place, how: Crash) -> bool {
        self.kill(how);
        let saved = self.disks().crash(Crash::Process);
        let before = Contents::of(&self.disk);
        let fault = make(place, &self.disks(), &before, &mut self.random);
        let after = Contents::of(&self.disk);
        let known = after.known(&self.disk);
        let (mut told, mut untold) = (BTreeSet::new(), BTreeSet::new());
        let lost = before.without(&after);
        for (batch, owners) in &lost {
            if *batch <= known { &mut told } else { &mut untold }.extend(owners);
        }
        if untold.contains(&CATALOG) {
            // The last write before the end of the process looks like one that was interrupted.
            self.restore(saved);
            self.start_sound();
            return true;
        }
        self.damaged.unsure.extend(&untold);
        self.suspect(&fault, &lost, after.may_concern_all(&before));

        // The simulated machine has another boot than this one. So `sluice doctor` can see its files only as those of another boot.
        let examined = (how == Crash::Power).then(|| Examination::of(&self.disks()));
        self.damaged.is_sound = examined.as_ref().map(Examination::is_sound);
        let looked = self.disks().crash(Crash::Process);
        let looked = looked.recover(self.log_options(Some(1)), PACKS, Purpose::Look, self.damaged.mutation);
        let looked = looked.expect("doctor can look at everything");
        let (is_refused, seen) = (looked.lost.is_some(), View::of(&looked));
        drop(looked);
        if let Some(examined) = &examined {
            let names = seen.closed.iter().map(|id| self.listed_name(*id)).collect();
            examined.check(is_refused, names, &seen.unclaimed_owners());
        }
        if self.random.one_in(3) {
            self.interrupt(how);
        }
        if self.random.one_in(4) {
            self.unclaimed_disk.fail(&[Op::Create, Op::Write], 1000, ENOSPC);
        }
        let others = self.disks();
        let others = || [others.packs.files(), others.streams.files(), others.unclaimed.files()];
        let untouched = (Contents::of(&self.disk).batches.len(), others());
        match self.recover(false, None, self.damaged.mutation) {
            Ok(recovered) => {
                assert!(!is_refused, "doctor has seen that the start is refused");
                let view = View::of(&recovered);
                assert_eq!(seen.closed, view.closed, "doctor sees which queues are closed");
                assert_eq!(seen.unclaimed_owners(), view.unclaimed_owners(), "doctor sees what is unclaimed");
                assert_eq!((seen.known, &seen.flaws), (view.known.clone(), &view.flaws));
                let users = recovered.restored.catalog.users();
                assert_eq!(
                    self.damaged.users.as_ref(),
                    Some(&**users),
                    "users are lost without a word: {fault}"
                );
                self.check_closed(&view, &told, &fault);
                self.go_on(recovered);
                true
            }
            Err(RecoverError::Definitions(why)) => {
                assert!(is_refused, "doctor has not seen that the start is refused: {why}");
                assert!(fault.place.is_in_log(), "{why}, but {fault}");
                let now = (Contents::of(&self.disk).batches.len(), others());
                assert_eq!(untouched, now, "nothing was touched: {fault}");
                self.damaged.counts.refused += 1;
                if self.random.one_in(2) {
                    self.restore(saved);
                    self.start_sound();
                    return true;
                }
                self.accept_loss(&after);
                false
            }
            Err(error) => panic!("the start fails: {error}"),
        }
    }

    /// Notes whom a fault may concern. `any_queue` is true if the log cannot say whose records are missing.
    fn suspect(&mut self, fault: &Fault, lost: &BTreeMap<u64, BTreeSet<u64>>, any_queue: bool) {
        // If more is missing than the batch with the fault, others are concerned, too.
        let is_exact = fault.batch.is_none_or(|batch| lost.keys().all(|lost| *lost == batch));
        let owners: BTreeSet<u64> = lost.values().flatten().copied().collect();
        for of in self.used() {
            let id = self.id_of(of);
            let is_suspect = owners.contains(&id)
                || !is_exact
                || (any_queue && !of.is_stream())
                || match &fault.suspects {
                    Suspects::All => true,
                    Suspects::Queues => !of.is_stream(),
                    Suspects::Only(ids) => ids.contains(&id),
                };
            let story = story_of(&mut self.story, &mut self.others, &mut self.streams, of);
            story.is_suspect |= is_suspect;
        }
    }

    /// Checks which queues a start has closed. `told` are the owners whose records are missing, as the log says.
    fn check_closed(&mut self, view: &View, told: &BTreeSet<u64>, fault: &Fault) {
        let Damaged { found, queues, counts, .. } = &mut self.damaged;
        let still = found.closed.iter().filter(|id| view.known.contains(id));
        assert!(
            still.clone().all(|id| view.closed.contains(id)),
            "a closed queue is open: {found:?}, {view:?}"
        );
        counts.closed += view.closed.difference(&found.closed).count() as u64;
        counts.harmless += u64::from(fault.place.is_in_log() && told.is_empty());
        let lost: Vec<_> = queues.iter().filter(|(_, id)| !view.known.contains(&id.0)).collect();
        assert!(lost.is_empty(), "definitions are lost without a word: {lost:?}, {fault}");
        assert!(view.unclaimed.is_empty(), "unclaimed: {view:?}, {fault}");
        for of in self.used() {
            let id = self.id_of(of);
            let is_closed = view.closed.contains(&id);
            let is_told = told.contains(&id) && !of.is_stream();
            assert!(is_closed || !is_told, "{of:?} has lost records and is open: {fault}");
            let story = story_of(&mut self.story, &mut self.others, &mut self.streams, of);
            assert!(!is_closed || story.is_suspect, "{of:?} is closed without reason: {fault}");
        }
    }

    /// Checks that the next start finds the same, and lets the process run.
    fn go_on(&mut self, recovered: Recovered<SimDisk>) {
        let view = View::of(&recovered);
        let how = if self.random.one_in(2) { Crash::Power } else { Crash::Process };
        let again = self.disks().crash(how);
        let before = Contents::of(&again.log);
        let next = again.recover_as_start(self).expect("it starts again without being asked");
        let next = View::of(&next);
        assert_eq!((&next.known, &next.closed), (&view.known, &view.closed), "after another start");
        assert_eq!(next.unclaimed_owners(), view.unclaimed_owners(), "after another start");
        let news: Vec<_> = Contents::of(&again.log).of_queues();
        assert_eq!(news, before.of_queues(), "another start has something to say about queues");
        self.damaged.counts.without_room += u64::from(recovered.restored.keeps_log);

        let ids: HashMap<u64, usize> = (0..self.streams.as_ref().map_or(0, |streams| streams.stories.len()))
            .map(|stream| (self.id_of(Of::Stream(stream)), stream))
            .collect();
        for flaw in &recovered.flaws {
            let Some(stream) = flaw.stream.and_then(|id| ids.get(&id)) else { continue };
            let Some(streams) = &mut self.streams else { continue };
            let story = &mut streams.stories[*stream];
            assert!(!flaw.closes || story.is_suspect || story.lost_power, "{flaw:?}");
            // This gap is named.
            if let (false, StreamError::Missing { from, to, .. }) = (flaw.closes, &flaw.error) {
                let Story { promised, confirmed, places, .. } = story;
                promised.retain(|offset| !(*from..*to).contains(offset));
                confirmed.retain(|number| !(*from..*to).contains(&places[number]));
            }
        }
        self.damaged.found = view;
        // A stream is closed again when its damage is found again.
        let stories = self.streams.iter_mut().flat_map(|streams| &mut streams.stories);
        stories.for_each(|story| story.is_damaged &= !story.is_suspect);
        self.run(recovered);
    }

    fn start_sound(&mut self) {
        self.damaged.is_sound = None;
        let recovered = self.recover(false, None, self.damaged.mutation);
        let recovered = recovered.expect("nothing new is damaged");
        let fault =
            Fault { place: Place::Nothing, suspects: Suspects::All, what: String::new(), batch: None };
        self.check_closed(&View::of(&recovered), &BTreeSet::new(), &fault);
        self.go_on(recovered);
    }

    /// Puts disks in place of those that there are.
    fn restore(&mut self, disks: SimDisks) {
        let SimDisks { log, packs, streams, unclaimed } = disks;
        (self.disk, self.packs_disk, self.unclaimed_disk) = (log, packs, unclaimed);
        if let Some(of_streams) = &mut self.streams {
            of_streams.put_disk(streams);
        }
    }

    /// Ends a start in the middle.
    fn interrupt(&mut self, how: Crash) {
        let disks = self.disks();
        let disk = match self.random.below(4) {
            0 => &disks.unclaimed,
            1 => &disks.packs,
            _ => &disks.log,
        };
        disk.die_at(self.random.below(12));
        drop(self.recover(false, None, self.damaged.mutation));
        self.damaged.counts.interrupted += u64::from(disk.is_dead());
        self.kill(how);
    }

    /// Starts although definitions may be lost. Some lives later, everything is still there or still closed.
    fn accept_loss(&mut self, log: &Contents) {
        let users = self.damaged.users.clone();
        if !self.random.one_in(3) {
            self.unclaimed_disk.fail(&[Op::Create, Op::Write], 1000, ENOSPC);
        }
        let recovered = self.recover(true, users.as_ref(), self.damaged.mutation);
        let recovered = recovered.expect("the loss is accepted");
        let view = View::of(&recovered);
        let open = recovered.restored.catalog.queues().filter(|record| record.outlives_restart());
        let open: Vec<_> =
            open.filter(|record| !record.is_stream() && !view.closed.contains(&record.id.0)).collect();
        assert!(open.is_empty(), "open although definitions are lost: {open:?}");
        let segments = self.disks().streams.files();
        for (name, id) in &self.damaged.queues {
            let has_segments = segments.keys().any(|file| file.starts_with(&format!("{:016x}-", id.0)));
            let is_somewhere = log.has_records_of(id.0) || has_segments;
            let is_kept = view.known.contains(&id.0) || view.unclaimed.contains_key(&id.0);
            assert!(is_kept || !is_somewhere, "the data of {name} is neither known nor unclaimed");
        }
        self.damaged.counts.unclaimed += view.unclaimed.len() as u64;
        self.go_on(recovered);
        for life in 0..LIVES_AFTER_LOSS {
            // If the virtual host is lost, there can be no new queue.
            let name = format!("new{life}");
            if self.add_other(&name, Arguments::new()) {
                let id = self.shards[0].catalog().listed_queue("/", &name).expect("it is declared").id;
                assert!(!view.known.contains(&id.0) && !view.unclaimed.contains_key(&id.0), "{id:?} is used");
                self.damaged.queues.insert(name, id);
                self.damaged.only = Some(self.others.len() - 1);
                let forgotten = self.forgotten;
                for _ in 0..3000 {
                    self.step(false);
                    if self.forgotten > forgotten + 2 {
                        break;
                    }
                }
                self.drain_and_check_damaged();
            }
            let loses_power = self.damaged.is_synced && self.random.one_in(2);
            self.kill(if loses_power { Crash::Power } else { Crash::Process });
            let recovered = self.recover(false, None, self.damaged.mutation);
            let recovered = recovered.expect("the loss was accepted before");
            let (next, found) = (View::of(&recovered), &self.damaged.found);
            let closed = found.closed.iter().all(|id| next.closed.contains(id));
            assert!(closed, "closed was {:?}, now {:?}", found.closed, next.closed);
            let kept =
                found.unclaimed.iter().all(|(id, had)| next.unclaimed.get(id).is_some_and(|has| has >= had));
            assert!(kept, "unclaimed was {:?}, now {:?}", found.unclaimed, next.unclaimed);
            assert!(found.known.is_subset(&next.known), "known was {:?}, now {:?}", found.known, next.known);
            self.go_on(recovered);
        }
    }

    /// Ends all trouble, and receives what is in the queues and streams. Each is closed, or has everything that was confirmed.
    pub(crate) fn drain_and_check_damaged(&mut self) {
        self.disk.heal();
        self.packs_disk.heal();
        if self.damaged.only.is_none() {
            self.read_and_check();
        }
        self.leave();
        let queues: Vec<Of> = self.used().into_iter().filter(|of| !of.is_stream()).collect();
        for of in &queues {
            let client = Client::consumer(100, &format!("/queues/{}", self.name_of(*of)), self.now_ms);
            let mut client = client.in_any_protocol(&mut self.random, self.now_ms);
            client.fickle = false;
            self.place(client, *of);
        }
        let (mut quiet, mut seen) = (0, 0);
        while quiet < QUIET_STEPS || quiet < QUIET_STEPS_MAX && queues.iter().any(|of| self.has_more(*of)) {
            self.step_broker();
            for placed in &mut self.clients {
                let story = story_of(&mut self.story, &mut self.others, &mut self.streams, placed.of);
                placed.client.act(story, &mut self.random);
            }
            self.exchange_bytes();
            let now = self.clients.iter().map(|placed| placed.client.got.len()).sum();
            quiet = if now == seen { quiet + 1 } else { 0 };
            seen = now;
        }
        self.check_totals();
        for of in self.used() {
            let id = self.id_of(of);
            let is_closed = self.is_closed(of);
            let was_closed = self.damaged.found.closed.contains(&id) && !of.is_stream();
            let story = story_of(&mut self.story, &mut self.others, &mut self.streams, of);
            let counts = &mut self.damaged.counts;
            if of.is_stream() {
                assert!(
                    is_closed || !story.is_damaged,
                    "{of:?}: readers have seen damage that is not reported"
                );
                assert!(
                    !is_closed || self.damaged.is_sound != Some(true),
                    "{of:?}: doctor has seen no damage"
                );
                counts.closed_late += u64::from(is_closed);
                continue;
            }
            let placed = self.clients.iter().find(|placed| placed.of == of).expect("it has a consumer");
            let got = &placed.client.got;
            assert!(is_closed || !was_closed, "{of:?} was closed by the start, and is open");
            if is_closed {
                assert!(story.is_suspect, "{of:?} is closed without reason");
                assert!(!was_closed || got.is_empty(), "{of:?} is closed, and delivers");
                assert!(self.damaged.is_sound != Some(true), "{of:?}: doctor has seen no damage");
                counts.closed_late += u64::from(!was_closed);
                continue;
            }
            let lost: Vec<_> = story.confirmed.difference(&story.received).collect();
            let is_sure = !self.damaged.unsure.contains(&id);
            assert!(
                lost.is_empty() || !is_sure,
                "{of:?}: {} of {} are lost: {:?}",
                lost.len(),
                story.confirmed.len(),
                &lost[..lost.len().min(20)]
            );
            counts.whole += 1;
            let mut last: BTreeMap<u32, u64> = BTreeMap::new();
            for number in got {
                let publisher = story.sent[number];
                let before = last.insert(publisher, *number);
                assert!(
                    before.is_none_or(|before| before < *number),
                    "{of:?}, publisher {publisher}: {number} after {before:?}"
                );
            }
        }
    }
}

impl SimDisks {
    /// Recovers as a start of this world does.
    fn recover_as_start(&self, world: &mut World) -> Result<Recovered<SimDisk>, RecoverError> {
        let start = node::recovery::Start {
            accept_lost_definitions: false,
            users: None,
            rules: &world.settings.declare_rules,
            access: &world.access,
        };
        let seed = Some(world.random.next());
        self.recover(world.log_options(seed), PACKS, Purpose::Start(start), world.damaged.mutation)
    }
}
