//! The threads of streams, on a real directory.

use std::sync::mpsc;

use crate::chunks::{LIMITS, chunk, job};
use wal::{ChunksRead, ReadFrom, RealDisk, Retained, StreamAnswer, StreamJob, StreamReader, Streams};
use wal_testing::SimDisk;

#[test]
fn everything_is_answered_once_and_survives_a_restart() {
    let directory = std::env::temp_dir().join(format!("sluice-streams-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let disk = || RealDisk::new(&directory).unwrap();
    let (mut kepts, mut at_once) = (Vec::new(), Vec::new());
    for life in 0..2 {
        let (tell, answers) = mpsc::channel();
        let streams = Streams::new(disk()).unwrap();
        let handle = streams
            .spawn(Box::new(move |answers| answers.drain(..).for_each(|answer| tell.send(answer).unwrap())))
            .unwrap();
        for stream in 0..20 {
            handle.send(StreamJob::Open { shard: 1, stream, limits: LIMITS, sync: false, now_ms: 0 });
        }
        let mut next = [0; 20];
        for _ in 0..20 {
            match answers.recv().unwrap() {
                StreamAnswer::Opened { shard: 1, stream, result: Ok(kept), cut: None, .. } => {
                    next[stream as usize] = kept.next;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(next, [life * 50; 20]);
        for round in 0..10 {
            for stream in 0..20 {
                let first = next[stream as usize];
                let chunks = (0..5).map(|n| chunk(first + n, 1, 10 * round, 100)).collect();
                let job = StreamJob::Append { shard: 1, stream, chunks, sync: stream % 4 == 0 };
                match handle.try_append(job) {
                    Ok(answer) => at_once.push(answer),
                    Err(job) => handle.send(job),
                }
            }
            for _ in 0..20 {
                match at_once.pop().unwrap_or_else(|| answers.recv().unwrap()) {
                    StreamAnswer::Appended { shard: 1, stream, result: Ok(kept) } => {
                        assert_eq!(kept.next, next[stream as usize] + 5);
                        next[stream as usize] = kept.next;
                        kepts.resize(20, Retained::default());
                        kepts[stream as usize] = kept;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        handle.stop().unwrap();
        assert!(answers.try_recv().is_err(), "nothing is answered twice");
    }
    let (tell, answers) = mpsc::channel();
    let reader = StreamReader::new(disk()).spawn(Box::new(move |read| tell.send(read).unwrap())).unwrap();
    for (stream, kept) in (0..20).zip(&kepts) {
        reader.send(wal::ChunkJob {
            shard: 2,
            ticket: stream + 7,
            ..job(stream, ReadFrom::Offset(42), kept)
        });
    }
    reader.stop().unwrap();
    for (stream, ChunksRead { shard, ticket, result }) in (0..).zip(answers) {
        let read = result.unwrap();
        assert_eq!((shard, ticket, read.end), (2, stream + 7, true));
        assert!(read.chunks.iter().map(|chunk| chunk.first).eq(42..100));
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_shard_appends_by_itself_while_the_thread_sleeps() {
    let disk = SimDisk::new(1);
    let (tell, answers) = mpsc::channel();
    let streams = Streams::new(disk.clone()).unwrap();
    let on_answers =
        move |answers: &mut Vec<_>| answers.drain(..).for_each(|answer| tell.send(answer).unwrap());
    let handle = streams.spawn(Box::new(on_answers)).unwrap();
    let append = |first| {
        let chunks = vec![chunk(first, 1, 0, 100)];
        StreamJob::Append { shard: 1, stream: 7, chunks, sync: false }
    };
    handle.send(StreamJob::Open { shard: 1, stream: 7, limits: LIMITS, sync: false, now_ms: 0 });
    assert!(matches!(answers.recv().unwrap(), StreamAnswer::Opened { result: Ok(_), .. }));
    handle.send(append(0));
    assert!(matches!(answers.recv().unwrap(), StreamAnswer::Appended { result: Ok(_), .. }));
    for first in 1..50 {
        let mut job = append(first);
        let answer = loop {
            match handle.try_append(job) {
                Ok(answer) => break answer,
                Err(back) => job = back,
            }
            std::thread::yield_now();
        };
        let StreamAnswer::Appended { shard: 1, stream: 7, result: Ok(kept) } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(kept.next, first + 1);
    }
    let other = handle.clone();
    handle.stop().unwrap();
    assert!(answers.recv().is_err(), "an immediate answer is not repeated");
    assert!(other.try_append(append(50)).is_err(), "there are no streams any more");
}
