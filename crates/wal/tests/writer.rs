//! The threads of the log: writing waits for no sync, and every handover is answered at the end.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::sleep;
use std::time::Duration;

use crate::slow_disk::SlowDisk;
use wal::{Completion, Handover, Log, Options, Records, Step, UNSYNCED_BYTES_MAX, Writer, WriterHandle};
use wal_testing::{Crash, Op, SimDisk};

fn writer(disk: &SimDisk) -> (Sender<()>, WriterHandle<SlowDisk>, Receiver<Completion>) {
    let (go, wait) = channel();
    let options = Options { seed: Some(1), ..Options::default() };
    let (log, _) = Log::open(SlowDisk::new(disk, wait), options, &mut |_| ()).unwrap();
    let (sender, answers) = channel();
    let on_done = move |done: &mut Vec<Completion>| done.drain(..).for_each(|c| sender.send(c).unwrap());
    (go, Writer::spawn(log, Box::new(on_done)).unwrap(), answers)
}

fn handover(ticket: u64, sync: bool) -> Handover {
    let mut records = Records::new();
    records.push(7, ticket, 1, &[&[ticket as u8; 100]]);
    Handover { shard: 0, ticket, records, sync, urgent: true }
}

fn next(answers: &Receiver<Completion>) -> (u64, Step) {
    let Completion { ticket, step, result, .. } = answers.recv().unwrap();
    result.unwrap();
    (ticket, step)
}

/// Writes on this thread as soon as the log's thread sleeps.
fn write(writer: &WriterHandle<SlowDisk>, mut handover: Handover) -> Completion {
    loop {
        match writer.try_write(handover) {
            Ok(completion) => return completion.expect("nothing is kept"),
            Err(back) => handover = back,
        }
        std::thread::yield_now();
    }
}

fn seqs(disk: &SimDisk) -> Vec<u64> {
    let mut seqs = Vec::new();
    Log::open(disk.crash(Crash::Process), Options::default(), &mut |record| seqs.push(record.seq)).unwrap();
    seqs
}

#[test]
fn a_shard_writes_by_itself_while_the_thread_sleeps_even_during_a_sync() {
    let disk = SimDisk::new(1);
    let (go, writer, answers) = writer(&disk);
    writer.send(handover(1, true));
    assert_eq!(next(&answers), (1, Step::Written));
    for ticket in 2..50 {
        let Completion { ticket: of, step, result, .. } = write(&writer, handover(ticket, false));
        assert_eq!((of, step, result.is_ok()), (ticket, Step::Written, true));
    }
    assert_eq!(write(&writer, handover(50, true)).step, Step::Written);
    assert_eq!((disk.count(Op::Write), disk.count(Op::Sync)), (50, 0));
    drop(go);
    assert_eq!([next(&answers), next(&answers)], [(1, Step::Synced), (50, Step::Synced)]);
    let other = writer.clone();
    writer.stop().unwrap();
    assert!(answers.recv().is_err(), "an immediate answer is not repeated");
    assert!(other.try_write(handover(51, false)).is_err(), "there is no log any more");
    assert_eq!(seqs(&disk), (1..=50).collect::<Vec<_>>());
}

#[test]
fn a_shard_that_writes_by_itself_is_told_of_its_sync() {
    let disk = SimDisk::new(1);
    let (go, writer, answers) = writer(&disk);
    writer.send(handover(1, false));
    assert_eq!(next(&answers), (1, Step::Written));
    for ticket in 2..20 {
        // Two handovers ask while the sync of the first one waits. One more sync serves both.
        for ticket in [100 * ticket, 100 * ticket + 1, 100 * ticket + 2] {
            assert_eq!(write(&writer, handover(ticket, true)).step, Step::Written);
        }
        let syncs = disk.count(Op::Sync);
        go.send(()).unwrap();
        assert_eq!(next(&answers), (100 * ticket, Step::Synced));
        go.send(()).unwrap();
        assert_eq!(next(&answers), (100 * ticket + 1, Step::Synced));
        assert_eq!(next(&answers), (100 * ticket + 2, Step::Synced));
        assert_eq!(disk.count(Op::Sync), syncs + 2);
    }
    drop(go);
    writer.stop().unwrap();
    assert!(answers.recv().is_err(), "answered once");
}

#[test]
fn a_shard_hands_over_while_the_thread_is_awake() {
    let disk = SimDisk::new(1);
    let (log, _) = Log::open(disk.clone(), Options::default(), &mut |_| ()).unwrap();
    let ((answered, answers), (go, wait)) = (channel(), channel::<()>());
    let on_done = move |done: &mut Vec<Completion>| {
        done.drain(..).for_each(|completion| answered.send(completion).unwrap());
        let _ = wait.recv();
    };
    let writer = Writer::spawn(log, Box::new(on_done)).unwrap();
    writer.send(handover(1, false));
    assert_eq!(next(&answers), (1, Step::Written));
    // The round is not over yet.
    let back = writer.try_write(handover(2, false)).unwrap_err();
    assert_eq!((back.ticket, back.records.len()), (2, 1));
    writer.send(back);
    assert!(writer.try_write(handover(3, false)).is_err(), "no handover overtakes a waiting one");
    drop(go);
    assert_eq!(next(&answers), (2, Step::Written));
    writer.stop().unwrap();
    assert_eq!(seqs(&disk), [1, 2]);
}

#[test]
fn a_failed_immediate_write_is_left_to_the_thread() {
    let disk = SimDisk::new(1);
    let (go, writer, answers) = writer(&disk);
    drop(go);
    writer.send(handover(1, false));
    assert_eq!(next(&answers), (1, Step::Written));
    write(&writer, handover(2, false));
    disk.fail(&[Op::Write], 1000, libc::EIO);
    while disk.count(Op::Truncate) == 0 {
        assert_eq!(writer.try_write(handover(3, false)).unwrap_err().records.len(), 1);
    }
    disk.heal();
    writer.send(handover(3, false));
    assert_eq!(next(&answers), (3, Step::Written));
    write(&writer, handover(4, false));
    writer.stop().unwrap();
    assert_eq!(seqs(&disk), [1, 2, 3, 4]);
}

#[test]
fn a_round_does_not_wait_for_a_sync() {
    let disk = SimDisk::new(1);
    let (go, writer, answers) = writer(&disk);
    for ticket in 0..100 {
        // Only one of these syncs begins, because no message lets it continue.
        writer.send(handover(ticket, ticket % 2 == 0));
        assert_eq!(next(&answers), (ticket, Step::Written));
    }
    assert_eq!(disk.count(Op::Sync), 0);
    go.send(()).unwrap();
    assert_eq!(next(&answers), (0, Step::Synced));
    go.send(()).unwrap();
    for ticket in 1..50 {
        assert_eq!(next(&answers), (2 * ticket, Step::Synced));
    }
    assert_eq!(disk.count(Op::Sync), 2, "one for all that asked during the first");
    drop(go);
    writer.stop().unwrap();
}

#[test]
fn handovers_to_a_full_log_are_answered_when_it_is_no_longer_full() {
    let disk = SimDisk::new(1);
    let (go, writer, answers) = writer(&disk);
    let mut records = Records::new();
    records.push(7, 1, 1, &[&vec![1; UNSYNCED_BYTES_MAX as usize]]);
    writer.send(Handover { shard: 0, ticket: 1, records, sync: true, urgent: true });
    assert_eq!(next(&answers), (1, Step::Written));
    // Most of them get a round of their own, in which nothing is written.
    for ticket in 2..10 {
        writer.send(handover(ticket, false));
        std::thread::sleep(Duration::from_millis(2));
    }
    go.send(()).unwrap();
    assert_eq!(next(&answers), (1, Step::Synced));
    for ticket in 2..10 {
        assert_eq!(next(&answers), (ticket, Step::Written));
    }
}

#[test]
fn at_the_end_every_waiting_handover_is_answered() {
    let disk = SimDisk::new(1);
    let (go, writer, answers) = writer(&disk);
    writer.send(handover(1, true));
    assert_eq!(next(&answers), (1, Step::Written));
    writer.send(handover(2, true));
    assert_eq!(next(&answers), (2, Step::Written));
    let end = std::thread::spawn(|| writer.stop());
    drop(go);
    assert_eq!([next(&answers), next(&answers)], [(1, Step::Synced), (2, Step::Synced)]);
    end.join().unwrap().unwrap();
    assert!(answers.recv().is_err(), "answered once");
    let options = Options::default();
    let (_, recovery) = Log::open(disk.crash(Crash::Power), options, &mut |_| ()).unwrap();
    assert_eq!((recovery.clean, recovery.records), (true, 2));
}

#[test]
fn immediate_writes_are_noted_when_the_log_becomes_idle() {
    let disk = SimDisk::new(1);
    let (_, writer, answers) = writer(&disk);
    writer.send(handover(1, false));
    assert_eq!(next(&answers), (1, Step::Written));
    // The note is updated only after everything was idle for a while.
    for ticket in 2..5 {
        write(&writer, handover(ticket, false));
        let written = || u64::from_le_bytes(disk.note()[32..40].try_into().unwrap());
        (0..10_000).take_while(|_| written() < ticket).for_each(|_| sleep(Duration::from_millis(1)));
        assert_eq!(written(), ticket);
    }
    writer.stop().unwrap();
}
