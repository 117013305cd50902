//! Both ends of a connection, with everything between them in a buffer.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::bounds::{QUEUED_MAX, QUEUED_OVERHEAD};
use crate::frame::FRAME_MAX;
use crate::outgoing::{NotQueued, Outgoing};

/// Returns a content that differs from that of messages with other ids, and at each place.
fn content(id: usize, length: usize) -> Bytes {
    Bytes::from_iter((0..length).map(|at| ((at >> 8) ^ at ^ id.wrapping_mul(31)) as u8))
}

/// Returns all frames of `buffer`.
fn pieces(mut buffer: BytesMut) -> Vec<Piece> {
    let frames = std::iter::from_fn(|| Frame::take(&mut buffer).expect("own frames are valid"));
    let is_piece = |frame| if let Frame::Piece(piece) = frame { Some(piece) } else { None };
    frames.map(|frame| is_piece(frame).expect("a piece")).collect()
}

fn polled(outgoing: &mut Outgoing, at_most: usize) -> (BytesMut, bool) {
    let mut bytes = Vec::new();
    let is_more = outgoing.poll(&mut bytes, at_most);
    assert!(bytes.len() <= at_most);
    (BytesMut::from(&bytes[..]), is_more)
}

/// Two ends, and the model: the messages of each lane that have not arrived.
#[derive(Default)]
struct World {
    outgoing: Outgoing,
    incoming: Incoming,
    down: BytesMut,
    up: BytesMut,
    at_acceptor: BytesMut,
    /// The costs of messages that nobody has taken.
    waiting: VecDeque<usize>,
    expected: BTreeMap<u64, VecDeque<(u8, Bytes)>>,
    pushed: usize,
    fed: usize,
}

#[derive(Clone, Debug)]
enum Step {
    Push(u64, usize),
    Poll(usize),
    Down(usize),
    Up(usize),
    Take(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![
        4 => 0..300_usize,
        3 => PIECE_MAX - 1..PIECE_MAX + 2,
        1 => 2 * PIECE_MAX..2 * PIECE_MAX + 2,
        1 => Just(WINDOW / 2),
    ];
    let bytes = || prop_oneof![1..40_usize, Just(FRAME_MAX), Just(1 << 20), Just(1 << 30)];
    prop_oneof![
        4 => (0..4_u64, length).prop_map(|(lane, length)| Step::Push(lane, length)),
        3 => bytes().prop_map(Step::Poll),
        3 => bytes().prop_map(Step::Down),
        2 => bytes().prop_map(Step::Up),
        2 => (1..9_usize).prop_map(Step::Take),
    ]
}

impl World {
    fn step(&mut self, step: Step) {
        match step {
            Step::Push(lane, length) => {
                let message = content(self.pushed, length);
                self.pushed += 1;
                let shard = self.pushed as u8;
                if self.outgoing.push(lane, shard, message.clone()).is_ok() {
                    self.expected.entry(lane).or_default().push_back((shard, message));
                }
            }
            Step::Poll(at_most) => self.down.unsplit(polled(&mut self.outgoing, at_most).0),
            Step::Down(bytes) => {
                let cut = self.down.split_to(self.down.len().min(bytes));
                self.fed += cut.len();
                self.at_acceptor.extend_from_slice(&cut);
                while let Some(message) = self.incoming.feed(&mut self.at_acceptor).expect("a valid sender") {
                    let expected = self.expected.get_mut(&message.lane).and_then(VecDeque::pop_front);
                    assert!(expected == Some((message.shard, message.bytes)), "lane {}", message.lane);
                    self.waiting.push_back(message.cost);
                }
            }
            Step::Up(bytes) => {
                let mut windows = Vec::new();
                self.incoming.poll_window(&mut windows);
                self.up.extend_from_slice(&windows);
                // A window frame is taken whole or not at all, so cuts cannot be seen.
                let mut cut = self.up.split_to(self.up.len().min(bytes));
                self.outgoing.feed(&mut cut).expect("a valid receiver");
                cut.unsplit(std::mem::take(&mut self.up));
                self.up = cut;
            }
            Step::Take(messages) => {
                let count = messages.min(self.waiting.len());
                self.incoming.taken(self.waiting.drain(..count).sum());
            }
        }
        assert!(self.outgoing.unacknowledged_bytes() <= WINDOW);
        assert!(self.outgoing.queued_bytes() <= UNFINISHED_MAX + QUEUED_OVERHEAD);
        assert!(self.incoming.unfinished_bytes() <= 2 * self.fed);
    }

    /// Lets everything arrive.
    fn finish(&mut self) {
        let state = |world: &Self| (world.fed, world.waiting.len(), world.outgoing.unacknowledged_bytes());
        let mut before = None;
        while before != Some(state(self)) {
            before = Some(state(self));
            for step in [Step::Poll(1 << 30), Step::Down(1 << 30), Step::Take(usize::MAX), Step::Up(1 << 30)]
            {
                self.step(step);
            }
        }
        assert!(self.expected.values().all(VecDeque::is_empty), "nothing moves");
        assert_eq!(self.outgoing.queued_bytes(), 0);
        assert_eq!((self.incoming.unfinished_bytes(), self.incoming.announced), (0, 0));
        assert!(self.outgoing.unacknowledged_bytes() < WINDOW_STEP);
        assert_eq!(self.outgoing.unacknowledged_bytes(), self.incoming.unacknowledged);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn messages_arrive_whole_once_and_in_order_of_their_lane(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::default();
        steps.into_iter().for_each(|step| world.step(step));
        world.finish();
    }

    /// The lanes send one piece each, in the order in which they began to wait.
    #[test]
    fn lanes_take_turns(messages in prop::collection::vec((0..5_u64, 0..4 * PIECE_MAX), 1..12), at_most in FRAME_MAX..3 * FRAME_MAX) {
        let (mut outgoing, mut lanes) = (Outgoing::default(), Vec::<(u64, usize)>::new());
        for (lane, length) in messages {
            outgoing.push(lane, 0, content(0, length)).unwrap();
            let count = length.div_ceil(PIECE_MAX).max(1);
            match lanes.iter_mut().find(|(other, _)| *other == lane) {
                Some((_, pieces)) => *pieces += count,
                None => lanes.push((lane, count)),
            }
        }
        let mut expected = Vec::new();
        while !lanes.is_empty() {
            expected.extend(lanes.iter().map(|(lane, _)| *lane));
            lanes.iter_mut().for_each(|(_, pieces)| *pieces -= 1);
            lanes.retain(|(_, pieces)| *pieces > 0);
        }
        let mut sent = Vec::new();
        loop {
            let (bytes, is_more) = polled(&mut outgoing, at_most);
            sent.extend(pieces(bytes).into_iter().map(|piece| piece.lane));
            if !is_more {
                break;
            }
        }
        prop_assert_eq!(sent, expected);
    }

    /// Bytes of a valid sender with any damage are messages or an error, and take no more than twice their memory.
    #[test]
    fn damaged_bytes_are_messages_or_an_error(
        messages in prop::collection::vec((0..3_u64, prop_oneof![0..50_usize, PIECE_MAX..3 * PIECE_MAX]), 1..6),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, any::<u8>()), 1..4),
        cut in 1..100_000_usize,
    ) {
        let mut outgoing = Outgoing::default();
        for (lane, length) in messages {
            outgoing.push(lane, 0, content(1, length)).unwrap();
        }
        let mut frames = pieces(polled(&mut outgoing, WINDOW).0);
        // Heads alone, frames alone, and any byte.
        let (mut bytes, mut heads) = (Vec::new(), Vec::new());
        for (at, kind, value) in &damage {
            let at = at.index(frames.len());
            match (kind, value % 3) {
                (0, 0) if frames.len() > 1 => drop(frames.remove(at)),
                (0, 1) => frames.insert(at, frames[at].clone()),
                (0, _) => frames.swap(0, at),
                _ => {}
            }
        }
        for frame in frames {
            heads.extend(bytes.len()..bytes.len() + 19);
            Frame::Piece(frame).encode(&mut bytes);
        }
        for (at, kind, value) in damage {
            let place = if kind == 1 { at.index(bytes.len()) } else { heads[at.index(heads.len())].min(bytes.len() - 1) };
            match kind {
                0 => {}
                3 => drop(bytes.remove(place)),
                _ => bytes[place] = value,
            }
        }
        let (mut incoming, mut buffer, mut fed) = (Incoming::default(), BytesMut::new(), 0);
        for cut in bytes.chunks(cut) {
            buffer.extend_from_slice(cut);
            fed += cut.len();
            loop {
                match incoming.feed(&mut buffer) {
                    Ok(Some(message)) => incoming.taken(message.cost),
                    Ok(None) => break,
                    Err(_) => return Ok(()),
                }
            }
            prop_assert!(incoming.unfinished_bytes() <= 2 * fed);
        }
    }
}

#[test]
fn a_short_message_passes_a_long_one() {
    let mut world = World::default();
    world.step(Step::Push(1, 64 << 20));
    world.step(Step::Poll(20 * FRAME_MAX));
    world.step(Step::Push(2, 100));
    let before = world.outgoing.unacknowledged_bytes();
    world.step(Step::Poll(2 * FRAME_MAX));
    let sent = world.outgoing.unacknowledged_bytes() - before;
    assert!(sent <= 2 * FRAME_MAX);
    world.step(Step::Down(1 << 30));
    assert!(world.expected[&2].is_empty(), "the short message has not arrived");
    assert_eq!(world.expected[&1].len(), 1);
    world.finish();
}

#[test]
fn the_queue_has_a_bound_and_one_long_message_beside_it() {
    let mut outgoing = Outgoing::default();
    let long = Bytes::from(vec![0; QUEUED_MAX]);
    assert_eq!(
        outgoing.push(1, 0, Bytes::from(vec![0; MESSAGE_MAX + 1])),
        Err(NotQueued::TooLong(MESSAGE_MAX + 1))
    );
    assert_eq!(outgoing.push(1, 0, long.clone()), Ok(()));
    assert_eq!(outgoing.push(2, 0, long.clone()), Err(NotQueued::Full));
    // Exactly as much as fits.
    assert_eq!(outgoing.push(2, 0, Bytes::from(vec![0; QUEUED_MAX - 3 * QUEUED_OVERHEAD])), Ok(()));
    assert_eq!(outgoing.push(3, 0, Bytes::new()), Ok(()));
    assert_eq!(outgoing.push(3, 0, Bytes::from_static(b"x")), Err(NotQueued::Full));
    assert_eq!(outgoing.push(3, 0, Bytes::new()), Ok(()));
    assert_eq!(outgoing.push(3, 0, Bytes::new()), Err(NotQueued::Full));
    assert_eq!(outgoing.queued_bytes(), 2 * QUEUED_MAX + QUEUED_OVERHEAD);
    // One of the short ones has left, after one piece of each long message.
    polled(&mut outgoing, 3 * FRAME_MAX);
    assert_eq!(outgoing.push(3, 0, Bytes::new()), Ok(()));
}

/// The receiver's bounds admit the worst that a valid sender can do: as many unfinished messages as fit into its queue.
#[test]
fn a_full_queue_does_not_break_the_bounds_of_the_receiver() {
    let mut world = World::default();
    world.step(Step::Push(0, QUEUED_MAX));
    let mut lane = 1;
    let message = Bytes::from(vec![0; PIECE_MAX + 1]);
    while world.outgoing.push(lane, 0, message.clone()).is_ok() {
        world.expected.entry(lane).or_default().push_back((0, message.clone()));
        lane += 1;
    }
    assert!(lane as usize > LANES_MAX - 3);
    world.finish();
}

#[test]
fn a_small_room_is_not_filled() {
    let mut outgoing = Outgoing::default();
    outgoing.push(1, 0, content(0, PIECE_MAX)).unwrap();
    let (bytes, is_more) = polled(&mut outgoing, FRAME_MAX - 1);
    assert!(bytes.is_empty() && is_more);
    let (bytes, is_more) = polled(&mut outgoing, FRAME_MAX);
    assert!(bytes.len() == FRAME_MAX && !is_more);
}

#[test]
fn nobody_acknowledges_what_was_not_sent() {
    let mut outgoing = Outgoing::default();
    outgoing.push(1, 0, Bytes::from_static(b"x")).unwrap();
    let sent = polled(&mut outgoing, FRAME_MAX).0.len();
    let (bytes, unacknowledged) = (sent + 1, sent);
    assert_eq!(outgoing.handle_window(bytes), Err(LinkError::AcknowledgedTooMuch { bytes, unacknowledged }));
    assert_eq!(outgoing.handle_window(sent), Ok(()));
    assert_eq!(
        outgoing.handle_window(1),
        Err(LinkError::AcknowledgedTooMuch { bytes: 1, unacknowledged: 0 })
    );
    let mut word = Vec::new();
    Frame::Word(Bytes::new()).encode(&mut word);
    assert_eq!(outgoing.feed(&mut BytesMut::from(&word[..])), Err(LinkError::Unexpected("word")));
}

/// Each rule that a sender can break.
#[test]
fn broken_rules_are_named() {
    let lane = 7;
    let piece = |total, is_last, length: usize| Piece {
        lane,
        shard: 1,
        total,
        is_last,
        bytes: Bytes::from(vec![0; length]),
    };
    let first = || piece(Some(3 * PIECE_MAX as u32), false, PIECE_MAX);
    let cases = [
        (vec![piece(None, true, 5)], LinkError::NoFirstPiece { lane }),
        (vec![first(), first()], LinkError::Overlap { lane }),
        (vec![first(), Piece { shard: 2, ..piece(None, false, PIECE_MAX) }], LinkError::OtherShard { lane }),
        (vec![first(), piece(None, true, PIECE_MAX)], LinkError::PieceLength { lane }),
        (vec![first(), piece(None, false, PIECE_MAX - 1)], LinkError::PieceLength { lane }),
        (
            vec![first(), piece(None, false, PIECE_MAX), piece(None, false, PIECE_MAX)],
            LinkError::PieceLength { lane },
        ),
        (vec![piece(Some(5), true, 4)], LinkError::PieceLength { lane }),
        (vec![piece(Some(5), true, 6)], LinkError::PieceLength { lane }),
        (vec![piece(Some(5), false, 5)], LinkError::PieceLength { lane }),
        (vec![piece(Some(5), false, 0)], LinkError::PieceLength { lane }),
        (
            vec![piece(Some(MESSAGE_MAX as u32 + 1), false, PIECE_MAX)],
            LinkError::LongMessage { lane, bytes: MESSAGE_MAX + 1 },
        ),
        (
            [1, 2].map(|lane| Piece { lane, ..piece(Some(MESSAGE_MAX as u32), false, PIECE_MAX) }).into(),
            LinkError::TooMuchUnfinished,
        ),
        (
            (0..=LANES_MAX as u64)
                .map(|lane| Piece { lane, ..piece(Some(PIECE_MAX as u32 + 1), false, PIECE_MAX) })
                .collect(),
            LinkError::TooManyUnfinished,
        ),
    ];
    for (pieces, error) in cases {
        let (mut incoming, count) = (Incoming::default(), pieces.len());
        for (at, piece) in pieces.into_iter().enumerate() {
            let mut bytes = Vec::new();
            Frame::Piece(piece).encode(&mut bytes);
            let expected = if at + 1 == count { Err(error) } else { Ok(None) };
            assert_eq!(incoming.feed(&mut BytesMut::from(&bytes[..])), expected, "{error}");
            incoming.poll_window(&mut Vec::new());
        }
    }
}

#[test]
fn a_sender_that_ignores_the_window_is_stopped() {
    let mut bytes = Vec::new();
    Frame::Piece(Piece {
        lane: 1,
        shard: 0,
        total: Some(PIECE_MAX as u32),
        is_last: true,
        bytes: content(0, PIECE_MAX),
    })
    .encode(&mut bytes);
    assert_eq!(bytes.len(), FRAME_MAX);
    let mut incoming = Incoming::default();
    for _ in 0..WINDOW / FRAME_MAX {
        assert!(incoming.feed(&mut BytesMut::from(&bytes[..])).unwrap().is_some());
    }
    assert_eq!(incoming.feed(&mut BytesMut::from(&bytes[..])), Err(LinkError::WindowExceeded));
    // One step of taken messages makes room, and no less.
    let mut incoming = Incoming { unacknowledged: WINDOW, ..Incoming::default() };
    incoming.taken(WINDOW_STEP - 1);
    let mut window = Vec::new();
    assert!(!incoming.poll_window(&mut window));
    incoming.taken(1);
    assert!(incoming.poll_window(&mut window));
    assert_eq!(
        Frame::take(&mut BytesMut::from(&window[..])),
        Ok(Some(Frame::Window { bytes: WINDOW_STEP as u32 }))
    );
    assert!(incoming.feed(&mut BytesMut::from(&bytes[..])).unwrap().is_some());
}
