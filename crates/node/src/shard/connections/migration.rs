//! Connections that follow their queue to another shard (docs/decisions/0017).

use std::sync::Arc;

use broker::gate::Ending;
use bytes::BytesMut;
use catalog::ids::ShardId;

use super::held::uncount;
use super::{Conn, Occupancy};
use crate::shard::Shard;

/// A connection on its way to another shard.
#[derive(Debug)]
pub struct Migration {
    conn: Conn,
    /// Input that was received but not handled yet.
    unread: BytesMut,
}

impl Shard {
    /// From now on connections follow their queues to other shards, as far as `occupancy` allows. The driver
    /// of the shards must move them, with [`Shard::leaving`].
    pub fn follow_queues(&mut self, occupancy: Arc<Occupancy>) {
        self.connections.occupancy = Some(occupancy);
    }

    /// Returns the shard that a connection wants to move to. The driver asks after each input. It moves the
    /// connection with [`Shard::release`] here and [`Shard::adopt`] there, or keeps it with [`Shard::stay`].
    /// Until then the connection takes no input.
    pub fn leaving(&self, key: usize) -> Option<ShardId> {
        self.connections.conns.get(key)?.gate.moves_to()
    }

    /// Removes a connection that is [`Shard::leaving`] and returns it.
    pub fn release(&mut self, key: usize) -> Option<Migration> {
        let to = self.leaving(key)?;
        let mut conn = self.connections.conns.try_remove(key)?;
        self.connections.deadlines.forget(key, &mut conn.noted_ms);
        *self.connections.open.of(&conn.gate) -= std::mem::take(&mut conn.sessions);
        uncount(&self.connections.held, self.here.id, key, &mut conn);
        self.counters.connections -= 1;
        if let Some(occupancy) = &self.connections.occupancy {
            occupancy.shift(self.here.id, to);
        }
        let unread = std::mem::take(&mut conn.partial);
        conn.is_kept = false;
        Some(Migration { conn, unread })
    }

    /// Takes over a connection from another shard. Returns its key.
    pub fn adopt(&mut self, moved: Migration) -> usize {
        let Migration { mut conn, mut unread } = moved;
        let entry = self.connections.conns.vacant_entry();
        let key = entry.key();
        conn.gate.peer_mut().key = key;
        conn.dirty = false;
        // Reader memory that is still in use stays with the old shard.
        conn.reader_memory = None;
        entry.insert(conn);
        self.touch(key);
        self.counters.connections += 1;
        let blocked = self.connections.is_blocked();
        self.gates().with(key, |gate, cx| {
            gate.set_blocked(blocked, cx);
            gate.continue_held(cx);
        });
        self.take_input(key, &mut unread);
        self.count_unfinished(key);
        if let Some(why) = self.connections.ending() {
            self.gates().with(key, |gate, cx| gate.end(Ending::NodeStops, &why, cx));
        }
        key
    }

    /// Keeps a connection that is [`Shard::leaving`] but cannot be moved.
    pub fn stay(&mut self, key: usize) {
        if self.leaving(key).is_none() {
            return;
        }
        self.gates().with(key, |gate, cx| gate.continue_held(cx));
        self.continue_input(key);
    }

    /// Counts one connection less here. It was closed, possibly before it was served.
    pub fn uncount(&self) {
        if let Some(occupancy) = &self.connections.occupancy {
            occupancy.remove(self.here.id);
        }
    }
}
