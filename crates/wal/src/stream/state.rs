//! One open stream.
//!
//! ```text
//!              append             written, or with sync: synced
//!   confirmed ────────▶ written ───────────────────────────────▶ confirmed     retention, when a segment was added
//!       ▲                  │ a write or a sync is refused            │ with sync: what did not go into the segment
//!       └──────────────────┘ cut back; the last segment is           └───▶ written, to the next one
//!                            never written again
//! ```
//!
//! Others are told only of what is confirmed.
//!
//! **With sync, a segment is begun when everything in front of it is synced**, its name too. So power loss finds one that
//! may not be whole, the last, and that is the one which an open proves. An append of more than goes into a segment takes
//! a sync for each.

use std::io;

use super::appender::{self, Files};
use super::chunk::DATA_MAX;
use super::files::{FILE_HEADER, Kind};
use super::index::Index;
use super::notes::Note;
use super::recover::{self, Last, Segment};
use super::sync::StreamSyncJob;
use super::{AppendFailure, NewChunk, Retained, StreamCut, StreamError, StreamLimits};
use crate::disk::Disk;
use crate::machine::AT_ONCE_BYTES_MAX;

/// When an append is answered.
pub(super) enum Appended {
    Now(Result<Retained, AppendFailure>),
    WhenSynced(StreamSyncJob),
}

pub(super) struct Stream {
    stream: u64,
    limits: StreamLimits,
    /// What others are told.
    retained: Retained,
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
    /// Segments that are not known to be synced, by their first offset, ascending.
    dirty: Vec<u64>,
    /// Nor are names, if this is false.
    named: bool,
    /// What is missing in front of this offset was missing when the stream was opened.
    gap_to: u64,
    /// Every other entry below is known to be synced.
    synced_to: u64,
    /// All that is not known to be synced stands in `dirty`, and none of it was refused.
    sure: bool,
    /// What the note of the stream says, as far as this process has told it.
    told: Option<Note>,
    /// It is to be told when the streams fall idle.
    touched: bool,
    /// A segment was added since limits were looked at.
    rolled: bool,
    waiting: Option<Waiting>,
}

/// An append that waits for a sync.
struct Waiting {
    shard: u32,
    /// Those that are not synced.
    chunks: Vec<NewChunk>,
    /// How many of them are written, and are synced now.
    written: usize,
}

/// Segments that an open takes for not synced. A process that was killed has left the last one so, and if it did not sync
/// may have finished the one in front of it just before.
const FOUND_DIRTY: usize = 2;

/// Segments that an open takes for not synced at most, if the note says how far the stream was synced in this boot. Of a
/// stream with more of them nothing more is said to be synced before the next boot.
const FOUND_DIRTY_MAX: usize = 64;

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
            retained: Retained::default(),
            kept_end: 0,
            segments: Vec::new(),
            next: 0,
            last: None,
            first_ms: None,
            index: Index::EMPTY,
            writable: false,
            dirty: Vec::new(),
            named: firsts.is_empty(),
            gap_to: 0,
            synced_to: 0,
            sure: firsts.is_empty(),
            told: None,
            touched: false,
            rolled: false,
            waiting: None,
        };
        let mut cut = None;
        let note = files.notes.get(stream);
        // What is missing and must not be is an error.
        if let Some(StreamError::Missing { to, .. }) = files.missing(stream, firsts)? {
            opened.gap_to = to;
        }
        if let Some(&first) = firsts.first() {
            let found = recover::recover(&mut files.disk, stream, firsts, recover::must(note))?;
            opened.synced_to = note.map_or(0, |(note, _)| note.synced);
            let known = firsts.partition_point(|&first| first <= opened.synced_to).saturating_sub(1);
            let [last_two, most] = [FOUND_DIRTY, FOUND_DIRTY_MAX].map(|n| firsts.len().saturating_sub(n));
            opened.sure = note.is_some_and(|(_, same_life)| same_life) && known >= most;
            let dirty = if opened.sure { known.min(last_two) } else { last_two };
            opened.first_ms = recover::first_time(&mut files.disk, stream, first)
                .map_err(StreamError::io(Kind::Segment.name(stream, first)))?;
            (opened.segments, opened.next, opened.last) = (found.segments, found.next, found.last);
            (opened.index, opened.writable, cut) = (found.index, found.writable, found.cut);
            // Those in front of them were synced when the next was begun, or the system has had the time.
            opened.dirty.extend(&firsts[dirty..]);
        }
        opened.confirm();
        if note.is_some_and(|(note, _)| files.notes.is_of_another_life(&note)) {
            // Said before anything is appended: what is found later was not all there.
            opened.synced_to = opened.next;
            opened.sure = opened.note(files);
        }
        Ok((opened, cut))
    }

    /// Other limits, and a look at the ages.
    pub fn limit<D: Disk>(&mut self, files: &mut Files<D>, limits: StreamLimits, now_ms: u64) -> Retained {
        self.limits = limits;
        if self.waiting.is_none() {
            self.retain(files, now_ms);
            self.confirm();
        }
        self.retained.clone()
    }

    /// Syncs what an open has found, and waits for it.
    pub fn sync_found<D: Disk>(&mut self, files: &mut Files<D>) -> Result<(), StreamError> {
        if !self.is_synced() {
            let end = self.begin_sync(files)?.run();
            end.result.map_err(|(file, error)| StreamError::Io { file, error })?;
            self.synced();
        }
        Ok(())
    }

    /// Whether an append of these is one write to the end of the last segment, and none of many bytes.
    pub fn has_room(&self, chunks: &[NewChunk]) -> bool {
        chunks.iter().map(appender::bytes).sum::<u64>() <= self.room().min(AT_ONCE_BYTES_MAX)
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
        match self.check(&mut chunks) {
            Ok(()) => self.append_synced(files, shard, chunks),
            Err(error) => Appended::Now(Err(self.failure(error, chunks))),
        }
    }

    /// [`Stream::append`], answered when they are written.
    pub fn append_unsynced<D: Disk>(
        &mut self,
        files: &mut Files<D>,
        mut chunks: Vec<NewChunk>,
    ) -> Result<Retained, AppendFailure> {
        if let Err(error) = self.check(&mut chunks) {
            return Err(self.failure(error, chunks));
        }
        let (mut written, mut result) = (0, Ok(()));
        while result.is_ok() && written < chunks.len() {
            result = self.write(files, &chunks[written..]).map(|more| written += more);
        }
        self.confirm_written(files);
        match result {
            Ok(()) => Ok(self.retained.clone()),
            Err(error) => Err(self.failure(error, chunks.split_off(written))),
        }
    }

    /// Writes as many chunks as go into one segment, and begins to sync it. Begins with those in front of it, and without
    /// a write, if another segment is needed and they are not synced.
    fn append_synced<D: Disk>(
        &mut self,
        files: &mut Files<D>,
        shard: u32,
        chunks: Vec<NewChunk>,
    ) -> Appended {
        let may_write = self.is_synced() || count_within(&chunks, self.room()) > 0;
        let written = match may_write.then(|| self.write(files, &chunks)).transpose() {
            Ok(written) => written.unwrap_or(0),
            Err(error) => {
                self.confirm_written(files);
                return Appended::Now(Err(self.failure(error, chunks)));
            }
        };
        match self.begin_sync(files) {
            Ok(job) => {
                self.waiting = Some(Waiting { shard, chunks, written });
                Appended::WhenSynced(job)
            }
            Err(error) => {
                self.roll_back(files, None);
                Appended::Now(Err(self.failure(error, chunks)))
            }
        }
    }

    /// The sync that an append waits for has ended; tells its shard, and what becomes of it.
    pub fn end_sync<D: Disk>(
        &mut self,
        files: &mut Files<D>,
        result: Result<(), (String, io::Error)>,
    ) -> Option<(u32, Appended)> {
        let Waiting { shard, mut chunks, written } = self.waiting.take()?;
        if let Err((file, error)) = result {
            self.roll_back(files, Some(&file));
            let failure = self.failure(StreamError::Io { file, error }, chunks);
            return Some((shard, Appended::Now(Err(failure))));
        }
        self.synced();
        self.confirm();
        chunks.drain(..written);
        if !chunks.is_empty() {
            return Some((shard, self.append_synced(files, shard, chunks)));
        }
        self.confirm_written(files);
        Some((shard, Appended::Now(Ok(self.retained.clone()))))
    }

    /// Notes how far the stream has come, if a segment was added or something synced. True if there is something else to be
    /// told, with [`Stream::note`], when the streams fall idle, for the first time since the last.
    pub fn tell<D: Disk>(&mut self, files: &mut Files<D>) -> bool {
        let Some(note) = self.news() else { return false };
        let at_once = |note: &Note| (note.from, note.newest, note.synced);
        if self.told.is_none_or(|told| at_once(&note) != at_once(&told)) {
            self.note(files);
            return false;
        }
        !std::mem::replace(&mut self.touched, true)
    }

    /// Notes how far the stream has come; false if the disk refuses.
    pub fn note<D: Disk>(&mut self, files: &mut Files<D>) -> bool {
        self.touched = false;
        let Some(note) = self.news() else { return true };
        let is_written = files.notes.put(&mut files.disk, self.stream, note);
        if is_written {
            self.told = Some(note);
        }
        is_written
    }

    /// What the note does not say yet.
    fn news(&self) -> Option<Note> {
        let newest = *self.retained.segments.last()?;
        let (bytes, written, synced) =
            (self.kept_end, self.retained.next, self.synced_to.min(self.retained.next));
        let from = self.gap_to.max(self.retained.first);
        let note = Note { from, newest, bytes, written, synced, ..Note::default() };
        (self.told != Some(note)).then_some(note)
    }

    /// The segments that have files, by their first offsets, ascending.
    pub fn segments(&self) -> impl Iterator<Item = u64> + '_ {
        self.segments.iter().map(|segment| segment.first)
    }

    /// The segments that may have files: one that could not be begun may have left something.
    pub fn files(&self) -> impl Iterator<Item = u64> + '_ {
        self.segments().chain([self.next])
    }

    /// The shard of an append that has no answer yet, and those of its chunks that are not confirmed.
    pub fn into_waiting(self) -> Option<(u32, Vec<NewChunk>)> {
        self.waiting.map(|Waiting { shard, chunks, .. }| (shard, chunks))
    }

    fn confirm_written<D: Disk>(&mut self, files: &mut Files<D>) {
        if std::mem::take(&mut self.rolled) {
            self.retain(files, self.last.map_or(0, |last| last.timestamp_ms));
        }
        self.confirm();
    }

    /// Everything would survive power loss.
    fn is_synced(&self) -> bool {
        self.dirty.is_empty() && self.named
    }

    fn synced(&mut self) {
        if self.sure {
            self.synced_to = self.next;
        }
        self.dirty.clear();
        self.named = true;
    }

    /// Bytes that may still go into the last segment.
    fn room(&self) -> u64 {
        let last = self.segments.last().filter(|_| self.writable);
        last.map_or(0, |last| self.limits.segment_bytes.saturating_sub(last.bytes))
    }

    fn failure(&self, error: StreamError, chunks: Vec<NewChunk>) -> AppendFailure {
        AppendFailure { error, chunks, retained: Some(Box::new(self.retained.clone())) }
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
        let (segment, at, count) = match (count_within(chunks, self.room()), self.segments.last()) {
            (count @ 1.., Some(last)) => (last.first, last.bytes, count),
            _ => {
                let room = self.limits.segment_bytes.saturating_sub(FILE_HEADER as u64);
                (self.next, 0, count_within(chunks, room).max(1))
            }
        };
        let chunks = &chunks[..count];
        let entries = match files.write((self.stream, segment), at, chunks) {
            Ok(entries) => entries,
            Err(error) => {
                self.writable = false;
                match self.segments.last().is_some_and(|last| last.first == segment) {
                    true => files.abandon(self.stream, segment, at),
                    // What the disk leaves of it is replaced by the next chunk that is written.
                    false => drop(files.remove(self.stream, segment)),
                }
                return Err(StreamError::Io { file: Kind::Segment.name(self.stream, segment), error });
            }
        };
        if at == 0 {
            if let Some(last) = self.segments.last() {
                self.index.flush(&mut files.disk, self.stream, last.first);
            }
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
        self.index.cut(self.kept_end);
        // One at most, and its name is that of the segment that is begun next: what the disk leaves of it is replaced then.
        for segment in self.segments.drain(self.retained.segments.len()..) {
            self.index = Index::EMPTY;
            drop(files.remove(self.stream, segment.first));
        }
        if let Some(last) = self.segments.last_mut().filter(|last| last.bytes > self.kept_end) {
            last.bytes = self.kept_end;
            files.abandon(self.stream, last.first, last.bytes);
        }
        self.writable = false;
        self.sure &= refused.is_none();
        self.next = self.retained.next;
        self.last = match (self.retained.last_chunk, self.retained.last_timestamp_ms) {
            (Some(first), Some(timestamp_ms)) => Some(Last { first, timestamp_ms }),
            _ => None,
        };
        self.first_ms = self.retained.first_timestamp_ms;
        let segments = &self.retained.segments;
        self.dirty.retain(|first| {
            segments.contains(first) && refused != Some(&Kind::Segment.name(self.stream, *first))
        });
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
            // The note goes first: what it does not ask for is not missed.
            if !is_too_much && !is_old(files, self.stream, segment, end, self.limits.age_max_ms, now_ms)
                || !files.notes.pass(&mut files.disk, self.stream, end)
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
        if !segments.clone().eq(self.retained.segments.iter().copied()) {
            self.retained.segments = segments.collect();
        }
        self.retained.first = self.segments.first().map_or(self.next, |segment| segment.first);
        self.retained.next = self.next;
        self.retained.last_chunk = self.last.map(|last| last.first);
        self.retained.bytes = self.segments.iter().map(|segment| segment.bytes).sum();
        self.retained.first_timestamp_ms = self.first_ms;
        self.retained.last_timestamp_ms = self.last.map(|last| last.timestamp_ms);
        self.kept_end = self.segments.last().map_or(0, |last| last.bytes);
    }
}

/// How many chunks have room in so many bytes.
fn count_within(chunks: &[NewChunk], room: u64) -> usize {
    let mut bytes = 0;
    let fits = chunks.iter().take_while(|chunk| {
        bytes += appender::bytes(chunk);
        bytes <= room
    });
    fits.count()
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
