//! One open stream.
//!
//! ```text
//!              append             written, or with sync: synced
//!   confirmed ────────▶ written ───────────────────────────────▶ confirmed     retention, when a segment was added
//!       ▲                  │ a write or a sync is refused
//!       └──────────────────┘ cut back; the last segment is never written again
//! ```
//!
//! Others are told only of what is confirmed.

use std::io;

use super::appender::{self, Files};
use super::chunk::DATA_MAX;
use super::files::{FILE_HEADER, Kind};
use super::index::Index;
use super::recover::{self, Last, Segment};
use super::sync::StreamSyncJob;
use super::{AppendFailure, Kept, NewChunk, StreamCut, StreamError, StreamLimits};
use crate::disk::Disk;
use crate::machine::AT_ONCE_BYTES_MAX;

/// When an append is answered.
pub(super) enum Appended {
    Now(Result<Kept, AppendFailure>),
    WhenSynced(StreamSyncJob),
}

pub(super) struct Stream {
    stream: u64,
    limits: StreamLimits,
    /// What others are told.
    kept: Kept,
    /// Bytes of the last of its segments.
    kept_end: u64,
    /// What is written. Ascending; the last one may have no chunk.
    segments: Vec<Segment>,
    next: u64,
    last: Option<Last>,
    /// Of the first chunk.
    first_ms: Option<u64>,
    index: Index,
    /// The last segment may be appended to.
    writable: bool,
    /// Segments that are not known to be synced, by their first offset.
    dirty: Vec<u64>,
    /// Nor are names, if this is false.
    named: bool,
    /// A segment was added since limits were looked at.
    rolled: bool,
    /// Files that would hide what is written now, ascending; nothing is before they are gone.
    leftovers: Vec<u64>,
    waiting: Option<Waiting>,
}

/// An append that waits for its sync.
struct Waiting {
    shard: u32,
    /// Those that were written.
    chunks: Vec<NewChunk>,
    /// Those that were not, and why.
    rest: Option<(StreamError, Vec<NewChunk>)>,
}

impl Stream {
    /// Looks at the files.
    pub fn open<D: Disk>(
        files: &mut Files<D>,
        stream: u64,
        firsts: &[u64],
        limits: StreamLimits,
    ) -> Result<(Self, Option<StreamCut>), StreamError> {
        let mut opened = Self {
            stream,
            limits,
            kept: Kept::default(),
            kept_end: 0,
            segments: Vec::new(),
            next: 0,
            last: None,
            first_ms: None,
            index: Index::EMPTY,
            writable: false,
            dirty: Vec::new(),
            named: false,
            rolled: false,
            leftovers: Vec::new(),
            waiting: None,
        };
        let mut cut = None;
        if let Some(&first) = firsts.first() {
            let found = recover::recover(&mut files.disk, stream, firsts)?;
            opened.first_ms = recover::first_time(&mut files.disk, stream, first)
                .map_err(StreamError::io(Kind::Segment.name(stream, first)))?;
            (opened.segments, opened.next, opened.last) = (found.segments, found.next, found.last);
            (opened.index, opened.writable, cut) = (found.index, found.writable, found.cut);
            // Of those in front of it the system has had the time.
            opened.dirty.extend(firsts.last());
        }
        opened.confirm();
        Ok((opened, cut))
    }

    /// Other limits, and a look at the ages.
    pub fn limit<D: Disk>(&mut self, files: &mut Files<D>, limits: StreamLimits, now_ms: u64) -> Kept {
        self.limits = limits;
        if self.waiting.is_none() {
            self.retain(files, now_ms);
            self.confirm();
        }
        self.kept.clone()
    }

    /// Whether an append of these is one write to the end of the last segment, and none of many bytes.
    pub fn has_room(&self, chunks: &[NewChunk]) -> bool {
        let last = self.segments.last().filter(|_| self.writable && self.leftovers.is_empty());
        let room = last.map_or(0, |last| self.limits.segment_bytes.saturating_sub(last.bytes));
        chunks.iter().map(appender::bytes).sum::<u64>() <= room.min(AT_ONCE_BYTES_MAX)
    }

    /// Writes chunks; those in front of one that cannot be written are written all the same.
    pub fn append<D: Disk>(
        &mut self,
        files: &mut Files<D>,
        shard: u32,
        mut chunks: Vec<NewChunk>,
        sync: bool,
    ) -> Appended {
        if !sync {
            return Appended::Now(self.append_unsynced(files, chunks));
        }
        let rest = match self.write_all(files, &mut chunks) {
            Ok(rest) => rest,
            Err(error) => return Appended::Now(Err(self.failure(error, chunks))),
        };
        if chunks.is_empty() {
            return Appended::Now(self.written(files, rest));
        }
        match self.begin_sync(files) {
            Ok(job) => {
                self.waiting = Some(Waiting { shard, chunks, rest });
                Appended::WhenSynced(job)
            }
            Err(error) => {
                self.roll_back(files, None);
                chunks.extend(rest.into_iter().flat_map(|(_, rest)| rest));
                Appended::Now(Err(self.failure(error, chunks)))
            }
        }
    }

    /// [`Stream::append`], answered when they are written.
    pub fn append_unsynced<D: Disk>(
        &mut self,
        files: &mut Files<D>,
        mut chunks: Vec<NewChunk>,
    ) -> Result<Kept, AppendFailure> {
        match self.write_all(files, &mut chunks) {
            Ok(rest) => self.written(files, rest),
            Err(error) => Err(self.failure(error, chunks)),
        }
    }

    /// Writes as many chunks as the disk takes and leaves those; returns the others, and why. Does nothing if they are
    /// no chunks that can follow.
    fn write_all<D: Disk>(
        &mut self,
        files: &mut Files<D>,
        chunks: &mut Vec<NewChunk>,
    ) -> Result<Option<(StreamError, Vec<NewChunk>)>, StreamError> {
        self.check(chunks)?;
        self.remove_leftovers(files)?;
        let (mut written, mut error) = (0, None);
        while written < chunks.len() && error.is_none() {
            match self.write(files, &chunks[written..]) {
                Ok(more) => written += more,
                Err(refused) => error = Some(refused),
            }
        }
        Ok(error.map(|error| (error, chunks.split_off(written))))
    }

    /// The sync of the append that waits has ended; tells its shard, and how.
    pub fn end_sync<D: Disk>(
        &mut self,
        files: &mut Files<D>,
        result: Result<(), (String, io::Error)>,
    ) -> Option<(u32, Result<Kept, AppendFailure>)> {
        let Waiting { shard, mut chunks, rest } = self.waiting.take()?;
        let result = match result {
            Ok(()) => {
                self.dirty.clear();
                self.named = true;
                self.written(files, rest)
            }
            Err((file, error)) => {
                self.roll_back(files, Some(&file));
                chunks.extend(rest.into_iter().flat_map(|(_, rest)| rest));
                Err(self.failure(StreamError::Io { file, error }, chunks))
            }
        };
        Some((shard, result))
    }

    /// The segments that have files, by their first offsets, ascending.
    pub fn segments(&self) -> impl Iterator<Item = u64> + '_ {
        self.segments.iter().map(|segment| segment.first)
    }

    /// The segments that may have files.
    pub fn files(&self) -> impl Iterator<Item = u64> + '_ {
        self.segments().chain(self.leftovers.iter().copied()).chain([self.next])
    }

    /// The shard and the chunks of an append that has no answer yet.
    pub fn into_waiting(self) -> Option<(u32, Vec<NewChunk>)> {
        let Waiting { shard, mut chunks, rest } = self.waiting?;
        chunks.extend(rest.into_iter().flat_map(|(_, rest)| rest));
        Some((shard, chunks))
    }

    /// What was written is confirmed.
    fn written<D: Disk>(
        &mut self,
        files: &mut Files<D>,
        rest: Option<(StreamError, Vec<NewChunk>)>,
    ) -> Result<Kept, AppendFailure> {
        if std::mem::take(&mut self.rolled) {
            self.retain(files, self.last.map_or(0, |last| last.timestamp_ms));
        }
        self.confirm();
        match rest {
            Some((error, rest)) => Err(self.failure(error, rest)),
            None => Ok(self.kept.clone()),
        }
    }

    fn failure(&self, error: StreamError, chunks: Vec<NewChunk>) -> AppendFailure {
        AppendFailure { error, chunks, kept: Some(Box::new(self.kept.clone())) }
    }

    /// Whether these are chunks, and the next ones. Raises times that fall.
    fn check(&self, chunks: &mut [NewChunk]) -> Result<(), StreamError> {
        let invalid = |why| Err(StreamError::Invalid { stream: self.stream, why });
        if self.waiting.is_some() {
            return invalid("an append is under way");
        }
        if chunks.is_empty() {
            return invalid("an append has no chunks");
        }
        let (mut next, mut least) = (self.next, self.last.map_or(0, |last| last.timestamp_ms));
        for chunk in chunks {
            if chunk.first != next {
                return invalid("a chunk does not follow the one in front");
            }
            if chunk.entries == 0 || chunk.data.is_empty() || chunk.data.len() > DATA_MAX {
                return invalid("a chunk has no entries, or is too large");
            }
            chunk.timestamp_ms = chunk.timestamp_ms.max(least);
            least = chunk.timestamp_ms;
            let Some(behind) = next.checked_add(u64::from(chunk.entries)) else {
                return invalid("offsets have come to their end");
            };
            if i64::try_from(least).is_err() {
                return invalid("a chunk's time is too large");
            }
            next = behind;
        }
        Ok(())
    }

    /// Writes as many chunks as go into one segment, at least one, and tells how many.
    fn write<D: Disk>(&mut self, files: &mut Files<D>, chunks: &[NewChunk]) -> Result<usize, StreamError> {
        let fit = |room: u64| {
            let mut bytes = 0;
            chunks
                .iter()
                .take_while(|chunk| {
                    bytes += appender::bytes(chunk);
                    bytes <= room
                })
                .count()
        };
        let last = self.segments.last().filter(|_| self.writable);
        let room = last.map_or(0, |last| self.limits.segment_bytes.saturating_sub(last.bytes));
        let (mut segment, mut at, mut count) =
            (last.map_or(0, |last| last.first), last.map_or(0, |last| last.bytes), fit(room));
        if count == 0 {
            let room = self.limits.segment_bytes.saturating_sub(FILE_HEADER as u64);
            (segment, at, count) = (self.next, 0, fit(room).max(1));
        }
        let chunks = &chunks[..count];
        let entries = match files.write((self.stream, segment), at, chunks) {
            Ok(entries) => entries,
            Err(error) => {
                let is_listed = self.segments.last().is_some_and(|last| last.first == segment);
                if is_listed {
                    self.writable = false;
                    files.abandon(self.stream, segment, at);
                } else {
                    self.leftovers.push(segment);
                }
                return Err(StreamError::Io { file: Kind::Segment.name(self.stream, segment), error });
            }
        };
        if at == 0 {
            self.begin(segment);
        }
        self.index.add(&mut files.disk, self.stream, segment, entries);
        let bytes: u64 = chunks.iter().map(appender::bytes).sum();
        if let Some(last) = self.segments.last_mut() {
            last.bytes += bytes;
        }
        if self.dirty.last() != Some(&segment) {
            self.dirty.push(segment);
        }
        if at == 0 && self.segments.len() == 1 {
            self.first_ms = chunks.first().map(|chunk| chunk.timestamp_ms);
        }
        if let Some(chunk) = chunks.last() {
            self.next = chunk.first + u64::from(chunk.entries);
            self.last = Some(Last { first: chunk.first, timestamp_ms: chunk.timestamp_ms });
        }
        Ok(count)
    }

    /// A segment was made, unless it is one without chunks that was made anew.
    fn begin(&mut self, first: u64) {
        let segment = Segment { first, bytes: FILE_HEADER as u64, newest_ms: None };
        match self.segments.last_mut() {
            Some(last) if last.first == first => *last = segment,
            last => {
                if let Some(last) = last {
                    last.newest_ms = self.last.map(|last| last.timestamp_ms);
                }
                self.segments.push(segment);
            }
        }
        (self.index, self.writable) = (Index::EMPTY, true);
        (self.named, self.rolled) = (false, true);
    }

    fn begin_sync<D: Disk>(&mut self, files: &mut Files<D>) -> Result<StreamSyncJob, StreamError> {
        let mut job = StreamSyncJob { stream: self.stream, files: Vec::new(), names: None };
        for &segment in &self.dirty {
            let name = Kind::Segment.name(self.stream, segment);
            match files.begin_sync(self.stream, segment) {
                Ok(sync) => job.files.push((name, sync)),
                Err(error) => return Err(StreamError::Io { file: name, error }),
            }
        }
        job.names = (!self.named).then(|| files.disk.begin_sync_dir());
        Ok(job)
    }

    /// Goes back to what is confirmed, in which the last segment is never written again. Nor is the file that was
    /// refused a sync asked for another: that would teach nothing.
    fn roll_back<D: Disk>(&mut self, files: &mut Files<D>, refused: Option<&str>) {
        let kept = self.kept.segments.len();
        // In front of one whose first write failed: the last one goes first.
        self.leftovers.splice(..0, self.segments.drain(kept..).map(|segment| segment.first));
        // Before anything is cut: a process that ends in between, or a disk that refuses to remove them, would leave a
        // hole in front of them. What is left of them is tried again before anything is written.
        let are_removed = self.remove_leftovers(files).is_ok();
        if let Some(last) = self.segments.last_mut() {
            last.bytes = self.kept_end;
            if are_removed {
                files.abandon(self.stream, last.first, last.bytes);
            }
        }
        self.writable = false;
        self.next = self.kept.next;
        self.last = match (self.kept.last_chunk, self.kept.last_timestamp_ms) {
            (Some(first), Some(timestamp_ms)) => Some(Last { first, timestamp_ms }),
            _ => None,
        };
        self.first_ms = self.kept.first_timestamp_ms;
        let segments = &self.kept.segments;
        self.dirty.retain(|first| {
            segments.contains(first) && refused != Some(&Kind::Segment.name(self.stream, *first))
        });
    }

    fn remove_leftovers<D: Disk>(&mut self, files: &mut Files<D>) -> Result<(), StreamError> {
        while let Some(&first) = self.leftovers.last() {
            files
                .remove(self.stream, first)
                .map_err(StreamError::io(Kind::Segment.name(self.stream, first)))?;
            self.leftovers.pop();
            // Nor may it come back once something is synced.
            self.named = false;
        }
        Ok(())
    }

    /// Removes segments from the front as long as there is too much, or it is too old. What the disk refuses is tried
    /// again the next time.
    fn retain<D: Disk>(&mut self, files: &mut Files<D>, now_ms: u64) {
        let mut bytes: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
        let mut gone = 0;
        while gone + 1 < self.segments.len() {
            let end = self.segments[gone + 1].first;
            let segment = &mut self.segments[gone];
            let is_too_much = self.limits.bytes_max.is_some_and(|most| bytes > most);
            if !is_too_much && !is_old(files, self.stream, segment, end, self.limits.age_max_ms, now_ms)
                || files.remove(self.stream, segment.first).is_err()
            {
                break;
            }
            bytes -= segment.bytes;
            gone += 1;
        }
        if gone > 0 {
            self.dirty.retain(|dirty| self.segments[gone..].iter().any(|segment| segment.first == *dirty));
            self.segments.drain(..gone);
            let first = self.segments[0].first;
            self.first_ms = recover::first_time(&mut files.disk, self.stream, first).unwrap_or(None);
        }
    }

    /// Others may be told.
    fn confirm(&mut self) {
        let segments = self.segments.iter().map(|segment| segment.first);
        if !segments.clone().eq(self.kept.segments.iter().copied()) {
            self.kept.segments = segments.collect();
        }
        self.kept.first = self.segments.first().map_or(self.next, |segment| segment.first);
        self.kept.next = self.next;
        self.kept.last_chunk = self.last.map(|last| last.first);
        self.kept.bytes = self.segments.iter().map(|segment| segment.bytes).sum();
        self.kept.first_timestamp_ms = self.first_ms;
        self.kept.last_timestamp_ms = self.last.map(|last| last.timestamp_ms);
        self.kept_end = self.segments.last().map_or(0, |last| last.bytes);
    }
}

/// Whether the newest chunk of a segment that ends in front of `end` is too old.
fn is_old<D: Disk>(
    files: &mut Files<D>,
    stream: u64,
    segment: &mut Segment,
    end: u64,
    age_max_ms: Option<u64>,
    now_ms: u64,
) -> bool {
    let Some(age_max_ms) = age_max_ms else { return false };
    if segment.newest_ms.is_none() {
        let last = recover::last_chunk(&mut files.disk, stream, segment.first, end).unwrap_or(None);
        segment.newest_ms = last.map(|last| last.timestamp_ms);
    }
    segment.newest_ms.is_some_and(|newest| newest.saturating_add(age_max_ms) < now_ms)
}
