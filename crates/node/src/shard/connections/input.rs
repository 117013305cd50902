//! Handles bytes from the sockets: complete frames go to the gates, incomplete frames are kept until their
//! rest arrives.

use amqp10::frame::HEADER_SIZE;
use broker::gate::{BadFrame, Gate, Phase};
use bytes::{Buf, BytesMut};

use crate::shard::Shard;

/// The most bytes of one read, so that no connection monopolizes the loop.
pub(crate) const READ_MAX: usize = 256 * 1024;

/// The most bytes of one read from a connection that sends small frames: some 400 messages of 12 bytes. More of them only
/// lengthen the queues, because a consumer is sent a few hundred messages in a turn. With [`READ_MAX`], four publishers
/// without confirms cost twice as much (docs/benchmarks.md, AMQP 0.9.1).
const SMALL_READ_MAX: usize = 32 * 1024;

/// The most bytes of one read while an alarm stops publishers. What follows a message in its read is kept until the alarm
/// ends, so a thousand clients that publish during an alarm keep at most 16 MiB.
const READ_MAX_IN_ALARM: usize = 16 * 1024;

/// A frame of less than this many bytes is small. [`READ_MAX`] bytes hold at most a thousand larger ones.
const SMALL_FRAME: usize = 256;

/// The number of frames by which a connection is judged. A message of AMQP 0.9.1 has three: method, header and body.
const SAMPLE_FRAMES: usize = 3;

/// The size of a new read buffer, in bytes. After the input there is space for the end of a large frame of
/// which little is missing. If more is missing, the beginning is copied and the rest is read directly after
/// it.
pub(crate) const READ_BUFFER: usize = READ_MAX + LARGE;

/// A frame of at least this many bytes stays in the buffer that it was read into, and its rest is read
/// directly to its place (docs/decisions/0020).
const LARGE: usize = 16 * 1024;

/// Large frames stay in a read buffer only if they are at least this many bytes together. The buffer is kept
/// while any of them is alive, and it is little more than four times as large. Otherwise they are copied, as
/// small messages are.
pub(crate) const FAIR_PART: usize = READ_MAX / 4;

impl Shard {
    /// Returns true if the socket of a connection should be read; see [`broker::gate::Gate::takes_input`].
    pub fn takes_input(&self, key: usize) -> bool {
        self.connections.conns.get(key).is_none_or(|c| c.gate.takes_input())
    }

    /// Returns what a connection is doing.
    pub fn phase(&self, key: usize) -> Option<Phase> {
        self.connections.conns.get(key).map(|c| c.gate.phase())
    }

    /// Returns the most bytes that the next read of a connection takes.
    pub fn read_max(&self, key: usize) -> usize {
        match self.connections.conns.get(key).is_none_or(|c| c.sends_small) {
            _ if self.connections.is_blocked() => READ_MAX_IN_ALARM,
            true => SMALL_READ_MAX,
            false => READ_MAX,
        }
    }

    /// Handles bytes from the socket, in the buffer that they were read into. Large frames stay there if they
    /// are a fair part of it. The beginning of an incomplete frame is kept, in place or in a buffer of its
    /// size. The rest of `input` has no further use.
    pub fn handle_input(&mut self, key: usize, input: &mut BytesMut) {
        let Some(conn) = self.connections.conns.get_mut(key) else { return };
        conn.recv_bytes += input.len() as u64;
        if conn.partial.is_empty() {
            let heartbeats = conn.gate.handle_heartbeats(input, self.here.now_ms);
            input.advance(heartbeats);
            if heartbeats > 0 && !conn.gate.output().is_empty() {
                self.touch(key);
            }
        }
        if !input.is_empty() {
            self.take_input(key, input);
            self.count_unfinished(key);
        }
    }

    /// Continues with input that was kept, if the gate takes it now.
    pub(super) fn continue_input(&mut self, key: usize) {
        if self.connections.conns.get(key).is_some_and(|conn| conn.is_kept) {
            self.take_input(key, &mut BytesMut::new());
            self.count_unfinished(key);
        }
    }

    pub(super) fn take_input(&mut self, key: usize, input: &mut BytesMut) {
        let Some(conn) = self.connections.conns.get_mut(key) else { return };
        if conn.is_kept && !conn.keeps_input() && conn.gate.moves_to().is_none() {
            conn.is_kept = false;
            let mut kept = std::mem::take(&mut conn.partial);
            self.take_more(key, &mut kept, true);
        }
        self.take_more(key, input, false);
    }

    /// Handles input. `is_own` says that it was kept, so that its buffer can be kept again; others are copied.
    fn take_more(&mut self, key: usize, input: &mut BytesMut, is_own: bool) {
        // Whether large frames stay in `input`. This is decided at the first large frame.
        let mut stays = None;
        let mut is_judged = input.len() < SMALL_READ_MAX;
        loop {
            let Some(conn) = self.connections.conns.get_mut(key) else { return };
            if let Some(to) = conn.gate.moves_to() {
                let has_room =
                    || self.connections.occupancy.as_ref().is_some_and(|occupancy| occupancy.has_room(to));
                if !conn.partial.is_empty() || has_room() {
                    conn.keep(input, is_own);
                    return;
                }
                self.gates().with(key, |gate, cx| gate.continue_held(cx));
                continue;
            }
            if conn.keeps_input() {
                conn.keep(input, is_own);
                return;
            }
            if input.is_empty() || !conn.gate.phase().listens() {
                return;
            }
            if conn.partial.is_empty() {
                if !std::mem::replace(&mut is_judged, true) {
                    conn.sends_small = has_small_frames(&conn.gate, input);
                }
                let large = if stays == Some(false) { usize::MAX } else { LARGE };
                let mut used = 0;
                self.gates().with(key, |gate, cx| used = gate.handle_input(input, large, cx));
                input.advance(used);
                if used > 0 {
                    continue;
                }
                let len = self.frame_len(key, input).unwrap_or(HEADER_SIZE);
                if len > input.len() {
                    self.keep_partial(key, input, len, stays == Some(true));
                    return;
                }
                if *stays.get_or_insert_with(|| self.is_fair_part(key, input)) {
                    let frame = input.split_to(len).freeze();
                    self.gates().with(key, |gate, cx| gate.handle_frame(frame, cx));
                }
            } else {
                let wanted = self.partial_wants(key).unwrap_or(HEADER_SIZE);
                let Some(conn) = self.connections.conns.get_mut(key) else { return };
                let missing = wanted.saturating_sub(conn.partial.len());
                let more = missing.min(input.len());
                conn.partial.extend_from_slice(&input[..more]);
                input.advance(more);
                self.handle_partial(key);
            }
        }
    }

    /// Returns true if the large frames in `input` are together a fair part of a read buffer.
    fn is_fair_part(&mut self, key: usize, input: &[u8]) -> bool {
        let Some(conn) = self.connections.conns.get_mut(key) else { return false };
        let (mut rest, mut large) = (input, 0);
        while let Ok(Some(len)) = conn.gate.frame_len(rest)
            && let Some(behind) = rest.get(len..)
            && large < FAIR_PART
        {
            large += if len >= LARGE { len } else { 0 };
            rest = behind;
        }
        large >= FAIR_PART
    }

    /// Keeps the beginning of a frame of `len` bytes. A large beginning stays in place if other frames stay
    /// there and the buffer has the capacity. Otherwise it is copied into a buffer of the frame's size.
    fn keep_partial(&mut self, key: usize, input: &mut BytesMut, len: usize, others_stay: bool) {
        let Some(conn) = self.connections.conns.get_mut(key) else { return };
        if !conn.gate.phase().listens() {
            return;
        }
        if others_stay && input.len() >= LARGE && input.capacity() >= len {
            // The caller keeps an empty handle, so that it gets the buffer back when its frames are dropped.
            let behind = input.split_off(input.capacity());
            conn.partial = std::mem::replace(input, behind);
        } else {
            conn.partial.reserve(len);
            conn.partial.extend_from_slice(input);
        }
    }

    /// Returns the length of the frame whose beginning is kept, if enough of it has arrived to tell.
    fn partial_wants(&mut self, key: usize) -> Option<usize> {
        let partial = std::mem::take(&mut self.connections.conns.get_mut(key)?.partial);
        let len = self.frame_len(key, &partial);
        self.connections.conns.get_mut(key)?.partial = partial;
        len
    }

    /// Returns the number of missing bytes of a large frame. They should be read directly into the buffer
    /// that [`Shard::take_partial`] returns.
    pub fn missing(&mut self, key: usize) -> Option<usize> {
        let have = self.connections.conns.get(key).map_or(0, |c| c.partial.len());
        if have < HEADER_SIZE {
            return None;
        }
        let missing = self.partial_wants(key)?.saturating_sub(have);
        (missing >= LARGE).then_some(missing)
    }

    /// Returns the beginning of a frame. The caller reads more into it and returns it with
    /// [`Shard::give_partial`].
    pub fn take_partial(&mut self, key: usize) -> BytesMut {
        let Some(conn) = self.connections.conns.get_mut(key) else { return BytesMut::new() };
        conn.partial_taken = conn.partial.len();
        std::mem::take(&mut conn.partial)
    }

    /// Takes back the beginning of a frame, with `more` additional bytes.
    pub fn give_partial(&mut self, key: usize, partial: BytesMut, more: usize) {
        if let Some(conn) = self.connections.conns.get_mut(key) {
            conn.recv_bytes += more as u64;
            conn.partial_taken = 0;
            conn.partial = partial;
        }
        self.handle_partial(key);
        self.take_input(key, &mut BytesMut::new());
        self.count_unfinished(key);
    }

    /// Handles the kept frame if it is complete now.
    fn handle_partial(&mut self, key: usize) {
        let Some(len) = self.partial_wants(key) else { return };
        let Some(conn) = self.connections.conns.get_mut(key) else { return };
        if conn.partial.len() >= len {
            let frame = std::mem::take(&mut conn.partial).freeze();
            self.gates().with(key, |gate, cx| gate.handle_frame(frame, cx));
        } else {
            conn.partial.reserve(len - conn.partial.len());
        }
    }

    /// Returns the length of the frame at the start of `input`, if its header is complete. An invalid header
    /// closes the connection.
    fn frame_len(&mut self, key: usize, input: &[u8]) -> Option<usize> {
        let conn = self.connections.conns.get_mut(key)?;
        if !conn.gate.phase().listens() {
            return None;
        }
        match conn.gate.frame_len(input) {
            Ok(len) => len,
            Err(BadFrame) => {
                self.gates().with(key, |gate, cx| gate.handle_bad_frame(input, cx));
                None
            }
        }
    }
}

/// Returns true if the first frames of `input` are small.
fn has_small_frames(gate: &Gate, mut input: &[u8]) -> bool {
    for _ in 0..SAMPLE_FRAMES {
        match gate.frame_len(input) {
            Ok(Some(len)) if len >= SMALL_FRAME => return false,
            Ok(Some(len)) => input = input.get(len..).unwrap_or_default(),
            Ok(None) | Err(BadFrame) => break,
        }
    }
    true
}
