//! What was acknowledged reads back completely from packs, nothing else is left, and releasing frees the
//! disk. Random runs, releases and reads go to a disk that returns errors and crashes. A failing run prints
//! its plan, which is enough to repeat it.
//!
//! `SLUICE_SOAK=n` multiplies the runs by n, `SLUICE_SEED=m` begins with seed m.

use std::collections::BTreeSet;

use crate::soak::{named, pick, seeds};
use wal::{Extent, LARGE, PackError, PackOptions, PackReader, Packs, ReadError, Record, Records, Run};
use wal_testing::{CHANGES, Crash, Random, SimDisk};

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
}

const QUIET: Plan = Plan { seed: 0, lives: 3, die_at: None, fail_at: None, faults: false, crash: None };

/// What an owner knows, and what its log would restore.
#[derive(Clone)]
struct Retained {
    owner: u64,
    extent: Extent,
    records: Vec<Record>,
}

#[derive(Default)]
struct Owners {
    kept: Vec<Retained>,
    next_seq: u64,
}

impl Owners {
    fn run(&mut self, random: &mut Random) -> (Run, Vec<Record>) {
        let owner = 1 + random.below(5);
        let mut run = Run::new(owner);
        let mut records = Vec::new();
        for _ in 0..1 + random.below(5) {
            let seq = self.next_seq;
            self.next_seq += 1;
            let length = if random.one_in(8) { LARGE as u64 + random.below(3000) } else { random.below(300) };
            let body: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            let (head, tail) = body.split_at(body.len() / 4);
            if random.one_in(3) {
                run.blocks.push(Records::new());
                let put = |out: &mut Vec<u8>| out.extend_from_slice(head);
                run.blocks.last_mut().unwrap().push_shared(owner, seq, 3, put, &tail.to_vec().into());
            } else {
                run.push(seq, 3, head, tail.to_vec().into());
            }
            records.push(Record { owner, seq, kind: 3, file: 0, batch: 0, body: body.into() });
        }
        (run, records)
    }

    fn extents(&self) -> Vec<Extent> {
        self.kept.iter().map(|kept| kept.extent).collect()
    }

    fn bytes(&self) -> u64 {
        self.kept.iter().map(|kept| u64::from(kept.extent.bytes)).sum()
    }

    /// The names of the packs that hold something.
    fn packs(&self) -> BTreeSet<String> {
        self.kept.iter().map(|kept| format!("{:020}.pack", kept.extent.pack)).collect()
    }
}

fn read(reader: &mut PackReader<SimDisk>, kept: &Retained) -> Result<(), ReadError> {
    let mut found = Vec::new();
    let (mut at, mut bytes) = (Some(0), 0);
    while let Some(from) = at {
        let block = reader.read(kept.extent, kept.owner, from)?;
        found.extend(block.records);
        bytes += block.bytes;
        at = block.next;
    }
    assert!(found == kept.records, "{:?} reads back as something else", kept.extent);
    assert_eq!(bytes, kept.extent.bytes);
    Ok(())
}

/// Does a run. Returns the number of changes that the first life made to the disk.
fn run(plan: Plan) -> u64 {
    let mut random = Random(plan.seed);
    let options = PackOptions { pack_bytes: 300 + random.below(12_000), garbage_allowed: random.below(9000) };
    let mut disk = SimDisk::new(random.next());
    let mut owners = Owners::default();
    let mut changes = 0;
    for life in 0..plan.lives {
        if life == 0 {
            plan.die_at.inspect(|&n| disk.die_at(n));
            plan.fail_at.inspect(|&(n, errno)| disk.fail_nth(n, errno));
        } else if random.one_in(2) && life + 1 < plan.lives {
            disk.die_at(random.below(30));
        }
        live(&disk, &options, &mut owners, &mut random, plan.faults);
        if life == 0 {
            changes = disk.changes();
        }
        let crash = *pick(&mut random, &[Crash::Process, Crash::Power]);
        // The records of the extents that were acknowledged last may not have reached the owner's log.
        let logged = owners.kept.len() as u64 - random.below(3).min(owners.kept.len() as u64);
        owners.kept.truncate(logged as usize);
        disk = disk.crash(plan.crash.filter(|_| life == 0).unwrap_or(crash));
    }
    changes
}

fn live(disk: &SimDisk, options: &PackOptions, owners: &mut Owners, random: &mut Random, faults: bool) {
    let mut packs = match Packs::open(disk.clone(), options.clone(), owners.extents(), false) {
        Ok(packs) => packs,
        Err(PackError::Io { .. }) if disk.is_dead() => return,
        Err(error) => panic!("{error}"),
    };
    let mut reader = PackReader::new(disk.clone());
    let quiet = !faults && !disk.is_dead();
    if quiet {
        owners.kept.iter().for_each(|kept| read(&mut reader, kept).unwrap());
        check_disk(disk, &packs, owners);
    }
    for _ in 0..random.below(25) {
        if faults && random.one_in(3) {
            let ops = if random.one_in(3) { vec![*pick(random, &CHANGES)] } else { CHANGES.to_vec() };
            disk.fail(&ops, *pick(random, &[0, 30, 300, 1000]), *pick(random, &[libc::EIO, libc::ENOSPC]));
            disk.shorten(*pick(random, &[0, 100, 900]));
        }
        match random.below(4) {
            0 | 1 => {
                let (runs, records): (Vec<Run>, Vec<Vec<Record>>) =
                    (0..1 + random.below(4)).map(|_| owners.run(random)).unzip();
                write(&mut packs, owners, random, runs, records);
            }
            2 => {
                for _ in 0..random.below(4).min(owners.kept.len() as u64) {
                    let at = random.below(owners.kept.len() as u64) as usize;
                    let extent = owners.kept.swap_remove(at).extent;
                    packs.release(extent);
                    packs.release(extent);
                }
            }
            _ => empty_a_sparse_pack(&mut packs, owners, random),
        }
        assert_eq!(packs.bytes().1, owners.bytes());
        if !disk.is_dead() {
            // Reads never fail here, even if writes do.
            owners.kept.iter().for_each(|kept| read(&mut reader, kept).unwrap());
        }
        if disk.is_dead() {
            return;
        }
    }
    disk.heal();
    // Any release retries failed removals.
    packs.release(Extent { pack: 0, offset: 0, bytes: 0 });
    if !disk.is_dead() {
        check_disk(disk, &packs, owners);
    }
}

fn write(
    packs: &mut Packs<SimDisk>,
    owners: &mut Owners,
    random: &mut Random,
    runs: Vec<Run>,
    records: Vec<Vec<Record>>,
) -> bool {
    let ids: Vec<(u64, usize)> = runs.iter().map(|run| (run.owner, run.bytes())).collect();
    let before = packs.bytes().1;
    match packs.write(runs) {
        Ok(extents) => {
            assert_eq!(extents.len(), ids.len());
            for ((extent, (owner, _)), records) in extents.into_iter().zip(ids).zip(records) {
                if random.one_in(8) {
                    // The owner of this extent was deleted in the meantime.
                    packs.release(extent);
                } else {
                    owners.kept.push(Retained { owner, extent, records });
                }
            }
            true
        }
        Err(failure) => {
            assert_ne!(failure.error.kind(), std::io::ErrorKind::InvalidInput);
            let back: Vec<(u64, usize)> = failure.runs.iter().map(|run| (run.owner, run.bytes())).collect();
            assert_eq!(back, ids);
            assert_eq!(packs.bytes().1, before);
            false
        }
    }
}

fn empty_a_sparse_pack(packs: &mut Packs<SimDisk>, owners: &mut Owners, random: &mut Random) {
    let Some(pack) = packs.sparse() else { return };
    let (moving, staying): (Vec<Retained>, _) =
        owners.kept.drain(..).partition(|kept| kept.extent.pack == pack);
    owners.kept = staying;
    let runs = moving.iter().map(|kept| {
        let mut run = Run::new(kept.owner);
        kept.records.iter().for_each(|r| run.push(r.seq, r.kind, b"", r.body.clone()));
        run
    });
    let records = moving.iter().map(|kept| kept.records.clone()).collect();
    if write(packs, owners, random, runs.collect(), records) {
        moving.iter().for_each(|kept| packs.release(kept.extent));
    } else {
        owners.kept.extend(moving);
    }
}

/// Checks that exactly the packs that hold something exist and are counted.
fn check_disk(disk: &SimDisk, packs: &Packs<SimDisk>, owners: &Owners) {
    let files = disk.files();
    assert_eq!(files.keys().cloned().collect::<BTreeSet<_>>(), owners.packs());
    let bytes = files.values().map(|bytes| bytes.len() as u64).sum();
    assert_eq!(packs.bytes(), (bytes, owners.bytes()));
}

#[test]
fn what_was_acknowledged_reads_back_at_random() {
    for seed in seeds(3000) {
        named(Plan { seed, lives: 2 + (seed % 5) as u32, faults: seed % 3 != 0, ..QUIET }, run);
    }
}

#[test]
fn what_was_acknowledged_reads_back_at_any_boundary() {
    for seed in seeds(8) {
        let plan = Plan { seed, ..QUIET };
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
