//! The words that nodes send to each other, and their encoding. Numbers are little-endian.
//!
//! ```text
//!  word            version u8 | kind u8 | sender | receiver | ...
//!    1 beat          number u64 | heard u64 | held u32 | supports u32 | state | list u64 | clock u64 | unsynced u32 | turn u32 | alarms u8
//!    2 join
//!    3 admitted      cluster | number u32
//!    4 not admitted  kind u8: 1 would replace, identity; 2 other, text to the end
//!  sender, receiver  identity, 16 bytes | boot u64
//!  state           kind u8: 0 empty, 1 holds, 2 pending: cluster, 3 member: cluster | number u32
//!  cluster         16 bytes, not all zero
//!  alarms          bits: 1 memory, 2 disk
//! ```
//!
//! A decoder accepts exactly what the encoder writes. It never panics, and allocates no more than the length of its input.

use std::fmt;

use link::{ClusterId, NodeIdentity};

/// The version of this encoding. Words of another version are malformed.
const VERSION: u8 = 1;

/// The longest text of a refusal, in bytes. It is shown in one line.
pub const REASON_MAX: usize = 255;

/// The bytes are not a valid word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed word: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// One start of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub node: NodeIdentity,
    pub boot: u64,
}

/// What a node says about its data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has nothing.
    Empty,
    /// It holds definitions or data of a node that was alone.
    Holds,
    /// Its membership of this cluster is being written to disk. It counts as neither empty nor a member.
    Pending(ClusterId),
    /// It is a member of this cluster, with this number.
    Member { cluster: ClusterId, number: u32 },
}

/// The alarms that stop publishers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alarms {
    pub memory: bool,
    pub disk: bool,
}

impl Alarms {
    /// Returns true if publishers must stop.
    pub fn any(self) -> bool {
        self.memory || self.disk
    }
}

/// How a node is, as it says itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The age of the oldest write that is not synced, in milliseconds; 0 if there is none.
    pub oldest_unsynced_ms: u32,
    /// The age of the oldest unfinished turn of a shard, in milliseconds; 0 if there is none.
    pub oldest_turn_ms: u32,
    pub alarms: Alarms,
}

/// Why a cluster does not admit a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The cluster has a member with the name of the node and this identity.
    WouldReplace(NodeIdentity),
    /// Another reason, in at most [`REASON_MAX`] bytes; a longer text is cut.
    Other(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldReplace(node) => {
                write!(f, "it would replace the member of the same name with the identity {node}")
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// A heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    /// Counts the beats of this life, from 1.
    pub(crate) number: u64,
    /// The newest beat of the receiver's life that arrived here; 0 for none.
    pub(crate) heard: u64,
    /// How long ago it arrived, in milliseconds.
    pub(crate) held_ms: u32,
    /// For how long the sender will support the receiver, if it hears no more of it, in milliseconds; 0 if it does not support it.
    pub(crate) supports_ms: u32,
    pub(crate) state: State,
    /// A digest of the sender's list of nodes.
    pub(crate) list: u64,
    /// The clock of the sender, in milliseconds since 1970.
    pub(crate) clock_ms: u64,
    pub(crate) health: Health,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Beat(Beat),
    /// An empty node asks a member to admit it.
    Join,
    /// The cluster has admitted the receiver.
    Admitted {
        cluster: ClusterId,
        number: u32,
    },
    NotAdmitted(Reason),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) from: Life,
    pub(crate) to: Life,
    pub(crate) body: Body,
}

impl Word {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let kind = match self.body {
            Body::Beat(_) => 1,
            Body::Join => 2,
            Body::Admitted { .. } => 3,
            Body::NotAdmitted(_) => 4,
        };
        let mut into = vec![VERSION, kind];
        for life in [self.from, self.to] {
            into.extend(life.node.0);
            into.extend(life.boot.to_le_bytes());
        }
        match &self.body {
            Body::Beat(beat) => put_beat(&mut into, beat),
            Body::Join => {}
            Body::Admitted { cluster, number } => {
                into.extend(cluster.0);
                into.extend(number.to_le_bytes());
            }
            Body::NotAdmitted(Reason::WouldReplace(node)) => {
                into.push(1);
                into.extend(node.0);
            }
            Body::NotAdmitted(Reason::Other(text)) => {
                into.push(2);
                into.extend(&text.as_bytes()[..text.floor_char_boundary(REASON_MAX)]);
            }
        }
        into
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        if reader.u8()? != VERSION {
            return Err(Malformed("version"));
        }
        let kind = reader.u8()?;
        let (from, to) = (reader.life()?, reader.life()?);
        let body = match kind {
            1 => Body::Beat(reader.beat()?),
            2 => Body::Join,
            3 => Body::Admitted { cluster: reader.cluster()?, number: reader.number()? },
            4 => Body::NotAdmitted(reader.reason()?),
            _ => return Err(Malformed("kind")),
        };
        if !reader.0.is_empty() {
            return Err(Malformed("longer than its content"));
        }
        Ok(Self { from, to, body })
    }
}

fn put_beat(into: &mut Vec<u8>, beat: &Beat) {
    into.extend(beat.number.to_le_bytes());
    into.extend(beat.heard.to_le_bytes());
    into.extend(beat.held_ms.to_le_bytes());
    into.extend(beat.supports_ms.to_le_bytes());
    match beat.state {
        State::Empty => into.push(0),
        State::Holds => into.push(1),
        State::Pending(cluster) => {
            into.push(2);
            into.extend(cluster.0);
        }
        State::Member { cluster, number } => {
            into.push(3);
            into.extend(cluster.0);
            into.extend(number.to_le_bytes());
        }
    }
    into.extend(beat.list.to_le_bytes());
    into.extend(beat.clock_ms.to_le_bytes());
    let Health { oldest_unsynced_ms, oldest_turn_ms, alarms } = beat.health;
    into.extend(oldest_unsynced_ms.to_le_bytes());
    into.extend(oldest_turn_ms.to_le_bytes());
    into.push(u8::from(alarms.memory) | u8::from(alarms.disk) << 1);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.0.split_first_chunk().ok_or(Malformed("too short"))?;
        self.0 = tail;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn life(&mut self) -> Result<Life, Malformed> {
        Ok(Life { node: NodeIdentity(self.array()?), boot: self.u64()? })
    }

    fn cluster(&mut self) -> Result<ClusterId, Malformed> {
        match ClusterId(self.array()?) {
            ClusterId::NONE => Err(Malformed("a cluster without an id")),
            cluster => Ok(cluster),
        }
    }

    /// Reads the number of a member.
    fn number(&mut self) -> Result<u32, Malformed> {
        match self.u32()? {
            0 => Err(Malformed("a member without a number")),
            number => Ok(number),
        }
    }

    fn beat(&mut self) -> Result<Beat, Malformed> {
        Ok(Beat {
            number: self.u64()?,
            heard: self.u64()?,
            held_ms: self.u32()?,
            supports_ms: self.u32()?,
            state: match self.u8()? {
                0 => State::Empty,
                1 => State::Holds,
                2 => State::Pending(self.cluster()?),
                3 => State::Member { cluster: self.cluster()?, number: self.number()? },
                _ => return Err(Malformed("state")),
            },
            list: self.u64()?,
            clock_ms: self.u64()?,
            health: Health {
                oldest_unsynced_ms: self.u32()?,
                oldest_turn_ms: self.u32()?,
                alarms: match self.u8()? {
                    bits @ 0..=3 => Alarms { memory: bits & 1 != 0, disk: bits & 2 != 0 },
                    _ => return Err(Malformed("alarms")),
                },
            },
        })
    }

    fn reason(&mut self) -> Result<Reason, Malformed> {
        match self.u8()? {
            1 => Ok(Reason::WouldReplace(NodeIdentity(self.array()?))),
            2 => {
                let bytes = std::mem::take(&mut self.0);
                if bytes.len() > REASON_MAX {
                    return Err(Malformed("length of a reason"));
                }
                let text = std::str::from_utf8(bytes).map_err(|_| Malformed("text of a reason"))?;
                Ok(Reason::Other(text.to_owned()))
            }
            _ => Err(Malformed("kind of a reason")),
        }
    }
}

/// Returns a digest of a list of names. It does not depend on their order. Two different lists have the same digest by bad luck only: once in
/// 2^64 (FNV-1a).
pub(crate) fn digest(names: &[String]) -> u64 {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let bytes = sorted.iter().flat_map(|name| name.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
