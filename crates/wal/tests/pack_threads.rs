//! The threads of packs: every job is answered once and in order, and a read does not wait for a sync.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::slow_disk::SlowDisk;
use bytes::Bytes;
use wal::{
    BlockRead, Extent, PackJob, PackOptions, PackReader, PackReaderHandle, PackRound, Packs, PacksHandle,
    ReadJob, Run,
};
use wal_testing::{Op, SimDisk};

struct Threads {
    go: Sender<()>,
    packs: PacksHandle,
    rounds: Receiver<PackRound>,
    reader: PackReaderHandle,
    reads: Receiver<BlockRead>,
}

fn threads(disk: &SimDisk) -> Threads {
    let (go, wait) = channel();
    let options = PackOptions { garbage_allowed: 100, ..PackOptions::default() };
    let packs = Packs::open(SlowDisk::new(disk, wait), options, [], false).unwrap();
    let (on_round, rounds) = channel();
    let packs = packs.spawn(Box::new(move |round| drop(on_round.send(round)))).unwrap();
    let (on_read, reads) = channel();
    let reader = PackReader::new(disk.clone());
    let reader = reader.spawn(Box::new(move |read| drop(on_read.send(read)))).unwrap();
    Threads { go, packs, rounds, reader, reads }
}

fn job(ticket: u64) -> PackJob {
    let mut run = Run::new(ticket);
    run.push(ticket, 1, &[ticket as u8; 100], Bytes::new());
    PackJob { shard: 7, ticket, runs: vec![run] }
}

fn extent(round: &PackRound) -> Extent {
    assert_eq!(round.packed.len(), 1);
    round.packed[0].result.as_ref().unwrap()[0]
}

#[test]
fn a_read_does_not_wait_for_a_sync() {
    let disk = SimDisk::new(1);
    let Threads { go, packs, rounds, reader, reads } = threads(&disk);
    packs.send(job(1));
    go.send(()).unwrap();
    let first = extent(&rounds.recv().unwrap());
    packs.send(job(2));
    // The second sync cannot continue until the first pack was read.
    reader.send(ReadJob { shard: 3, ticket: 9, extent: first, owner: 1, at: 0 });
    let BlockRead { shard, ticket, result } = reads.recv().unwrap();
    assert_eq!((shard, ticket, result.unwrap().records[0].seq), (3, 9, 1));
    assert!(rounds.try_recv().is_err());
    go.send(()).unwrap();
    assert_eq!(extent(&rounds.recv().unwrap()).pack, 2);
}

#[test]
fn everything_is_answered_once_before_the_end() {
    let disk = SimDisk::new(1);
    let Threads { go, packs, rounds, reader, reads } = threads(&disk);
    drop(go);
    disk.fail(&[Op::Sync], 300, libc::EIO);
    let mut unanswered: BTreeMap<u64, PackJob> = (0..50).map(|ticket| (ticket, job(ticket))).collect();
    (0..50).for_each(|ticket| packs.send(job(ticket)));
    packs.stop().unwrap();
    let mut refused = 0;
    for (next, packed) in (0..).zip(rounds.iter().flat_map(|round| round.packed)) {
        assert_eq!((packed.shard, packed.ticket), (7, next));
        let job = unanswered.remove(&next).unwrap();
        match packed.result {
            Ok(extents) => {
                reader.send(ReadJob {
                    shard: 0,
                    ticket: job.ticket,
                    extent: extents[0],
                    owner: job.ticket,
                    at: 0,
                });
            }
            Err(failure) => {
                assert_eq!(failure.runs[0].bytes(), job.runs[0].bytes());
                refused += 1;
            }
        }
    }
    assert!(unanswered.is_empty() && refused > 0);
    reader.stop().unwrap();
    let reads: Vec<BlockRead> = reads.iter().collect();
    assert_eq!(reads.len(), 50 - refused);
    assert!(reads.iter().all(|read| read.result.as_ref().unwrap().records[0].seq == read.ticket));
}

#[test]
fn released_extents_are_reported_and_free_the_disk() {
    let disk = SimDisk::new(1);
    let Threads { go, packs, rounds, .. } = threads(&disk);
    drop(go);
    let runs = (1..=3).flat_map(|ticket| job(ticket).runs).collect();
    packs.send(PackJob { shard: 0, ticket: 0, runs });
    let round = rounds.recv().unwrap();
    let extents = round.packed[0].result.as_ref().unwrap().clone();
    assert_eq!((round.bytes, round.sparse), ((48 + 3 * 144, 3 * 144), None));
    packs.release(extents[0]);
    let round = rounds.recv().unwrap();
    assert_eq!((round.packed.len(), round.bytes, round.sparse), (0, (48 + 3 * 144, 2 * 144), None));
    packs.release(extents[2]);
    assert_eq!(rounds.recv().unwrap().sparse, Some(1));
    packs.release(extents[1]);
    assert_eq!(rounds.recv().unwrap().bytes, (0, 0));
    assert!(disk.files().is_empty());
}
