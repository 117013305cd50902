//! The reserve, which makes it possible to empty a full disk.

use std::collections::BTreeMap;

use wal::{Completion, Handover, Log, Options, Records, Step};
use wal_testing::{Crash, Random, SimDisk, forget};

const FILE_BYTES: u64 = 4096;
const RESERVE: u64 = 8192;
const CAPACITY: u64 = 40_000;
const BODY: usize = 300;

/// The maximum number of live records that are copied, so that the copies fit the reserve.
const COPY_MAX: usize = 8;

/// Kinds of records.
const PUT: u8 = 1;
const GONE: u8 = 2;

fn options() -> Options {
    Options { file_bytes: FILE_BYTES, seed: Some(1), reserve_bytes: RESERVE, ..Options::default() }
}

/// A log, and what its owner knows.
struct Run {
    disk: SimDisk,
    log: Log<SimDisk>,
    /// The live acknowledged records, with the file that holds each.
    alive: BTreeMap<u64, u64>,
    next: u64,
    short: bool,
}

impl Run {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed);
        disk.limit(CAPACITY);
        let (log, _) = Log::open(disk.clone(), options(), &mut |_| ()).unwrap();
        Self { disk, log, alive: BTreeMap::new(), next: 1, short: false }
    }

    /// Hands records over. Returns their file if they were written, and synced if asked.
    fn write(&mut self, records: Records, sync: bool) -> Option<u64> {
        let mut done = Vec::new();
        self.log.append(&mut vec![Handover { shard: 0, ticket: 1, records, sync, urgent: true }], &mut done);
        self.log.sync(&mut done);
        let synced = done.iter().any(|done| done.step == Step::Synced && done.result.is_ok());
        assert_eq!(done.len(), 1 + usize::from(sync && done[0].result.is_ok()));
        let Completion { result, file, size, .. } = done.remove(0);
        result.ok()?;
        self.short = size.on_reserve;
        (synced || !sync).then_some(file)
    }

    fn put(&mut self) -> bool {
        let mut records = Records::new();
        records.push(1, self.next, PUT, &[&[0; BODY]]);
        let file = self.write(records, false);
        self.alive.extend(file.map(|file| (self.next, file)));
        self.next += u64::from(file.is_some());
        file.is_some()
    }

    fn gone(&mut self, seq: u64) {
        let mut records = Records::new();
        records.push(1, seq, GONE, &[]);
        assert!(self.write(records, false).is_some(), "what frees space can be written");
        self.alive.remove(&seq);
    }

    /// Copies the live records of the oldest file, which is then forgotten.
    fn evacuate(&mut self) {
        let Some(oldest) = self.log.size().oldest else { return };
        let there: Vec<u64> =
            self.alive.iter().filter(|(_, file)| **file <= oldest).map(|(seq, _)| *seq).collect();
        let mut records = Records::new();
        there.iter().for_each(|&seq| records.push(1, seq, PUT, &[&[0; BODY]]));
        let file = self.write(records, true).expect("the copies can be written");
        self.alive.extend(there.into_iter().map(|seq| (seq, file)));
        assert!(forget(&mut self.log, oldest), "the file can be forgotten");
    }

    fn crash(&mut self, how: Crash) {
        let Self { disk, log, alive, next, .. } = std::mem::replace(self, Self::new(0));
        drop(log);
        let disk = disk.crash(how);
        let mut found = BTreeMap::new();
        let (log, recovery) = Log::open(disk.clone(), options(), &mut |record| {
            match record.kind {
                PUT => drop(found.insert(record.seq, record.file)),
                _ => drop(found.remove(&record.seq)),
            };
        })
        .unwrap();
        assert_eq!(recovery.damage, []);
        if how == Crash::Process {
            assert!(found.keys().eq(alive.keys()), "{found:?} of {alive:?}");
        }
        let short = log.size().on_reserve;
        *self = Self { disk, log, alive: found, next, short };
    }
}

#[test]
fn a_full_disk_accepts_what_frees_space() {
    let mut run = Run::new(1);
    assert_eq!(run.disk.taken(), RESERVE);
    while !run.short {
        assert!(run.put(), "the last one is written to the reserve");
    }
    assert!(!run.disk.files().contains_key("reserve"));
    assert!(run.disk.taken() > CAPACITY - RESERVE);
    let seqs: Vec<u64> = run.alive.keys().copied().collect();
    for seq in seqs {
        run.gone(seq);
    }
    assert!(run.short, "no space was freed");
    while run.log.size().oldest.is_some() {
        run.evacuate();
    }
    assert!(run.put() && !run.short, "there is space again, and the reserve is taken again");
    let reserved = |name: &String| name == "reserve" || name.ends_with(".spare");
    assert!(run.disk.files().keys().any(reserved));
}

#[test]
fn without_a_reserve_a_full_disk_stays_full() {
    let mut run = Run::new(1);
    run.disk = SimDisk::new(1);
    run.log = Log::open(run.disk.clone(), Options { reserve_bytes: 0, ..options() }, &mut |_| ()).unwrap().0;
    run.disk.limit(CAPACITY);
    while run.put() {
        assert!(!run.short);
    }
    let mut records = Records::new();
    records.push(1, 1, PUT, &[&[0; BODY]]);
    assert_eq!((run.write(records, false), run.put()), (None, false));
}

#[test]
fn a_log_opened_on_a_full_disk_uses_its_reserve() {
    let mut run = Run::new(1);
    while !run.short {
        run.put();
    }
    run.crash(Crash::Process);
    assert!(run.short);
    run.gone(1);
}

/// Fills the disk and empties it repeatedly, with crashes. Nothing else writes to the disk.
#[test]
fn a_disk_is_emptied_from_its_reserve_at_random() {
    let mut shorts = 0;
    for seed in crate::soak::seeds(300) {
        let mut random = Random(seed);
        let mut run = Run::new(seed);
        for _ in 0..3 {
            let puts = random.below(150);
            for _ in 0..puts {
                // Like a shard, the test puts no new records while the log is short.
                if !run.short {
                    run.put();
                }
                if random.one_in(3)
                    && let Some(&seq) =
                        run.alive.keys().nth(random.below(1 + run.alive.len() as u64) as usize)
                {
                    run.gone(seq);
                }
                if random.one_in(60) {
                    run.crash(if random.one_in(2) { Crash::Power } else { Crash::Process });
                }
                if run.alive.len() <= COPY_MAX && random.one_in(4) {
                    run.evacuate();
                }
            }
            shorts += u64::from(run.short);
            let seqs: Vec<u64> = run.alive.keys().copied().collect();
            for seq in seqs.iter().skip(random.below(COPY_MAX as u64) as usize) {
                run.gone(*seq);
            }
            while run.log.size().oldest.is_some() {
                run.evacuate();
            }
            assert!(run.put() && !run.short, "seed {seed}: {} bytes are taken", run.disk.taken());
        }
    }
    assert!(shorts > 100, "{shorts} times the disk was full");
}
