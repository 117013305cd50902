//! Large frames stay in the buffer that they were read into, if they are a fair part of it.

use std::io::IoSlice;

use amqp10::{DeliveryState, Role};
use broker::settings::Settings;
use bytes::BytesMut;
use catalog::Arguments;

use super::house::House;

/// The size of a read buffer, and the most bytes of one read.
const READ_BUFFER: usize = 272 * 1024;
const READ_MAX: usize = 256 * 1024;

/// Makes a queue, a publisher and its link.
fn publisher() -> (House, usize, u32) {
    publisher_with(Settings::default())
}

fn publisher_with(settings: Settings) -> (House, usize, u32) {
    let mut h = House::new(1, settings);
    h.declare("q", Arguments::new());
    let peer = h.connect(0);
    let link = h.sender(peer, "/queues/q");
    (h, peer, link)
}

/// Sends messages of these sizes in one read. Returns the bodies, and whether the broker keeps the buffer.
fn send(sizes: &[usize]) -> (House, Vec<Vec<u8>>, bool) {
    let (mut h, peer, link) = publisher();
    let bodies: Vec<Vec<u8>> = sizes.iter().zip(b'a'..).map(|(len, byte)| vec![byte; *len]).collect();
    bodies.iter().for_each(|body| h.say(peer, link, body));
    let mut buffer = BytesMut::with_capacity(READ_BUFFER);
    buffer.extend_from_slice(&h.peers[peer].up());
    assert!(buffer.len() <= READ_MAX);
    h.shards[0].handle_input(h.peers[peer].key, &mut buffer);
    h.settle();
    buffer.clear();
    let kept = !buffer.try_reclaim(READ_BUFFER);
    (h, bodies, kept)
}

fn received(h: &mut House) -> Vec<Vec<u8>> {
    let peer = h.connect(0);
    let link = h.receiver(peer, "/queues/q");
    h.grant(peer, link, 100);
    h.peers[peer].got.iter().map(|(_, body)| body.to_vec()).collect()
}

/// Returns the sizes of `large` messages of 20 KiB with small ones between them.
fn interleaved(large: usize) -> Vec<usize> {
    let mut sizes = [20 * 1024, 12, 500, 12].repeat(large);
    sizes.push(12);
    sizes
}

#[test]
fn large_frames_that_are_a_fair_part_of_a_read_keep_its_buffer() {
    for sizes in [vec![64 * 1024], vec![12, 30_000, 12, 40_000], interleaved(4), interleaved(12)] {
        let (mut h, bodies, kept) = send(&sizes);
        assert!(kept, "{sizes:?}");
        assert_eq!(received(&mut h), bodies);
    }
}

/// Checks that the bytes kept of a read are at least a quarter of the largest read, or none.
#[test]
fn large_frames_that_are_a_small_part_of_a_read_are_copied() {
    for sizes in [vec![12; 40], vec![60 * 1024], interleaved(3), [16_000, 12, 12].repeat(15)] {
        let (mut h, bodies, kept) = send(&sizes);
        assert!(!kept, "{sizes:?}");
        assert_eq!(received(&mut h), bodies);
    }
}

/// Checks that the output refers to the read buffer, also for the frame that was incomplete. When everything
/// is settled, the buffer is reused.
#[test]
fn an_incomplete_frame_stays_with_the_others() {
    let (mut h, peer, link) = publisher();
    let consumer = h.connect(0);
    let from = h.receiver(consumer, "/queues/q");
    h.grant(consumer, from, 10);
    (0..4).for_each(|_| h.say(peer, link, &[b'x'; 64 * 1024]));
    let up = h.peers[peer].up();
    assert!(up.len() > READ_MAX, "the end of the last is missing");
    h.peers[consumer].deaf = true;
    let mut buffer = BytesMut::with_capacity(READ_BUFFER);
    let start = buffer.as_ptr();
    let (read, rest) = up.split_at(READ_MAX);
    buffer.extend_from_slice(read);
    h.shards[0].handle_input(h.peers[peer].key, &mut buffer);
    h.shards[0].handle_input(h.peers[peer].key, &mut BytesMut::from(rest));
    h.settle();
    let conn = h.shards[0].conn(h.peers[consumer].key).expect("it is connected");
    let mut slices = [IoSlice::new(&[]); 64];
    let output = conn.gate.output();
    let n = output.slices(&mut slices);
    let there = start..start.wrapping_add(READ_BUFFER);
    let in_place = slices[..n].iter().filter(|slice| there.contains(&slice.as_ptr()));
    assert!(in_place.map(|slice| slice.len()).sum::<usize>() >= 4 * 64 * 1024);

    h.peers[consumer].deaf = false;
    h.settle();
    buffer.clear();
    assert!(!buffer.try_reclaim(READ_BUFFER), "unsettled messages are still in it");
    h.peers[consumer].conn.disposition(0, Role::Receiver, (0, 3), true, &DeliveryState::Accepted);
    h.settle();
    assert!(buffer.try_reclaim(READ_BUFFER));
    assert_eq!(buffer.as_ptr(), start);
}

/// Checks that a connection is read in small pieces as long as its frames are small, in large ones when they are not, and in
/// small ones again. A piece may begin with the rest of a frame.
#[test]
fn the_size_of_a_read_follows_the_size_of_the_frames() {
    const SMALL_READ: usize = 32 * 1024;
    let settings = Settings { max_link_credit: 10_000, max_incoming_window: 10_000, ..Settings::default() };
    let (mut h, peer, link) = publisher_with(settings);
    let key = h.peers[peer].key;
    assert_eq!(h.shards[0].read_max(key), SMALL_READ, "nothing is known yet");
    for (size, expected) in [(12, SMALL_READ), (1_000, READ_MAX), (64 * 1024, READ_MAX), (12, SMALL_READ)] {
        (0..3 * READ_MAX / (size + 100)).for_each(|_| h.say(peer, link, &vec![b'x'; size]));
        let up = h.peers[peer].up();
        let mut rest = &up[..];
        while !rest.is_empty() {
            let (read, later) = rest.split_at(rest.len().min(h.shards[0].read_max(key)));
            h.shards[0].handle_input(key, &mut BytesMut::from(read));
            rest = later;
        }
        assert_eq!(h.shards[0].read_max(key), expected, "messages of {size} bytes");
        h.settle();
    }
}
