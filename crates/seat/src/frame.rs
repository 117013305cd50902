//! The frames of a session. Numbers are little-endian.
//!
//! ```text
//!  kind u8 | boot u32 | session u32 | shard u8 | ...       boot, session, shard: those of the node of the links
//!   64 open       received u64 | fresh u8                  from the node of the links, over each new link
//!   65 opened     boot u32 | received u64                  the answer; the boot is that of the node that has the queues
//!   66 ended      boot u32                                 the other answer: it does not know the session
//!   67 asks       number u64 | applied u64 | items         see [`Ask`](crate::Ask)
//!   68 answers    number u64 | items                       see [`Answer`](crate::Answer)
//!   69 have_answers   received u64                         from the node of the links
//!   70 have_asks      received u64                         from the node that has the queues
//!   71 how_far                                             from the node that has the queues; answered by open
//! ```
//!
//! The kinds are different from those of all other messages between nodes, so that a frame is such a message without a copy.

use bytes::{Buf, BufMut, Bytes};

const OPEN: u8 = 64;
const OPENED: u8 = 65;
const ENDED: u8 = 66;
const ASKS: u8 = 67;
const ANSWERS: u8 = 68;
const HAVE_ANSWERS: u8 = 69;
const HAVE_ASKS: u8 = 70;
const HOW_FAR: u8 = 71;

/// Which session a frame belongs to. All numbers are those of the node of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId {
    /// The start of the node.
    pub boot: u32,
    /// Counts the sessions of the shard with one other node.
    pub session: u32,
    /// The shard that has the links.
    pub shard: u8,
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// This is the session, and so many batches of answers have arrived. A fresh one was never open.
    Open { received: u64, fresh: bool },
    /// The session is known to this start of the node, and so many batches of asks have arrived.
    Opened { boot: u32, received: u64 },
    /// The session is not known to this start of the node.
    Ended { boot: u32 },
    /// A batch. The asking shard has applied the entries of the catalog up to `applied`, so it may ask for what these have declared.
    Asks { number: u64, applied: u64, items: Bytes },
    /// A batch.
    Answers { number: u64, items: Bytes },
    /// So many batches of answers have arrived.
    HaveAnswers(u64),
    /// So many batches of asks have arrived.
    HaveAsks(u64),
    /// How many batches of answers have arrived? Nothing was heard of them for some time.
    HowFar,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub id: SessionId,
    pub said: Said,
}

/// Returns true if a message between nodes is a frame.
pub fn is_frame(message: &[u8]) -> bool {
    message.first().is_some_and(|kind| (OPEN..=HOW_FAR).contains(kind))
}

impl Frame {
    /// Returns true for what the node of the links says to the node that has the queues.
    pub fn is_for_queues(&self) -> bool {
        matches!(self.said, Said::Open { .. } | Said::Asks { .. } | Said::HaveAnswers(_))
    }

    /// Encodes the frame.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        let Self { id, said } = self;
        match said {
            Said::Open { received, fresh } => {
                put_head(&mut out, OPEN, *id);
                out.put_u64_le(*received);
                out.put_u8(u8::from(*fresh));
            }
            Said::Opened { boot, received } => {
                put_head(&mut out, OPENED, *id);
                out.put_u32_le(*boot);
                out.put_u64_le(*received);
            }
            Said::Ended { boot } => {
                put_head(&mut out, ENDED, *id);
                out.put_u32_le(*boot);
            }
            Said::Asks { number, applied, items } => {
                begin_asks(&mut out, *id, *number, *applied);
                out.put_slice(items);
            }
            Said::Answers { number, items } => {
                begin_answers(&mut out, *id, *number);
                out.put_slice(items);
            }
            Said::HaveAnswers(received) => {
                put_head(&mut out, HAVE_ANSWERS, *id);
                out.put_u64_le(*received);
            }
            Said::HaveAsks(received) => {
                put_head(&mut out, HAVE_ASKS, *id);
                out.put_u64_le(*received);
            }
            Said::HowFar => put_head(&mut out, HOW_FAR, *id),
        }
        out.into()
    }

    /// Returns `None` if the bytes are no frame.
    pub fn decode(mut bytes: Bytes) -> Option<Self> {
        let kind = bytes.try_get_u8().ok()?;
        let id = SessionId {
            boot: bytes.try_get_u32_le().ok()?,
            session: bytes.try_get_u32_le().ok()?,
            shard: bytes.try_get_u8().ok()?,
        };
        let said = match kind {
            OPEN => Said::Open {
                received: bytes.try_get_u64_le().ok()?,
                fresh: match bytes.try_get_u8().ok()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                },
            },
            OPENED => {
                Said::Opened { boot: bytes.try_get_u32_le().ok()?, received: bytes.try_get_u64_le().ok()? }
            }
            ENDED => Said::Ended { boot: bytes.try_get_u32_le().ok()? },
            ASKS => Said::Asks {
                number: bytes.try_get_u64_le().ok()?,
                applied: bytes.try_get_u64_le().ok()?,
                items: std::mem::take(&mut bytes),
            },
            ANSWERS => {
                Said::Answers { number: bytes.try_get_u64_le().ok()?, items: std::mem::take(&mut bytes) }
            }
            HAVE_ANSWERS => Said::HaveAnswers(bytes.try_get_u64_le().ok()?),
            HAVE_ASKS => Said::HaveAsks(bytes.try_get_u64_le().ok()?),
            HOW_FAR => Said::HowFar,
            _ => return None,
        };
        bytes.is_empty().then_some(Self { id, said })
    }
}

fn put_head(out: &mut Vec<u8>, kind: u8, id: SessionId) {
    out.put_u8(kind);
    out.put_u32_le(id.boot);
    out.put_u32_le(id.session);
    out.put_u8(id.shard);
}

/// Begins the frame of a batch of asks. The items follow.
pub(crate) fn begin_asks(out: &mut Vec<u8>, id: SessionId, number: u64, applied: u64) {
    put_head(out, ASKS, id);
    out.put_u64_le(number);
    out.put_u64_le(applied);
}

/// Begins the frame of a batch of answers. The items follow.
pub(crate) fn begin_answers(out: &mut Vec<u8>, id: SessionId, number: u64) {
    put_head(out, ANSWERS, id);
    out.put_u64_le(number);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_survives_its_encoding_and_no_part_of_it_is_one() {
        let id = SessionId { boot: 3, session: 0x0102_0304, shard: 9 };
        let items = Bytes::from_static(b"items");
        for said in [
            Said::Open { received: 7, fresh: true },
            Said::Open { received: 7, fresh: false },
            Said::Opened { boot: 5, received: 1 << 40 },
            Said::Ended { boot: 5 },
            Said::Asks { number: 12, applied: 77, items: items.clone() },
            Said::Answers { number: 12, items },
            Said::HaveAnswers(8),
            Said::HaveAsks(9),
            Said::HowFar,
        ] {
            let frame = Frame { id, said };
            let bytes = frame.encode();
            assert!(is_frame(&bytes));
            assert_eq!(Frame::decode(bytes.clone()).as_ref(), Some(&frame));
            for end in 0..bytes.len() {
                let part = Frame::decode(bytes.slice(..end));
                let is_batch = matches!(frame.said, Said::Asks { .. } | Said::Answers { .. });
                assert!(part.is_none() || is_batch && end >= 18, "{frame:?} cut at {end}");
            }
        }
    }
}
