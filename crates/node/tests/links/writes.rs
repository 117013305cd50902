//! A write that completes within a turn is answered within that turn.

use std::collections::BTreeSet;
use std::io::IoSlice;

use amqp10::frame::{self, HEADER_SIZE};
use amqp10::{Attach, Role, Source, Target, TargetArchetype};
use broker::settings::Settings;
use catalog::Arguments;

use super::house::House;

/// Returns the turns of the publisher's shard from the message to the receipt. The queue lives on that shard,
/// or on another.
fn turns(kind: &str, shards: usize, at_once: bool) -> usize {
    let mut house = House::new(shards as u8, Settings::default());
    let arguments = [("x-queue-type".to_owned(), kind.into())];
    house.declare("q", arguments.into_iter().collect::<Arguments>());
    // The queue lives on the shard of its first link.
    let home = house.connect(0);
    let receiver = house.receiver(home, "/queues/q");
    house.grant(home, receiver, 10);
    let publisher = house.connect(shards - 1);
    let sender = house.sender(publisher, "/queues/q");
    house.send(publisher, sender, b"0");
    house.at_once = at_once;
    house.say(publisher, sender, b"1");
    // The bytes of the message arrive at the shard.
    house.round();
    let turns = 1 + (0..9).take_while(|_| house.round() && house.peers[publisher].outcomes.len() < 2).count();
    assert_eq!(house.peers[publisher].outcomes, ["Accepted"; 2]);
    turns
}

#[test]
fn a_receipt_leaves_in_the_turn_that_writes() {
    assert_eq!((turns("classic", 1, false), turns("classic", 1, true)), (2, 1));
    // With two shards it takes two more turns, because the message goes to the other shard and the receipt
    // returns.
    assert_eq!((turns("classic", 2, false), turns("classic", 2, true)), (4, 3));
    assert_eq!((turns("stream", 1, true), turns("stream", 2, true)), (1, 3));
}

/// The most slices in one vectored write of the runtime.
const SLICES: usize = 64;
const SESSIONS: u16 = 20;

#[test]
fn the_frames_of_twenty_sessions_leave_in_one_write() {
    let mut house = House::new(1, Settings::default());
    house.declare("q", Arguments::new());
    let (publisher, consumer) = (house.connect(0), house.connect(0));
    let sender = house.sender(publisher, "/queues/q");
    let source = Source { address: Some("/queues/q".to_owned()), ..Source::default() };
    for session in 0..SESSIONS {
        if session > 0 {
            assert_eq!(house.peers[consumer].conn.begin(None, true), Some(session));
            house.settle();
        }
        let attach = Attach {
            source: Some(source.clone()),
            target: Some(TargetArchetype::Target(Target::default())),
            ..Attach::new(format!("link-{session}"), 0, Role::Receiver)
        };
        let conn = &mut house.peers[consumer].conn;
        let link = conn.attach(session, None, attach).expect("a free handle");
        conn.grant(session, link, 1, false, false);
        house.settle();
    }
    // Each session sends one message, all in one read.
    (0..SESSIONS).for_each(|_| house.say(publisher, sender, b"x"));
    let up = house.peers[publisher].up();
    let (shard, publishers) = (&mut house.shards[0], house.peers[publisher].key);
    shard.handle_input(publishers, &mut (&up[..]).into());
    shard.take_dirty(&mut Vec::new());
    shard.turn();

    let mut dirty = Vec::new();
    shard.take_dirty(&mut dirty);
    let key = house.peers[consumer].key;
    assert_eq!(dirty.iter().filter(|dirty| **dirty == key).count(), 1, "it is written once");
    let output = shard.conn(key).expect("it is open").gate.output();
    let mut slices = [IoSlice::new(&[]); SLICES];
    let n = output.slices(&mut slices);
    let written: Vec<u8> = slices[..n].iter().flat_map(|slice| slice.iter().copied()).collect();
    let (mut channels, mut rest) = (BTreeSet::new(), &written[..]);
    while let Some(start) = rest.first_chunk::<HEADER_SIZE>() {
        let header = frame::parse_header(start, 128 * 1024).expect("a frame");
        channels.insert(u16::from_be_bytes([start[6], start[7]]));
        rest = &rest[header.size as usize..];
    }
    assert_eq!(channels, (0..SESSIONS).collect());
    output.advance(written.len());
    assert!(output.is_empty(), "nothing is left for a second write");
}
