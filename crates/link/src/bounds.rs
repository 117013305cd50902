//! The bounds of messages over one connection. Sender and receiver rely on the same ones.

use crate::frame::{FRAME_MAX, PIECE_MAX};

/// The longest message in bytes: more than a message of a client and what is added to it on the way.
pub const MESSAGE_MAX: usize = 256 * 1024 * 1024;
/// The bytes of messages that wait to be sent, with [`QUEUED_OVERHEAD`] for each: four windows, so that a pause of the sender's thread
/// does not leave the connection idle. Above it, messages are refused. A message that is longer than this by itself does not
/// count, but only one such message is admitted at a time. If it counted, it would wait for an empty queue, and while it is
/// sent no short message could be queued to pass it.
pub const QUEUED_MAX: usize = 32 * 1024 * 1024;
/// What each queued message adds to its bytes, so that no number of short messages takes much memory.
pub const QUEUED_OVERHEAD: usize = 128;
/// The bytes of pieces, with their heads, that may be sent before the receiver has taken them. So much can be on its way and wait at
/// the receiver. At 1 Gbit/s it covers a round trip of about 60 ms.
pub const WINDOW: usize = 8 * 1024 * 1024;
/// The taken bytes that are acknowledged together. An eighth of the window: window frames are rare, and at least seven eighths of the
/// window stay open while the receiver keeps up.
pub const WINDOW_STEP: usize = WINDOW / 8;
/// The unfinished messages of one connection. A message has a second piece only if it is longer than [`PIECE_MAX`], so no more of them
/// fit into the sender's queue, beside one large message.
pub const LANES_MAX: usize = QUEUED_MAX / PIECE_MAX + 1;
/// The bytes of the unfinished messages of one connection, by their announced lengths: as much as the sender's queue holds.
pub const UNFINISHED_MAX: usize = QUEUED_MAX + MESSAGE_MAX;

const _: () = assert!(WINDOW_STEP + FRAME_MAX <= WINDOW, "a sender would wait for ever");
