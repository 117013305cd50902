//! Bytes from the sockets: frames for the gates, and the beginnings of frames whose rest has not come.

use amqp10::frame::HEADER_SIZE;
use broker::gate::{BadFrame, Phase};
use bytes::{Buf, BytesMut};

use crate::shard::Shard;

/// The most that is read from one connection in one turn, so that nobody holds the loop.
pub(crate) const READ_MAX: usize = 256 * 1024;

/// Bytes of a fresh read buffer. Behind what is read there is room for the end of a large frame of which little is missing;
/// where more is, the beginning is copied and the rest read straight behind it.
pub(crate) const READ_BUFFER: usize = READ_MAX + LARGE;

/// From here on a frame stays where the socket was read to, and its rest is read straight to its place (house.md section 4;
/// docs/decisions/0020).
const LARGE: usize = 16 * 1024;

/// Large frames stay in a read buffer only if they are together at least so much: the buffer is kept as long as one of
/// them is, and is then little more than four times what it was kept for. Less is copied, as small messages are.
const FAIR_PART: usize = READ_MAX / 4;

impl Shard {
    /// Whether the socket of a connection is to be read; see [`Gate::takes_input`].
    pub fn takes_input(&self, key: usize) -> bool {
        self.connections.conns.get(key).is_none_or(|c| c.gate.takes_input())
    }

    /// Bytes from the socket, in the buffer that they were read to. Large frames stay there, if they are a fair part of it.
    /// The beginning of a frame that is not whole is kept, with them or in a buffer of its size. What is left of `input`
    /// is of no use to anybody.
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

    pub(super) fn take_input(&mut self, key: usize, input: &mut BytesMut) {
        // Whether large frames stay in `input`: asked at the first.
        let mut stays = None;
        loop {
            let Some(conn) = self.connections.conns.get_mut(key) else { return };
            if let Some(to) = conn.gate.wants_to() {
                let has_room =
                    || self.connections.occupancy.as_ref().is_some_and(|occupancy| occupancy.has_room(to));
                if !conn.partial.is_empty() || has_room() {
                    conn.partial.extend_from_slice(input);
                    return;
                }
                self.gates().with(key, |gate, cx| gate.go_on(cx));
                continue;
            }
            if conn.gate.phase() == Phase::Login {
                conn.partial.extend_from_slice(input);
                return;
            }
            if input.is_empty() || !conn.gate.phase().listens() {
                return;
            }
            if conn.partial.is_empty() {
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

    /// Whether the large frames in `input` are together a fair part of a read buffer.
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

    /// Keeps the beginning of a frame of `len` bytes: a large part of it where it is, if others stay there and it has
    /// room, else in a buffer of its size.
    fn keep_partial(&mut self, key: usize, input: &mut BytesMut, len: usize, others_stay: bool) {
        let Some(conn) = self.connections.conns.get_mut(key) else { return };
        if !conn.gate.phase().listens() {
            return;
        }
        if others_stay && input.len() >= LARGE && input.capacity() >= len {
            // An empty handle stays with the reader: it is to have the buffer again when its frames are gone.
            let behind = input.split_off(input.capacity());
            conn.partial = std::mem::replace(input, behind);
        } else {
            conn.partial.reserve(len);
            conn.partial.extend_from_slice(input);
        }
    }

    /// Length of the frame whose beginning is kept, if that much of it is there.
    fn partial_wants(&mut self, key: usize) -> Option<usize> {
        let partial = std::mem::take(&mut self.connections.conns.get_mut(key)?.partial);
        let len = self.frame_len(key, &partial);
        self.connections.conns.get_mut(key)?.partial = partial;
        len
    }

    /// Bytes that are missing of a large frame: they are best read straight into the buffer that
    /// [`Shard::take_partial`] gives.
    pub fn missing(&mut self, key: usize) -> Option<usize> {
        let have = self.connections.conns.get(key).map_or(0, |c| c.partial.len());
        if have < HEADER_SIZE {
            return None;
        }
        let missing = self.partial_wants(key)?.saturating_sub(have);
        (missing >= LARGE).then_some(missing)
    }

    /// The beginning of a frame, to be read on and given back with [`Shard::give_partial`].
    pub fn take_partial(&mut self, key: usize) -> BytesMut {
        let Some(conn) = self.connections.conns.get_mut(key) else { return BytesMut::new() };
        conn.partial_taken = conn.partial.len();
        std::mem::take(&mut conn.partial)
    }

    /// Gives back what was taken, with `more` bytes more in it.
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

    /// Handles the kept frame if it is whole now.
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

    /// Length of the frame that `input` starts with, as far as its header is there. A header that cannot be
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
