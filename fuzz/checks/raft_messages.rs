//! Sends any messages, in any order, to one member of a Raft group. Shared by the fuzz target, the test that
//! replays the corpus, and the test that generates nearly valid messages.

use bytes::Bytes;
use replica::{Base, Change, Group, Member, Message, Options, Payload, Record, Restoring, Role, Support};

/// Plays a list of steps; an octet selects each. The member must never panic. It must hand out entries
/// without gaps, and must be restorable from its own records.
pub fn check(mut data: &[u8]) {
    let mut player = Player::new();
    while player.play(&mut data) {}
}

/// One member of a group of three, and its log.
pub struct Player {
    pub group: Group,
    support: Support,
    records: Vec<Record>,
    round: u64,
    applied: u64,
}

impl Player {
    pub fn new() -> Self {
        let base = Base::founding(&[0, 1, 2], Bytes::new());
        let me = base.members.voters()[0];
        let records = vec![Record::Base(base)];
        Self { group: restored(me, &records), support: Support::default(), records, round: 0, applied: 1 }
    }

    /// Plays one step from the front of `data`. Returns false at the end.
    pub fn play(&mut self, data: &mut &[u8]) -> bool {
        let Some((step, rest)) = data.split_first() else { return false };
        let argument = rest.first().copied().unwrap_or_default();
        *data = rest;
        let term = self.group.standing().term;
        // Refusals are valid results, so they are ignored.
        match step % 16 {
            0 | 10..16 => self.message(data),
            1 => self.rounds(),
            2 => {
                self.rounds();
                self.group.on_synced(self.round);
                self.rounds();
            }
            3 => {
                let _ = self.group.campaign();
            }
            4 => {
                let _ = self.group.propose(term, Bytes::from_static(b"facts"));
            }
            5 => {
                let all: Vec<Member> = self.group.members().all().collect();
                let member = all.get(usize::from(argument >> 2) % all.len().max(1));
                let new = Member { node: u32::from(argument), number: self.group.members().next() };
                let change = match (argument % 4, member) {
                    (0, Some(member)) => Change::Remove(*member),
                    (1, Some(member)) => Change::Promote(*member),
                    _ => Change::Add(new),
                };
                let _ = self.group.change(term, change);
            }
            6 => {
                let to = self.group.members().on_node(u32::from(argument));
                let _ = to.map(|to| self.group.transfer(term, to));
            }
            7 => self.group.on_link(u32::from(argument >> 1), argument % 2 == 0),
            8 => {
                self.support.set(u32::from(argument >> 1), argument % 2 == 0);
                self.group.abort_transfer();
                if let Some(resting) = self.group.rest() {
                    self.group = resting.wake(options());
                    self.round = 0;
                }
            }
            _ => self.restart(argument % 2 == 0),
        }
        true
    }

    fn message(&mut self, data: &mut &[u8]) {
        let [low, high, rest @ ..] = *data else { return };
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (bytes, rest) = rest.split_at(length);
        *data = rest;
        let Ok(message) = Message::decode(Bytes::copy_from_slice(bytes)) else { return };
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(again, bytes);
        let _ = self.group.step(message, &self.support);
    }

    fn rounds(&mut self) {
        while let Some(round) = self.group.poll_round() {
            self.round = round.number;
            for record in &round.records {
                if let Record::Base(base) = record {
                    assert!(base.at.index > self.applied);
                    self.applied = base.at.index;
                }
            }
            self.records.extend(round.records);
            for entry in round.committed {
                self.applied += 1;
                assert_eq!(entry.at.index, self.applied);
                assert_ne!(entry.payload, Payload::Facts(Bytes::new()));
            }
            let mut bytes = Vec::new();
            for message in round.now.into_iter().chain(round.after_sync) {
                bytes.clear();
                message.encode(&mut bytes);
                assert_eq!(Message::decode(Bytes::copy_from_slice(&bytes)), Ok(message));
            }
            if round.wants_base {
                self.group.send_base(Bytes::from_static(b"content"));
            }
        }
    }

    fn restart(&mut self, evacuates: bool) {
        self.rounds();
        if evacuates && let Some(records) = self.group.evacuate(Bytes::from_static(b"content")) {
            self.records = records;
        }
        let before = (self.group.standing().term, self.group.last());
        self.group = restored(self.group.me(), &self.records);
        assert_eq!((self.group.standing().term, self.group.last()), before);
        assert_ne!(self.group.standing().role, Role::Leader);
        (self.round, self.applied) = (0, self.group.applied());
    }
}

fn options() -> Options {
    Options { window_bytes: 1_000, append_bytes: 500 }
}

fn restored(me: Member, records: &[Record]) -> Group {
    let mut restoring = Restoring::default();
    for record in records {
        restoring.on_record(record.clone()).expect("no record is missing");
    }
    restoring.finish(me, options()).expect("no record is missing")
}
