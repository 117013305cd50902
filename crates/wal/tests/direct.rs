//! Direct writes: where they go, what they wait for, and what happens to handovers meanwhile.

use libc::{EIO, ENOSPC};
use wal::{BLOCK, Completion, Handover, Log, Options, Record, Records, Recovery, Step, SyncEnd};
use wal_testing::{Crash, Op, SimDisk};

/// Two blocks for each handover of a test, and some more.
const FILE_BYTES: u64 = 64 * BLOCK as u64;
const FILE_HEADER: usize = 48;
const BATCH_HEADER: usize = 64;
/// A record of a handover takes this many bytes more than its body.
const BODY: usize = 100;

fn options() -> Options {
    Options { file_bytes: FILE_BYTES, seed: Some(1), direct_after: 3, ..Options::default() }
}

fn open(disk: &SimDisk) -> (Log<SimDisk>, Recovery, Vec<Record>) {
    let mut records = Vec::new();
    let (log, recovery) = Log::open(disk.clone(), options(), &mut |record| records.push(record)).unwrap();
    (log, recovery, records)
}

fn disk() -> SimDisk {
    let disk = SimDisk::new(1);
    disk.allow_direct();
    disk
}

/// A handover of a shard, with one record whose seq is the ticket. Nobody waits for anything but its sync.
fn of_shard(shard: u32, ticket: u64) -> Handover {
    let mut records = Records::new();
    records.push(u64::from(shard), ticket, 1, &[&[ticket as u8; BODY]]);
    Handover { shard, ticket, records, sync: true, urgent: false }
}

fn handover(ticket: u64) -> Handover {
    of_shard(0, ticket)
}

fn urgent(ticket: u64, sync: bool) -> Handover {
    Handover { sync, urgent: true, ..of_shard(1, ticket) }
}

fn append(log: &mut Log<SimDisk>, handovers: Vec<Handover>) -> Vec<(u64, Step, bool)> {
    let (mut handovers, mut done) = (handovers, Vec::new());
    log.append(&mut handovers, &mut done);
    steps(&done)
}

fn steps(done: &[Completion]) -> Vec<(u64, Step, bool)> {
    done.iter().map(|done| (done.ticket, done.step, done.result.is_ok())).collect()
}

/// Waits for the direct write in flight.
fn ended(log: &mut Log<SimDisk>) -> Option<SyncEnd> {
    log.ended_direct(true)
}

/// Ends the direct write in flight, and writes what was kept. Returns the answers.
fn end(log: &mut Log<SimDisk>) -> Vec<(u64, Step, bool)> {
    let end = ended(log).expect("it is in flight");
    let mut done = Vec::new();
    log.end_sync(end, &mut done);
    let left = log.write_kept(&mut done);
    assert!(left.is_empty(), "it is written directly");
    steps(&done)
}

/// Returns a log whose current file was filled, with nothing unsynced. It has used the tickets up to 4.
fn ready(disk: &SimDisk) -> Log<SimDisk> {
    let (mut log, ..) = open(disk);
    for ticket in 1..=3 {
        append(&mut log, vec![handover(ticket)]);
        log.sync(&mut Vec::new());
    }
    assert_eq!(disk.count(Op::Direct), 0, "the file was not filled");
    let job = log.begin_fill().expect("syncs are asked for often");
    assert!(log.begin_fill().is_none(), "one is in flight");
    log.end_fill(job.run());
    // This takes the filled file.
    append(&mut log, vec![handover(4)]);
    log.sync(&mut Vec::new());
    assert_eq!((disk.count(Op::Direct), log.is_syncing()), (0, false), "the name of the file was not synced");
    log
}

fn written(ticket: u64) -> (u64, Step, bool) {
    (ticket, Step::Written, true)
}

fn synced(ticket: u64) -> (u64, Step, bool) {
    (ticket, Step::Synced, true)
}

fn seqs(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.seq).collect()
}

fn after_power_loss(disk: &SimDisk) -> Vec<u64> {
    let (_, recovery, records) = open(&disk.crash(Crash::Power));
    assert_eq!(recovery.damage, []);
    seqs(&records)
}

/// Where each batch of the newest file begins, found by its magic.
fn batches(disk: &SimDisk) -> Vec<usize> {
    let files = disk.files();
    let (_, bytes) = files.iter().rfind(|(name, _)| name.ends_with(".log")).unwrap();
    (0..bytes.len() - 4).filter(|&at| bytes[at..].starts_with(b"SLbt")).collect()
}

#[test]
fn a_handover_is_written_and_synced_by_one_request() {
    let disk = disk();
    let mut log = ready(&disk);
    let before = (disk.count(Op::Write), disk.count(Op::Sync), disk.count(Op::SyncDir));
    for ticket in 5..30 {
        assert_eq!(append(&mut log, vec![handover(ticket)]), [written(ticket)]);
        assert!(log.is_writing_directly() && log.begin_sync(&mut Vec::new()).is_none());
        assert_eq!(end(&mut log), [synced(ticket)]);
        assert_eq!(disk.count(Op::Direct), ticket - 4);
    }
    assert_eq!((disk.count(Op::Write), disk.count(Op::Sync), disk.count(Op::SyncDir)), before);
    assert_eq!(after_power_loss(&disk), (1..30).collect::<Vec<_>>());
}

#[test]
fn direct_batches_follow_each_other_and_share_no_block_with_others() {
    let disk = disk();
    let mut log = ready(&disk);
    let length = batches(&disk).len();
    assert_eq!(length, 1, "the first batch of the file");
    for ticket in [5, 6] {
        append(&mut log, vec![handover(ticket)]);
        end(&mut log);
    }
    append(&mut log, vec![urgent(7, false)]);
    append(&mut log, vec![urgent(8, true)]);
    log.sync(&mut Vec::new());
    for ticket in 9..=12 {
        append(&mut log, vec![handover(ticket)]);
        log.sync(&mut Vec::new());
    }
    let at = batches(&disk);
    let batch = at[2] - at[1];
    assert!((BATCH_HEADER + BODY..BATCH_HEADER + BODY + 40).contains(&batch));
    let expected = [
        FILE_HEADER,
        // Directly, in a block of its own; then directly after it.
        BLOCK,
        BLOCK + batch,
        // Through the page cache; three more until the log writes directly again.
        2 * BLOCK,
        2 * BLOCK + batch,
        2 * BLOCK + 2 * batch,
        2 * BLOCK + 3 * batch,
        3 * BLOCK,
        3 * BLOCK + batch,
    ];
    assert_eq!(at, expected);
    assert_eq!(after_power_loss(&disk), (1..=12).collect::<Vec<_>>());
}

#[test]
fn what_arrives_during_a_direct_write_is_the_next_one() {
    let disk = disk();
    let mut log = ready(&disk);
    append(&mut log, vec![of_shard(0, 5)]);
    assert_eq!(append(&mut log, vec![of_shard(1, 6), of_shard(2, 7)]), []);
    assert_eq!(log.append_at_once(of_shard(3, 8)).unwrap().map(|done| done.ticket), None);
    assert_eq!(end(&mut log), [synced(5), written(6), written(7), written(8)]);
    assert_eq!(disk.count(Op::Direct), 2);
    assert_eq!(end(&mut log), [synced(6), synced(7), synced(8)]);
    assert_eq!(after_power_loss(&disk), (1..=8).collect::<Vec<_>>());
}

#[test]
fn an_urgent_handover_waits_for_no_direct_write() {
    let disk = disk();
    let mut log = ready(&disk);
    append(&mut log, vec![of_shard(0, 5)]);
    append(&mut log, vec![of_shard(2, 6)]);
    let done = log.append_at_once(urgent(7, false)).unwrap().expect("it is written");
    assert_eq!((done.ticket, done.step), (7, Step::Written));
    // What is kept is written when something urgent waits behind it.
    let mut kept = log.take_kept();
    let mut done = Vec::new();
    log.append(&mut kept, &mut done);
    assert_eq!(steps(&done), [written(6)]);
    assert_eq!(end(&mut log), [synced(5)], "the others were written to the page cache");
    done.clear();
    log.sync(&mut done);
    assert_eq!(steps(&done), [synced(6)]);
    assert_eq!(after_power_loss(&disk), [1, 2, 3, 4, 5, 7, 6]);
}

#[test]
fn a_torn_direct_write_costs_nothing_that_was_synced() {
    let (mut torn, mut whole) = (0, 0);
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        disk.allow_direct();
        let mut log = ready(&disk);
        for ticket in 5..20 {
            append(&mut log, vec![handover(ticket)]);
            end(&mut log);
        }
        append(&mut log, vec![handover(20)]);
        append(&mut log, vec![urgent(21, false)]);
        drop(log);
        let found = after_power_loss(&disk);
        assert_eq!(found[..19], (1..20).collect::<Vec<_>>());
        *(if found.len() > 19 { &mut whole } else { &mut torn }) += 1;
    }
    assert!(torn > 20 && whole > 20, "{torn} torn, {whole} whole");
}

#[test]
fn a_killed_process_leaves_its_direct_write() {
    let disk = disk();
    let mut log = ready(&disk);
    append(&mut log, vec![handover(5)]);
    drop(log);
    let (mut log, recovery, records) = open(&disk.crash(Crash::Process));
    assert_eq!((recovery.damage, seqs(&records)), (vec![], vec![1, 2, 3, 4, 5]));
    assert!(recovery.cut.is_some_and(|cut| !cut.torn), "the rest of the file was filled, not written");
    append(&mut log, vec![handover(6)]);
    log.close().unwrap();
}

#[test]
fn a_failed_direct_write_is_a_failed_sync() {
    let mut refused = 0;
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        disk.allow_direct();
        let mut log = ready(&disk);
        append(&mut log, vec![handover(5)]);
        end(&mut log);
        disk.fail(&[Op::Direct], 1000, if seed % 2 == 0 { EIO } else { ENOSPC });
        let done = append(&mut log, vec![handover(6)]);
        assert_eq!(done, [written(6)]);
        // The disk refuses at once, or at the end.
        let end = ended(&mut log);
        append(&mut log, vec![urgent(7, false)]);
        let mut done = Vec::new();
        match end {
            Some(end) => {
                assert!(end.is_failure());
                log.end_sync(end, &mut done);
                assert_eq!(steps(&done), [synced(6)], "it was copied to another file");
            }
            None => {
                refused += 1;
                log.sync(&mut done);
                assert_eq!(steps(&done), [synced(6)], "it was written to another file");
            }
        }
        log.sync(&mut done);
        assert_eq!(after_power_loss(&disk)[..6], [1, 2, 3, 4, 5, 6]);
    }
    assert!((5..35).contains(&refused), "{refused} were refused at once");
}

#[test]
fn a_disk_that_refuses_direct_writes_is_not_asked_for_ever() {
    let disk = disk();
    let mut log = ready(&disk);
    disk.fail(&[Op::Direct], 1000, libc::EAGAIN);
    for ticket in 5..200 {
        append(&mut log, vec![handover(ticket)]);
        log.sync(&mut Vec::new());
        if let Some(job) = log.begin_fill() {
            log.end_fill(job.run());
        }
    }
    let asked = disk.count(Op::Direct);
    assert!((1..20).contains(&asked), "{asked} times");
    for ticket in 200..230 {
        append(&mut log, vec![handover(ticket)]);
        log.sync(&mut Vec::new());
    }
    assert_eq!(disk.count(Op::Direct), asked);
    assert_eq!(after_power_loss(&disk), (1..230).collect::<Vec<_>>());
}

#[test]
fn without_direct_writes_filled_files_are_used_up() {
    let disk = SimDisk::new(1);
    disk.allow_fill();
    let (mut log, ..) = open(&disk);
    for ticket in 1..600 {
        append(&mut log, vec![handover(ticket)]);
        log.sync(&mut Vec::new());
        if let Some(job) = log.begin_fill() {
            log.end_fill(job.run());
        }
    }
    let batch = (BATCH_HEADER + BODY + 40) as u64;
    let files = log.size().files;
    assert!(u64::from(files) <= 2 + 600 * batch / FILE_BYTES, "{files} files");
    assert_eq!(disk.count(Op::Direct), 0);
    assert_eq!(after_power_loss(&disk), (1..600).collect::<Vec<_>>());
}

#[test]
fn what_nobody_waits_for_is_not_lost_with_a_direct_write_that_fails() {
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        disk.allow_direct();
        disk.drop_refused();
        let mut log = ready(&disk);
        append(&mut log, vec![handover(5)]);
        end(&mut log);
        disk.fail(&[Op::Direct], 1000, EIO);
        append(&mut log, vec![Handover { sync: false, ..handover(6) }]);
        let mut done = Vec::new();
        if let Some(end) = ended(&mut log) {
            log.end_sync(end, &mut done);
        }
        append(&mut log, vec![urgent(7, true)]);
        log.sync(&mut done);
        assert_eq!(after_power_loss(&disk), (1..=7).collect::<Vec<_>>());
    }
}

#[test]
fn a_full_file_is_followed_by_a_filled_one_and_ends_with_its_last_batch() {
    let disk = disk();
    let mut log = ready(&disk);
    for ticket in 5..5000 {
        append(&mut log, vec![handover(ticket)]);
        log.sync(&mut Vec::new());
        if let Some(job) = log.begin_fill() {
            log.end_fill(job.run());
        }
        if ticket % 500 == 0 {
            let oldest = log.size().oldest.unwrap_or(0);
            log.forget(oldest);
            log.sync(&mut Vec::new());
        }
    }
    let (direct, syncs) = (disk.count(Op::Direct), disk.count(Op::Sync));
    assert!(direct > 4900 && syncs < 60, "{direct} direct writes, {syncs} syncs");
    log.close().unwrap();
    for (name, bytes) in disk.files().iter().filter(|(name, _)| name.ends_with(".log")) {
        assert!(bytes.last().is_some_and(|&last| last != 0), "{name} ends with its last batch");
    }
    let (_, recovery, records) = open(&disk.crash(Crash::Power));
    assert!(recovery.clean);
    assert_eq!(records.last().map(|record| record.seq), Some(4999));
}

#[test]
fn a_clean_stop_leaves_nothing_after_its_mark() {
    let disk = disk();
    let mut log = ready(&disk);
    append(&mut log, vec![handover(5)]);
    log.sync(&mut Vec::new());
    log.close().unwrap();
    let (log, recovery, records) = open(&disk.crash(Crash::Power));
    assert_eq!((recovery.clean, recovery.cut, seqs(&records)), (true, None, vec![1, 2, 3, 4, 5]));
    drop(log);
    assert!(disk.files().keys().all(|name| name.ends_with(".log")), "no spare is left");
}

#[test]
fn spares_are_filled_for_those_who_sync_often_and_no_others() {
    let disk = disk();
    let (mut log, ..) = open(&disk);
    for ticket in 1..50 {
        append(&mut log, vec![urgent(ticket, ticket % 7 == 0)]);
        log.sync(&mut Vec::new());
        assert!(log.begin_fill().is_none());
    }
    for ticket in 50..53 {
        append(&mut log, vec![handover(ticket)]);
        log.sync(&mut Vec::new());
    }
    log.keep_spares(false);
    assert!(log.begin_fill().is_none(), "others need the space");
    log.keep_spares(true);
    let job = log.begin_fill().unwrap();
    // The spares are given up while one is filled. It is not kept either.
    log.keep_spares(false);
    log.end_fill(job.run());
    log.keep_spares(true);
    assert_eq!(disk.files().keys().filter(|name| name.ends_with(".spare")).count(), 0);
}

#[test]
fn a_disk_that_is_too_full_to_fill_a_file_is_used_without() {
    let disk = disk();
    let (mut log, ..) = open(&disk);
    for ticket in 1..4 {
        append(&mut log, vec![handover(ticket)]);
        log.sync(&mut Vec::new());
    }
    disk.limit(disk.taken() + FILE_BYTES / 2);
    let job = log.begin_fill().unwrap();
    log.end_fill(job.run());
    assert!(log.begin_fill().is_none(), "not before the next file");
    assert_eq!(disk.files().keys().filter(|name| name.ends_with(".spare")).count(), 0);
    assert_eq!(append(&mut log, vec![handover(4)]), [written(4)]);
    log.sync(&mut Vec::new());
    assert_eq!(after_power_loss(&disk), [1, 2, 3, 4]);
}
