//! The log in a real directory.

use std::path::PathBuf;
use std::sync::mpsc;

use bytes::Bytes;
use wal::{
    Completion, Flaw, Handover, LARGE, Log, OpenError, Options, PackError, PackOptions, PackReader, Packs,
    ReadError, RealDisk, Record, Records, Recovery, Run, Step, Streams, Writer,
};

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sluice-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn open(&self) -> Result<(Log<RealDisk>, Recovery, Vec<Record>), OpenError> {
        let mut records = Vec::new();
        let disk = RealDisk::new(&self.0).unwrap();
        let (log, recovery) = Log::open(disk, Options::default(), &mut |record| records.push(record))?;
        Ok((log, recovery, records))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn handover(shard: u32, ticket: u64, sync: bool) -> Handover {
    let mut records = Records::new();
    records.push(u64::from(shard), ticket, 1, &[b"small ", &ticket.to_le_bytes()]);
    let tail = Bytes::from(vec![shard as u8; LARGE + 1]);
    records.push_shared(u64::from(shard), ticket, 2, |out| out.extend_from_slice(b"head"), &tail);
    Handover { shard, ticket, records, sync, urgent: true }
}

#[test]
fn what_was_written_is_read_back() {
    let directory = Directory::new("read-back");
    let (mut log, recovery, records) = directory.open().unwrap();
    assert!(recovery.clean && records.is_empty());
    let mut done = Vec::new();
    // More pieces than one vectored write takes.
    let mut handovers: Vec<Handover> = (0..2000).map(|ticket| handover(1, ticket, ticket == 0)).collect();
    log.append(&mut handovers, &mut done);
    assert!(handovers.is_empty());
    assert!(done.iter().enumerate().all(|(i, c)| c.ticket == i as u64 && c.shard == 1 && c.result.is_ok()));
    drop(log);

    let (log, recovery, records) = directory.open().unwrap();
    assert!(!recovery.clean && recovery.cut.is_none() && recovery.damage.is_empty());
    assert_eq!((recovery.records, records.len()), (4000, 4000));
    for (i, record) in records.iter().enumerate() {
        assert_eq!((record.owner, record.seq, record.kind), (1, i as u64 / 2, 1 + (i % 2) as u8));
    }
    assert_eq!(records[1].body, [b"head".as_slice(), &[1; LARGE + 1]].concat());
    log.close().unwrap();

    let (log, recovery, records) = directory.open().unwrap();
    assert!(recovery.clean);
    assert_eq!(records.len(), 4000);
    let names = std::fs::read_dir(&directory.0).unwrap().count();
    log.close().unwrap();
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), names, "nothing to close, nothing written");
}

#[test]
fn a_second_opener_is_refused() {
    let directory = Directory::new("locked");
    let first = directory.open().unwrap();
    assert!(matches!(directory.open(), Err(OpenError::Locked)));
    drop(first);
    directory.open().unwrap();
}

#[test]
fn a_lock_that_cannot_be_opened_is_named() {
    let directory = Directory::new("unlockable");
    std::fs::create_dir_all(directory.0.join("lock")).unwrap();
    let disk = || RealDisk::new(&directory.0).unwrap();
    let said = [
        directory.open().map(|_| ()).unwrap_err().to_string(),
        Packs::open(disk(), PackOptions::default(), [], false).map(|_| ()).unwrap_err().to_string(),
        Streams::new(disk()).map(|_| ()).unwrap_err().to_string(),
    ];
    for (said, file) in said.iter().zip(["log file lock: ", "pack lock: ", "stream file lock: "]) {
        assert!(said.starts_with(file), "{said}");
    }
}

#[test]
fn the_writer_answers_every_handover_once_and_in_order() {
    let directory = Directory::new("writer");
    let (log, ..) = directory.open().unwrap();
    let (sender, answers) = mpsc::channel::<Completion>();
    let on_done = move |done: &mut Vec<Completion>| done.drain(..).for_each(|c| sender.send(c).unwrap());
    let writer = Writer::spawn(log, Box::new(on_done)).unwrap();
    let shards: Vec<_> = (0..3)
        .map(|shard| {
            let writer = writer.clone();
            std::thread::spawn(move || (0..200).for_each(|t| writer.send(handover(shard, t, t % 50 == 0))))
        })
        .collect();
    shards.into_iter().for_each(|shard| shard.join().unwrap());
    writer.stop().unwrap();
    let (mut written, mut synced) = ([0; 3], [0; 3]);
    for completion in answers {
        let shard = completion.shard as usize;
        completion.result.unwrap();
        match completion.step {
            Step::Written => {
                assert_eq!(completion.ticket, written[shard]);
                written[shard] += 1;
            }
            Step::Synced => {
                assert_eq!(completion.ticket, 50 * synced[shard]);
                assert!(completion.ticket < written[shard]);
                synced[shard] += 1;
            }
        }
    }
    assert_eq!((written, synced), ([200; 3], [4; 3]));
    let (_, recovery, records) = directory.open().unwrap();
    assert!(recovery.clean);
    assert_eq!(records.len(), 3 * 2 * 200);
}

#[test]
fn the_writer_forgets_after_earlier_handovers() {
    let directory = Directory::new("forget");
    let options = || Options { file_bytes: 20_000, ..Options::default() };
    let (log, _) = Log::open(RealDisk::new(&directory.0).unwrap(), options(), &mut |_| ()).unwrap();
    let (sender, answers) = mpsc::channel::<Completion>();
    let on_done = move |done: &mut Vec<Completion>| done.drain(..).for_each(|c| sender.send(c).unwrap());
    let writer = Writer::spawn(log, Box::new(on_done)).unwrap();
    let mut files = Vec::new();
    for ticket in 0..20 {
        writer.send(handover(1, ticket, false));
        files.push(answers.recv().unwrap().file);
    }
    assert_eq!((files[0], files[19]), (1, 4));
    writer.forget(1);
    writer.forget(2);
    writer.send(handover(1, 20, false));
    writer.stop().unwrap();
    let mut seqs = Vec::new();
    let (log, recovery) =
        Log::open(RealDisk::new(&directory.0).unwrap(), options(), &mut |record| seqs.push(record.seq))
            .unwrap();
    assert!(recovery.clean);
    let kept = files.iter().filter(|&&file| file > 2).count();
    assert_eq!(seqs.len(), 2 * (kept + 1));
    assert_eq!(log.size().oldest, Some(3));
    let files = std::fs::read_dir(&directory.0).unwrap().map(Result::unwrap);
    let on_disk = files.filter(|file| file.file_name() != "lock").map(|file| file.metadata().unwrap().len());
    assert_eq!(on_disk.sum::<u64>(), log.size().bytes);
}

#[test]
fn a_record_keeps_no_other_bytes_in_memory() {
    let directory = Directory::new("alone");
    let (mut log, ..) = directory.open().unwrap();
    log.append(&mut vec![handover(1, 1, false), handover(1, 2, false)], &mut Vec::new());
    drop(log);
    let (_, _, records) = directory.open().unwrap();
    assert_eq!(records.len(), 4);
    assert!(records.iter().all(|record| record.body.is_unique()), "a body is a slice of a larger buffer");
}

#[test]
fn packs_are_in_a_directory_of_their_own() {
    let directory = Directory::new("packs");
    let disk = || RealDisk::new(&directory.0).unwrap();
    let open = |known: &[_]| Packs::open(disk(), PackOptions::default(), known.iter().copied(), false);
    let mut packs = open(&[]).unwrap();
    let mut run = Run::new(5);
    (0..3000).for_each(|seq| run.push(seq, 1, &seq.to_le_bytes(), Bytes::from(vec![7; 100])));
    run.push(3000, 1, b"head", Bytes::from(vec![9; 1 << 20]));
    let bytes = run.bytes();
    let extent = packs.write(vec![run]).unwrap()[0];
    assert!(matches!(open(&[extent]).map(|_| ()), Err(PackError::Locked)));
    drop(packs);

    let mut packs = open(&[extent]).unwrap();
    let length = std::fs::metadata(directory.0.join("00000000000000000001.pack")).unwrap().len();
    assert_eq!(packs.bytes(), (length, u64::from(extent.bytes)));
    let mut reader = PackReader::new(disk());
    let (mut at, mut seqs, mut blocks) = (Some(0), 0, 0);
    while let Some(from) = at {
        let block = reader.read(extent, 5, from).unwrap();
        for record in block.records {
            assert_eq!((record.owner, record.seq, record.kind), (5, seqs, 1));
            seqs += 1;
        }
        blocks += 1;
        at = block.next;
    }
    assert_eq!((seqs, blocks, extent.bytes as usize), (3001, 3, bytes + 3 * 20));
    packs.release(extent);
    assert_eq!(packs.bytes(), (0, 0));
    let error = PackReader::new(disk()).read(extent, 5, 0);
    assert!(matches!(error, Err(ReadError::Damaged { pack: 1, offset: 48, what: Flaw::Missing })));
}
