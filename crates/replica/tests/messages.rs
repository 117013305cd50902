//! No message makes a member panic. Messages are generated from a seed: valid, nearly valid, and damaged
//! ones.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/raft_messages.rs"]
mod raft_messages;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

use bytes::Bytes;
use raft_messages::Player;
use replica::{Base, Body, Change, Entry, Group, Member, Members, Message, Payload, Position};

const SEEDS: u64 = 3_000;
const STEPS: usize = 150;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Replays the corpus of the fuzz target.
#[test]
fn raft_messages_corpus() {
    replay::replay("raft_messages", raft_messages::check);
}

#[test]
fn no_message_makes_a_member_panic() {
    let first = setting("SLUICE_SEED").unwrap_or(0);
    let mut led = 0;
    for seed in first..first + SEEDS * setting("SLUICE_SOAK").unwrap_or(1) {
        let last = std::panic::catch_unwind(|| play(seed)).unwrap_or_else(|_| panic!("SLUICE_SEED={seed}"));
        led += u64::from(last);
    }
    assert!(led > SEEDS / 20, "hardly a member has led: {led}");
}

/// Plays one seed. Returns true if the member ever led.
fn play(seed: u64) -> bool {
    let mut maker = Maker { seed };
    let mut player = Player::new();
    let mut has_led = false;
    for _ in 0..STEPS {
        let mut step = Vec::new();
        match maker.below(40) {
            kind @ 1..10 => {
                let bound = [8, 8, 8, 256][maker.below(4) as usize];
                step.extend([kind as u8, maker.below(bound) as u8]);
            }
            0 => elect(&mut player),
            _ => put(&mut step, maker.message(&player.group)),
        }
        if step.len() > 2 && maker.below(20) == 0 {
            let at = 3 + maker.below(step.len() as u64 - 3) as usize;
            step[at] = maker.below(256) as u8;
        }
        // If a step takes no argument, the rest of its bytes are further steps.
        let mut data = &step[..];
        while player.play(&mut data) {}
        has_led |= player.group.standing().role == replica::Role::Leader;
    }
    has_led
}

/// Appends a step that delivers a message.
fn put(step: &mut Vec<u8>, message: Message) {
    step.extend([0, 0, 0]);
    message.encode(step);
    let length = (step.len() - 3) as u16;
    step[1..3].copy_from_slice(&length.to_le_bytes());
}

/// Lets the member campaign, and another one vote for it.
fn elect(player: &mut Player) {
    let mut data = &[2, 3, 2][..];
    while player.play(&mut data) {}
    for pre in [true, false] {
        let mut step = Vec::new();
        let body = Body::VoteResponse { pre, granted: true, commit: Position::default() };
        let term = player.group.standing().term + u64::from(pre);
        let voter = player.group.members().on_node(1).unwrap_or(player.group.me());
        put(&mut step, Message { from: voter, to: player.group.me(), term, body });
        step.push(2);
        let mut data = &step[..];
        while player.play(&mut data) {}
    }
}

struct Maker {
    seed: u64,
}

impl Maker {
    fn below(&mut self, bound: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    /// Returns a number near `number`, and rarely one far away.
    fn near(&mut self, number: u64) -> u64 {
        match self.below(12) {
            0 => number.saturating_sub(self.below(6)),
            1 => number.saturating_add(self.below(6)),
            2 => number.saturating_add(1),
            3 => number.saturating_sub(1),
            4 if self.below(8) == 0 => [0, 1, 1 << 56, u64::MAX - 1, u64::MAX][self.below(5) as usize],
            _ => number,
        }
    }

    fn member(&mut self) -> Member {
        let [node, number] = match self.below(10) {
            0..4 => [1, 2],
            4..8 => [2, 3],
            8 => [self.below(5), self.below(6)],
            _ => [3, 4],
        };
        // Number 0 on node 0 is not a member; it has no encoding.
        Member { node: node as u32, number: number.max(u64::from(node == 0)) as u32 }
    }

    fn position(&mut self, group: &Group) -> Position {
        let last = group.last();
        let index = match self.below(3) {
            0 => group.applied(),
            _ => last.index,
        };
        let index = self.near(index);
        Position { term: self.near(last.term), index }
    }

    fn entry(&mut self, at: Position) -> Entry {
        let payload = match self.below(8) {
            0 => Payload::Empty,
            1 => Payload::Change(Change::Add(self.member())),
            2 => Payload::Change(Change::Promote(self.member())),
            3 => Payload::Change(Change::Remove(match self.below(3) {
                0 => Member { node: 0, number: 1 },
                _ => self.member(),
            })),
            _ => Payload::Facts(Bytes::from_static(b"others")),
        };
        Entry { at, payload }
    }

    fn message(&mut self, group: &Group) -> Message {
        let standing = group.standing();
        let (term, last) = (self.near(standing.term), group.last());
        let body = match self.below(12) {
            0..4 => {
                let previous = self.position(group);
                let mut at = previous;
                let entries = (0..self.below(4)).map(|_| {
                    at.index = at.index.saturating_add(1);
                    at.term = if self.below(3) == 0 { self.near(term) } else { at.term };
                    let at = Position {
                        index: if self.below(30) == 0 { self.near(at.index) } else { at.index },
                        ..at
                    };
                    self.entry(at)
                });
                let entries: Vec<Entry> = entries.collect();
                Body::Append { previous, commit: self.near(last.index), entries }
            }
            4 => Body::Appended { index: self.near(last.index), commit: self.near(group.applied()) },
            5 => Body::AppendRefused {
                index: self.near(last.index),
                hint: self.position(group),
                commit: self.near(group.applied()),
            },
            6 => Body::Ping { commit: self.near(group.applied()) },
            7 => Body::Pong { commit: self.near(group.applied()) },
            8 => Body::VoteRequest {
                pre: self.below(2) == 0,
                last: self.position(group),
                commit: self.position(group),
                transfer: self.below(4) == 0,
            },
            9 => {
                let pre = self.below(2) == 0;
                let commit = if self.below(3) == 0 { self.position(group) } else { Position::default() };
                let term = standing.term + u64::from(pre);
                let body = Body::VoteResponse { pre, granted: self.below(4) > 0, commit };
                return Message { from: self.member(), to: group.me(), term, body };
            }
            10 => {
                let me = group.me();
                let mut voters = vec![Member { node: 1, number: 2 }, Member { node: 2, number: 3 }];
                let mut learners = Vec::new();
                match self.below(4) {
                    0 => learners.push(me),
                    1 => {}
                    _ => voters.push(me),
                }
                if self.below(4) == 0 {
                    voters.remove(0);
                }
                let members = Members::from_parts(voters, learners, 5).expect("a group can have them");
                let base = Base { at: self.position(group), members, ..Base::founding(&[0], Bytes::new()) };
                Body::InstallBase(base)
            }
            _ => Body::TimeoutNow,
        };
        let to = if self.below(40) == 0 { self.member() } else { group.me() };
        Message { from: self.member(), to, term, body }
    }
}
