//! Messages that wait to be sent over a connection of [`Role::Shard`](crate::Role::Shard).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::bounds::{MESSAGE_MAX, QUEUED_MAX, QUEUED_OVERHEAD, WINDOW};
use crate::error::LinkError;
use crate::frame::{Frame, PIECE_MAX, Piece};

/// A message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotQueued {
    /// Too many bytes wait already. There is room again after some [`Outgoing::poll`].
    Full,
    /// The message is longer than [`MESSAGE_MAX`] and can never be sent. It has so many bytes.
    TooLong(usize),
}

impl fmt::Display for NotQueued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("too many bytes wait to be sent over this connection"),
            Self::TooLong(bytes) => write!(f, "a message of {bytes} bytes is longer than {MESSAGE_MAX}"),
        }
    }
}

impl std::error::Error for NotQueued {}

struct Queued {
    shard: u8,
    message: Bytes,
    /// The bytes that were sent already.
    sent: usize,
}

impl Queued {
    fn is_large(&self) -> bool {
        self.message.len() + QUEUED_OVERHEAD > QUEUED_MAX
    }

    fn next_piece(&self, lane: u64) -> Piece {
        let end = self.message.len().min(self.sent + PIECE_MAX);
        Piece {
            lane,
            shard: self.shard,
            total: (self.sent == 0).then_some(self.message.len() as u32),
            is_last: end == self.message.len(),
            bytes: self.message.slice(self.sent..end),
        }
    }
}

/// The sending side of one connection. What is queued is dropped with it when the connection ends.
#[derive(Default)]
pub struct Outgoing {
    /// The lanes that have messages.
    lanes: BTreeMap<u64, VecDeque<Queued>>,
    /// Each of these lanes once, the next one to send in front.
    turns: VecDeque<u64>,
    /// The cost of all messages that are not large.
    queued: usize,
    /// The cost of the one large message, or 0.
    large: usize,
    unacknowledged: usize,
}

impl Outgoing {
    /// Queues a message behind the others of its lane. `shard` is a shard of the receiver.
    ///
    /// # Errors
    ///
    /// The message is too long, or does not fit below [`QUEUED_MAX`].
    pub fn push(&mut self, lane: u64, shard: u8, message: Bytes) -> Result<(), NotQueued> {
        if message.len() > MESSAGE_MAX {
            return Err(NotQueued::TooLong(message.len()));
        }
        let cost = message.len() + QUEUED_OVERHEAD;
        let queued = Queued { shard, message, sent: 0 };
        if queued.is_large() {
            if self.large > 0 {
                return Err(NotQueued::Full);
            }
            self.large = cost;
        } else {
            if self.queued + cost > QUEUED_MAX {
                return Err(NotQueued::Full);
            }
            self.queued += cost;
        }
        let messages = self.lanes.entry(lane).or_default();
        if messages.is_empty() {
            self.turns.push_back(lane);
        }
        messages.push_back(queued);
        Ok(())
    }

    /// Appends frames, at most `at_most` bytes of them, as far as the window permits. The lanes take turns, with one piece each. Returns
    /// true if another call could append more at once. Pieces are not cut to fit, so with less than [`FRAME_MAX`](crate::FRAME_MAX) bytes a call
    /// may append nothing.
    pub fn poll(&mut self, into: &mut Vec<u8>, at_most: usize) -> bool {
        let mut room = at_most;
        while let Some((lane, messages)) =
            self.turns.front().and_then(|lane| Some((*lane, self.lanes.get_mut(lane)?)))
            && let Some(first) = messages.front_mut()
        {
            let piece = first.next_piece(lane);
            let length = piece.frame_len();
            if self.unacknowledged + length > WINDOW {
                return false;
            }
            if length > room {
                return true;
            }
            room -= length;
            self.unacknowledged += length;
            first.sent += piece.bytes.len();
            if piece.is_last {
                // Not earlier: the receiver relies on the bounds of the queue for all messages that it has a part of.
                if first.is_large() {
                    self.large = 0;
                } else {
                    self.queued -= first.message.len() + QUEUED_OVERHEAD;
                }
                messages.pop_front();
            }
            self.turns.pop_front();
            if messages.is_empty() {
                self.lanes.remove(&lane);
            } else {
                self.turns.push_back(lane);
            }
            Frame::Piece(piece).encode(into);
        }
        false
    }

    /// Takes the frames of the receiver from the front of `buffer`.
    ///
    /// # Errors
    ///
    /// The receiver sends something else than windows, or acknowledges too much. The connection must be closed.
    pub fn feed(&mut self, buffer: &mut BytesMut) -> Result<(), LinkError> {
        while let Some(frame) = Frame::take(buffer)? {
            let Frame::Window { bytes } = frame else { return Err(LinkError::Unexpected(frame.name())) };
            self.handle_window(bytes as usize)?;
        }
        Ok(())
    }

    /// Called when the receiver has taken `bytes` of the pieces that were sent, with their heads.
    ///
    /// # Errors
    ///
    /// [`LinkError::AcknowledgedTooMuch`], and nothing has changed.
    pub fn handle_window(&mut self, bytes: usize) -> Result<(), LinkError> {
        let unacknowledged = self.unacknowledged;
        self.unacknowledged = unacknowledged
            .checked_sub(bytes)
            .ok_or(LinkError::AcknowledgedTooMuch { bytes, unacknowledged })?;
        Ok(())
    }

    /// Returns the bytes of the messages that are not sent whole, with [`QUEUED_OVERHEAD`] for each.
    pub fn queued_bytes(&self) -> usize {
        self.queued + self.large
    }

    /// Returns the bytes of pieces, with their heads, that were sent and not acknowledged. At most [`WINDOW`]. Up to
    /// [`WINDOW_STEP`](crate::WINDOW_STEP) of them stay unacknowledged on an idle connection.
    pub fn unacknowledged_bytes(&self) -> usize {
        self.unacknowledged
    }
}
