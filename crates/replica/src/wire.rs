//! The encoding of messages and records. Numbers are little-endian.
//!
//! ```text
//!  message         kind u8 | from u64 | to u64 | term u64 | ...
//!    1 append          previous | commit u64 | entry, ..., to the end
//!    2 appended        index u64 | commit u64
//!    3 append refused  index u64 | hint | commit u64
//!    4 ping, 5 pong    commit u64
//!    6 vote request    flags u8 (1 pre, 2 transfer) | last | commit
//!    7 vote response   flags u8 (1 pre, 2 granted) | commit
//!    8 install base    base
//!    9 timeout now
//!  record          kind u8 | ...
//!    1 vote            vote
//!    2 base            base
//!    3 entry           committed u64 | entry
//!  position        index u64 | term u64
//!  entry           position | kind u8 | ...
//!    0 empty, 1 facts: length u32 | bytes, 2 add, 3 promote, 4 remove: member u64
//!  vote            term u64 | candidate u64, or 0 | applied u64
//!  base            position | vote | installed u8 | members | content, to the end
//!  members         next u32 | voters u16 | learners u16 | member u64, ...
//! ```
//!
//! A decoder accepts exactly what the encoder writes. It never panics, and allocates no more than the length
//! of the input.

use crate::entry::{Base, Entry, Payload, Position, Record, Vote};
use crate::member::{Change, MEMBERS_MAX, Member, Members};
use crate::message::{Body, Message};
use bytes::{Buf, Bytes};

/// The bytes are not a valid message or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl Message {
    pub fn encode(&self, into: &mut Vec<u8>) {
        let Self { from, to, term, body } = self;
        let kind = match body {
            Body::Append { .. } => 1,
            Body::Appended { .. } => 2,
            Body::AppendRefused { .. } => 3,
            Body::Ping { .. } => 4,
            Body::Pong { .. } => 5,
            Body::VoteRequest { .. } => 6,
            Body::VoteResponse { .. } => 7,
            Body::InstallBase(_) => 8,
            Body::TimeoutNow => 9,
        };
        into.push(kind);
        put(into, &[from.id(), to.id(), *term]);
        match body {
            Body::Append { previous, commit, entries } => {
                put(into, &[previous.index, previous.term, *commit]);
                entries.iter().for_each(|entry| put_entry(into, entry));
            }
            Body::Appended { index, commit } => put(into, &[*index, *commit]),
            Body::AppendRefused { index, hint, commit } => {
                put(into, &[*index, hint.index, hint.term, *commit]);
            }
            Body::Ping { commit } | Body::Pong { commit } => put(into, &[*commit]),
            Body::VoteRequest { pre, last, commit, transfer } => {
                into.push(u8::from(*pre) | u8::from(*transfer) << 1);
                put(into, &[last.index, last.term, commit.index, commit.term]);
            }
            Body::VoteResponse { pre, granted, commit } => {
                into.push(u8::from(*pre) | u8::from(*granted) << 1);
                put(into, &[commit.index, commit.term]);
            }
            Body::InstallBase(base) => put_base(into, base),
            Body::TimeoutNow => {}
        }
    }

    /// Reads one message. Facts and contents are slices of `bytes`.
    pub fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let kind = reader.u8()?;
        let (from, to, term) = (reader.member()?, reader.member()?, reader.u64()?);
        let body = match kind {
            1 => {
                let (previous, commit) = (reader.position()?, reader.u64()?);
                let mut entries = Vec::new();
                while !reader.0.is_empty() {
                    entries.push(reader.entry()?);
                }
                Body::Append { previous, commit, entries }
            }
            2 => Body::Appended { index: reader.u64()?, commit: reader.u64()? },
            3 => {
                Body::AppendRefused { index: reader.u64()?, hint: reader.position()?, commit: reader.u64()? }
            }
            4 => Body::Ping { commit: reader.u64()? },
            5 => Body::Pong { commit: reader.u64()? },
            6 => {
                let [pre, transfer] = reader.flags()?;
                let (last, commit) = (reader.position()?, reader.position()?);
                Body::VoteRequest { pre, last, commit, transfer }
            }
            7 => {
                let [pre, granted] = reader.flags()?;
                Body::VoteResponse { pre, granted, commit: reader.position()? }
            }
            8 => Body::InstallBase(reader.base()?),
            9 => Body::TimeoutNow,
            _ => return Err(Malformed("kind of message")),
        };
        reader.end()?;
        Ok(Self { from, to, term, body })
    }
}

impl Record {
    pub fn encode(&self, into: &mut Vec<u8>) {
        let tail = self.encode_head(into);
        into.extend_from_slice(&tail);
    }

    /// Appends the record without the facts or the content that it ends with, and returns those: they need not be copied.
    pub fn encode_head(&self, into: &mut Vec<u8>) -> Bytes {
        match self {
            Self::Vote(vote) => {
                into.push(1);
                put_vote(into, *vote);
                Bytes::new()
            }
            Self::Base(base) => {
                into.push(2);
                put_base_head(into, base);
                base.content.clone()
            }
            Self::Entry { entry, committed } => {
                into.push(3);
                put(into, &[*committed]);
                put_entry_head(into, entry);
                match &entry.payload {
                    Payload::Facts(facts) => facts.clone(),
                    Payload::Empty | Payload::Change(_) => Bytes::new(),
                }
            }
        }
    }

    /// Reads one record. Facts and contents are slices of `bytes`.
    pub fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let record = match reader.u8()? {
            1 => Self::Vote(reader.vote()?),
            2 => Self::Base(reader.base()?),
            3 => {
                let committed = reader.u64()?;
                Self::Entry { entry: reader.entry()?, committed }
            }
            _ => return Err(Malformed("kind of record")),
        };
        reader.end()?;
        Ok(record)
    }
}

/// Encodes a change for the context of an engine's entry.
pub(crate) fn change_bytes(change: Change) -> Bytes {
    let mut bytes = Vec::with_capacity(9);
    put_change(&mut bytes, change);
    bytes.into()
}

/// Decodes what [`change_bytes`] has encoded.
pub(crate) fn change_from(bytes: &Bytes) -> Result<Change, Malformed> {
    let mut reader = Reader(bytes.clone());
    let kind = reader.u8()?;
    let change = reader.change(kind)?;
    reader.end()?;
    Ok(change)
}

fn put(into: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| into.extend_from_slice(&number.to_le_bytes()));
}

fn put_vote(into: &mut Vec<u8>, vote: Vote) {
    put(into, &[vote.term, vote.candidate.map_or(0, Member::id), vote.applied]);
}

fn put_change(into: &mut Vec<u8>, change: Change) {
    let (kind, member) = match change {
        Change::Add(member) => (2, member),
        Change::Promote(member) => (3, member),
        Change::Remove(member) => (4, member),
    };
    into.push(kind);
    put(into, &[member.id()]);
}

fn put_entry(into: &mut Vec<u8>, entry: &Entry) {
    put_entry_head(into, entry);
    if let Payload::Facts(facts) = &entry.payload {
        into.extend_from_slice(facts);
    }
}

fn put_entry_head(into: &mut Vec<u8>, entry: &Entry) {
    put(into, &[entry.at.index, entry.at.term]);
    match &entry.payload {
        Payload::Empty => into.push(0),
        Payload::Facts(facts) => {
            into.push(1);
            into.extend_from_slice(&(facts.len() as u32).to_le_bytes());
        }
        Payload::Change(change) => put_change(into, *change),
    }
}

fn put_base(into: &mut Vec<u8>, base: &Base) {
    put_base_head(into, base);
    into.extend_from_slice(&base.content);
}

fn put_base_head(into: &mut Vec<u8>, base: &Base) {
    let Base { at, vote, members, installed, content: _ } = base;
    put(into, &[at.index, at.term]);
    put_vote(into, *vote);
    into.push(u8::from(*installed));
    into.extend_from_slice(&members.next().to_le_bytes());
    into.extend_from_slice(&(members.voters().len() as u16).to_le_bytes());
    into.extend_from_slice(&(members.learners().len() as u16).to_le_bytes());
    members.all().for_each(|member| put(into, &[member.id()]));
}

struct Reader(Bytes);

const SHORT: Malformed = Malformed("length");

impl Reader {
    fn u8(&mut self) -> Result<u8, Malformed> {
        self.0.try_get_u8().map_err(|_| SHORT)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.0.try_get_u16_le().map_err(|_| SHORT)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.0.try_get_u32_le().map_err(|_| SHORT)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.0.try_get_u64_le().map_err(|_| SHORT)
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(SHORT) }
    }

    fn member(&mut self) -> Result<Member, Malformed> {
        Member::from_id(self.u64()?).ok_or(Malformed("member"))
    }

    fn position(&mut self) -> Result<Position, Malformed> {
        Ok(Position { index: self.u64()?, term: self.u64()? })
    }

    fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("flag")),
        }
    }

    fn flags(&mut self) -> Result<[bool; 2], Malformed> {
        let flags = self.u8()?;
        if flags < 4 { Ok([flags & 1 != 0, flags & 2 != 0]) } else { Err(Malformed("flags")) }
    }

    fn vote(&mut self) -> Result<Vote, Malformed> {
        Ok(Vote { term: self.u64()?, candidate: Member::from_id(self.u64()?), applied: self.u64()? })
    }

    fn change(&mut self, kind: u8) -> Result<Change, Malformed> {
        let member = self.member()?;
        match kind {
            2 => Ok(Change::Add(member)),
            3 => Ok(Change::Promote(member)),
            4 => Ok(Change::Remove(member)),
            _ => Err(Malformed("kind of entry")),
        }
    }

    fn entry(&mut self) -> Result<Entry, Malformed> {
        let at = self.position()?;
        let payload = match self.u8()? {
            0 => Payload::Empty,
            1 => {
                let length = self.u32()? as usize;
                if length == 0 || length > self.0.len() {
                    return Err(SHORT);
                }
                Payload::Facts(self.0.split_to(length))
            }
            kind => Payload::Change(self.change(kind)?),
        };
        Ok(Entry { at, payload })
    }

    fn base(&mut self) -> Result<Base, Malformed> {
        let (at, vote, installed) = (self.position()?, self.vote()?, self.bool()?);
        let next = self.u32()?;
        let (voters, learners) = (usize::from(self.u16()?), usize::from(self.u16()?));
        if voters + learners > MEMBERS_MAX {
            return Err(Malformed("members"));
        }
        let voters = (0..voters).map(|_| self.member()).collect::<Result<Vec<_>, _>>()?;
        let learners = (0..learners).map(|_| self.member()).collect::<Result<Vec<_>, _>>()?;
        let is_sorted = voters.is_sorted() && learners.is_sorted();
        let members =
            Members::from_parts(voters, learners, next).filter(|_| is_sorted).ok_or(Malformed("members"))?;
        let content = self.0.split_off(0);
        Ok(Base { at, vote, members, installed, content })
    }
}
