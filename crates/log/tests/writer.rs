//! The threads of the log: writing waits for no sync, and nobody is left unanswered at the end.

mod slow_disk;

use std::sync::mpsc::{Receiver, Sender, channel};

use log::testing::{Crash, FalseDisk, Op};
use log::{Completion, Handover, Log, Options, Records, Step, Writer, WriterHandle};
use slow_disk::SlowDisk;

fn writer(disk: &FalseDisk) -> (Sender<()>, WriterHandle, Receiver<Completion>) {
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
    Handover { shard: 0, ticket, records, sync }
}

fn next(answers: &Receiver<Completion>) -> (u64, Step) {
    let Completion { ticket, step, result, .. } = answers.recv().unwrap();
    result.unwrap();
    (ticket, step)
}

#[test]
fn a_round_does_not_wait_for_a_sync() {
    let disk = FalseDisk::new(1);
    let (go, writer, answers) = writer(&disk);
    for ticket in 0..100 {
        // Only one of these syncs begins: nobody lets it go on.
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
    assert_eq!(disk.count(Op::Sync), 2, "one for all who asked while the first was under way");
    drop(go);
    writer.stop().unwrap();
}

#[test]
fn at_the_end_whoever_waits_for_a_sync_is_answered() {
    let disk = FalseDisk::new(1);
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
