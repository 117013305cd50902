//! Reports about streams, and browsing them.

use std::sync::{Arc, Mutex};

use broker::settings::Settings;
use catalog::ids::QueueId;
use queue::{Effect, Replay, Request, Start};
use wal::{ChunkJob, Chunks, ChunksRead, Position, StreamError};

use super::house::House;
use crate::asks_queues::AsksQueues;

/// Makes a stream with `messages` messages, and a client on each of two shards.
fn stream(messages: usize) -> (House, QueueId, [usize; 2]) {
    let mut house = House::new(2, Settings::default());
    let arguments = [("x-queue-type".to_owned(), "stream".into())];
    let stream = house.declare("s", arguments.into_iter().collect());
    let peers = [house.connect(0), house.connect(1)];
    let out = house.sender(peers[1], "/queues/s");
    (0..messages).for_each(|_| house.send(peers[1], out, b"1"));
    (house, stream, peers)
}

#[test]
fn deliveries_are_counted_wherever_they_are_made() {
    let (mut house, stream, peers) = stream(3);
    let delivered =
        |house: &House| house.shards.iter().map(|s| s.stream_delivered(stream)).collect::<Vec<_>>();
    let links = peers.map(|peer| house.reader(peer, "/queues/s"));
    house.grant(peers[0], links[0], 9);
    house.grant(peers[1], links[1], 2);
    assert_eq!(delivered(&house), [3, 2]);
    house.peers[peers[0]].conn.detach(0, links[0], None);
    house.settle();
    assert_eq!(delivered(&house), [3, 2], "deliveries still count after the consumer is detached");
    let link = house.reader(peers[0], "/queues/s");
    house.grant(peers[0], link, 1);
    assert_eq!(delivered(&house), [4, 2]);
}

type Answers = Arc<Mutex<Vec<Effect>>>;

fn browse(house: &mut House, stream: QueueId, n: u32) -> (u64, Answers) {
    let answers = Answers::default();
    let into = answers.clone();
    let replay = Box::new(Replay { start: Start::First, ..Replay::default() });
    let request = |ticket| Request::Browse { ticket, replay, n };
    let then = Box::new(move |effect| into.lock().unwrap().push(effect));
    let number = house.shards[0].ask(stream, request, then);
    house.settle();
    (number, answers)
}

#[test]
fn a_stream_on_another_shard_can_be_browsed() {
    let (mut house, stream, _) = stream(3);
    let (_, answers) = browse(&mut house, stream, 2);
    match &answers.lock().unwrap()[..] {
        [Effect::Fetched { deliveries, ready, .. }] => {
            assert_eq!(deliveries.iter().map(|d| d.seq).collect::<Vec<_>>(), [0, 1]);
            assert_eq!(*ready, 1);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(house.shards[0].stream_delivered(stream), 0, "nobody consumes");
}

/// A message larger than one load is read when the node has memory for it. Only its own browse waits.
#[test]
fn a_browse_that_waits_for_memory_delays_no_other() {
    let mut house = House::new(1, Settings { reader_memory: 1 << 20, ..Settings::default() });
    let publisher = house.connect(0);
    let [large, small] = [("large", 1_000_000), ("small", 100_000)].map(|(name, bytes)| {
        let arguments = [("x-queue-type".to_owned(), "stream".into())];
        let stream = house.declare(name, arguments.into_iter().collect());
        let out = house.sender(publisher, &format!("/queues/{name}"));
        (0..30).for_each(|_| house.send(publisher, out, &vec![b'x'; bytes]));
        stream
    });
    let deaf = house.connect(0);
    let link = house.reader(deaf, "/queues/small");
    house.peers[deaf].deaf = true;
    house.grant(deaf, link, 100);
    let (_, first) = browse(&mut house, large, 1);
    assert!(first.lock().unwrap().is_empty(), "the node has no memory for a large message");
    let (_, second) = browse(&mut house, small, 1);
    // The bytes that a browse has read count until the answer is dropped.
    assert_eq!(second.lock().unwrap().drain(..).count(), 1, "there is always memory for a small read");
    let key = house.peers[deaf].key;
    house.shards[0].disconnect(key);
    house.settle();
    assert_eq!(first.lock().unwrap().len(), 1);
}

/// A browse also leaves nothing behind if the disk keeps failing and is tried again until the browse is given
/// up.
#[test]
fn a_browse_that_is_given_up_leaves_nothing() {
    let (mut house, stream, _) = stream(3);
    house.reads_stopped = true;
    let (number, answers) = browse(&mut house, stream, 2);
    let fail = |house: &mut House| {
        let reads = std::mem::take(&mut house.reads);
        let count = reads.len();
        for ChunkJob { shard, ticket, .. } in reads {
            let error = std::io::Error::other("false");
            let result = Err(StreamError::Io { file: "s".into(), error });
            house.shards[shard as usize].handle_chunks(ChunksRead { shard, ticket, result });
        }
        house.now_ms += 1000;
        house.settle();
        count
    };
    assert_eq!([fail(&mut house), fail(&mut house)], [1, 1], "it is tried again");
    house.shards[0].give_up(number);
    house.settle();
    assert_eq!([fail(&mut house), fail(&mut house)], [1, 0], "nobody needs it");
    house.reads_stopped = false;
    house.settle();
    assert!(answers.lock().unwrap().is_empty());
    house.shards[0].give_up(number);
    house.settle();
}

/// A stream on which the disk fails waits behind the others, which are checked meanwhile. Users have the disk between two
/// jobs.
#[test]
fn a_disk_that_fails_for_one_stream_holds_up_no_check() {
    let mut house = House::new(1, Settings::default());
    let publisher = house.connect(0);
    let [first, second] = ["s", "t"].map(|name| {
        let arguments = [("x-queue-type".to_owned(), "stream".into())];
        let stream = house.declare(name, arguments.into_iter().collect());
        // The message opens the stream.
        let out = house.sender(publisher, &format!("/queues/{name}"));
        house.send(publisher, out, b"1");
        stream
    });
    house.reads_stopped = true;
    [first, second].iter().for_each(|queue| house.shards[0].check_stream(*queue));
    assert_eq!(begun(&mut house, 0), [first]);
    let failed = || Err(StreamError::Io { file: "s".into(), error: std::io::Error::other("false") });
    for next in [second, first, second] {
        answer(&mut house, failed());
        assert_eq!(begun(&mut house, 4_999), []);
        assert_eq!(begun(&mut house, 1), [next]);
    }
    let chunks = |end| {
        let next = Position { segment: 0, at: 8, offset: 0 };
        Ok(Chunks { chunks: Vec::new(), next, end, needs: None })
    };
    for (end, next) in [(false, Some(second)), (true, Some(first)), (true, None)] {
        answer(&mut house, chunks(end));
        assert_eq!(begun(&mut house, 0), [], "there is a pause");
        assert_eq!(begun(&mut house, 1_000), Vec::from_iter(next));
    }
}

/// Lets this time pass. Returns the streams whose heads are read then.
fn begun(house: &mut House, ms: u64) -> Vec<QueueId> {
    house.now_ms += ms;
    house.settle();
    house.reads.iter().map(|job| QueueId(job.stream)).collect()
}

fn answer(house: &mut House, result: Result<Chunks, StreamError>) {
    let ChunkJob { shard, ticket, .. } = house.reads.pop().expect("a job");
    house.shards[shard as usize].handle_chunks(ChunksRead { shard, ticket, result });
}
