//! Records on their way to the log, and what waits for them.
//!
//! ```text
//!   facts, changes ──> open ──poll_handover──> away ──written──> receipts leave, puts have their place
//!                                               │ ▲
//!                                     refused   ▼ │ retry, before anything newer
//!                                              back
//! ```
//!
//! One handover is away at a time (docs/decisions/0001): order is the order of the shard, and a slow disk makes
//! larger batches.

use broker::catalog::Change;
use broker::ids::QueueId;
use bytes::BytesMut;
use log::{Completion, Extent, Handover, Records, WriteError};
use queue::Fact;

use super::apply::{Receipt, push_receipt};
use crate::facts;

/// Records that nobody waits for, such as those of settled messages, are kept this long for company: a
/// process that is killed meanwhile delivers those messages again, as it may.
const LAZY_MS: u64 = 20;

/// And no longer than until they are this many bytes.
const LAZY_BYTES_MAX: usize = 64 * 1024;

/// What is not needed any more takes its space for this long, for a sync is dear.
const RELEASE_MS: u64 = 1000;

/// And no longer than until it is this many runs.
const RELEASED_MAX: usize = 16;

/// How far back a put looks for a range that it continues.
const RANGES_OPEN: usize = 4;

/// Records of one handover, and what waits for them.
#[derive(Debug, Default)]
pub(super) struct Load {
    records: Records,
    sync: bool,
    /// Somebody waits for one of them.
    urgent: bool,
    /// Receipts that may leave when they are written.
    pub receipts: Vec<Receipt>,
    /// Messages that were put: queue, first and last seq.
    pub puts: Vec<(QueueId, u64, u64)>,
    /// What is alive of this file and those before it is among them, and takes so many bytes.
    pub evacuated: Option<(u64, u64)>,
    /// Changes of the catalog are among them.
    pub changes: bool,
    /// Runs that were said to be stored.
    pub stored: Vec<(QueueId, u32)>,
    /// May be forgotten once the records so far are synced.
    released: Vec<Extent>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Journal {
    open: Load,
    /// Since when records that nobody waits for have been kept.
    since_ms: Option<u64>,
    away: Option<(u64, Load)>,
    /// What is away has come back unwritten.
    back: bool,
    /// Since when something waits for a sync to be forgotten.
    released_ms: Option<u64>,
    next_ticket: u64,
    scratch: BytesMut,
}

impl Load {
    /// What may be forgotten now that it is written: nothing, unless it was synced.
    pub fn take_released(&mut self) -> Vec<Extent> {
        std::mem::take(&mut self.released)
    }
}

impl Journal {
    /// `extent` is where the run of a [`Fact::Stored`] stands.
    pub fn push_fact(&mut self, queue: QueueId, fact: &Fact, extent: Option<Extent>, fsync: bool) {
        facts::push_fact(&mut self.open.records, &mut self.scratch, queue, fact, extent);
        self.open.sync |= fsync;
        if let Fact::Stored(stored) = fact {
            self.open.stored.push((queue, stored.run));
        }
        let Fact::Put { seq, .. } = fact else { return };
        let continued = self.open.puts.iter_mut().rev().take(RANGES_OPEN).find(|(q, _, _)| *q == queue);
        match continued {
            // Seqs between, which have no record, may lie in a range: nothing is alive of them.
            Some((_, _, last)) if *last < *seq => *last = *seq,
            _ => self.open.puts.push((queue, *seq, *seq)),
        }
    }

    /// Definitions are few and everything hangs on them: always synced (docs/decisions/0003).
    pub fn push_change(&mut self, version: u64, change: &Change) {
        facts::push_change(&mut self.open.records, &mut self.scratch, version, change);
        self.open.sync = true;
        self.open.urgent = true;
        self.open.changes = true;
    }

    /// Keeps a receipt until the records so far are written.
    pub fn hold(&mut self, receipt: Receipt) {
        self.open.urgent = true;
        push_receipt(&mut self.open.receipts, receipt);
    }

    /// Bytes of the records that have not been handed over.
    pub fn open_bytes(&self) -> u64 {
        self.open.records.bytes() as u64
    }

    /// What is alive of `file` and those before it has been pushed since there were `before` bytes.
    pub fn evacuated(&mut self, file: u64, before: u64) {
        self.open.evacuated = Some((file, self.open_bytes() - before));
        self.open.sync = true;
        self.open.urgent = true;
    }

    /// Forgets an extent as soon as the records so far are synced: a log that forgot them must not speak of a run
    /// that is no more.
    pub fn release(&mut self, extent: Extent) {
        self.open.released.push(extent);
    }

    /// The next handover, if one is due and none is away.
    pub fn poll_handover(&mut self, shard: u32, now_ms: u64, at_once: bool) -> Option<Handover> {
        if self.back {
            let (_, load) = self.away.take()?;
            self.back = false;
            return Some(self.hand_over(shard, load));
        }
        if self.away.is_some() {
            return None;
        }
        if !self.open.released.is_empty() {
            let since = *self.released_ms.get_or_insert(now_ms);
            if at_once || self.open.released.len() >= RELEASED_MAX || now_ms >= since + RELEASE_MS {
                (self.open.sync, self.open.urgent) = (true, true);
            }
        }
        if self.open.records.is_empty() && !self.open.urgent {
            return None;
        }
        let due = at_once || self.open.urgent || self.open.records.bytes() >= LAZY_BYTES_MAX;
        if !due && now_ms < *self.since_ms.get_or_insert(now_ms) + LAZY_MS {
            return None;
        }
        self.since_ms = None;
        let load = std::mem::take(&mut self.open);
        Some(self.hand_over(shard, load))
    }

    fn hand_over(&mut self, shard: u32, mut load: Load) -> Handover {
        self.next_ticket += 1;
        let records = std::mem::take(&mut load.records);
        let handover = Handover { shard, ticket: self.next_ticket, records, sync: load.sync };
        self.away = Some((self.next_ticket, load));
        handover
    }

    /// The log's word on what is away: what waited for it, or the reason why it must be handed over again.
    pub fn handle_completion(&mut self, completion: Completion) -> Option<Result<Load, WriteError>> {
        let (ticket, mut load) = self.away.take()?;
        if ticket != completion.ticket {
            self.away = Some((ticket, load));
            return None;
        }
        match completion.result {
            Ok(()) => {
                if load.sync {
                    self.released_ms = None;
                } else {
                    self.open.released.append(&mut load.released);
                }
                Some(Ok(load))
            }
            Err(mut error) => {
                load.records = std::mem::take(&mut error.records);
                self.away = Some((ticket, load));
                Some(Err(error))
            }
        }
    }

    /// To be called after a failure, when it is time to try again.
    pub fn retry(&mut self) {
        self.back = self.away.is_some();
    }

    /// When records that nobody waits for have been kept long enough.
    pub fn next_deadline(&self) -> Option<u64> {
        let release = self.released_ms.filter(|_| self.away.is_none()).map(|since| since + RELEASE_MS);
        self.since_ms.map(|since| since + LAZY_MS).into_iter().chain(release).min()
    }

    /// Whether the next handover is one that has come back.
    pub fn is_back(&self) -> bool {
        self.back
    }

    /// Whether a handover has not been answered.
    pub fn is_away(&self) -> bool {
        self.away.is_some()
    }

    pub fn is_idle(&self) -> bool {
        self.away.is_none() && self.open.records.is_empty() && self.open.released.is_empty()
    }

    /// Messages whose receipts wait for the log.
    pub fn receipts_held(&self) -> u64 {
        let away = self.away.iter().map(|(_, load)| load);
        let receipts = away.chain([&self.open]).flat_map(|load| &load.receipts);
        receipts.map(|r| r.last - r.first + 1).sum()
    }

    pub fn holds_receipts(&self) -> bool {
        !self.open.receipts.is_empty()
            || self.away.as_ref().is_some_and(|(_, load)| !load.receipts.is_empty())
    }
}
