//! The threads of the log while a direct write is in flight.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::sleep;
use std::time::Duration;

use crate::slow_disk::{Gate, SlowDisk};
use wal::{BLOCK, Completion, Handover, Log, Options, Records, Step, Writer, WriterHandle};
use wal_testing::{Crash, Op, SimDisk};

const FILE_BYTES: u64 = 64 * BLOCK as u64;

struct Setup {
    disk: SimDisk,
    writer: WriterHandle<SlowDisk>,
    gate: Gate,
    answers: Receiver<Completion>,
    /// While a message is missing here, the log is in use after each answer to ticket [`BUSY`].
    go: Sender<()>,
}

/// The answer to this ticket keeps the log in use.
const BUSY: u64 = 1_000_000;

fn handover(shard: u32, ticket: u64, sync: bool, urgent: bool) -> Handover {
    let mut records = Records::new();
    records.push(u64::from(shard), ticket, 1, &[&[ticket as u8; 100]]);
    Handover { shard, ticket, records, sync, urgent }
}

/// What the log may write directly, or keep.
fn lazy(shard: u32, ticket: u64) -> Handover {
    handover(shard, ticket, true, false)
}

fn urgent(ticket: u64) -> Handover {
    handover(9, ticket, false, true)
}

/// Starts a log. A direct write is in flight, with the ticket 1000 of shard 0.
fn in_flight() -> Setup {
    let disk = SimDisk::new(1);
    disk.allow_direct();
    let options = Options { file_bytes: FILE_BYTES, seed: Some(1), direct_after: 3, ..Options::default() };
    let (_, no_wait) = channel();
    let slow = SlowDisk::new(&disk, no_wait);
    let gate = slow.gate();
    let (log, _) = Log::open(slow, options, &mut |_| ()).unwrap();
    let ((sender, answers), (go, wait)) = (channel(), channel::<()>());
    let on_done = move |done: &mut Vec<Completion>| {
        let is_busy = done.iter().any(|done| done.ticket == BUSY);
        done.drain(..).for_each(|done| drop(sender.send(done)));
        if is_busy {
            let _ = wait.recv();
        }
    };
    let writer = Writer::spawn(log, Box::new(on_done)).unwrap();
    let setup = Setup { disk, writer, gate, answers, go };
    for ticket in 1..1000 {
        setup.writer.send(lazy(0, ticket));
        setup.until(|done| done.ticket == ticket && done.step == Step::Written);
        if setup.disk.count(Op::Direct) > 0 {
            setup.writer.end_direct();
        }
        setup.until(|done| done.ticket == ticket && done.step == Step::Synced);
        if setup.disk.count(Op::Direct) > 2 {
            break;
        }
    }
    setup.gate.shut();
    setup.writer.send(lazy(0, 1000));
    setup.until(|done| done.ticket == 1000);
    setup
}

impl Setup {
    /// Waits for an answer. Returns the tickets of all answers up to it, in their order.
    fn until(&self, is: impl Fn(&Completion) -> bool) -> Vec<(u64, Step)> {
        let mut all = Vec::new();
        loop {
            let done = self.answers.recv().unwrap();
            assert!(done.result.is_ok());
            all.push((done.ticket, done.step));
            if is(&done) {
                return all;
            }
        }
    }

    /// Hands over, as soon as the log's thread sleeps, what the log keeps.
    fn keep(&self, mut handover: Handover) {
        loop {
            match self.writer.try_write(handover) {
                Ok(completion) => return assert!(completion.is_none(), "it is kept"),
                Err(back) => handover = back,
            }
            std::thread::yield_now();
        }
    }

    /// Lets the log be in use until [`Setup::go`] gets a message.
    fn use_log(&self) {
        // It has no records, so that the log goes on to write directly.
        self.writer.send(Handover { records: Records::new(), ..urgent(BUSY) });
        self.until(|done| done.ticket == BUSY);
    }

    fn stop(self) -> Vec<u64> {
        let Self { disk, writer, gate, go, .. } = self;
        drop(go);
        gate.open();
        writer.stop().unwrap();
        let mut seqs = Vec::new();
        let (_, recovery) =
            Log::open(disk.crash(Crash::Power), Options::default(), &mut |r| seqs.push(r.seq)).unwrap();
        assert!(recovery.clean);
        seqs
    }
}

#[test]
fn a_kept_handover_hurries_also_while_the_log_is_in_use() {
    for is_kept_before in [true, false] {
        let log = in_flight();
        if is_kept_before {
            log.keep(lazy(0, 2000));
        }
        log.use_log();
        if !is_kept_before {
            log.writer.send(lazy(0, 2000));
        }
        log.writer.hurry();
        log.go.send(()).unwrap();
        // By then, the log has done all that it does by itself.
        sleep(Duration::from_millis(20));
        log.writer.send(urgent(2001));
        let answered = log.until(|done| done.ticket == 2001);
        assert!(answered.contains(&(2000, Step::Written)), "{is_kept_before}: {answered:?}");
        let found = log.stop();
        assert_eq!(found[found.len() - 2..], [2000, 2001]);
    }
}

#[test]
fn a_shard_that_ends_a_direct_write_makes_and_removes_no_file() {
    let log = in_flight();
    let oldest = log.disk.files().keys().filter(|name| name.ends_with(".log")).count();
    assert!(oldest > 1, "the first file was not filled");
    // The current file is full.
    let mut large = Records::new();
    large.push(0, 2000, 1, &[&vec![1; FILE_BYTES as usize]]);
    log.writer.send(Handover { shard: 1, ticket: 2000, records: large, sync: false, urgent: true });
    log.until(|done| done.ticket == 2000);
    log.writer.forget(1);
    // By then, the log is not in use, so that this thread could do everything.
    sleep(Duration::from_millis(20));
    log.gate.take_file_work_here();
    log.gate.open();
    log.writer.end_direct();
    assert_eq!(log.gate.take_file_work_here(), []);
    log.until(|done| done.ticket == 1000 && done.step == Step::Synced);
    log.stop();
}

#[test]
fn a_full_log_ends_its_direct_write_if_the_shards_have_ended() {
    let log = in_flight();
    let unsynced = Options::default().dirty_files_max * 2;
    for part in 0..unsynced as u64 + 2 {
        let mut records = Records::new();
        records.push(0, 2000 + part, 1, &[&vec![1; FILE_BYTES as usize]]);
        log.writer.send(Handover { shard: 1, ticket: 2000 + part, records, sync: true, urgent: true });
        log.until(|done| done.ticket == 2000 + part);
    }
    // Now it is full, so this waits for the direct write.
    log.writer.send(urgent(3000));
    sleep(Duration::from_millis(20));
    let found = log.stop();
    assert_eq!(found.last(), Some(&3000));
}
