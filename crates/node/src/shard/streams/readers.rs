//! The readers of streams on this shard: what they get, and what they ask of the stream and of the disk.

use std::sync::Arc;

use catalog::categories::{PEER, QUEUE};
use catalog::ids::QueueId;
use queue::{
    Chunk, ChunkLoad, Effect, Follower, GoneReason, LoadFrom, LoadedChunks, ReadersOutput, Request,
    SegmentPosition, StreamUpdate,
};
use wal::{ChunkJob, Chunks, ChunksRead, Position, ReadFrom, StreamError, Wanted};

use super::{Following, LOAD_BYTES, Load, RETRY_MS};
use crate::shard::Shard;
use crate::shard::connections::Gates;

impl Shard {
    pub(super) fn apply_to_readers(&mut self, queue: QueueId, request: Request) {
        let begins = matches!(request, Request::Attach(_) | Request::Browse { .. });
        if !begins && !self.streams.following.contains_key(&queue) {
            if let Request::Cancel { consumer } | Request::Detach { consumer, .. } = request {
                self.carry_out(queue, Effect::Gone { consumer, reason: GoneReason::Detached });
            }
            return;
        }
        let now_ms = self.here.now_ms;
        self.streams.following.entry(queue).or_default();
        self.with_readers(queue, |following, output, gates| {
            following.readers.apply(request, now_ms, output, gates);
        });
    }

    /// Passes an update of a stream to its readers on this shard.
    pub(in crate::shard) fn handle_update(&mut self, queue: QueueId, update: StreamUpdate) {
        let (tail_bytes, now_ms) = (self.streams.tail_bytes(), self.here.now_ms);
        self.streams.tail_bytes_most = self.streams.tail_bytes_most.max(tail_bytes);
        self.with_readers(queue, |following, output, gates| {
            let ended = update.end.is_some();
            following.readers.handle_update(update, tail_bytes, now_ms, output, gates);
            if ended {
                // The stream has ended, so this shard no longer follows it.
                following.reported_consumers = None;
            }
        });
    }

    /// Continues with the readers that want another turn.
    pub(in crate::shard) fn resume_reading(&mut self) {
        let now_ms = self.here.now_ms;
        for queue in std::mem::take(&mut self.streams.unfinished) {
            self.with_readers(queue, |following, output, gates| {
                following.unfinished = false;
                following.readers.take_turn(now_ms, output, gates)
            });
        }
    }

    /// Calls `act` with the readers of a stream, and carries out what they emit. Does nothing if no readers
    /// are here.
    fn with_readers(
        &mut self,
        queue: QueueId,
        act: impl FnOnce(&mut Following, &mut ReadersOutput, &mut Gates<'_>),
    ) {
        let Some(following) = self.streams.following.get_mut(&queue) else { return };
        let mut output = std::mem::take(&mut self.streams.readers_output);
        let mut gates = self.connections.gates(self.here, &self.metadata, &mut self.mail, &mut self.counters);
        act(following, &mut output, &mut gates);
        self.take_readers_output(queue, &mut output);
        self.streams.readers_output = output;
    }

    fn take_readers_output(&mut self, queue: QueueId, output: &mut ReadersOutput) {
        for load in output.loads.drain(..) {
            self.streams.next_ticket += 1;
            let ticket = self.streams.next_ticket;
            let who = load.who;
            let job = chunk_job(u32::from(self.here.id), ticket, queue, load);
            self.begin_load(ticket, Load { who, queue, job, bytes: LOAD_BYTES.into(), reserved: None });
        }
        for offset in output.damaged.drain(..) {
            self.mail.post.request(queue, Request::Close { from: offset });
            let (vhost, name) = self.metadata.catalog().names_of(queue);
            tracing::error!(name: PEER, target: QUEUE, stream = %name, %vhost, offset, "a consumer of the stream has reached damaged messages");
        }
        if let Some(following) = self.streams.following.get_mut(&queue) {
            following.recount(&mut self.streams.tails);
            if following.readers.wants_turn() && !std::mem::replace(&mut following.unfinished, true) {
                self.streams.unfinished.push(queue);
            }
            let consumers = (!following.readers.is_empty()).then(|| following.readers.consumers());
            if consumers != following.reported_consumers {
                following.reported_consumers = consumers;
                let follower = Follower(u32::from(self.here.id));
                self.mail.post.request(queue, Request::Follow { follower, consumers });
            }
            if consumers.is_none()
                && let Some(Following { readers, tail_bytes, .. }) = self.streams.following.remove(&queue)
            {
                self.streams.tails -= tail_bytes;
                if readers.delivered() > 0 {
                    *self.streams.delivered.entry(queue).or_default() += readers.delivered();
                }
            }
        }
        self.carry_out_all(queue, &mut output.effects);
    }

    /// Returns the chunk jobs, for the stream readers' thread.
    pub fn poll_chunk_jobs(&mut self) -> impl Iterator<Item = ChunkJob> {
        if !self.streams.again.is_empty() && self.streams.again_ms <= self.here.now_ms {
            let mut again = std::mem::take(&mut self.streams.again);
            self.streams.chunk_jobs.append(&mut again);
        }
        self.retry_loads();
        self.streams.chunk_jobs.drain(..)
    }

    /// Handles the answer to one of [`Shard::poll_chunk_jobs`].
    pub fn handle_chunks(&mut self, read: ChunksRead) {
        let ChunksRead { ticket, result, .. } = read;
        if self.streams.checks.is_for(ticket) {
            return self.handle_heads(result);
        }
        let Some(mut load) = self.streams.loads.remove(&ticket) else { return };
        let (who, queue) = (load.who, load.queue);
        let Some(following) = self.streams.following.get_mut(&queue) else { return };
        let loaded = match result {
            Ok(Chunks { needs: Some(bytes), next, chunks, .. }) if chunks.is_empty() => {
                load.job.from = ReadFrom::At(next);
                (load.bytes, load.reserved) = (bytes, None);
                self.begin_load(ticket, load);
                return;
            }
            Ok(chunks) => Ok(loaded(chunks)),
            // The reader that needed the chunks is gone, so the job is not tried again.
            Err(StreamError::Io { .. }) if !following.readers.is_loading(who) => return,
            Err(error @ StreamError::Io { .. }) => {
                let (vhost, name) = self.metadata.catalog().names_of(queue);
                tracing::error!(target: QUEUE, stream = %name, %vhost, "the stream cannot be read: {error}; trying again");
                self.streams.again.push(load.job.clone());
                self.streams.loads.insert(ticket, load);
                self.streams.again_ms = self.here.now_ms + RETRY_MS;
                return;
            }
            Err(error) => {
                let (vhost, name) = self.metadata.catalog().names_of(queue);
                tracing::error!(target: QUEUE, stream = %name, %vhost, "the stream cannot be read: {error}");
                Err(damaged_from(&error))
            }
        };
        let now_ms = self.here.now_ms;
        self.with_readers(queue, |following, output, gates| {
            following.readers.handle_loaded(who, loaded, now_ms, output, gates);
        });
    }

    /// Asks the readers' thread for the heads of the chunks before the offset `until`. Returns the ticket of the job.
    pub(super) fn look_at_heads(
        &mut self,
        queue: QueueId,
        from: ReadFrom,
        segments: Arc<[u64]>,
        until: u64,
    ) -> u64 {
        self.streams.next_ticket += 1;
        let ticket = self.streams.next_ticket;
        self.streams.chunk_jobs.push(ChunkJob {
            shard: u32::from(self.here.id),
            ticket,
            stream: queue.0,
            from,
            segments,
            until,
            bytes_max: 0,
            wanted: None,
            claim: None,
            heads: true,
        });
        ticket
    }
}

fn chunk_job(shard: u32, ticket: u64, queue: QueueId, load: ChunkLoad) -> ChunkJob {
    let ChunkLoad { from, until, segments, bloom, .. } = load;
    let from = match from {
        LoadFrom::First => ReadFrom::First,
        LoadFrom::Last => ReadFrom::Last,
        LoadFrom::Offset(offset) => ReadFrom::Offset(offset),
        LoadFrom::Time(ms) => ReadFrom::Time(ms),
        LoadFrom::At(SegmentPosition { segment, at, offset }) => {
            ReadFrom::At(Position { segment, at, offset })
        }
    };
    let wanted = bloom.map(|bloom| Wanted { values: bloom.values.clone(), none: bloom.unfiltered });
    ChunkJob {
        shard,
        ticket,
        stream: queue.0,
        from,
        segments,
        until,
        bytes_max: LOAD_BYTES,
        wanted,
        claim: None,
        heads: false,
    }
}

fn loaded(chunks: wal::Chunks) -> LoadedChunks {
    let Position { segment, at, offset } = chunks.next;
    let chunk = |chunk: wal::Chunk| Chunk {
        first: chunk.first,
        entries: chunk.entries.into(),
        at_ms: chunk.timestamp_ms,
        data: chunk.data,
        values: None,
    };
    LoadedChunks {
        chunks: chunks.chunks.into_iter().map(chunk).collect(),
        next: SegmentPosition { segment, at, offset },
    }
}

/// Returns the offset from which on a stream is damaged, as this error says. `None` if the error does not mean damage.
pub(super) fn damaged_from(error: &StreamError) -> Option<u64> {
    match *error {
        StreamError::Damaged { from: Some(from), .. } | StreamError::Missing { from, .. } => Some(from),
        StreamError::Damaged { from: None, .. } => Some(0),
        StreamError::Newer { .. }
        | StreamError::Io { .. }
        | StreamError::Locked
        | StreamError::NotOpen { .. }
        | StreamError::Invalid { .. } => None,
    }
}
