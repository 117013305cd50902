//! The memory of stream readers: what was read for them and is not yet written to their sockets. A read that
//! would take too much waits (docs/decisions/0024-readers-of-streams-wait-where-they-read.md).

use std::collections::VecDeque;
use std::sync::Arc;

use broker::mail::ConsumerAddress;
use catalog::ids::QueueId;
use queue::Requester;
use wal::{BufferBudget, Claim};

use super::{LOAD_BYTES, Load, Streams, TAILS_BYTES};
use crate::shard::Shard;

/// The most bytes in memory for the readers of one connection, counted from the request until the socket has
/// accepted them. At this limit nothing more is read for them. A reader at full speed needs two loads; 64 of
/// them fit.
const CONNECTION_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The time after which loads that wait for memory are tried again, in milliseconds. Other shards may have
/// freed memory.
const RETRY_LOADS_MS: u64 = 100;

/// A waiting list of loads that need memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WaitingList {
    /// All loads of the connection with this key.
    Connection(usize),
    /// One load of a browse from the admin API, or for a seat, by its ticket.
    Browse(u64),
}

/// Returns the memory budget of the stream readers of one node.
pub(in crate::shard) fn node_budget(limit: u64) -> BufferBudget {
    BufferBudget::new(limit, LOAD_BYTES.into(), None)
}

impl Streams {
    /// Returns true if the share of each stream has shrunk, because more streams have readers now. Some
    /// streams may then retain more than their share.
    pub(in crate::shard) fn shares_have_shrunk(&mut self) -> bool {
        let tail_bytes = self.tail_bytes();
        std::mem::replace(&mut self.tail_bytes_most, tail_bytes) > tail_bytes
    }

    /// Shrinks what a stream retains for its readers to its share.
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
    /// Returns the bytes of new chunks that are retained for readers, and their limit.
    pub(in crate::shard) fn tails(&self) -> (u64, u64) {
        (self.streams.tails, TAILS_BYTES as u64)
    }

    /// Returns the waiting list of a load, and the budget that it takes memory from. Each load of a browse
    /// from the admin API has its own list and budget, so that a browse of a large message does not delay another
    /// browse. So has each load for a consumer at a seat.
    fn budget_of(&mut self, ticket: u64, who: Requester) -> (WaitingList, Arc<BufferBudget>) {
        let connection = match who {
            Requester::Consumer(consumer) => match self.connections.consumer(consumer) {
                Some(ConsumerAddress::Gate(to)) => Some(to.connection),
                Some(ConsumerAddress::Seat(_)) | None => None,
            },
            Requester::Ticket(_) => None,
        };
        let part = |node: &Arc<BufferBudget>| {
            Arc::new(BufferBudget::new(CONNECTION_BYTES_MAX, LOAD_BYTES.into(), Some(node.clone())))
        };
        match connection.and_then(|key| Some((key, self.connections.reader_memory(key, part)?))) {
            Some((key, held)) => (WaitingList::Connection(key), held),
            None => (WaitingList::Browse(ticket), part(self.connections.node_reader_memory())),
        }
    }

    /// Requests chunks from the disk as soon as there is memory for them.
    pub(super) fn begin_load(&mut self, ticket: u64, load: Load) {
        let (list, _) = self.budget_of(ticket, load.who);
        self.streams.loads.insert(ticket, load);
        if self.streams.waiting.is_empty() {
            self.streams.retry_ms = self.here.now_ms + RETRY_LOADS_MS;
        }
        self.streams.waiting.entry(list).or_default().push_back(ticket);
        self.admit(list, true);
    }

    /// Tries the loads that wait for memory again.
    pub(super) fn retry_loads(&mut self) {
        if self.streams.waiting.is_empty() {
            return;
        }
        let is_due = self.streams.retry_ms <= self.here.now_ms;
        if is_due {
            self.streams.retry_ms = self.here.now_ms + RETRY_LOADS_MS;
        }
        let lists: Vec<WaitingList> = self.streams.waiting.keys().copied().collect();
        lists.into_iter().for_each(|list| self.admit(list, is_due));
    }

    /// Begins the loads of a waiting list for which there is memory. If there is none and `may_free_idle` is
    /// set, idle readers of its connection free theirs.
    fn admit(&mut self, list: WaitingList, mut may_free_idle: bool) {
        while let Some(&ticket) = self.streams.waiting.get(&list).and_then(VecDeque::front) {
            let is_wanted = self.streams.loads.get(&ticket).is_some_and(|load| {
                let following = self.streams.following.get(&load.queue);
                following.is_some_and(|following| following.readers.is_loading(load.who))
            });
            let load = self.streams.loads.get(&ticket).filter(|_| is_wanted);
            if let Some((who, bytes)) = load.map(|load| (load.who, load.bytes)) {
                let (_, held) = self.budget_of(ticket, who);
                if !held.has_room(bytes, 0) {
                    if !std::mem::take(&mut may_free_idle) {
                        return;
                    }
                    self.free_idle(list);
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
            if let Some(waiting) = self.streams.waiting.get_mut(&list) {
                waiting.pop_front();
                if waiting.is_empty() {
                    self.streams.waiting.remove(&list);
                }
            }
        }
    }

    /// Makes the readers of a connection that have no credit or no room release the chunks that were read for
    /// them. They read these chunks again later.
    fn free_idle(&mut self, list: WaitingList) {
        let WaitingList::Connection(key) = list else { return };
        let Some(conn) = self.connections.get(key) else { return };
        conn.gate.stream_consumers(|queue, consumer| {
            if let Some(following) = self.streams.following.get_mut(&queue) {
                following.readers.free_idle_chunks(consumer);
            }
        });
    }
}
