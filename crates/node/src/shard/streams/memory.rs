//! Memory of the readers of streams: what was read for them and is not written to their sockets. A read that would take too
//! much waits (docs/decisions/0024-readers-of-streams-wait-where-they-read.md).

use std::collections::VecDeque;
use std::sync::Arc;

use broker::ids::QueueId;
use queue::Asked;
use wal::{Claim, Held};

use super::{LOAD_BYTES, Load, Streams, TAILS_BYTES};
use crate::shard::Shard;

/// Bytes that may be in memory for the readers of one connection, from when they are asked for until the socket has taken
/// them. At the bound nothing more is read for them. A reader at full speed needs two loads; 64 of them find room here.
const CONNECTION_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Loads that wait for memory are tried again after so long, in milliseconds, whatever happens: other shards may have given
/// some back.
const RETRY_LOADS_MS: u64 = 100;

/// Loads that wait for memory behind each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    /// All loads of the connection with this key.
    Connection(usize),
    /// One load of a look from the desk, by its ticket.
    Look(u64),
}

/// Memory of the readers of streams of one node: what was read for them and is not written to their sockets.
pub(in crate::shard) fn node_budget(limit: u64) -> Held {
    Held::new(limit, LOAD_BYTES.into(), None)
}

impl Streams {
    /// Whether some streams may keep more than their part: there are more streams with readers than when the news of some
    /// came.
    pub(in crate::shard) fn have_less_room(&mut self) -> bool {
        let tail_bytes = self.tail_bytes();
        std::mem::replace(&mut self.tail_bytes_most, tail_bytes) > tail_bytes
    }

    /// Keeps no more of a stream for its readers than its part.
    pub(in crate::shard) fn shrink_tail(&mut self, queue: QueueId) {
        let tail_bytes = self.tail_bytes();
        if let Some(following) =
            self.following.get_mut(&queue).filter(|f| f.readers.tail_bytes() > tail_bytes)
        {
            following.readers.shrink_tail(tail_bytes);
            following.recount(&mut self.tails);
        }
    }
}

impl Shard {
    /// Bytes of new chunks that are kept for readers, and how many may be.
    pub(in crate::shard) fn tails(&self) -> (u64, u64) {
        (self.streams.tails, TAILS_BYTES as u64)
    }

    /// Returns the line that a load waits in, and the budget that it takes memory from. Each load of a look from the desk has
    /// a line and a budget of its own, so that a look whose message is large holds up no other look.
    fn budget_of(&mut self, ticket: u64, who: Asked) -> (Line, Arc<Held>) {
        let connection = match who {
            Asked::Consumer(consumer) => self.connections.consumer(consumer).map(|to| to.connection),
            Asked::Ticket(_) => None,
        };
        let part = |node: &Arc<Held>| {
            Arc::new(Held::new(CONNECTION_BYTES_MAX, LOAD_BYTES.into(), Some(node.clone())))
        };
        match connection.and_then(|key| Some((key, self.connections.reader_memory(key, part)?))) {
            Some((key, held)) => (Line::Connection(key), held),
            None => (Line::Look(ticket), part(self.connections.node_reader_memory())),
        }
    }

    /// Has chunks read as soon as there is memory for them.
    pub(super) fn begin_load(&mut self, ticket: u64, load: Load) {
        let (line, _) = self.budget_of(ticket, load.who);
        self.streams.loads.insert(ticket, load);
        if self.streams.waiting.is_empty() {
            self.streams.retry_ms = self.here.now_ms + RETRY_LOADS_MS;
        }
        self.streams.waiting.entry(line).or_default().push_back(ticket);
        self.admit(line, true);
    }

    /// Tries again what waits for memory.
    pub(super) fn go_on_loading(&mut self) {
        if self.streams.waiting.is_empty() {
            return;
        }
        let is_due = self.streams.retry_ms <= self.here.now_ms;
        if is_due {
            self.streams.retry_ms = self.here.now_ms + RETRY_LOADS_MS;
        }
        let lines: Vec<Line> = self.streams.waiting.keys().copied().collect();
        lines.into_iter().for_each(|line| self.admit(line, is_due));
    }

    /// Begins the loads of a line that there is memory for. If there is none, the readers of its connection may have to let
    /// go of what they cannot use.
    fn admit(&mut self, line: Line, mut may_let_go: bool) {
        while let Some(&ticket) = self.streams.waiting.get(&line).and_then(VecDeque::front) {
            let is_wanted = self.streams.loads.get(&ticket).is_some_and(|load| {
                let following = self.streams.following.get(&load.queue);
                following.is_some_and(|following| following.readers.is_loading(load.who))
            });
            let load = self.streams.loads.get(&ticket).filter(|_| is_wanted);
            if let Some((who, bytes)) = load.map(|load| (load.who, load.bytes)) {
                let (_, held) = self.budget_of(ticket, who);
                if !held.has_room(bytes, 0) {
                    if !std::mem::take(&mut may_let_go) {
                        return;
                    }
                    self.let_go_of_idle(line);
                    continue;
                }
                if let Some(load) = self.streams.loads.get_mut(&ticket) {
                    load.reserved = Some(held.reserve(bytes));
                    load.job.claim = Some(Claim { held, reserved: bytes });
                    self.streams.chunk_jobs.push(load.job.clone());
                }
            } else {
                self.streams.loads.remove(&ticket);
            }
            if let Some(waiting) = self.streams.waiting.get_mut(&line) {
                waiting.pop_front();
                if waiting.is_empty() {
                    self.streams.waiting.remove(&line);
                }
            }
        }
    }

    /// Readers of a connection that have no credit or no room give back what was read for them.
    fn let_go_of_idle(&mut self, line: Line) {
        let Line::Connection(key) = line else { return };
        let Some(conn) = self.connections.get(key) else { return };
        conn.gate.stream_consumers(|queue, consumer| {
            if let Some(following) = self.streams.following.get_mut(&queue) {
                following.readers.let_go(consumer);
            }
        });
    }
}
