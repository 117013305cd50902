//! Nothing acknowledged is lost, nothing is invented, and the order is kept. Random handovers go to a disk
//! that returns errors and crashes. Syncs begin and end at any time, while the oldest files are evacuated
//! (their live records are copied) and forgotten. A failing run prints its plan, which is enough to repeat
//! it.
//!
//! `SLUICE_SOAK=n` multiplies the runs by n, `SLUICE_SEED=m` begins with seed m.

use std::collections::BTreeMap;

use crate::soak::{named, pick, seeds};
use wal::{
    Completion, FillJob, Handover, LARGE, Log, Mutation, OpenError, Options, Record, Records, Size, Step,
    SyncEnd, SyncJob,
};
use wal_testing::{ALL_CHANGES, CHANGES, Crash, Op, Random, SimDisk};

/// Everything that decides a run. A "life" is the time from one open to the next crash.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    lives: u32,
    /// The first life ends at this change.
    die_at: Option<u64>,
    /// This change of the first life fails.
    fail_at: Option<(u64, i32)>,
    /// Faults occur at random in all lives.
    faults: bool,
    /// The crash that ends the first life; others are random.
    crash: Option<Crash>,
    /// Shards try to write by themselves.
    at_once: bool,
    /// The log may write directly. Then most handovers wait for nothing but a sync.
    direct: bool,
    mutation: Option<Mutation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum State {
    /// The record was handed over. It is unanswered, or was answered with an error.
    Open,
    Written,
    Synced,
    /// The record was forgotten, or a recovery did not find it. It must not reappear.
    Gone,
}

struct Item {
    body: Vec<u8>,
    /// The times at which the record was handed over, as numbers in the order of all records handed over.
    attempts: Vec<u64>,
    state: State,
    /// The number of written handovers at the time when this record was written.
    written: u64,
    /// The number of the file that holds the last acknowledged copy of the record.
    file: u64,
    /// The number of times that the record was handed over again to evacuate its file.
    evacuations: usize,
    /// True if the record is no longer needed. It may be found or not.
    released: bool,
}

impl Item {
    fn is_held_by(&self, file: u64) -> bool {
        matches!(self.state, State::Written | State::Synced) && !self.released && self.file <= file
    }
}

type Id = (u64, u64);

#[derive(Default)]
struct Model {
    items: BTreeMap<Id, Item>,
    attempts: u64,
    /// Unanswered handovers, by ticket: the shard, the records, and whether it waits for a sync.
    open: BTreeMap<u64, (u32, Vec<Id>, bool)>,
    /// The number of handovers written so far.
    written: u64,
    /// The tickets of written handovers that wait for a sync, by `written`.
    unsynced: BTreeMap<u64, u64>,
    /// The log may write directly. Then it may write the handovers of a shard later than those of another.
    direct: bool,
    next_ticket: u64,
    next_seq: u64,
}

impl Model {
    /// Hands over new records of any shard that has no unanswered handover.
    fn hand_over(&mut self, random: &mut Random) -> Option<Handover> {
        let shard = random.below(3);
        if self.open.values().any(|(open, ..)| u64::from(*open) == shard) && self.direct {
            return None;
        }
        let mut records = Records::new();
        let mut ids = Vec::new();
        for _ in 0..random.below(4) {
            let id = (shard * 10 + random.below(2), self.next_seq);
            self.next_seq += 1;
            let length =
                if random.one_in(12) { LARGE as u64 + random.below(3000) } else { random.below(300) };
            let body: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            let head = body.len() / 3;
            if random.one_in(2) {
                records.push(id.0, id.1, shard as u8, &[&body[..head], &body[head..]]);
            } else {
                let (head, tail) = body.split_at(head);
                let put = |out: &mut Vec<u8>| out.extend_from_slice(head);
                records.push_shared(id.0, id.1, shard as u8, put, &tail.to_vec().into());
            }
            let item = Item {
                body,
                attempts: Vec::new(),
                state: State::Open,
                written: 0,
                file: 0,
                evacuations: 0,
                released: random.one_in(3),
            };
            self.items.insert(id, item);
            ids.push(id);
        }
        Some(self.send(shard as u32, ids, records, random))
    }

    fn send(&mut self, shard: u32, ids: Vec<Id>, records: Records, random: &mut Random) -> Handover {
        let sync = match (self.direct, shard) {
            // The log may write directly also what nobody waits for.
            (true, 9) => random.one_in(2),
            (true, _) => !random.one_in(6),
            (false, _) => random.one_in(3),
        };
        let urgent = !self.direct || shard == 9 || random.one_in(8);
        for id in &ids {
            self.items.get_mut(id).unwrap().attempts.push(self.attempts);
            self.attempts += 1;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.open.insert(ticket, (shard, ids, sync));
        Handover { shard, ticket, records, sync, urgent }
    }

    /// Hands over again the records of files up to and including `file` that are still needed. Returns `None`
    /// if there are none.
    fn evacuate(&mut self, random: &mut Random, file: u64) -> Option<Handover> {
        let mut records = Records::new();
        let mut ids = Vec::new();
        for (&id, item) in self.items.iter_mut().filter(|(_, item)| item.is_held_by(file)) {
            item.released = random.one_in(2);
            if !item.released {
                item.evacuations += 1;
                records.push(id.0, id.1, (id.0 / 10) as u8, &[&item.body]);
                ids.push(id);
            }
        }
        // The copies need not be synced before their file is forgotten, because the log takes care of that.
        (!ids.is_empty()).then(|| self.send(9, ids, records, random))
    }

    fn forgotten(&mut self, file: u64) {
        self.items
            .values_mut()
            .filter(|item| item.released && item.state != State::Open)
            .filter(|item| item.file <= file && item.evacuations == 0)
            .for_each(|item| item.state = State::Gone);
    }

    /// Handles a completion. Returns what must be handed over again.
    fn completed(&mut self, completion: Completion) -> Option<(u32, Vec<Id>, Records)> {
        if completion.step == Step::Synced {
            assert_eq!(completion.file, 0);
            let (through, ticket) = self.unsynced.pop_first().expect("answered once");
            assert_eq!(ticket, completion.ticket, "in order");
            match completion.result {
                Ok(()) => self.synced_through(through),
                Err(error) => assert!(error.records.is_empty(), "the records are written"),
            }
            return None;
        }
        let (_, ids, sync) = self.open.remove(&completion.ticket).expect("answered once");
        match completion.result {
            Ok(()) => {
                assert_eq!(completion.file == 0, ids.is_empty());
                assert!(completion.size.bytes > 0 || ids.is_empty());
                self.written += 1;
                for id in ids {
                    let item = self.items.get_mut(&id).unwrap();
                    item.file = completion.file;
                    if item.state == State::Open {
                        (item.state, item.written) = (State::Written, self.written);
                    }
                }
                if sync {
                    self.unsynced.insert(self.written, completion.ticket);
                }
                None
            }
            Err(error) => {
                assert_eq!(error.records.len(), ids.len());
                assert_eq!((completion.file, completion.size), (0, Size::default()));
                Some((completion.shard, ids, error.records))
            }
        }
    }

    fn everything_is_synced(&mut self) {
        self.synced_through(self.written);
    }

    fn synced_through(&mut self, written: u64) {
        self.items
            .values_mut()
            .filter(|item| item.state == State::Written && item.written <= written)
            .for_each(|i| i.state = State::Synced);
    }

    fn recovered(&mut self, found: &[Record], crash: Crash) {
        let promised = if crash == Crash::Process { State::Written } else { State::Synced };
        let mut last = BTreeMap::new();
        let mut file = 0;
        let mut seen: BTreeMap<Id, usize> = BTreeMap::new();
        for record in found {
            let id = (record.owner, record.seq);
            let item = self.items.get_mut(&id).unwrap_or_else(|| panic!("{id:?} was invented"));
            assert_eq!(u64::from(record.kind), record.owner / 10, "{id:?}: kind");
            assert!(record.body == item.body, "{id:?}: other bytes");
            assert_ne!(item.state, State::Gone, "{id:?} came back");
            let times = seen.entry(id).or_default();
            *times += 1;
            assert!(*times <= 1 + item.evacuations, "{id:?} {times} times");
            assert!(record.file >= file, "{id:?}: files do not get older");
            (file, item.file) = (record.file, record.file);
            let last = last.entry(if self.direct { id.0 / 10 } else { 0 }).or_default();
            let attempt = item.attempts.iter().map(|attempt| attempt + 1).find(|attempt| *last < *attempt);
            *last = attempt.unwrap_or_else(|| {
                panic!(
                    "{id:?} out of order: {:?} after {last}; {:?}",
                    item.attempts,
                    found.iter().map(|r| (r.owner, r.seq)).collect::<Vec<_>>()
                )
            });
        }
        for (id, item) in &mut self.items {
            if seen.contains_key(id) {
                item.state = State::Synced;
            } else if item.state != State::Gone {
                assert!(
                    item.released || item.state < promised,
                    "{id:?} was {:?} and is lost after {crash:?}",
                    item.state
                );
                item.state = State::Gone;
            }
        }
        self.open.clear();
        self.unsynced.clear();
    }
}

/// The state of a sync in flight.
enum UnderWay {
    Begun(SyncJob),
    Ended(SyncEnd),
}

/// Does a run. Returns the number of changes that the first life made to the disk.
fn run(plan: Plan) -> u64 {
    let mut random = Random(plan.seed);
    let mut options = Options {
        file_bytes: 500 + random.below(8000),
        dirty_files_max: random.below(4) as usize,
        seed: Some(random.next()),
        reserve_bytes: plan.seed % 2 * 1000,
        spare_files_max: (plan.seed % 4) as usize,
        mutation: plan.mutation,
        ..Options::default()
    };
    let mut disk = SimDisk::new(random.next());
    let mut model = Model { direct: plan.direct, ..Model::default() };
    if plan.direct {
        options.file_bytes = 10_000 + random.below(60_000);
        (options.direct_after, options.spare_files_max) =
            (random.below(5) as u32, 1 + random.below(3) as usize);
        disk.allow_direct();
    }
    let mut crash = Crash::Process;
    let mut changes = 0;
    for life in 0..plan.lives {
        if life == 0 {
            plan.die_at.inspect(|&n| disk.die_at(n));
            plan.fail_at.inspect(|&(n, errno)| disk.fail_nth(n, errno));
        } else if random.one_in(2) && life + 1 < plan.lives {
            disk.die_at(random.below(40));
        }
        let ended = live(&disk, &options, &mut model, &mut random, plan, crash);
        if life == 0 {
            changes = disk.changes();
        }
        let how =
            plan.crash.filter(|_| life == 0).unwrap_or(*pick(&mut random, &[Crash::Process, Crash::Power]));
        // If the log was not even opened, nothing new was acknowledged, and the last power loss still counts.
        crash = if !ended && crash == Crash::Power { crash } else { how };
        disk = disk.crash(how);
    }
    changes
}

/// Runs one life. Returns false if it ended before the log was open.
fn live(
    disk: &SimDisk,
    options: &Options,
    model: &mut Model,
    random: &mut Random,
    Plan { faults, at_once, direct, .. }: Plan,
    crash: Crash,
) -> bool {
    let mut found = Vec::new();
    let options = Options { seed: options.seed.map(|seed| seed ^ random.next()), ..options.clone() };
    let (mut log, recovery) = match Log::open(disk.clone(), options, &mut |record| found.push(record)) {
        Ok(opened) => opened,
        Err(OpenError::Io { .. }) => return false,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(recovery.damage, []);
    assert_eq!(recovery.records, found.len() as u64);
    model.recovered(&found, crash);
    if !faults && !disk.is_dead() {
        let mut files = disk.files();
        files.retain(|name, _| name != "reserve" && !wal::is_cut(name));
        let bytes = files.values().map(|bytes| bytes.len() as u64).sum();
        assert_eq!((recovery.size.bytes, recovery.size.files), (bytes, files.len() as u32));
    }
    let short = log.size().on_reserve;
    assert_eq!(Size { on_reserve: short, ..recovery.size }, log.size());
    let mut again = Vec::new();
    let mut done = Vec::new();
    let mut sync: Option<UnderWay> = None;
    let mut fill = None;
    let mut going = 0;
    for _ in 0..random.below(40) {
        if faults && random.one_in(4) {
            let errno = *pick(random, &[libc::EIO, libc::ENOSPC]);
            let changes: &[Op] = if direct { &ALL_CHANGES } else { &CHANGES };
            let ops = if random.one_in(3) { vec![*pick(random, changes)] } else { changes.to_vec() };
            disk.fail(&ops, *pick(random, &[0, 30, 300, 1000]), errno);
            disk.shorten(*pick(random, &[0, 100, 900]));
        }
        let count = if direct { u64::from(again.is_empty()) * random.below(4) } else { 1 + random.below(4) };
        let mut handovers: Vec<Handover> = (0..count).filter_map(|_| model.hand_over(random)).collect();
        for (shard, ids, records) in std::mem::take(&mut again) {
            // A shard hands over nothing newer meanwhile, so that nothing overtakes these.
            if direct && !model.open.is_empty() {
                again.push((shard, ids, records));
            } else if random.one_in(2) {
                handovers.push(model.send(shard, ids, records, random));
            }
        }
        let oldest = log.size().oldest.filter(|_| random.one_in(3)).map(|oldest| oldest + random.below(2));
        // A shard copies its records when it has handed over nothing else.
        let oldest = oldest.filter(|_| !direct || model.open.is_empty());
        handovers.extend(oldest.and_then(|oldest| model.evacuate(random, oldest)));
        let tickets: Vec<u64> = handovers.iter().map(|handover| handover.ticket).collect();
        while at_once && !handovers.is_empty() {
            match write_at_once(&mut log, disk, handovers.remove(0)) {
                Ok(completion) => done.extend(completion),
                Err(handover) => {
                    handovers.insert(0, handover);
                    break;
                }
            }
        }
        log.append(&mut handovers, &mut done);
        let written = done.iter().filter(|completion| completion.step == Step::Written);
        let written: Vec<u64> = written.map(|completion| completion.ticket).collect();
        assert!(tickets == written || direct, "{tickets:?}, not {written:?}");
        again.extend(done.drain(..).filter_map(|completion| model.completed(completion)));
        // A sync begins, runs and is answered, each before or after the next writes.
        if random.one_in(2) {
            sync = match sync {
                None => log.begin_sync(&mut done).map(UnderWay::Begun),
                Some(UnderWay::Begun(job)) => Some(UnderWay::Ended(job.run())),
                Some(UnderWay::Ended(end)) => {
                    log.end_sync(end, &mut done);
                    None
                }
            };
        }
        if direct && random.one_in(2) {
            step_direct(&mut log, &mut fill, random, &mut done);
        }
        assert_eq!(log.is_syncing(), sync.is_some() || log.is_writing_directly());
        again.extend(done.drain(..).filter_map(|completion| model.completed(completion)));
        if let Some(oldest) = oldest.filter(|&oldest| !model.items.values().any(|i| i.is_held_by(oldest))) {
            let changes = disk.changes();
            log.forget(oldest);
            assert_eq!(disk.changes(), changes, "the next sync does it");
            // The oldest file may still be the current one, which cannot be forgotten.
            if log.size().oldest == Some(oldest) {
                going = oldest;
            }
        }
        if log.size().oldest.is_none_or(|left| left > going) {
            model.forgotten(std::mem::take(&mut going));
        }
        if disk.is_dead() {
            return true;
        }
    }
    if random.one_in(2) {
        disk.heal();
    }
    match sync {
        Some(_) if random.one_in(4) => return true,
        None if log.is_writing_directly() && random.one_in(4) => return true,
        Some(UnderWay::Begun(job)) => log.end_sync(job.run(), &mut done),
        Some(UnderWay::Ended(end)) => log.end_sync(end, &mut done),
        None => {}
    }
    log.sync(&mut done);
    done.drain(..).for_each(|completion| _ = model.completed(completion));
    assert!(model.open.is_empty(), "every handover is answered");
    assert!(model.unsynced.is_empty(), "every handover that waits for a sync is answered");
    if random.one_in(2) && log.close().is_ok() {
        model.everything_is_synced();
    }
    true
}

/// Lets a direct write end, what was kept be written, and a spare be filled.
fn step_direct(
    log: &mut Log<SimDisk>,
    fill: &mut Option<FillJob>,
    random: &mut Random,
    done: &mut Vec<Completion>,
) {
    if let Some(end) = log.ended_direct(false) {
        log.end_sync(end, done);
    }
    let mut kept = if random.one_in(10) { log.take_kept() } else { log.write_kept(done) };
    log.append(&mut kept, done);
    match fill.take() {
        Some(job) => log.end_fill(job.run()),
        None => *fill = log.begin_fill(),
    }
}

/// Lets a shard write. Checks that this neither syncs nor creates a file.
fn write_at_once(
    log: &mut Log<SimDisk>,
    disk: &SimDisk,
    handover: Handover,
) -> Result<Option<Completion>, Handover> {
    let count = || [Op::Sync, Op::SyncDir, Op::Create, Op::Reserve].map(|op| disk.count(op));
    let (before, size) = (count(), log.size());
    let written = log.append_at_once(handover);
    assert_eq!(count(), before);
    if let Ok(Some(completion)) = &written {
        assert!(completion.result.is_ok() && completion.step == Step::Written);
        assert_eq!((completion.size, completion.size.files), (log.size(), size.files));
    }
    written
}

const QUIET: Plan = Plan {
    seed: 0,
    lives: 3,
    die_at: None,
    fail_at: None,
    faults: false,
    crash: None,
    at_once: false,
    direct: false,
    mutation: None,
};

#[test]
fn nothing_acknowledged_is_lost_at_random() {
    for seed in seeds(6000) {
        let (lives, faults, at_once) = (2 + (seed % 5) as u32, seed % 3 != 0, seed % 2 == 0);
        named(Plan { seed, lives, faults, at_once, ..QUIET }, run);
    }
}

#[test]
fn nothing_acknowledged_is_lost_at_random_with_direct_writes() {
    for seed in seeds(6000) {
        let (lives, faults, at_once) = (2 + (seed % 5) as u32, seed % 3 != 0, seed % 2 == 0);
        named(Plan { seed, lives, faults, at_once, direct: true, ..QUIET }, run);
    }
}

#[test]
fn a_cut_of_a_failed_open_stays_cut() {
    // In this case an open cuts a tail but fails to sync the cut, and the process ends. The next open finds
    // nothing to cut. Then the power fails.
    named(Plan { seed: 17_228, lives: 5, faults: true, ..QUIET }, run);
}

#[test]
fn the_mistakes_that_direct_writes_invite_are_found() {
    for mutation in [Mutation::EndForLater, Mutation::ForgetTail, Mutation::WriteOverUnsynced] {
        let found = (0..200).find(|&seed| {
            let plan =
                Plan { seed, lives: 4, at_once: true, direct: true, mutation: Some(mutation), ..QUIET };
            std::panic::catch_unwind(|| run(plan)).is_err()
        });
        assert!(found.is_some(), "{mutation:?} is not found");
    }
}

#[test]
fn nothing_acknowledged_is_lost_at_any_boundary() {
    at_any_boundary(8, false);
}

#[test]
fn nothing_acknowledged_is_lost_at_any_boundary_of_direct_writes() {
    at_any_boundary(30, true);
}

fn at_any_boundary(runs: u64, direct: bool) {
    for seed in seeds(runs) {
        let plan = Plan { seed, at_once: seed % 2 == 0, direct, ..QUIET };
        for n in 0..named(plan, run) {
            for crash in [Crash::Process, Crash::Power] {
                named(Plan { die_at: Some(n), crash: Some(crash), ..plan }, run);
                for errno in [libc::EIO, libc::ENOSPC] {
                    named(Plan { fail_at: Some((n, errno)), crash: Some(crash), ..plan }, run);
                }
            }
        }
    }
}
