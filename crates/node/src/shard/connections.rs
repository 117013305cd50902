//! Connections of a shard: they come, bytes come from them, and they go, or move to another shard.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use amqp10::frame::HEADER_SIZE;
use amqp10::{Chunk, Fault, condition};
use broker::PEER;
use broker::gate::amqp10::{Gate, Phase};
use broker::ids::{ConnectionId, ShardId};
use bytes::{Buf, BytesMut};

use super::{Conn, Cx, Occupancy, Shard, with_gate};

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

/// A connection on its way to another shard.
#[derive(Debug)]
pub struct Moved {
    conn: Conn,
    /// What has been read of it and not been looked at.
    unread: BytesMut,
}

impl Shard {
    /// From now on connections follow their queues to other shards, as far as there is room: whoever drives the shards
    /// sees to it, with [`Shard::leaving`].
    pub fn follow_queues(&mut self, occupancy: Arc<Occupancy>) {
        self.occupancy = Some(occupancy);
    }

    /// A new connection, which is counted already. Returns its key.
    pub fn connect(&mut self, peer: SocketAddr, local: SocketAddr) -> usize {
        self.unique += 1;
        let id = ConnectionId(u64::from(self.id) << 56 | self.unique);
        let name: Arc<str> = format!("{peer} -> {local}").into();
        let entry = self.conns.vacant_entry();
        let key = entry.key();
        let mut gate = Gate::new(id, key, peer.ip(), name, &self.settings, self.now_ms);
        gate.set_blocked(self.blocked);
        entry.insert(Conn {
            gate,
            partial: BytesMut::new(),
            dirty: false,
            partial_taken: 0,
            unfinished: 0,
            reader_memory: None,
            looked_at_ms: None,
            unwritten_bytes: 0,
            recv_bytes: 0,
            send_bytes: 0,
        });
        self.counters.connections_opened += 1;
        self.counters.connections += 1;
        self.touch(key);
        key
    }

    /// Where a connection is to be taken, with [`Shard::release`] here and [`Shard::adopt`] there, or with
    /// [`Shard::stay`] nowhere: until then it takes no input. To be asked after each input.
    pub fn leaving(&self, key: usize) -> Option<ShardId> {
        self.conns.get(key)?.gate.wants_to()
    }

    /// Gives a connection away that is [`Shard::leaving`].
    pub fn release(&mut self, key: usize) -> Option<Moved> {
        let to = self.leaving(key)?;
        let mut conn = self.conns.try_remove(key)?;
        look_at(&mut self.deadlines, key, &mut conn, None);
        self.uncount_unfinished(key, std::mem::take(&mut conn.unfinished));
        self.dirty.retain(|k| *k != key);
        self.counters.connections -= 1;
        if let Some(occupancy) = &self.occupancy {
            occupancy.shift(self.id, to);
        }
        let unread = std::mem::take(&mut conn.partial);
        Some(Moved { conn, unread })
    }

    /// Takes a connection over from another shard. Returns its key.
    pub fn adopt(&mut self, moved: Moved) -> usize {
        let Moved { mut conn, mut unread } = moved;
        let entry = self.conns.vacant_entry();
        let key = entry.key();
        conn.gate.take_place(key);
        conn.gate.set_blocked(self.blocked);
        conn.dirty = false;
        // What is under way stays with the shard that it came from.
        conn.reader_memory = None;
        entry.insert(conn);
        self.counters.connections += 1;
        with_gate!(self, key, |gate, cx| gate.go_on(cx));
        self.take_input(key, &mut unread);
        self.count_unfinished(key);
        key
    }

    /// A connection that is [`Shard::leaving`] cannot be moved, and goes on here.
    pub fn stay(&mut self, key: usize) {
        if self.leaving(key).is_none() {
            return;
        }
        let Some(conn) = self.conns.get_mut(key) else { return };
        let mut unread = std::mem::take(&mut conn.partial);
        with_gate!(self, key, |gate, cx| gate.go_on(cx));
        self.take_input(key, &mut unread);
        self.count_unfinished(key);
    }

    /// Counts one connection less here: one that has gone, or was gone before it came.
    pub fn uncount(&self) {
        if let Some(occupancy) = &self.occupancy {
            occupancy.remove(self.id);
        }
    }

    pub fn conn(&mut self, key: usize) -> Option<&mut Conn> {
        self.conns.get_mut(key)
    }

    /// Whether the client has logged in and opened the connection.
    pub fn is_open(&self, key: usize) -> bool {
        self.conns.get(key).is_some_and(|c| c.gate.phase() == Phase::Open)
    }

    pub fn connection_keys(&self) -> Vec<usize> {
        self.conns.iter().map(|(key, _)| key).collect()
    }

    /// Whether the socket of a connection is to be read; see [`Gate::takes_input`].
    pub fn takes_input(&self, key: usize) -> bool {
        self.conns.get(key).is_none_or(|c| c.gate.takes_input())
    }

    /// Bytes from the socket, in the buffer that they were read to. Large frames stay there, if they are a fair part of it.
    /// The beginning of a frame that is not whole is kept, with them or in a buffer of its size. What is left of `input`
    /// is of no use to anybody.
    pub fn handle_input(&mut self, key: usize, input: &mut BytesMut) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        conn.recv_bytes += input.len() as u64;
        if conn.partial.is_empty() {
            let heartbeats = conn.gate.connection().handle_heartbeats(input, self.now_ms);
            input.advance(heartbeats);
            if heartbeats > 0 && !conn.gate.connection().output().is_empty() {
                self.touch(key);
            }
        }
        if !input.is_empty() {
            self.take_input(key, input);
            self.count_unfinished(key);
        }
    }

    fn take_input(&mut self, key: usize, input: &mut BytesMut) {
        // Whether large frames stay in `input`: asked at the first.
        let mut stays = None;
        loop {
            let Some(conn) = self.conns.get_mut(key) else { return };
            if let Some(to) = conn.gate.wants_to() {
                let has_room = || self.occupancy.as_ref().is_some_and(|occupancy| occupancy.has_room(to));
                if !conn.partial.is_empty() || has_room() {
                    conn.partial.extend_from_slice(input);
                    return;
                }
                with_gate!(self, key, |gate, cx| gate.go_on(cx));
                continue;
            }
            if input.is_empty() || !conn.gate.phase().listens() {
                return;
            }
            if conn.partial.is_empty() {
                let large = if stays == Some(false) { usize::MAX } else { LARGE };
                let mut used = 0;
                with_gate!(self, key, |gate, cx| used = gate.handle_input(input, large, cx));
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
                    with_gate!(self, key, |gate, cx| gate.handle_frame(Chunk::Owned(frame), cx));
                }
            } else {
                let wanted = self.partial_wants(key).unwrap_or(HEADER_SIZE);
                let Some(conn) = self.conns.get_mut(key) else { return };
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
        let Some(conn) = self.conns.get_mut(key) else { return false };
        let (mut rest, mut large) = (input, 0);
        while let Ok(Some(len)) = conn.gate.connection().frame_len(rest)
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
        let Some(conn) = self.conns.get_mut(key) else { return };
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
        let partial = std::mem::take(&mut self.conns.get_mut(key)?.partial);
        let len = self.frame_len(key, &partial);
        self.conns.get_mut(key)?.partial = partial;
        len
    }

    /// Bytes that are missing of a large frame: they are best read straight into the buffer that
    /// [`Shard::take_partial`] gives.
    pub fn missing(&mut self, key: usize) -> Option<usize> {
        let have = self.conns.get(key).map_or(0, |c| c.partial.len());
        if have < HEADER_SIZE {
            return None;
        }
        let missing = self.partial_wants(key)?.saturating_sub(have);
        (missing >= LARGE).then_some(missing)
    }

    /// The beginning of a frame, to be read on and given back with [`Shard::give_partial`].
    pub fn take_partial(&mut self, key: usize) -> BytesMut {
        let Some(conn) = self.conns.get_mut(key) else { return BytesMut::new() };
        conn.partial_taken = conn.partial.len();
        std::mem::take(&mut conn.partial)
    }

    /// Gives back what was taken, with `more` bytes more in it.
    pub fn give_partial(&mut self, key: usize, partial: BytesMut, more: usize) {
        if let Some(conn) = self.conns.get_mut(key) {
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
        let Some(conn) = self.conns.get_mut(key) else { return };
        if conn.partial.len() >= len {
            let frame = std::mem::take(&mut conn.partial).freeze();
            with_gate!(self, key, |gate, cx| gate.handle_frame(Chunk::Owned(frame), cx));
        } else {
            conn.partial.reserve(len - conn.partial.len());
        }
    }

    /// Length of the frame that `input` starts with, as far as its header is there. A header that cannot be
    /// closes the connection.
    fn frame_len(&mut self, key: usize, input: &[u8]) -> Option<usize> {
        let conn = self.conns.get_mut(key)?;
        if !conn.gate.phase().listens() {
            return None;
        }
        match conn.gate.connection().frame_len(input) {
            Ok(len) => len,
            Err(fault) => {
                self.handle_fault(key, &fault);
                None
            }
        }
    }

    fn handle_fault(&mut self, key: usize, fault: &Fault) {
        with_gate!(self, key, |gate, cx| gate.handle_fault(fault, cx));
    }

    /// The socket is gone.
    pub fn disconnect(&mut self, key: usize) {
        with_gate!(self, key, |gate, cx| gate.handle_disconnect(cx));
        if self.conns.contains(key) {
            let mut conn = self.conns.remove(key);
            look_at(&mut self.deadlines, key, &mut conn, None);
            tracing::info!(target: PEER, connection = %conn.gate.name(), "connection gone");
            self.uncount_unfinished(key, conn.unfinished);
            self.counters.connections_closed += 1;
            self.counters.connections -= 1;
            self.dirty.retain(|k| *k != key);
            self.uncount();
        }
    }

    /// The node stops: every connection is told why. The standard has a condition for it [2.8.16], by which clients know
    /// that they may come again.
    pub fn shut_down(&mut self, why: &str) {
        self.stopping = true;
        for key in self.connection_keys() {
            with_gate!(self, key, |gate, cx| gate.shut_down(condition::CONNECTION_FORCED, why, cx));
        }
    }

    /// Closes one connection for an operator, with the reference's condition (behaviour A.3).
    pub fn close(&mut self, key: usize, why: &str) {
        with_gate!(self, key, |gate, cx| gate.shut_down(condition::INTERNAL_ERROR, why, cx));
    }

    /// Stops or resumes publishing on every connection.
    pub fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
        for key in self.connection_keys() {
            with_gate!(self, key, |gate, _cx| gate.set_blocked(blocked));
        }
    }

    /// Whether a turn has something to do for a connection: heartbeats of thousands, and parts of large frames, need none.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Marks a connection as having something to write or to close.
    pub fn touch(&mut self, key: usize) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.touch(key, &mut self.dirty);
        }
    }

    /// The connections with something to write or to close. Call after [`Shard::turn`].
    pub fn take_dirty(&mut self, into: &mut Vec<usize>) {
        // What a turn has ended holds nothing any more.
        for i in 0..self.dirty.len() {
            self.count_unfinished(self.dirty[i]);
        }
        for key in self.dirty.drain(..) {
            if let Some(conn) = self.conns.get_mut(key) {
                conn.dirty = false;
                into.push(key);
                // Whatever brings a deadline nearer has made it dirty.
                let due = conn.gate.next_deadline();
                if due.is_some_and(|due| conn.looked_at_ms.is_none_or(|at| due < at)) {
                    look_at(&mut self.deadlines, key, conn, due);
                }
            }
        }
    }

    /// Deadlines of connections that have passed.
    pub(super) fn connection_timeouts(&mut self) {
        while let Some(&(at, key)) = self.deadlines.first()
            && at <= self.now_ms
        {
            self.deadlines.pop_first();
            let Some(conn) = self.conns.get_mut(key) else { continue };
            conn.looked_at_ms = None;
            match conn.gate.next_deadline() {
                Some(due) if due <= self.now_ms => {
                    with_gate!(self, key, |gate, cx| gate.handle_timeout(cx));
                }
                later => look_at(&mut self.deadlines, key, conn, later),
            }
        }
    }
}

/// Has a connection looked at `at`, and no more when it was to be.
fn look_at(deadlines: &mut BTreeSet<(u64, usize)>, key: usize, conn: &mut Conn, at: Option<u64>) {
    if let Some(before) = std::mem::replace(&mut conn.looked_at_ms, at) {
        deadlines.remove(&(before, key));
    }
    deadlines.extend(at.map(|at| (at, key)));
}
