//! Messages that arrive over a connection of [`Role::Shard`](crate::Role::Shard).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::{Bytes, BytesMut};

use crate::bounds::{LANES_MAX, MESSAGE_MAX, UNFINISHED_MAX, WINDOW, WINDOW_STEP};
use crate::error::LinkError;
use crate::frame::{Frame, PIECE_MAX, Piece};

/// A message that has arrived whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub lane: u64,
    /// The shard of this node that the message is for. The caller checks that there is such a shard.
    pub shard: u8,
    /// The content. A message of one piece is a slice of the buffer that was fed, so who keeps it for long should copy it.
    pub bytes: Bytes,
    /// What [`Incoming::taken`] must be called with when the message is taken: the bytes of its last piece, with the head.
    pub cost: usize,
}

struct Unfinished {
    shard: u8,
    total: usize,
    bytes: Vec<u8>,
}

/// The receiving side of one connection.
///
/// The bytes of an unfinished message count as taken when they arrive, because the rest of a message longer than the window could
/// not come otherwise. They are bounded by [`UNFINISHED_MAX`]. So the window bounds only the last pieces of messages that have arrived whole and that
/// nobody has taken. Whoever keeps such messages bounds their bytes, and feeds nothing more above the bound, as `node::links` does.
#[derive(Default)]
pub struct Incoming {
    /// By lane.
    unfinished: BTreeMap<u64, Unfinished>,
    /// The sum of their announced lengths.
    announced: usize,
    /// The bytes of pieces, with their heads, that arrived and were not acknowledged. At most [`WINDOW`].
    unacknowledged: usize,
    /// The part of `unacknowledged` that was taken.
    taken: usize,
}

impl Incoming {
    /// Takes frames from the front of `buffer`, up to the end of the next message. Call it until it returns `None`: what is left then
    /// is a frame that is not complete. Memory is allocated only for bytes that have arrived, at most twice as much.
    ///
    /// # Errors
    ///
    /// The sender has broken a rule. The connection must be closed.
    pub fn feed(&mut self, buffer: &mut BytesMut) -> Result<Option<Message>, LinkError> {
        while let Some(frame) = Frame::take(buffer)? {
            let Frame::Piece(piece) = frame else { return Err(LinkError::Unexpected(frame.name())) };
            if let Some(message) = self.handle_piece(piece)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Called when the messages with these costs were taken: they no longer need the memory of this connection. Costs may be summed.
    pub fn taken(&mut self, cost: usize) {
        debug_assert!(self.taken + cost <= self.unacknowledged, "more was taken than has arrived");
        self.taken = self.unacknowledged.min(self.taken + cost);
    }

    /// Appends a window frame if at least [`WINDOW_STEP`] bytes were taken since the last one. Returns false if nothing was appended.
    pub fn poll_window(&mut self, into: &mut Vec<u8>) -> bool {
        if self.taken < WINDOW_STEP {
            return false;
        }
        let bytes = std::mem::take(&mut self.taken);
        self.unacknowledged -= bytes;
        Frame::Window { bytes: bytes as u32 }.encode(into);
        true
    }

    /// Returns the memory that unfinished messages take, in bytes.
    pub fn unfinished_bytes(&self) -> usize {
        self.unfinished.values().map(|unfinished| unfinished.bytes.capacity()).sum()
    }

    fn handle_piece(&mut self, piece: Piece) -> Result<Option<Message>, LinkError> {
        let cost = piece.frame_len();
        if self.unacknowledged + cost > WINDOW {
            return Err(LinkError::WindowExceeded);
        }
        self.unacknowledged += cost;
        let Piece { lane, shard, total, is_last, bytes } = piece;
        // The length of each piece follows from that of the message.
        let check = |rest: usize| {
            let fits = bytes.len() == rest.min(PIECE_MAX) && is_last == (rest <= PIECE_MAX);
            if fits { Ok(()) } else { Err(LinkError::PieceLength { lane }) }
        };
        let unfinished_count = self.unfinished.len();
        let mut entry = match (total, self.unfinished.entry(lane)) {
            (Some(_), Entry::Occupied(_)) => return Err(LinkError::Overlap { lane }),
            (None, Entry::Vacant(_)) => return Err(LinkError::NoFirstPiece { lane }),
            (None, Entry::Occupied(entry)) => entry,
            (Some(total), Entry::Vacant(entry)) => {
                let total = total as usize;
                if total > MESSAGE_MAX {
                    return Err(LinkError::LongMessage { lane, bytes: total });
                }
                check(total)?;
                if is_last {
                    return Ok(Some(Message { lane, shard, bytes, cost }));
                }
                if unfinished_count == LANES_MAX {
                    return Err(LinkError::TooManyUnfinished);
                }
                if self.announced + total > UNFINISHED_MAX {
                    return Err(LinkError::TooMuchUnfinished);
                }
                self.announced += total;
                self.taken += cost;
                entry.insert(Unfinished { shard, total, bytes: bytes.to_vec() });
                return Ok(None);
            }
        };
        let unfinished = entry.get_mut();
        if shard != unfinished.shard {
            return Err(LinkError::OtherShard { lane });
        }
        let (have, total) = (unfinished.bytes.len(), unfinished.total);
        check(total - have)?;
        if unfinished.bytes.capacity() < have + bytes.len() {
            // Doubles, because copying for each piece would take long. The message itself is the limit, so nothing is left over at its end.
            unfinished.bytes.reserve_exact(have.max(bytes.len()).min(total - have));
        }
        unfinished.bytes.extend_from_slice(&bytes);
        if !is_last {
            self.taken += cost;
            return Ok(None);
        }
        self.announced -= total;
        let bytes = entry.remove().bytes.into();
        Ok(Some(Message { lane, shard, bytes, cost }))
    }
}

#[cfg(test)]
mod tests;
