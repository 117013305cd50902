//! Damage anywhere: random work, a kill or a power loss, one fault in the files, and another open. What was
//! synced is there or reported as damaged; after a kill the same is true of what was written. Nothing is
//! returned changed or twice, and no number is used again.
//!
//! `SLUICE_SOAK=n` multiplies the runs by n, `SLUICE_SEED=m` begins with seed m.

use std::collections::BTreeMap;

use crate::chunks::{Owner, chunk, read_all};
use crate::soak::{named, pick, seeds};
use wal::{
    Handover, Log, Options, Owners, Record, Records, Recovery, Step, StreamError, StreamLimits, StreamReader,
};
use wal_testing::{Crash, Random, SimDisk};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Flip,
    Truncate,
    Lose,
    Older,
    Swap,
    /// Flips a bit of the notes.
    Note,
    Nothing,
}

const FAULTS: [Fault; 7] =
    [Fault::Flip, Fault::Truncate, Fault::Lose, Fault::Older, Fault::Swap, Fault::Note, Fault::Nothing];

#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    crash: Crash,
    fault: Fault,
    /// True if the last notes reached the disk before the power loss. Without them nobody knows of the last
    /// sync.
    noted: bool,
}

impl Plan {
    /// Returns the disk after the crash.
    fn crash(&self, disk: &SimDisk) -> SimDisk {
        let after = disk.crash(self.crash);
        if self.noted {
            after.put_note(&disk.note());
        }
        after
    }

    /// Returns true if everything that was synced must be there or be reported as damaged.
    fn promises_synced(&self) -> bool {
        self.crash == Crash::Process
            || self.noted && self.fault != Fault::Note
            || self.fault == Fault::Nothing
    }
}

fn plan(seed: u64) -> Plan {
    let mut random = Random(seed);
    let crash = *pick(&mut random, &[Crash::Process, Crash::Power]);
    Plan { seed, crash, fault: *pick(&mut random, &FAULTS), noted: random.one_in(2) }
}

type Files = BTreeMap<String, Vec<u8>>;

/// Damages one of the files.
fn damage(disk: &SimDisk, older: &Files, fault: Fault, random: &mut Random) {
    let files = disk.files();
    let mut names: Vec<&String> = files.keys().filter(|name| !files[*name].is_empty()).collect();
    if fault == Fault::Older {
        names.retain(|name| older.contains_key(*name));
    }
    if fault == Fault::Note {
        let mut note = disk.note();
        let at = random.below(note.len() as u64) as usize;
        if let Some(byte) = note.get_mut(at) {
            *byte ^= 1 << random.below(8);
        }
        return disk.put_note(&note);
    }
    if names.is_empty() {
        return;
    }
    let name = *pick(random, &names);
    let mut bytes = files[name].clone();
    let at = random.below(bytes.len() as u64) as usize;
    match fault {
        Fault::Flip => {
            bytes[at] ^= 1 << random.below(8);
            disk.put(name, &bytes);
        }
        Fault::Truncate => disk.put(name, &bytes[..at]),
        Fault::Lose => disk.lose(name),
        Fault::Older => disk.put(name, &older[name]),
        Fault::Swap => {
            let other = *pick(random, &names);
            disk.put(name, &files[other]);
            disk.put(other, &bytes);
        }
        Fault::Note | Fault::Nothing => {}
    }
}

// ---- the log ------------------------------------------------------------------------------------------------

/// A record, and whether it was confirmed as synced.
struct Item {
    owner: u64,
    body: Vec<u8>,
    synced: bool,
}

fn options(seed: u64) -> Options {
    Options { file_bytes: 1500, seed: Some(seed), spare_files_max: (seed % 3) as usize, ..Options::default() }
}

fn open(disk: &SimDisk, seed: u64) -> (Log<SimDisk>, Recovery, Vec<Record>) {
    let mut found = Vec::new();
    let (log, recovery) = Log::open(disk.clone(), options(seed), &mut |record| found.push(record)).unwrap();
    (log, recovery, found)
}

fn run_log(plan: Plan) {
    let mut random = Random(plan.seed ^ 0x10c);
    let disk = SimDisk::new(random.next());
    let (mut log, ..) = open(&disk, random.next());
    let (mut items, mut older) = (Vec::<Item>::new(), Files::new());
    let rounds = 2 + random.below(40);
    for round in 0..rounds {
        if round == rounds / 2 {
            older = disk.files();
        }
        let mut records = Records::new();
        for _ in 0..1 + random.below(3) {
            let (owner, seq) = (random.below(4), items.len() as u64);
            let body: Vec<u8> = (0..random.below(200)).map(|_| random.next() as u8).collect();
            records.push(owner, seq, 1, &[&body]);
            items.push(Item { owner, body, synced: false });
        }
        let sync = random.one_in(3);
        let mut done = Vec::new();
        log.append(&mut vec![Handover { shard: 0, ticket: round, records, sync, urgent: true }], &mut done);
        log.sync(&mut done);
        if done.iter().any(|completion| completion.step == Step::Synced) {
            items.iter_mut().for_each(|item| item.synced = true);
        }
    }
    // The log becomes idle before the crash.
    log.note();
    let last_batch = log.spans().values().map(|span| span.last_batch).max().unwrap();
    drop(log);
    let disk = plan.crash(&disk);
    damage(&disk, &older, plan.fault, &mut random);

    let (mut log, recovery, found) = open(&disk, random.next());
    let mut last = None;
    for record in &found {
        let item = &items[record.seq as usize];
        assert!(record.owner == item.owner && record.body == item.body, "{} has changed", record.seq);
        assert!(last < Some(record.seq), "{} follows {last:?}", record.seq);
        last = Some(record.seq);
    }
    for (seq, item) in items.iter().enumerate() {
        // Power loss may remove every record that was written but not synced.
        let promised = item.synced && plan.promises_synced() || plan.crash == Crash::Process;
        let is_told = recovery.damage.iter().any(|damage| match &damage.owners {
            Owners::All => true,
            Owners::Only(owners) => owners.contains(&item.owner),
        });
        let is_there = found.iter().any(|record| record.seq == seq as u64);
        assert!(is_there || is_told || !promised, "{seq} is lost without a report: {recovery:?}");
    }
    let intact = matches!(plan.fault, Fault::Nothing | Fault::Note) && plan.crash == Crash::Process;
    assert!(!intact || recovery.damage.is_empty() && found.len() == items.len(), "{recovery:?}");
    // The log continues after the damage, with unused numbers.
    let mut records = Records::new();
    records.push(9, items.len() as u64, 1, &[b"more"]);
    let mut done = Vec::new();
    log.append(&mut vec![Handover { shard: 0, ticket: 0, records, sync: true, urgent: true }], &mut done);
    log.sync(&mut done);
    let newest = log.spans().values().map(|span| span.last_batch).max().unwrap();
    assert!(newest > last_batch || plan.crash == Crash::Power || plan.fault == Fault::Note);
    drop(log);
    let (_, _, again) = open(&disk, random.next());
    assert_eq!(again.len(), found.len() + 1, "it was added, and nothing else has changed");
}

#[test]
fn the_log_tells_of_damage_anywhere_at_random() {
    for seed in seeds(4000) {
        named(plan(seed), run_log);
    }
}

// ---- streams ------------------------------------------------------------------------------------------------

const LIMITS: StreamLimits = StreamLimits { segment_bytes: 600, bytes_max: None, age_max_ms: None };

fn run_stream(plan: Plan) {
    let mut random = Random(plan.seed ^ 0x57);
    let disk = SimDisk::new(random.next());
    let mut owner = Owner::new(&disk);
    owner.open(7, LIMITS, 0).unwrap();
    // After a power loss, only a stream that syncs guarantees anything.
    let sync = plan.crash == Crash::Power || random.one_in(2);
    let mut older = Files::new();
    let appends = 1 + random.below(12);
    let mut next = 0;
    for n in 0..appends {
        if n == appends / 2 {
            older = disk.files();
        }
        let entries = 1 + random.below(3) as u16;
        owner.append(7, vec![chunk(next, entries, n, 50 + random.below(300) as usize)], sync).unwrap();
        next += u64::from(entries);
    }
    owner.streams.note();
    let all = read_all(&mut StreamReader::new(disk.clone()), 7, &owner.retained(7));
    drop(owner);
    let disk = plan.crash(&disk);
    damage(&disk, &older, plan.fault, &mut random);

    let mut streams = match wal::Streams::new(disk.clone()) {
        Ok(streams) => streams,
        Err(error) => panic!("one file stops all streams: {error}"),
    };
    let told = streams.check().iter().any(|flaw| flaw.stream == Some(7));
    let mut owner = Owner::with(streams);
    let kept = match owner.open(7, LIMITS, 0) {
        Ok((kept, _)) => kept,
        Err(StreamError::Damaged { .. } | StreamError::Missing { .. } | StreamError::Newer { .. }) => {
            assert!(plan.fault != Fault::Nothing && plan.fault != Fault::Note, "nothing was damaged");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let mut reader = StreamReader::new(disk.clone());
    let mut job = crate::chunks::job(7, wal::ReadFrom::First, &kept);
    let (mut came, mut has_error) = (Vec::new(), false);
    loop {
        match reader.read(&job) {
            Ok(found) => {
                came.extend(found.chunks);
                if found.end {
                    break;
                }
                job.from = wal::ReadFrom::At(found.next);
            }
            Err(_) => {
                has_error = true;
                break;
            }
        }
    }
    assert!(came.iter().all(|chunk| all.contains(chunk)), "a chunk has changed");
    assert!(came.windows(2).all(|two| two[0].first < two[1].first), "a chunk was returned twice");
    if plan.promises_synced() {
        assert!(came.len() == all.len() || has_error || told, "{} of {} were read", came.len(), all.len());
        assert_eq!(kept.next, next, "offsets are used again");
    }
}

#[test]
fn streams_tell_of_damage_anywhere_at_random() {
    for seed in seeds(4000) {
        named(plan(seed), run_stream);
    }
}
