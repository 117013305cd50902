//! The check of the streams that were there at the start: each is opened, and the heads of its chunks are read.
//!
//! ```text
//!   waiting ──► opened ──► heads, one job after the other ──► done
//!      ▲           │          │  └──damage──► the stream is closed from there on
//!      │           │          └──the disk fails──┐
//!      │           ├──damage──► closed, by the open
//!      └───────────┴──the disk fails─────────────┘
//! ```
//!
//! One stream of a shard is checked at a time, with one job in flight, so that readers are served in between. A stream
//! on which the disk fails waits again, behind all others. What this process writes later needs no check. Damage in the
//! data of a chunk is found by its readers.

use std::collections::VecDeque;

use catalog::categories::QUEUE;
use catalog::ids::QueueId;
use queue::{Request, Retained};
use wal::{Chunks, ReadFrom, StreamError};

use super::Shard;
use super::readers::damaged_from;

/// The time after a failure of the disk until the check goes on, in milliseconds.
const RETRY_MS: u64 = 5_000;

/// The time between two steps of the check, in milliseconds. A step is an open or a job, and takes the disk for some
/// milliseconds, so users have it for about half of the time.
const PAUSE_MS: u64 = 10;

/// The streams to be checked; see the module.
#[derive(Debug, Default)]
pub(super) struct Checks {
    waiting: VecDeque<Check>,
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
    /// True if the log says that the disk failed.
    is_logged: bool,
}

impl Checks {
    /// Returns true if this is the ticket of the job in flight.
    pub(super) fn is_for(&self, ticket: u64) -> bool {
        self.current.as_ref().is_some_and(|check| check.ticket == Some(ticket))
    }

    /// Called with the answer to the open of a stream. `is_opening` is true if the disk failed: then the stream is
    /// still to be opened.
    pub(super) fn handle_opened(&mut self, queue: QueueId, is_opening: bool, now_ms: u64) {
        if let Some(mut check) = self.current.take_if(|check| check.queue == queue && check.opens) {
            check.opens = false;
            match is_opening {
                true => self.put_back(check, now_ms),
                false => {
                    self.current = Some(check);
                    self.not_before_ms = now_ms + PAUSE_MS;
                }
            }
        }
    }

    /// Lets a stream wait behind all others, because the disk failed.
    fn put_back(&mut self, check: Check, now_ms: u64) {
        self.waiting.push_back(check);
        self.not_before_ms = now_ms + RETRY_MS;
    }

    /// Takes the check that goes on, or begins.
    fn next(&mut self) -> Option<Check> {
        self.current.take().or_else(|| self.waiting.pop_front())
    }

    /// Called when a stream was deleted.
    pub(super) fn forget(&mut self, queue: QueueId) {
        self.current.take_if(|check| check.queue == queue);
    }

    /// Returns when [`Shard::continue_checks`] has something to do, in milliseconds since the epoch.
    pub(super) fn next_deadline(&self) -> Option<u64> {
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
            let check = Check { queue, from: ReadFrom::First, ticket: None, opens: false, is_logged: false };
            self.streams.checks.waiting.push_back(check);
        }
    }

    /// Begins the next job, if none is in flight.
    pub(in crate::shard) fn continue_checks(&mut self) {
        if self.here.now_ms < self.streams.checks.not_before_ms {
            return;
        }
        while let Some(mut check) = self.streams.checks.next() {
            let home = self.streams.homes.get(&check.queue);
            let is_opening = home.is_some_and(|home| home.stream.is_opening());
            if check.ticket.is_some() || (check.opens && is_opening) {
                self.streams.checks.current = Some(check);
                return;
            }
            check.opens = is_opening;
            if is_opening {
                self.mail.post.request(check.queue, Request::Use);
            } else if let Some(Retained { segments, next, .. }) = home.and_then(|home| home.stream.open()) {
                let (segments, until) = (segments.clone(), *next);
                check.ticket = Some(self.look_at_heads(check.queue, check.from, segments, until));
            } else {
                // The stream was deleted, or it is damaged.
                continue;
            }
            self.streams.checks.current = Some(check);
            return;
        }
    }

    /// Handles the answer to a job of [`Shard::continue_checks`].
    pub(super) fn handle_heads(&mut self, result: Result<Chunks, StreamError>) {
        let checks = &mut self.streams.checks;
        let Some(mut check) = checks.current.take() else { return };
        let queue = check.queue;
        check.ticket = None;
        checks.not_before_ms = self.here.now_ms + PAUSE_MS;
        let (vhost, name) = self.metadata.catalog().names_of(queue);
        match result {
            Ok(Chunks { next, end: false, .. }) => {
                check.from = ReadFrom::At(next);
                checks.current = Some(check);
            }
            Ok(_) => {}
            Err(error @ StreamError::Io { .. }) => {
                if !std::mem::replace(&mut check.is_logged, true) {
                    tracing::warn!(target: QUEUE, stream = %name, %vhost, "the stream cannot be checked: {error}; trying again");
                }
                checks.put_back(check, self.here.now_ms);
            }
            Err(error) => match damaged_from(&error) {
                Some(from) => {
                    tracing::error!(target: QUEUE, stream = %name, %vhost, "the stream is damaged: {error}");
                    self.mail.post.request(queue, Request::Close { from });
                }
                None => {
                    tracing::error!(target: QUEUE, stream = %name, %vhost, "the stream cannot be checked: {error}");
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(queue: u64) -> Check {
        Check { queue: QueueId(queue), from: ReadFrom::First, ticket: None, opens: true, is_logged: false }
    }

    #[test]
    fn a_stream_that_cannot_be_opened_waits_behind_the_others() {
        let waiting = VecDeque::from([check(2)]);
        let mut checks = Checks { waiting, current: Some(check(1)), not_before_ms: 0 };
        assert_eq!(checks.next_deadline(), None);
        checks.handle_opened(QueueId(2), true, 1_000);
        assert_eq!(checks.next_deadline(), None, "it was opened for somebody else");
        checks.handle_opened(QueueId(1), true, 1_000);
        assert_eq!(checks.next_deadline(), Some(1_000 + RETRY_MS));
        let waiting: Vec<u64> = checks.waiting.iter().map(|check| check.queue.0).collect();
        assert_eq!((waiting, checks.current.is_none()), (vec![2, 1], true));

        checks.current = Some(check(3));
        checks.handle_opened(QueueId(3), false, 9_000);
        assert_eq!(checks.next_deadline(), Some(9_000 + PAUSE_MS));
        assert!(checks.current.is_some_and(|check| !check.opens));
    }
}
