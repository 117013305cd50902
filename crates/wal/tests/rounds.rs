//! What a round costs, and how errors of the disk are handled.

use libc::{EIO, ENOSPC};
use wal::{AT_ONCE_BYTES_MAX, Completion, Handover, Log, Options, Record, Records, Step, UNSYNCED_BYTES_MAX};
use wal_testing::{CHANGES, Crash, Op, SimDisk};

fn open(disk: &SimDisk, file_bytes: u64) -> (Log<SimDisk>, Vec<Record>) {
    let mut records = Vec::new();
    let options = Options { file_bytes, seed: Some(1), ..Options::default() };
    let (log, recovery) = Log::open(disk.clone(), options, &mut |record| records.push(record)).unwrap();
    assert_eq!(recovery.damage, []);
    (log, records)
}

fn handover(ticket: u64, sync: bool) -> Handover {
    let mut records = Records::new();
    records.push(7, ticket, 1, &[&[ticket as u8; 100]]);
    Handover { shard: 0, ticket, records, sync, urgent: true }
}

/// Writes a round and does all syncs. Returns the last answer to each handover.
fn append(log: &mut Log<SimDisk>, handovers: Vec<Handover>) -> Vec<Completion> {
    let mut done = write(log, handovers);
    while let Some(job) = log.begin_sync(&mut done) {
        log.end_sync(job.run(), &mut done);
    }
    let (mut written, synced): (Vec<_>, Vec<_>) = done.into_iter().partition(|c| c.step == Step::Written);
    for last in synced {
        let first = written.iter_mut().find(|first| first.ticket == last.ticket).unwrap();
        *first = last;
    }
    written
}

/// Writes a round and syncs nothing.
fn write(log: &mut Log<SimDisk>, mut handovers: Vec<Handover>) -> Vec<Completion> {
    let mut done = Vec::new();
    log.append(&mut handovers, &mut done);
    done
}

fn steps(done: &[Completion]) -> Vec<(u64, Step, bool)> {
    done.iter().map(|c| (c.ticket, c.step, c.result.is_ok())).collect()
}

fn seqs(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.seq).collect()
}

#[test]
fn a_round_is_one_write_and_at_most_one_sync() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    append(&mut log, (0..50).map(|ticket| handover(ticket, false)).collect());
    assert_eq!((disk.count(Op::Write), disk.count(Op::Sync), disk.count(Op::SyncDir)), (1, 0, 0));
    append(&mut log, (50..100).map(|ticket| handover(ticket, true)).collect());
    assert_eq!((disk.count(Op::Write), disk.count(Op::Sync), disk.count(Op::SyncDir)), (2, 1, 1));
    append(&mut log, vec![handover(100, true)]);
    assert_eq!((disk.count(Op::Write), disk.count(Op::Sync), disk.count(Op::SyncDir)), (3, 2, 1));
    assert_eq!(disk.count(Op::Create), 1);
}

#[test]
fn writing_continues_during_a_sync() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    let mut done = write(&mut log, vec![handover(1, true), handover(2, false)]);
    assert_eq!(steps(&done), [(1, Step::Written, true), (2, Step::Written, true)]);
    done.clear();
    let job = log.begin_sync(&mut done).unwrap();
    for ticket in 3..10 {
        let done = write(&mut log, vec![handover(ticket, ticket % 2 == 1)]);
        assert_eq!(steps(&done), [(ticket, Step::Written, true)]);
    }
    assert!(log.begin_sync(&mut done).is_none(), "one at a time");
    assert_eq!((log.is_syncing(), disk.count(Op::Sync)), (true, 0));
    log.end_sync(job.run(), &mut done);
    assert_eq!(steps(&done), [(1, Step::Synced, true)], "the others were written after it began");
    assert_eq!(seqs(&open(&disk.crash(Crash::Power), 1 << 20).1)[..2], [1, 2]);

    // One more sync covers all that have asked meanwhile.
    done.clear();
    let job = log.begin_sync(&mut done).unwrap();
    log.end_sync(job.run(), &mut done);
    let synced = |ticket| (ticket, Step::Synced, true);
    assert_eq!(steps(&done), [synced(3), synced(5), synced(7), synced(9)]);
    assert_eq!((disk.count(Op::Write), disk.count(Op::Sync), disk.count(Op::SyncDir)), (8, 2, 1));
    assert!(log.begin_sync(&mut done).is_none(), "no handover asks");
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Power), 1 << 20).1), (1..10).collect::<Vec<_>>());
}

#[test]
fn a_sync_does_not_cover_what_was_written_after_it_began() {
    let mut lost = false;
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        // Each record fills a file.
        let (mut log, _) = open(&disk, 100);
        let mut done = write(&mut log, vec![handover(1, true)]);
        let job = log.begin_sync(&mut done).unwrap();
        write(&mut log, vec![handover(2, true)]);
        done.clear();
        log.end_sync(job.run(), &mut done);
        assert_eq!(steps(&done), [(1, Step::Synced, true)]);
        drop(log);
        let found = seqs(&open(&disk.crash(Crash::Power), 100).1);
        assert!(found.starts_with(&[1]), "{found:?}");
        lost |= found == [1];
    }
    assert!(lost, "the disk of the test keeps everything");
}

#[test]
fn after_a_failed_sync_awaited_batches_are_rewritten_from_memory() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    disk.drop_refused();
    let mut done = write(&mut log, vec![handover(1, true), handover(2, false)]);
    let job = log.begin_sync(&mut done).unwrap();
    write(&mut log, vec![handover(3, true)]);
    // The sync fails, and so does its retry on a new file.
    disk.fail(&[Op::Sync], 1000, EIO);
    done.clear();
    log.end_sync(job.run(), &mut done);
    assert_eq!(steps(&done), [(1, Step::Synced, false), (3, Step::Synced, false)]);
    assert!(
        done.iter().all(|c| c.result.as_ref().unwrap_err().records.is_empty()),
        "the records are written"
    );
    disk.heal();
    assert!(append(&mut log, vec![handover(4, true)])[0].result.is_ok());
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Power), 1 << 20).1), [1, 2, 3, 4]);
}

#[test]
fn batches_kept_in_memory_until_a_sync_are_bounded() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, UNSYNCED_BYTES_MAX);
    let half = |ticket| {
        let mut records = Records::new();
        records.push_shared(7, ticket, 1, |_| {}, &vec![1; UNSYNCED_BYTES_MAX as usize / 2].into());
        Handover { shard: 0, ticket, records, sync: true, urgent: true }
    };
    let mut done = write(&mut log, vec![half(1)]);
    let job = log.begin_sync(&mut done).unwrap();
    assert!(!log.is_full());
    write(&mut log, vec![half(2)]);
    assert!(log.is_full());
    log.end_sync(job.run(), &mut done);
    assert!(!log.is_full(), "the next sync has not begun");
    let job = log.begin_sync(&mut done).unwrap();
    assert!(!log.is_full(), "one of them is synced and no longer in memory");
    log.end_sync(job.run(), &mut done);
}

#[test]
fn files_are_synced_unasked_one_by_one() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 100);
    let most = Options::default().dirty_files_max as u64;
    let mut done = Vec::new();
    for ticket in 0..=most {
        write(&mut log, vec![handover(ticket, false)]);
        assert!(log.begin_sync(&mut done).is_none(), "there are not too many yet");
    }
    for ticket in most + 1..3 * most {
        write(&mut log, vec![handover(ticket, false)]);
        let job = log.begin_sync(&mut done).unwrap();
        log.end_sync(job.run(), &mut done);
        assert_eq!(disk.count(Op::Sync), ticket - most, "the oldest");
    }
    // Up to twice the allowed number of files may wait for a sync.
    write(&mut log, vec![handover(100, false)]);
    let job = log.begin_sync(&mut done).unwrap();
    let more = (101..)
        .take_while(|&ticket| !log.is_full() && !write(&mut log, vec![handover(ticket, false)]).is_empty());
    assert_eq!(more.count() as u64, most);
    log.end_sync(job.run(), &mut done);
    assert_eq!((log.is_full(), done.is_empty()), (false, true));
}

#[test]
fn nothing_else_syncs_during_a_sync() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 100);
    let mut done = write(&mut log, vec![handover(1, false), handover(2, true)]);
    write(&mut log, vec![handover(3, false)]);
    let job = log.begin_sync(&mut done).unwrap();
    let changes = disk.changes();
    log.forget(1);
    assert!(log.begin_sync(&mut done).is_none() && disk.changes() == changes);
    log.end_sync(job.run(), &mut done);
    assert_eq!(log.spans().keys().min(), Some(&1));
    let job = log.begin_sync(&mut done).unwrap();
    log.end_sync(job.run(), &mut done);
    assert_eq!(log.spans().keys().min(), Some(&2));
}

#[test]
fn an_immediate_write_is_one_write_to_the_current_file() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 1200);
    let large = || {
        let mut records = Records::new();
        records.push_shared(7, 0, 1, |_| {}, &vec![1; AT_ONCE_BYTES_MAX as usize].into());
        Handover { shard: 0, ticket: 0, records, sync: false, urgent: true }
    };
    let refused = |log: &mut Log<SimDisk>, handover: Handover| {
        let (before, asked) = (disk.changes(), (handover.ticket, handover.records.bytes(), handover.sync));
        let back = log.append_at_once(handover).unwrap_err();
        assert_eq!((back.ticket, back.records.bytes(), back.sync), asked);
        assert_eq!(disk.changes(), before);
        write(log, vec![back])
    };
    refused(&mut log, handover(1, false)); // There is no file yet.
    for ticket in 2..6 {
        let before = disk.changes();
        let done = log.append_at_once(handover(ticket, false)).unwrap().unwrap();
        assert_eq!((steps(&[done]), disk.changes()), (vec![(ticket, Step::Written, true)], before + 1));
    }
    let before = disk.changes();
    let done = log.append_at_once(handover(6, true)).unwrap().unwrap();
    assert_eq!((steps(&[done]), disk.changes()), (vec![(6, Step::Written, true)], before + 1));
    refused(&mut log, Handover { records: Records::new(), ..handover(0, false) });
    let done = log.append_at_once(handover(7, false)).unwrap().unwrap();
    assert_eq!((done.file, done.size), (1, log.size()));
    refused(&mut log, handover(8, false)); // The file is full.
    assert_eq!(log.append_at_once(handover(9, false)).unwrap().unwrap().file, 2);
    refused(&mut log, large());
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Process), 1200).1), [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
}

#[test]
fn an_immediate_write_waits_for_the_next_sync() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 1200);
    write(&mut log, vec![handover(1, false)]);
    let mut done = vec![log.append_at_once(handover(2, true)).unwrap().unwrap()];
    let job = log.begin_sync(&mut done).unwrap();
    done.push(log.append_at_once(handover(3, true)).unwrap().unwrap());
    assert!(log.begin_sync(&mut done).is_none(), "one at a time");
    disk.fail(&[Op::Sync], 1000, EIO);
    let end = job.run();
    disk.heal();
    // Nobody knows what the disk still has of the file. So both batches are copied to another one.
    log.end_sync(end, &mut done);
    let told = [(2, Step::Written), (3, Step::Written), (2, Step::Synced), (3, Step::Synced)];
    assert_eq!(steps(&done), told.map(|(ticket, step)| (ticket, step, true)));
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Power), 1200).1), [1, 2, 3]);
}

#[test]
fn an_immediate_write_leaves_a_sync_that_must_write_to_the_thread() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 100);
    write(&mut log, vec![handover(1, false)]);
    write(&mut log, vec![handover(2, false)]);
    log.forget(1);
    let back = log.append_at_once(handover(3, true)).unwrap_err();
    append(&mut log, vec![back]);
    assert_eq!(log.spans().keys().min(), Some(&2));
}

#[test]
fn a_failed_immediate_write_is_retried_by_the_next_round() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    write(&mut log, vec![handover(1, false)]);
    disk.fail(&[Op::Write], 1000, EIO);
    let back = log.append_at_once(handover(2, false)).unwrap_err();
    disk.heal();
    // The file that refused the write is never used again. Creating the next file is left to the log's
    // thread.
    let back = log.append_at_once(back).unwrap_err();
    assert_eq!(write(&mut log, vec![back])[0].file, 2);
    assert!(log.append_at_once(handover(3, false)).is_ok());
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Process), 1 << 20).1), [1, 2, 3]);
}

#[test]
fn no_immediate_write_while_writing_must_wait() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, UNSYNCED_BYTES_MAX * 2);
    let mut records = Records::new();
    records.push_shared(7, 1, 1, |_| {}, &vec![1; UNSYNCED_BYTES_MAX as usize].into());
    let mut done = write(&mut log, vec![Handover { shard: 0, ticket: 1, records, sync: true, urgent: true }]);
    let job = log.begin_sync(&mut done).unwrap();
    assert!(log.is_full() && log.append_at_once(handover(2, false)).is_err());
    log.end_sync(job.run(), &mut done);
    assert!(log.append_at_once(handover(2, false)).is_ok());

    // Unsynced files accumulate during a sync, and then because none begins.
    let (mut log, _) = open(&SimDisk::new(1), 100);
    let mut done = write(&mut log, vec![handover(0, true)]);
    let job = log.begin_sync(&mut done).unwrap();
    (1..100)
        .take_while(|&ticket| !log.is_full() && !write(&mut log, vec![handover(ticket, false)]).is_empty())
        .count();
    log.end_sync(job.run(), &mut done);
    assert!(log.append_at_once(handover(100, false)).is_err());
}

#[test]
fn an_empty_handover_writes_nothing_but_can_ask_to_sync() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    let nothing = |sync| Handover { shard: 0, ticket: 0, records: Records::new(), sync, urgent: true };
    append(&mut log, vec![nothing(true), nothing(false)]);
    assert_eq!(disk.changes(), 0);
    append(&mut log, vec![handover(1, false)]);
    append(&mut log, vec![nothing(true)]);
    append(&mut log, vec![nothing(true)]);
    assert_eq!((disk.count(Op::Write), disk.count(Op::Sync)), (1, 1));
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Power), 1 << 20).1), [1]);
}

#[test]
fn files_roll_and_a_batch_may_exceed_one() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 300);
    let mut records = Records::new();
    records.push(7, 0, 1, &[&[1; 5000]]);
    append(&mut log, vec![Handover { shard: 0, ticket: 0, records, sync: false, urgent: true }]);
    for ticket in 1..=20 {
        append(&mut log, vec![handover(ticket, false)]);
    }
    let spans: Vec<_> = log.spans().values().copied().collect();
    assert_eq!(spans.len(), 11);
    assert!(spans.windows(2).all(|pair| pair[0].last_batch + 1 == pair[1].first_batch));
    assert_eq!(spans.iter().map(|span| span.records).sum::<u64>(), 21);
    assert!(disk.count(Op::Sync) > 0, "unsynced files do not accumulate");
    drop(log);
    let (log, records) = open(&disk, 300);
    assert_eq!(seqs(&records), (0..=20).collect::<Vec<_>>());
    assert_eq!(log.spans().values().copied().collect::<Vec<_>>(), spans);
}

#[test]
fn a_full_disk_returns_the_records_and_service_resumes() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    assert!(append(&mut log, vec![handover(1, true)])[0].result.is_ok());
    disk.fail(&[Op::Create, Op::Write], 1000, ENOSPC);
    for ticket in 2..50 {
        let done = append(&mut log, vec![handover(ticket, ticket % 2 == 0)]).remove(0);
        let error = done.result.unwrap_err();
        assert_eq!((error.errno, error.records.len()), (Some(ENOSPC), 1));
        assert!(error.to_string().contains("No space left"), "{error}");
    }
    assert!(disk.files().len() < 8, "failed attempts leave few files");
    disk.heal();
    assert!(append(&mut log, vec![handover(50, true)])[0].result.is_ok());
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Power), 1 << 20).1), [1, 50]);
}

#[test]
fn a_failed_sync_is_never_believed_later() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    assert!(append(&mut log, vec![handover(1, false)])[0].result.is_ok());
    // The first sync fails. Its retry goes to a new file and includes what was written before.
    disk.fail_nth(1, EIO);
    assert!(append(&mut log, vec![handover(2, true)])[0].result.is_ok());
    assert_eq!(disk.count(Op::Create), 2);
    drop(log);
    for _ in 0..20 {
        assert_eq!(seqs(&open(&disk.crash(Crash::Power), 1 << 20).1), [1, 2]);
    }
}

#[test]
fn a_disk_that_refuses_to_sync_still_accepts_unsynced_writes() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    disk.fail(&[Op::Sync], 1000, EIO);
    assert!(append(&mut log, vec![handover(1, false)])[0].result.is_ok());
    assert!(append(&mut log, vec![handover(2, true)])[0].result.is_err());
    assert!(append(&mut log, vec![handover(3, false)])[0].result.is_ok());
    disk.heal();
    assert!(append(&mut log, vec![handover(4, true)])[0].result.is_ok());
    drop(log);
    assert_eq!(seqs(&open(&disk.crash(Crash::Power), 1 << 20).1), [1, 2, 3, 4], "what was written stays");
}

#[test]
fn a_dead_disk_refuses_everything_in_bounded_work() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, 1 << 20);
    append(&mut log, vec![handover(1, true)]);
    disk.fail(&CHANGES, 1000, EIO);
    for ticket in 2..100 {
        assert!(append(&mut log, vec![handover(ticket, true)])[0].result.is_err());
    }
    assert!(disk.changes() < 100 * 12, "{}", disk.changes());
    assert!(log.close().is_err());
}
