//! One open stream.
//!
//! ```text
//!              append             written, or with sync: synced
//!   confirmed ────────▶ written ───────────────────────────────▶ confirmed     retention, when a segment was added
//!       ▲                  │ a write or a sync is refused            │ with sync: chunks that did not fit
//!       └──────────────────┘ cut back; the last segment is           └───▶ written, to the next segment
//!                            never written again
//! ```
//!
//! Others learn only of what is confirmed.
//!
//! **With sync, a segment begins only when everything before it is synced**, including its name. So power
//! loss can damage only the last segment, which an open verifies. An append that goes to several segments
//! takes a sync for each.
//!
//! What is cut back is synced, too, before the note claims anything behind it. Otherwise power loss could bring it back, so that the
//! segment ends inside a chunk like a damaged one.

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

/// Says when an append is answered: at once, or after a sync.
pub(super) enum Appended {
    Now(Result<Retained, AppendFailure>),
    WhenSynced(StreamSyncJob),
}

pub(super) struct Stream {
    stream: u64,
    limits: StreamLimits,
    /// What the owner and the readers know of the stream: only what is confirmed.
    retained: Retained,
    /// The number of confirmed bytes in the last of its segments.
    confirmed_end: u64,
    /// All segments that are written, ascending, including what is not confirmed yet. The last one may have
    /// no chunk.
    segments: Vec<Segment>,
    next: u64,
    last: Option<Last>,
    /// The timestamp of the first chunk.
    first_ms: Option<u64>,
    index: Index,
    /// True if the last segment may be appended to.
    writable: bool,
    /// The first offsets of the segments that may be unsynced, ascending.
    dirty: Vec<u64>,
    /// False if the names of segments may be unsynced.
    named: bool,
    /// Entries before this offset may be missing: they were missing when the stream was opened.
    gap_to: u64,
    /// All entries before this offset are known to be synced, except those that are missing (see `gap_to`).
    synced_to: u64,
    /// True if `dirty` contains everything that is unsynced, no sync of it has failed, and no segment has the rest of a refused
    /// append behind its chunks. After power loss such a rest could be taken for a synced chunk that was cut off.
    unsynced_is_known: bool,
    /// The last note of the stream that this process has written.
    noted: Option<Note>,
    /// True if a note must be written when the streams become idle.
    note_is_due: bool,
    /// True if a segment was added since the limits were last applied.
    segment_added: bool,
    waiting: Option<Waiting>,
}

/// An append that waits for a sync.
struct Waiting {
    shard: u32,
    /// The chunks that are not synced.
    chunks: Vec<NewChunk>,
    /// The number of these chunks that are written and are being synced.
    written: usize,
}

/// The number of segments that an open takes for unsynced. A killed process leaves the last one unsynced. If
/// it did not sync, it may have completed the one before just then.
const FOUND_DIRTY: usize = 2;

/// The maximum number of segments that an open takes for unsynced, if the note says up to which offset the
/// stream was synced in this boot. If there are more, the note claims no further syncs until the next boot.
const FOUND_DIRTY_MAX: usize = 64;

impl Stream {
    /// Opens the stream from its files.
    pub(super) fn open<D: Disk>(
        files: &mut Files<D>,
        stream: u64,
        firsts: &[u64],
        limits: StreamLimits,
    ) -> Result<(Self, Option<StreamCut>), StreamError> {
        let mut opened = Self {
            stream,
            limits,
            retained: Retained::default(),
            confirmed_end: 0,
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
            unsynced_is_known: firsts.is_empty(),
            noted: None,
            note_is_due: false,
            segment_added: false,
            waiting: None,
        };
        let mut cut = None;
        let note = files.notes.get(stream);
        // `missing` returns an error if only damage explains what is missing.
        let left = files.missing(stream, firsts)?;
        if let Some(StreamError::Missing { to, .. }) = left.gap {
            opened.gap_to = to;
        }
        files.cut_torn(stream, &left.torn)?;
        let mut is_whole = true;
        if let Some(&first) = firsts.first() {
            let found = recover::recover(&mut files.disk, stream, firsts, recover::guaranteed_to(note))?;
            opened.synced_to = note.map_or(0, |(note, _)| note.synced);
            // A segment that ends there may have been cut and not synced since.
            let known = firsts.partition_point(|&first| first < opened.synced_to).saturating_sub(1);
            let [last_two, most] = [FOUND_DIRTY, FOUND_DIRTY_MAX].map(|n| firsts.len().saturating_sub(n));
            is_whole = found.is_whole;
            opened.unsynced_is_known =
                is_whole && known >= most && note.is_some_and(|(_, same_boot)| same_boot);
            let dirty = if opened.unsynced_is_known { known.min(last_two) } else { last_two };
            opened.first_ms = recover::first_time(&mut files.disk, stream, first)
                .map_err(StreamError::io(Kind::Segment.name(stream, first)))?;
            (opened.segments, opened.next, opened.last) = (found.segments, found.next, found.last);
            (opened.index, opened.writable, cut) = (found.index, found.writable, found.cut);
            // Earlier segments were synced when the next one began, or the system has had time to write them.
            opened.dirty.extend(&firsts[dirty..]);
        }
        opened.confirm();
        if note.is_some_and(|(note, _)| files.notes.is_of_another_boot(&note)) {
            // Everything found has survived a restart of the machine, so it is synced. The note says so before
            // anything is appended, because later there will be unsynced chunks, too.
            opened.synced_to = opened.next;
            opened.unsynced_is_known = opened.note(files) && is_whole;
        }
        Ok((opened, cut))
    }

    /// Sets the limits, and removes segments that exceed them.
    pub(super) fn limit<D: Disk>(
        &mut self,
        files: &mut Files<D>,
        limits: StreamLimits,
        now_ms: u64,
    ) -> Retained {
        self.limits = limits;
        if self.waiting.is_none() {
            self.retain(files, now_ms);
            self.confirm();
        }
        self.retained.clone()
    }

    /// Syncs what an open has found, and waits for it.
    pub(super) fn sync_found<D: Disk>(&mut self, files: &mut Files<D>) -> Result<(), StreamError> {
        if !self.is_synced() {
            let end = self.begin_sync(files)?.run();
            end.result.map_err(|(file, error)| StreamError::Io { file, error })?;
            self.synced();
        }
        Ok(())
    }

    /// Returns true if appending these chunks is one small write to the end of the last segment.
    pub(super) fn has_room(&self, chunks: &[NewChunk]) -> bool {
        chunks.iter().map(appender::bytes).sum::<u64>() <= self.room().min(AT_ONCE_BYTES_MAX)
    }

    /// Writes chunks. If one cannot be written, the chunks before it are still confirmed.
    pub(super) fn append<D: Disk>(
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

    /// Appends chunks without sync; the answer comes when they are written.
    pub(super) fn append_unsynced<D: Disk>(
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

    /// Writes as many chunks as fit one segment, and begins to sync it. If a new segment is needed and
    /// earlier ones are unsynced, only begins to sync those.
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

    /// Takes the result of the sync that an append waits for. Returns the shard, and the answer or the next
    /// sync.
    pub(super) fn end_sync<D: Disk>(
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

    /// Writes the note if a segment was added or something was synced. Returns true if other news is left for
    /// [`Stream::note`], when the streams become idle, and this was not returned since the last note.
    pub(super) fn note_if_needed<D: Disk>(&mut self, files: &mut Files<D>) -> bool {
        let Some(note) = self.next_note() else { return false };
        let at_once = |note: &Note| (note.from, note.newest, note.synced);
        if self.noted.is_none_or(|noted| at_once(&note) != at_once(&noted)) {
            self.note(files);
            return false;
        }
        !std::mem::replace(&mut self.note_is_due, true)
    }

    /// Writes the note. Returns false if the disk refuses.
    pub(super) fn note<D: Disk>(&mut self, files: &mut Files<D>) -> bool {
        self.note_is_due = false;
        let Some(note) = self.next_note() else { return true };
        let is_written = files.notes.put(&mut files.disk, self.stream, note);
        if is_written {
            self.noted = Some(note);
        }
        is_written
    }

    /// Returns the note to write, if it differs from the last one.
    fn next_note(&self) -> Option<Note> {
        let newest = *self.retained.segments.last()?;
        let (bytes, written, synced) =
            (self.confirmed_end, self.retained.next, self.synced_to.min(self.retained.next));
        let from = self.gap_to.max(self.retained.first);
        let note = Note { from, newest, bytes, written, synced, ..Note::default() };
        (self.noted != Some(note)).then_some(note)
    }

    /// The first offsets of the segments with files, ascending.
    pub(super) fn segments(&self) -> impl Iterator<Item = u64> + '_ {
        self.segments.iter().map(|segment| segment.first)
    }

    /// The first offsets of the segments that may have files, including one whose first write failed.
    pub(super) fn files(&self) -> impl Iterator<Item = u64> + '_ {
        self.segments().chain([self.next])
    }

    /// Returns the shard of the unanswered append, and its unconfirmed chunks.
    pub(super) fn into_unanswered(self) -> Option<(u32, Vec<NewChunk>)> {
        self.waiting.map(|Waiting { shard, chunks, .. }| (shard, chunks))
    }

    fn confirm_written<D: Disk>(&mut self, files: &mut Files<D>) {
        if std::mem::take(&mut self.segment_added) {
            self.retain(files, self.last.map_or(0, |last| last.timestamp_ms));
        }
        self.confirm();
    }

    /// Returns true if everything in the stream would survive power loss.
    fn is_synced(&self) -> bool {
        self.dirty.is_empty() && self.named
    }

    fn synced(&mut self) {
        if self.unsynced_is_known {
            self.synced_to = self.next;
        }
        self.dirty.clear();
        self.named = true;
    }

    /// Returns how many bytes may still go into the last segment.
    fn room(&self) -> u64 {
        let last = self.segments.last().filter(|_| self.writable);
        last.map_or(0, |last| self.limits.segment_bytes.saturating_sub(last.bytes))
    }

    fn failure(&self, error: StreamError, chunks: Vec<NewChunk>) -> AppendFailure {
        AppendFailure { error, chunks, retained: Some(Box::new(self.retained.clone())) }
    }

    /// Checks that these are valid chunks, and the next ones. Raises timestamps that decrease.
    fn check(&self, chunks: &mut [NewChunk]) -> Result<(), StreamError> {
        let invalid = |why| Err(StreamError::Invalid { stream: self.stream, why });
        if self.waiting.is_some() {
            return invalid("another append is in flight");
        }
        if chunks.is_empty() {
            return invalid("an append has no chunks");
        }
        let (mut next, mut least) = (self.next, self.last.map_or(0, |last| last.timestamp_ms));
        for chunk in chunks {
            if chunk.first != next {
                return invalid("a chunk does not follow the one before");
            }
            if chunk.entries == 0 || chunk.data.is_empty() || chunk.data.len() > DATA_MAX {
                return invalid("a chunk has no entries, or is too large");
            }
            chunk.timestamp_ms = chunk.timestamp_ms.max(least);
            least = chunk.timestamp_ms;
            let Some(behind) = next.checked_add(u64::from(chunk.entries)) else {
                return invalid("there are no offsets left");
            };
            if i64::try_from(least).is_err() {
                return invalid("a chunk's time is too large");
            }
            next = behind;
        }
        Ok(())
    }

    /// Writes as many chunks as fit one segment, at least one. Returns how many.
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
                    true => self.cut_back(files, segment, at),
                    // The segment has no confirmed chunk, so it is removed. If the disk keeps something of
                    // it, the next chunk that is written replaces it.
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

    /// Cuts what was written of a refused append from the last segment, and includes that in the next sync.
    fn cut_back<D: Disk>(&mut self, files: &mut Files<D>, segment: u64, end: u64) {
        self.unsynced_is_known &= files.abandon(self.stream, segment, end);
        if self.dirty.last() != Some(&segment) {
            self.dirty.push(segment);
        }
    }

    /// Notes that a segment was created, or an empty one replaced.
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
        (self.named, self.segment_added) = (false, true);
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

    /// Returns the stream to the state that is confirmed. The last segment is never written again. If the
    /// sync of a file was refused, that file is not synced again, because the system could report success
    /// although data is lost.
    fn roll_back<D: Disk>(&mut self, files: &mut Files<D>, refused: Option<&str>) {
        self.index.cut(self.confirmed_end);
        // There is at most one segment to remove. The next segment has the same name and replaces what the
        // disk keeps of it.
        for segment in self.segments.drain(self.retained.segments.len()..) {
            self.index = Index::EMPTY;
            drop(files.remove(self.stream, segment.first));
        }
        if let Some(last) = self.segments.last_mut().filter(|last| last.bytes > self.confirmed_end) {
            last.bytes = self.confirmed_end;
            let first = last.first;
            self.cut_back(files, first, self.confirmed_end);
        }
        self.writable = false;
        self.unsynced_is_known &= refused.is_none();
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

    /// Removes segments from the front while the limits are exceeded. If the disk refuses, the next call
    /// tries again.
    fn retain<D: Disk>(&mut self, files: &mut Files<D>, now_ms: u64) {
        let mut bytes: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
        let mut gone = 0;
        while gone + 1 < self.segments.len() {
            let end = self.segments[gone + 1].first;
            let segment = &mut self.segments[gone];
            let is_too_much = self.limits.bytes_max.is_some_and(|most| bytes > most);
            // The note is written first, so that removed entries do not count as missing.
            if !is_too_much && !is_old(files, self.stream, segment, end, self.limits.age_max_ms, now_ms)
                || !files.notes.note_removal(&mut files.disk, self.stream, end)
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

    /// Confirms what is written, so that the owner and readers learn of it.
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
        self.confirmed_end = self.segments.last().map_or(0, |last| last.bytes);
    }
}

/// Returns how many chunks fit into `room` bytes.
fn count_within(chunks: &[NewChunk], room: u64) -> usize {
    let mut bytes = 0;
    let fits = chunks.iter().take_while(|chunk| {
        bytes += appender::bytes(chunk);
        bytes <= room
    });
    fits.count()
}

/// Returns true if the newest chunk of a segment is too old. `end` is where the next segment begins.
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
