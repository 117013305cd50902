//! Incomplete deliveries. What all connections hold of them is bounded, and the connection that holds most is
//! closed.

use amqp10::TransferHead;
use broker::settings::Settings;
use bytes::BytesMut;
use catalog::Arguments;

use super::house::{House, OTHER, message};

const BUDGET: &str = "unfinished_deliveries";

/// The number of bytes after which a shard compares its use with the others'. They are counted at the end of
/// a read.
const STEP_BYTES: u64 = 64 * 1024 + PART as u64;

/// The size of one transfer, in bytes.
const PART: usize = 100_000;

const LIMIT: u64 = 4 << 20;

fn house(shards: u8) -> House {
    let settings = Settings { max_message_size: 1 << 20, unfinished_memory: LIMIT, ..Settings::default() };
    let mut h = House::new(shards, settings);
    h.declare("q", Arguments::new());
    h
}

/// The first transfer of a delivery that continues.
const FIRST: TransferHead<'static> = TransferHead {
    handle: 0,
    delivery_id: Some(0),
    delivery_tag: Some(b"t"),
    message_format: Some(0),
    settled: Some(false),
    more: true,
    aborted: false,
};

/// A following transfer. The next constant is the last transfer.
const NEXT: TransferHead<'static> =
    TransferHead { delivery_id: None, delivery_tag: None, message_format: None, settled: None, ..FIRST };
const LAST: TransferHead<'static> = TransferHead { more: false, ..NEXT };

/// Makes a publisher with `bytes` bytes of an incomplete delivery.
fn publisher(h: &mut House, shard: usize, bytes: usize) -> usize {
    publisher_of(h, shard, None, bytes)
}

/// Makes a publisher of this user.
fn publisher_of(h: &mut House, shard: usize, user: Option<&'static str>, bytes: usize) -> usize {
    let peer = h.connect_as(shard, user);
    h.peers[peer].doomed = true;
    let handle = h.sender(peer, "/queues/q");
    let mut head = TransferHead { handle, ..FIRST };
    for part in vec![0; bytes].chunks(PART) {
        // A client whose connection was closed sends nothing more.
        if h.peers[peer].closed.is_none() {
            h.transfer(peer, &head, part);
        }
        head = TransferHead { handle, ..NEXT };
    }
    peer
}

#[test]
fn incomplete_bytes_are_counted_until_they_are_freed() {
    let mut h = house(1);
    let used = |h: &House| h.budget(BUDGET).0;
    let modest = publisher(&mut h, 0, 2 * PART);
    assert_eq!(h.budget(BUDGET), (2 * PART as u64, LIMIT));
    // The beginning of a frame counts, too.
    let key = h.peers[modest].key;
    h.shards[0].handle_input(key, &mut BytesMut::from(&b"\x00\x00\x01\x00\x02\x00\x00\x00half"[..]));
    assert_eq!(used(&h), 2 * PART as u64 + 12);
    h.shards[0].disconnect(key);
    // The next connection gets the key of the closed one, so this peer must not use it any more.
    h.peers[modest].key = usize::MAX;
    assert_eq!(used(&h), 0, "gone with its connection");

    let peer = publisher(&mut h, 0, PART);
    h.transfer(peer, &TransferHead { aborted: true, ..NEXT }, &[]);
    assert_eq!(used(&h), 0, "aborted");

    let peer = publisher(&mut h, 0, PART);
    h.transfer(peer, &LAST, &[0; 10]);
    assert_eq!(used(&h), 0, "an invalid message ends the link");
    assert_eq!(h.peers[peer].detached, ["amqp:decode-error"]);

    let peer = publisher(&mut h, 0, PART);
    h.peers[peer].conn.detach(0, 0, None);
    h.settle();
    assert_eq!(used(&h), 0, "detached");

    let peer = publisher(&mut h, 0, PART);
    h.peers[peer].conn.end(0, None);
    h.settle();
    assert_eq!(used(&h), 0, "its session has ended");

    // The queue is deleted, the broker detaches the link, and the client never answers.
    let mut h = house(1);
    let peer = publisher(&mut h, 0, PART);
    h.peers[peer].deaf = true;
    h.delete("q");
    assert_eq!(used(&h), 0, "nobody waits for the rest of it");
    h.declare("q", Arguments::new());
    let finished = publisher(&mut h, 0, 0);
    h.send(finished, 0, b"1");
    assert_eq!(used(&h), 0, "one frame is never counted");
}

#[test]
fn only_the_connections_that_hold_most_are_closed() {
    let mut h = house(2);
    // This publisher exists before and after the flood, on a shard with half of the flood.
    let modest = h.connect(0);
    let handle = h.sender(modest, "/queues/q");
    let body = message(&[7; 3 * PART]);
    h.transfer(modest, &TransferHead { handle, ..FIRST }, &body[..PART]);
    let flood: Vec<usize> = (0..24).map(|i| publisher(&mut h, i % 2, 9 * PART)).collect();
    let (used, limit) = h.budget(BUDGET);
    assert_eq!(limit, LIMIT);
    assert!(used <= limit + STEP_BYTES, "{used} bytes are held");
    assert!(used > limit / 2, "no more connections are closed than necessary: {used} bytes are held");
    let closed: Vec<_> = flood.iter().filter_map(|peer| h.peers[*peer].closed.clone()).collect();
    assert!(closed.len() >= flood.len() - 5, "{} are closed", closed.len());
    for (condition, description) in &closed {
        assert_eq!(condition, "amqp:resource-limit-exceeded");
        assert!(description.contains("amqp10.unfinished_memory"), "{description}");
    }
    h.transfer(modest, &TransferHead { handle, ..NEXT }, &body[PART..2 * PART]);
    h.transfer(modest, &TransferHead { handle, ..LAST }, &body[2 * PART..]);
    assert_eq!(h.peers[modest].outcomes, ["Accepted"]);
    for peer in flood {
        let (shard, key) = (h.peers[peer].shard, h.peers[peer].key);
        h.shards[shard].disconnect(key);
    }
    assert_eq!(h.budget(BUDGET).0, 0);
}

#[test]
fn many_small_connections_of_a_user_do_not_close_a_large_one_of_another() {
    let mut h = house(2);
    let large = publisher_of(&mut h, 0, Some(OTHER), 9 * PART);
    let flood: Vec<usize> = (0..30).map(|i| publisher(&mut h, i % 2, 2 * PART)).collect();
    assert_eq!(h.peers[large].closed, None);
    let closed = flood.iter().filter(|peer| h.peers[**peer].closed.is_some()).count();
    assert!((12..=16).contains(&closed), "{closed} are closed");
    let (used, limit) = h.budget(BUDGET);
    assert!(used <= limit + STEP_BYTES, "{used} bytes are held");
}

#[test]
fn a_lone_publisher_always_sends_its_largest_message() {
    let settings = Settings { max_message_size: 1 << 20, unfinished_memory: 1, ..Settings::default() };
    let mut h = House::new(1, settings);
    h.declare("q", Arguments::new());
    assert_eq!(h.budget(BUDGET), (0, 2 << 20));
    let peer = h.connect(0);
    let handle = h.sender(peer, "/queues/q");
    let body = message(&[7; 1_000_000]);
    let parts: Vec<&[u8]> = body.chunks(PART).collect();
    h.transfer(peer, &TransferHead { handle, ..FIRST }, parts[0]);
    for part in &parts[1..parts.len() - 1] {
        h.transfer(peer, &TransferHead { handle, ..NEXT }, part);
    }
    h.transfer(peer, &TransferHead { handle, ..LAST }, parts[parts.len() - 1]);
    assert_eq!(h.peers[peer].outcomes, ["Accepted"]);
}
