//! The threads of streams, on a real directory.

mod chunks;

use std::sync::mpsc;

use chunks::{LIMITS, chunk, job};
use log::{ChunksRead, Kept, ReadFrom, RealDisk, StreamAnswer, StreamJob, StreamReader, Streams};

#[test]
fn everything_is_answered_once_and_stays() {
    let directory = std::env::temp_dir().join(format!("sluice-streams-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let disk = || RealDisk::new(&directory).unwrap();
    let mut kepts = Vec::new();
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
                StreamAnswer::Opened { shard: 1, stream, result: Ok(kept), cut: None } => {
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
                handle.send(StreamJob::Append { shard: 1, stream, chunks, sync: stream % 4 == 0 });
            }
            for _ in 0..20 {
                match answers.recv().unwrap() {
                    StreamAnswer::Appended { shard: 1, stream, result: Ok(kept) } => {
                        assert_eq!(kept.next, next[stream as usize] + 5);
                        next[stream as usize] = kept.next;
                        kepts.resize(20, Kept::default());
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
        reader.send(log::ChunkJob {
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
