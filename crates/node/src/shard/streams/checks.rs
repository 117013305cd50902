//! The check of the streams that were there at the start: each is opened, and the heads of its chunks are read.
//!
//! ```text
//!   waiting ──► opened ──► heads, one job after the other ──► done
//!                  │                 └──damage──► the stream is closed from there on
//!                  └──damage──► closed, by the open
//! ```
//!
//! One stream of a shard is checked at a time, with one job in flight, so that readers are served in between. What this
//! process writes later needs no check. Damage in the data of a chunk is found by its readers.

use std::collections::VecDeque;

use broker::categories::QUEUE;
use broker::ids::QueueId;
use queue::{Request, Retained};
use wal::{ChunkJob, Chunks, ReadFrom, StreamError};

use super::{LOAD_BYTES, Shard};

/// The time after a failure of the disk until the check goes on, in milliseconds.
const RETRY_MS: u64 = 5_000;

/// The streams to be checked; see the module.
#[derive(Debug, Default)]
pub(super) struct Checks {
    waiting: VecDeque<QueueId>,
    current: Option<Check>,
    /// The disk gets no job before this time.
    not_before_ms: u64,
}

/// The check of one stream.
#[derive(Debug)]
struct Check {
    queue: QueueId,
    from: ReadFrom,
    /// The ticket of the job in flight.
    ticket: Option<u64>,
    /// True if the check waits until the stream is opened.
    opens: bool,
}

impl Checks {
    /// Returns true if this is the ticket of the job in flight.
    pub fn is_for(&self, ticket: u64) -> bool {
        self.current.as_ref().is_some_and(|check| check.ticket == Some(ticket))
    }

    /// Called with the answer to the open of a stream.
    pub fn handle_opened(&mut self, queue: QueueId) {
        if let Some(check) = self.current.as_mut().filter(|check| check.queue == queue) {
            check.opens = false;
        }
    }

    /// Called when a stream was deleted.
    pub fn forget(&mut self, queue: QueueId) {
        self.current.take_if(|check| check.queue == queue);
    }

    /// Returns when [`Shard::continue_checks`] has something to do, in milliseconds since the epoch.
    pub fn next_deadline(&self) -> Option<u64> {
        let is_idle = match &self.current {
            Some(check) => check.ticket.is_none() && !check.opens,
            None => !self.waiting.is_empty(),
        };
        is_idle.then_some(self.not_before_ms)
    }
}

impl Shard {
    /// Checks a stream whose home is this shard, after those that wait already. Does nothing for other queues.
    pub fn check_stream(&mut self, queue: QueueId) {
        if self.streams.homes.contains_key(&queue) {
            self.streams.checks.waiting.push_back(queue);
        }
    }

    /// Begins the next job, if none is in flight.
    pub(in crate::shard) fn continue_checks(&mut self) {
        let checks = &mut self.streams.checks;
        if self.here.now_ms < checks.not_before_ms {
            return;
        }
        while let Some(queue) =
            checks.current.as_ref().map(|check| check.queue).or_else(|| checks.waiting.pop_front())
        {
            let first = Check { queue, from: ReadFrom::First, ticket: None, opens: false };
            let check = checks.current.get_or_insert(first);
            if check.ticket.is_some() {
                return;
            }
            let home = self.streams.homes.get(&queue);
            if home.is_some_and(|home| home.stream.is_opening()) {
                if !std::mem::replace(&mut check.opens, true) {
                    self.mail.post.request(queue, Request::Use);
                }
                return;
            }
            check.opens = false;
            let Some(Retained { segments, next, .. }) = home.and_then(|home| home.stream.open()) else {
                // The stream was deleted, or it is damaged.
                checks.current = None;
                continue;
            };
            self.streams.next_ticket += 1;
            check.ticket = Some(self.streams.next_ticket);
            self.streams.chunk_jobs.push(ChunkJob {
                shard: u32::from(self.here.id),
                ticket: self.streams.next_ticket,
                stream: queue.0,
                from: check.from,
                segments: segments.clone(),
                until: *next,
                bytes_max: LOAD_BYTES,
                wanted: None,
                claim: None,
                heads: true,
            });
            return;
        }
    }

    /// Handles the answer to a job of [`Shard::continue_checks`].
    pub(super) fn handle_heads(&mut self, result: Result<Chunks, StreamError>) {
        let checks = &mut self.streams.checks;
        let Some(check) = &mut checks.current else { return };
        let queue = check.queue;
        check.ticket = None;
        match result {
            Ok(Chunks { next, end: false, .. }) => check.from = ReadFrom::At(next),
            Ok(_) => checks.current = None,
            Err(error @ StreamError::Io { .. }) => {
                checks.not_before_ms = self.here.now_ms + RETRY_MS;
                let (vhost, name) = self.metadata.catalog().names_of(queue);
                tracing::warn!(target: QUEUE, stream = %name, %vhost, "the stream cannot be checked: {error}; trying again");
            }
            Err(error) => {
                checks.current = None;
                let (vhost, name) = self.metadata.catalog().names_of(queue);
                tracing::error!(target: QUEUE, stream = %name, %vhost, "the stream is damaged: {error}");
                let from = super::damaged_from(&error);
                self.mail.post.request(queue, Request::Close { from });
            }
        }
    }
}
