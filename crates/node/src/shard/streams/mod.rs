//! The streams that live on this shard, and the readers of any stream that are on this shard.
//!
//! ```text
//!   Publish ──> Stream ──poll_stream_jobs──> (the streams' thread) ──> handle_stream_answer ──> receipts, StreamUpdate
//!                  └── StreamUpdate, to every shard with consumers ──┐
//!   Attach, Grant ──────────────────────────────────────────────> Readers ──> deliveries
//!                    poll_chunk_jobs <── loads ────────────────────┘ ▲
//!                         └──> (the stream readers' thread) ──> handle_chunks
//! ```
//!
//! A consumer's requests are handled on its own shard. Everything else goes to the shard that owns the stream
//! (its home).

mod checks;
mod memory;
mod readers;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;

use catalog::Catalog;
use catalog::categories::QUEUE;
use catalog::ids::QueueId;
use hashbrown::HashMap;
use queue::{
    Chunk, Config, ConsumerId, GoneReason, OpenFailure, Readers, ReadersOutput, RejectReason, Request,
    Requester, Retained, Standing, Stream, StreamOutput, StreamUpdate, Verdict, Work, ends,
};
use wal::{
    Bloom, ChunkJob, NewChunk, ReadFrom, Reserved, StreamAnswer, StreamError, StreamJob, StreamLimits,
};

use self::checks::Checks;
use self::memory::WaitingList;
pub(super) use self::memory::node_budget;
use super::Shard;
use super::deadlines::Deadlines;
use super::receipts::Receipt;
use super::requests::{RUN_MAX, Requests, is_for_readers};

/// The approximate bytes of one load, which is what a reader that is behind holds in memory.
const LOAD_BYTES: u32 = 256 * 1024;

/// The most bytes of new chunks that are retained for the readers of one stream, and of all streams of a
/// shard. Each stream has an equal share. A consumer at full speed now and then falls behind by as much as
/// the first limit (docs/performance.md).
const TAIL_BYTES_MAX: usize = 1024 * 1024;
const TAILS_BYTES: usize = 32 * 1024 * 1024;

/// The time after a failure until the disk is tried again, in milliseconds.
const RETRY_MS: u64 = 200;

/// A stream whose home is this shard.
#[derive(Debug)]
struct StreamSlot {
    stream: Stream,
    /// True if the stream is in [`Streams::due`].
    due: bool,
    /// The version of the policies from which the stream's settings were made.
    policies: u32,
    /// The time of the stream's entry in [`Streams::deadlines`].
    noted_ms: Option<NonZeroU64>,
    /// The number of this stream's messages that [`Streams::messages`] includes.
    messages: u64,
    /// True if [`Streams::holding`] counts the stream.
    holds: bool,
    /// The offset from which on the stream is closed, as the log says.
    closed_from: Option<u64>,
}

/// The readers of a stream on this shard.
#[derive(Debug, Default)]
struct Following {
    readers: Readers,
    /// The number of consumers that this shard last reported to the stream. `None` if the stream does not
    /// know this shard.
    reported_consumers: Option<u32>,
    /// The number of this stream's bytes that [`Streams::tails`] includes.
    tail_bytes: u64,
    /// True if the stream is in [`Streams::unfinished`].
    unfinished: bool,
}

impl Following {
    /// Updates the sum of what is retained for readers.
    fn recount(&mut self, sum: &mut u64) {
        let tail_bytes = self.readers.tail_bytes() as u64;
        *sum = *sum - std::mem::replace(&mut self.tail_bytes, tail_bytes) + tail_bytes;
    }
}

/// A load: chunks that a reader waits for.
#[derive(Debug)]
struct Load {
    who: Requester,
    queue: QueueId,
    job: ChunkJob,
    /// The bytes of memory to reserve for the load.
    bytes: u64,
    reserved: Option<Reserved>,
}

/// The streams of a shard; see the module.
#[derive(Debug, Default)]
pub(super) struct Streams {
    homes: HashMap<QueueId, StreamSlot>,
    following: HashMap<QueueId, Following>,
    /// The number of deliveries to consumers that were on this shard, for streams that have none here any
    /// more.
    delivered: HashMap<QueueId, u64>,
    /// The streams that may have work for the disk.
    due: Vec<QueueId>,
    deadlines: Deadlines<QueueId>,
    /// The number of messages in streams that live here and have been used.
    messages: u64,
    /// The number of streams that live here and have publishes without a receipt.
    holding: usize,
    /// The bytes of new chunks that are retained for readers here.
    tails: u64,
    /// The largest share of one stream since retained chunks were last shrunk.
    tail_bytes_most: usize,
    /// The streams whose readers want another turn. Some may have none any more.
    unfinished: Vec<QueueId>,
    jobs: Vec<StreamJob>,
    next_ticket: u64,
    /// The loads in flight, by ticket.
    loads: HashMap<u64, Load>,
    /// The tickets of loads that wait for memory, in their order.
    waiting: BTreeMap<WaitingList, VecDeque<u64>>,
    /// The latest time at which waiting loads are tried again.
    retry_ms: u64,
    chunk_jobs: Vec<ChunkJob>,
    checks: Checks,
    /// The jobs to be tried again, not before `again_ms`.
    again: Vec<ChunkJob>,
    again_ms: u64,
    home_output: StreamOutput,
    readers_output: ReadersOutput,
}

impl Streams {
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let again = (!self.again.is_empty()).then_some(self.again_ms);
        let retry = (!self.waiting.is_empty()).then_some(self.retry_ms);
        let checks = self.checks.next_deadline();
        self.deadlines.first().into_iter().chain(again).chain(retry).chain(checks).min()
    }

    /// Returns the share of each stream with readers here, in bytes.
    fn tail_bytes(&self) -> usize {
        (TAILS_BYTES / self.following.len().max(1)).min(TAIL_BYTES_MAX)
    }

    /// Returns true if publishes wait to be written.
    pub(super) fn hold_receipts(&self) -> bool {
        self.holding > 0
    }

    /// Returns the progress of a consumer on this shard.
    pub(super) fn standing(&self, queue: QueueId, consumer: ConsumerId) -> Option<Standing> {
        self.following.get(&queue)?.readers.standing(consumer)
    }

    /// Returns the number of streams that live here.
    pub(super) fn count(&self) -> usize {
        self.homes.len()
    }

    /// Returns the number of messages retained by the streams that live here and have been used.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns true if readers want another turn.
    pub(super) fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Returns the bytes of chunks that [`Shard::poll_stream_jobs`] would write now.
    pub(super) fn bytes_to_write(&self) -> u64 {
        self.due
            .iter()
            .filter_map(|queue| self.homes.get(queue))
            .map(|home| home.stream.bytes_to_write())
            .sum()
    }

    /// Updates a stream's part of the sums.
    fn recount(&mut self, queue: QueueId) {
        if let Some(home) = self.homes.get_mut(&queue) {
            let (messages, holds) = (home.stream.messages(), home.stream.holds_receipts());
            self.messages = self.messages - std::mem::replace(&mut home.messages, messages) + messages;
            self.holding -= usize::from(std::mem::replace(&mut home.holds, holds));
            self.holding += usize::from(holds);
        }
    }

    fn touch(&mut self, queue: QueueId) {
        if let Some(home) = self.homes.get_mut(&queue)
            && !home.due
        {
            home.due = true;
            self.due.push(queue);
        }
    }
}

impl Shard {
    /// Makes the machine of a stream whose home is this shard. The stream is opened at its first request.
    pub(super) fn place_stream(&mut self, id: QueueId, config: Config) {
        let policies = self.metadata.policies();
        let stream = Stream::new(config);
        let home = StreamSlot {
            stream,
            due: false,
            policies,
            noted_ms: None,
            messages: 0,
            holds: false,
            closed_from: None,
        };
        self.streams.homes.insert(id, home);
    }

    /// Applies the first request, which is for this stream, and the following ones for it. Returns false if
    /// the stream is unknown on this shard.
    pub(super) fn apply_to_stream(&mut self, queue: QueueId, requests: &mut Requests<'_>) -> bool {
        if requests.as_slice().first().is_some_and(|(_, request)| is_for_readers(request)) {
            let is_stream = self.metadata.catalog().is_stream(queue) == Some(true);
            let is_known = is_stream || self.streams.following.contains_key(&queue);
            if is_known && let Some((_, request)) = requests.next() {
                self.apply_to_readers(queue, request);
            }
            return is_known;
        }
        let Some(home) = self.streams.homes.get_mut(&queue) else { return false };
        if home.policies != self.metadata.policies() {
            self.configure_stream(queue);
            return self.apply_to_stream(queue, requests);
        }
        let mut output = std::mem::take(&mut self.streams.home_output);
        for _ in 0..RUN_MAX {
            match requests.as_slice().first() {
                Some((next, Request::Publish(publish))) if *next == queue => {
                    // On a full disk, streams take nothing, because the log's reserve is not for streams.
                    if self.storage.is_on_reserve() {
                        let (verdict, seq) = (Verdict::Rejected(RejectReason::Unavailable), publish.seq);
                        let publisher = publish.publisher;
                        self.mail.receipts.push(Receipt { queue, publisher, first: seq, last: seq, verdict });
                    } else {
                        home.stream.publish(publish, self.here.now_ms, &mut output);
                    }
                    requests.next();
                }
                Some((next, request)) if *next == queue && !is_for_readers(request) => {
                    let Some((_, request)) = requests.next() else { break };
                    if matches!(request, Request::Delete { .. }) && self.queues.answer_later(queue, &request)
                    {
                        continue;
                    }
                    home.stream.apply(request, self.here.now_ms, &mut output);
                    if ends(&output.effects) {
                        break;
                    }
                }
                _ => break,
            }
        }
        self.take_home_output(queue, &mut output);
        self.streams.home_output = output;
        true
    }

    fn take_home_output(&mut self, queue: QueueId, output: &mut StreamOutput) {
        if let Some(home) = self.streams.homes.get_mut(&queue)
            && let Some(from) = home.stream.closed_from()
            && home.closed_from.replace(from) != Some(from)
        {
            let (vhost, name) = self.metadata.catalog().names_of(queue);
            tracing::error!(target: QUEUE, stream = %name, %vhost, offset = from, "the stream is closed from here on: it is damaged");
        }
        self.streams.touch(queue);
        self.streams.recount(queue);
        for queue::Receipt { publisher, first, last, verdict, .. } in output.receipts.drain() {
            self.mail.receipts.push(Receipt { queue, publisher, first, last, verdict });
        }
        match ends(&output.effects) {
            true => self.delete(queue, &mut output.effects),
            false => self.carry_out_all(queue, &mut output.effects),
        }
    }

    /// Updates the settings of a stream, as [`Shard::configure`] does for other queues.
    pub(super) fn configure_stream(&mut self, queue: QueueId) {
        let policies = self.metadata.policies();
        let Some(home) = self.streams.homes.get_mut(&queue) else { return };
        if std::mem::replace(&mut home.policies, policies) == policies {
            return;
        }
        let Some(record) = self.metadata.refresh_queue(queue) else { return };
        if *record.config != *home.stream.config() {
            let config = record.config.clone();
            self.apply_to_stream(queue, &mut vec![(queue, Request::Configure(config))].drain(..));
        }
    }

    /// Called when the catalog has forgotten the stream.
    pub(super) fn stream_forgotten(&mut self, queue: QueueId) {
        if let Some(mut home) = self.streams.homes.remove(&queue) {
            self.streams.deadlines.forget(queue, &mut home.noted_ms);
            self.streams.messages -= home.messages;
            self.streams.holding -= usize::from(home.holds);
            self.streams.checks.forget(queue);
            self.streams.jobs.push(StreamJob::Remove { stream: queue.0 });
            self.close_removed(queue, Arc::default());
            self.counters.queues_deleted += 1;
        }
        // The stream has already sent its last update to its readers, unless it had no home.
        let update = StreamUpdate {
            retained: Retained::default(),
            chunks: Vec::new(),
            end: Some(GoneReason::QueueDeleted),
        };
        self.handle_update(queue, update);
        self.streams.delivered.remove(&queue);
    }

    /// Returns the number of deliveries of a stream to consumers of this shard.
    pub fn stream_delivered(&self, queue: QueueId) -> u64 {
        let gone = self.streams.delivered.get(&queue).copied().unwrap_or_default();
        gone + self.streams.following.get(&queue).map_or(0, |following| following.readers.delivered())
    }

    /// Returns the report of a stream that lives here.
    pub(super) fn stream_report(&self, queue: QueueId) -> Option<queue::Report> {
        self.streams.homes.get(&queue).map(|home| home.stream.report())
    }

    // ---- the disk -----------------------------------------------------------------------------------------

    /// Handles streams with something due at this time. If they are too many for this turn, the others stay
    /// due.
    pub(super) fn stream_timeouts(&mut self) {
        self.continue_checks();
        let rows_max = self.rows.left_for_due();
        let due = self.streams.deadlines.take_due(self.here.now_ms, rows_max);
        self.rows.count(due.len());
        for queue in due {
            if let Some(home) = self.streams.homes.get_mut(&queue) {
                home.noted_ms = None;
                // Polling its work also notes its next deadline.
                self.streams.touch(queue);
            }
        }
    }

    /// Returns the work for the streams' thread. Called after a turn.
    pub fn poll_stream_jobs(&mut self) -> impl Iterator<Item = StreamJob> {
        let shard = u32::from(self.here.id);
        let mut due = std::mem::take(&mut self.streams.due);
        for queue in due.drain(..) {
            let Some(home) = self.streams.homes.get_mut(&queue) else { continue };
            home.due = false;
            let work = home.stream.poll_work(self.here.now_ms);
            self.streams.deadlines.note(queue, &mut home.noted_ms, home.stream.next_deadline());
            let Some(work) = work else { continue };
            let (stream, now_ms, limits) = (queue.0, self.here.now_ms, limits(home.stream.config()));
            self.streams.jobs.push(match work {
                Work::Open => {
                    let sync = self.metadata.catalog().queue_by_id(queue).is_some_and(|record| record.fsync);
                    StreamJob::Open { shard, stream, limits, sync, now_ms }
                }
                Work::Limit => StreamJob::Limit { shard, stream, limits, now_ms },
                Work::Append(chunks) => {
                    let bytes = home.stream.config().stream.unwrap_or_default().filter_bytes;
                    let chunks = chunks.into_iter().map(|chunk| new_chunk(chunk, bytes)).collect();
                    let sync = self.metadata.catalog().queue_by_id(queue).is_some_and(|record| record.fsync);
                    StreamJob::Append { shard, stream, chunks, sync }
                }
            });
        }
        self.streams.due = due;
        self.streams.jobs.drain(..)
    }

    /// Handles the answer to one of [`Shard::poll_stream_jobs`].
    pub fn handle_stream_answer(&mut self, answer: StreamAnswer) {
        let queue = QueueId(answer.stream());
        let catalog = self.metadata.catalog();
        let Some(home) = self.streams.homes.get_mut(&queue) else { return };
        let first = home.stream.open().map(|known| known.first);
        let mut output = std::mem::take(&mut self.streams.home_output);
        match answer {
            StreamAnswer::Opened { result, cut, readable, .. } => {
                if let Some(cut) = cut {
                    let (vhost, name) = catalog.names_of(queue);
                    let wal::StreamCut { file, offset, bytes, left } = cut;
                    match left {
                        false => {
                            tracing::warn!(target: QUEUE, stream = %name, %vhost, file, offset, bytes, "the torn end of the stream was cut off");
                        }
                        true => tracing::warn!(
                            target: QUEUE, stream = %name, %vhost, file, offset, bytes,
                            "the end of the stream is lost from here on; complete messages after this place stay in the file, unread"
                        ),
                    }
                }
                let result = match (result, readable) {
                    (Ok(known), _) => Ok(retained(known)),
                    (Err(error), None) => Err(failure(catalog, queue, &error)),
                    (Err(error), Some(known)) => {
                        failure(catalog, queue, &error);
                        let closed_from = Some(known.next);
                        Ok(Retained { closed_from, ..retained(known) })
                    }
                };
                home.stream.handle_opened(result, self.here.now_ms, &mut output);
                let is_opening = home.stream.is_opening();
                self.streams.checks.handle_opened(queue, is_opening, self.here.now_ms);
            }
            StreamAnswer::Appended { result, .. } => {
                let known = match result {
                    Ok(known) => Some(retained(known)),
                    Err(failed) => {
                        let (vhost, name) = catalog.names_of(queue);
                        tracing::error!(target: QUEUE, stream = %name, %vhost, "the stream cannot be written: {}; trying again", failed.error);
                        failed.retained.map(|known| retained(*known))
                    }
                };
                home.stream.handle_appended(known, self.here.now_ms, &mut output);
            }
            StreamAnswer::Limited { result, .. } => {
                if let Err(error) = &result {
                    let (vhost, name) = catalog.names_of(queue);
                    tracing::error!(target: QUEUE, stream = %name, %vhost, "the limits of the stream cannot be applied: {error}");
                }
                home.stream.handle_limited(result.ok().map(retained), &mut output);
            }
        }
        let known = home.stream.open().filter(|known| first.is_some_and(|first| known.first > first));
        let removed = known.map(|known| known.segments.clone());
        self.take_home_output(queue, &mut output);
        self.streams.home_output = output;
        if let Some(segments) = removed {
            self.close_removed(queue, segments);
        }
        self.send_receipts();
    }

    /// Lets the readers' thread close the segments of a stream that were removed, all but these. It reads nothing, and nobody
    /// waits for the answer.
    fn close_removed(&mut self, queue: QueueId, segments: Arc<[u64]>) {
        self.look_at_heads(queue, ReadFrom::First, segments, 0);
    }
}

fn limits(config: &Config) -> StreamLimits {
    let stream = config.stream.unwrap_or_default();
    StreamLimits {
        segment_bytes: stream.segment_bytes,
        bytes_max: config.max_length_bytes,
        age_max_ms: stream.age_max_ms,
    }
}

fn new_chunk(chunk: Chunk, filter_bytes: u8) -> NewChunk {
    let bloom = chunk.values.map(|known| {
        let mut bloom = Bloom::new(filter_bytes);
        known.values.iter().for_each(|value| bloom.insert(value.as_bytes()));
        if known.none {
            bloom.insert_none();
        }
        bloom
    });
    // The conversion cannot fail, because `CHUNK_ENTRIES_MAX` is below what the chunk's counter can hold.
    NewChunk {
        first: chunk.first,
        entries: chunk.entries as u16,
        timestamp_ms: chunk.at_ms,
        bloom,
        data: chunk.data,
    }
}

fn retained(known: wal::Retained) -> Retained {
    let wal::Retained { first, next, bytes, first_timestamp_ms, last_timestamp_ms, segments, .. } = known;
    let times_ms = first_timestamp_ms.zip(last_timestamp_ms);
    Retained { first, next, bytes, times_ms, segments, closed_from: None }
}

fn failure(catalog: &Catalog, queue: QueueId, error: &StreamError) -> OpenFailure {
    let (vhost, name) = catalog.names_of(queue);
    match error {
        StreamError::Io { .. } => {
            tracing::error!(target: QUEUE, stream = %name, %vhost, "the stream cannot be opened: {error}; trying again");
            OpenFailure::Unavailable
        }
        _ => {
            tracing::error!(target: QUEUE, stream = %name, %vhost, "the stream is closed: {error}");
            OpenFailure::Damaged
        }
    }
}
