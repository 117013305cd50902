//! Incomplete deliveries and frames. Each connection has its own limit (`amqp10::connection::Config`). All
//! connections of the node share another limit. When it is exceeded, the connection that holds the most is
//! closed.
//!
//! A delivery that arrives in one frame and one read is never counted.

use std::collections::BTreeSet;
use std::sync::Arc;

use broker::gate::Ending;
use bytes::BytesMut;

use broker::ids::ShardId;
use broker::mail::Mail;

use crate::shard::Shard;
use crate::tally::Tally;

/// A shard publishes its count after it has changed by this many bytes. So the shard may exceed the budget by
/// this much unnoticed.
const STEP_BYTES: u64 = 64 * 1024;

/// The bytes of incomplete deliveries and frames that the connections of this shard hold.
#[derive(Debug)]
pub(super) struct Unfinished {
    /// The bytes and the key of each connection that holds incomplete deliveries or frames.
    holders: BTreeSet<(usize, usize)>,
    used: u64,
    /// The bytes that were published last.
    published: u64,
    tally: Arc<Tally>,
}

impl Unfinished {
    pub fn new(tally: Arc<Tally>) -> Self {
        Self { holders: BTreeSet::new(), used: 0, published: 0, tally }
    }

    pub fn used(&self) -> u64 {
        self.used
    }

    /// This shard's part of the node's limit.
    pub fn limit_part(&self, shard: ShardId) -> u64 {
        self.tally.limit_part(shard)
    }

    fn change(&mut self, key: usize, before: usize, after: usize) {
        if before > 0 {
            self.holders.remove(&(before, key));
        }
        if after > 0 {
            self.holders.insert((after, key));
        }
        self.used = self.used - before as u64 + after as u64;
    }

    /// Publishes the count if that is due. Returns true if it has grown since the last time.
    fn publish_if_due(&mut self, shard: ShardId) -> bool {
        let before = self.published;
        if self.used.abs_diff(before) < STEP_BYTES {
            return false;
        }
        self.publish(shard);
        self.used > before
    }

    fn publish(&mut self, shard: ShardId) {
        self.published = self.used;
        let most = self.holders.last().map_or(0, |(bytes, _)| *bytes as u64);
        self.tally.publish(shard, self.used, most);
    }
}

impl Shard {
    /// Recounts what a connection holds. Called when it may have changed.
    pub(in crate::shard) fn count_unfinished(&mut self, key: usize) {
        let Some(conn) = self.connections.conns.get_mut(key) else { return };
        let phase = conn.gate.phase();
        let bytes = match phase.listens() || phase.keeps_input() {
            true => conn.gate.incomplete_bytes() + conn.partial.len() + conn.partial_taken,
            false => {
                // The rest of the input is ignored.
                conn.partial = BytesMut::new();
                0
            }
        };
        if bytes == conn.unfinished {
            return;
        }
        let before = std::mem::replace(&mut conn.unfinished, bytes);
        self.connections.unfinished.change(key, before, bytes);
        if self.connections.unfinished.publish_if_due(self.here.id) && self.shed_unfinished() {
            // A partial frame alone causes no turn, but the mail to another shard needs one.
            self.touch(key);
        }
    }

    /// Stops counting a connection that leaves the shard.
    pub(in crate::shard) fn uncount_unfinished(&mut self, key: usize, bytes: usize) {
        self.connections.unfinished.change(key, bytes, 0);
        self.connections.unfinished.publish_if_due(self.here.id);
    }

    /// While the node is over its limit, closes the connection of this shard that holds the most, or asks
    /// another shard to do so. Returns true if another shard was asked.
    pub(in crate::shard) fn shed_unfinished(&mut self) -> bool {
        loop {
            self.connections.unfinished.publish(self.here.id);
            match self.connections.unfinished.tally.shard_to_shed() {
                Some(shard) if shard == self.here.id => self.close_largest(),
                Some(shard) => {
                    self.mail.send(shard, Mail::ShedUnfinished);
                    return true;
                }
                None => return false,
            }
        }
    }

    fn close_largest(&mut self) {
        let Some(&(bytes, key)) = self.connections.unfinished.holders.last() else { return };
        let limit = self.connections.unfinished.tally.limit();
        let why = format!(
            "incomplete deliveries take more than the {limit} bytes of amqp10.unfinished_memory, and this \
             connection holds the most: {bytes} bytes"
        );
        self.gates().with(key, |gate, cx| gate.end(Ending::TooMuchMemory, &why, cx));
        if let Some(conn) = self.connections.conns.get_mut(key) {
            conn.partial = BytesMut::new();
            conn.unfinished = 0;
        }
        self.connections.unfinished.change(key, bytes, 0);
    }
}
