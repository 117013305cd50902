//! The memory for stream readers is bounded, whatever they do not read, and every reader makes progress.

use broker::settings::Settings;
use bytes::Bytes;

use super::house::House;

const BUDGET: &str = "stream_readers";

/// The most bytes in memory for the readers of one connection. The next constant is the size of one load.
const CONNECTION_BYTES_MAX: u64 = 32 << 20;
const LOAD_BYTES: u64 = 256 << 10;

const BODY: usize = 100_000;

/// Returns a body that contains its number.
fn body(number: usize, bytes: usize) -> Vec<u8> {
    let mut body = vec![b'x'; bytes];
    body[..8].copy_from_slice(&(number as u64).to_be_bytes());
    body
}

/// Makes a stream `s` with `messages` messages of `bytes` bytes.
fn stream(messages: usize, bytes: usize, reader_memory: u64) -> House {
    let mut h = House::new(1, Settings { reader_memory, ..Settings::default() });
    let arguments = [("x-queue-type".to_owned(), "stream".into())];
    h.declare("s", arguments.into_iter().collect());
    let publisher = h.connect(0);
    let out = h.sender(publisher, "/queues/s");
    (0..messages).for_each(|number| h.send(publisher, out, &body(number, bytes)));
    h
}

/// Returns the numbers of the messages that a link has received.
fn numbers(got: &[(u32, Bytes)], link: u32) -> Vec<usize> {
    let number = |body: &Bytes| body.first_chunk().map_or(0, |first| u64::from_be_bytes(*first)) as usize;
    got.iter().filter(|(of, _)| *of == link).map(|(_, body)| number(body)).collect()
}

fn used(h: &House) -> u64 {
    h.budget(BUDGET).0
}

fn disconnect(h: &mut House, peer: usize) {
    let (shard, key) = (h.peers[peer].shard, h.peers[peer].key);
    h.shards[shard].disconnect(key);
    h.settle();
}

#[test]
fn a_connection_that_is_not_read_stops_reading_ahead() {
    let mut h = stream(300, BODY, 1 << 30);
    let peer = h.connect(0);
    let links: Vec<u32> = (0..200).map(|_| h.reader(peer, "/queues/s")).collect();
    h.peers[peer].deaf = true;
    links.iter().for_each(|link| h.grant(peer, *link, 5));
    assert!(used(&h) > LOAD_BYTES, "something is read");
    assert!(used(&h) <= CONNECTION_BYTES_MAX, "{} bytes for one connection", used(&h));
    h.peers[peer].deaf = false;
    h.settle();
    for link in &links {
        assert_eq!(numbers(&h.peers[peer].got, *link), [0, 1, 2, 3, 4], "link {link}");
    }
    disconnect(&mut h, peer);
    assert_eq!(used(&h), 0);
}

#[test]
fn a_lone_reader_makes_progress_with_a_tiny_budget_and_large_messages() {
    for bytes in [1000, BODY, 200_000, 1_000_000] {
        let mut h = stream(30, bytes, 1);
        assert_eq!(h.budget(BUDGET).1, 1);
        let peer = h.connect(0);
        let link = h.reader(peer, "/queues/s");
        for credit in [1, 10, 100] {
            h.grant(peer, link, credit);
        }
        assert_eq!(numbers(&h.peers[peer].got, link), (0..30).collect::<Vec<_>>(), "of {bytes} bytes");
        disconnect(&mut h, peer);
        assert_eq!(used(&h), 0);
    }
}

#[test]
fn a_client_that_does_not_read_delays_no_other_connection() {
    let limit = 2 << 20;
    let mut h = stream(60, BODY, limit);
    let deaf: Vec<usize> = (0..4).map(|_| h.connect(0)).collect();
    for peer in &deaf {
        let links: Vec<u32> = (0..20).map(|_| h.reader(*peer, "/queues/s")).collect();
        h.peers[*peer].deaf = true;
        links.iter().for_each(|link| h.grant(*peer, *link, 100));
    }
    // In addition to the limit, each connection may have one load, whatever the others hold, and may exceed
    // that by one load.
    let most = limit + deaf.len() as u64 * 2 * LOAD_BYTES;
    assert!(used(&h) <= most, "{} bytes", used(&h));
    let reader = h.connect(0);
    let link = h.reader(reader, "/queues/s");
    h.grant(reader, link, 100);
    assert_eq!(numbers(&h.peers[reader].got, link), (0..60).collect::<Vec<_>>());
    for peer in deaf {
        h.peers[peer].deaf = false;
        h.settle();
        assert_eq!(numbers(&h.peers[peer].got, 19), (0..60).collect::<Vec<_>>());
    }
}

/// Each reader wants a message that is larger than the memory that every connection always gets.
#[test]
fn slow_readers_of_large_messages_wait_for_each_other() {
    let limit = 4 << 20;
    let mut h = stream(5, 1_000_000, limit);
    let slow: Vec<usize> = (0..12).map(|_| h.connect(0)).collect();
    for peer in &slow {
        let link = h.reader(*peer, "/queues/s");
        h.peers[*peer].deaf = true;
        h.grant(*peer, link, 100);
    }
    let most = limit + slow.len() as u64 * 2 * LOAD_BYTES;
    assert!(used(&h) <= most, "{} bytes", used(&h));
    slow.iter().for_each(|peer| h.peers[*peer].deaf = false);
    h.settle();
    for peer in slow {
        assert_eq!(numbers(&h.peers[peer].got, 0), [0, 1, 2, 3, 4]);
    }
}

/// If each link kept what was read for it, their connection could hold more than it may. So links without credit
/// release it when another link needs memory, and read it again later.
#[test]
fn links_without_credit_delay_no_other_link_of_their_connection() {
    // In the three cases, one load brings many messages, one message, or a part of one.
    for (links, bytes) in [(200, 1000), (200, BODY), (60, 1_000_000)] {
        idle_links(links, bytes);
    }
}

fn idle_links(links: u32, bytes: usize) {
    let mut h = stream(60, bytes, 1 << 30);
    let peer = h.connect(0);
    let idle: Vec<u32> = (0..links).map(|_| h.reader(peer, "/queues/s")).collect();
    for link in &idle {
        h.grant(peer, *link, 1);
        assert!(used(&h) <= CONNECTION_BYTES_MAX, "{} bytes for one connection", used(&h));
    }
    let busy = h.reader(peer, "/queues/s");
    h.grant(peer, busy, 100);
    assert_eq!(numbers(&h.peers[peer].got, busy), (0..60).collect::<Vec<_>>());
    for link in &idle {
        h.grant(peer, *link, 2);
        assert_eq!(numbers(&h.peers[peer].got, *link), [0, 1, 2], "link {link}");
    }
}

/// [2.6.7] The answer to a drain comes after the deliveries that it covers, even if those had to wait.
#[test]
fn a_drain_ends_after_deliveries_that_had_to_wait() {
    let mut h = stream(30, BODY, 1 << 30);
    let peer = h.connect(0);
    let link = h.reader(peer, "/queues/s");
    h.peers[peer].deaf = true;
    h.peers[peer].conn.grant(0, link, 100, true, false);
    h.settle();
    h.peers[peer].deaf = false;
    h.settle();
    assert_eq!(numbers(&h.peers[peer].got, link), (0..30).collect::<Vec<_>>());
    let credit =
        h.peers[peer].conn.session(0).and_then(|s| s.link(link)).map(|l| l.receiver_credit().credit());
    assert_eq!(credit, Some(0), "the drain is answered");
}

/// Readers of all streams share the memory for new messages. A slow reader reads from the disk.
#[test]
fn new_messages_are_retained_for_readers_up_to_a_limit() {
    let mut h = House::new(1, Settings::default());
    let publisher = h.connect(0);
    let streams: Vec<String> = (0..40).map(|number| format!("s{number}")).collect();
    let readers: Vec<(usize, u32)> = streams
        .iter()
        .map(|name| {
            let arguments = [("x-queue-type".to_owned(), "stream".into())];
            h.declare(name, arguments.into_iter().collect());
            let peer = h.connect(0);
            (peer, h.reader(peer, &format!("/queues/{name}")))
        })
        .collect();
    for name in &streams {
        let out = h.sender(publisher, &format!("/queues/{name}"));
        h.send(publisher, out, &body(0, 1_000_000));
    }
    let (used, limit) = h.budget("stream_tails");
    assert!(used <= limit, "{used} of {limit} bytes");
    for (peer, link) in readers {
        h.grant(peer, link, 100);
        assert_eq!(numbers(&h.peers[peer].got, link), [0]);
    }
    assert_eq!(h.budget("stream_tails").0, 0, "every reader has received them");
}
