//! Reading streams, whole chunks at a time.

use std::collections::VecDeque;
use std::io;

use super::chunk::{ChunkHeader, ChunkPosition};
use super::files::{self, FILE_HEADER, Kind, SEGMENT_MAGIC};
use super::index::{self, Entry};
use super::window::{Look, Window};
use super::{Chunk, ChunkJob, Chunks, Claim, Position, ReadFrom, STREAM_VERSION, StreamError};
use crate::disk::{Disk, read_all};

/// The maximum number of segments kept open. Small, because a removed segment keeps its disk space while it
/// is open.
pub const OPEN_READ_MAX: usize = 64;

/// The minimum and the maximum bytes per read: small chunks should not cost a read each, and a read is
/// bounded whatever the job asks for.
const READ_BYTES_MIN: usize = 16 << 10;
const READ_BYTES_MAX: usize = 1 << 20;

/// The bytes per read while unwanted chunks are skipped: enough for the header of a chunk and its filter.
const SKIP_BYTES: usize = 512;

/// The maximum number of unwanted chunks that a job inspects, and the bytes that it reads for that. Then the
/// job answers with what it has, so that no job holds the thread for long.
pub const SCAN_CHUNKS_MAX: u32 = 4096;
pub const SCAN_BYTES_MAX: u64 = 4 << 20;

/// The maximum number of reads of a job for heads. A read takes a seek on a cold disk, and readers wait meanwhile.
pub const HEADS_MAX: u32 = 32;

/// Reads the streams of a directory, even while they are appended to. Memory: the chunks being read, and a
/// few open files.
pub struct StreamReader<D: Disk> {
    disk: D,
    /// The open segments by stream and first offset. The most recently used one is the last.
    open: VecDeque<((u64, u64), D::File)>,
}

/// What a job has read so far.
#[derive(Default)]
struct Reading {
    chunks: Vec<Chunk>,
    /// The bytes of the chunks that were read so far.
    taken: usize,
    /// The number of unwanted chunks that were inspected so far. A job for heads counts only those that took a read.
    skipped: u32,
    /// The bytes read from the disk for unwanted chunks.
    read: u64,
    /// The size of a chunk for which there was no room.
    needs: Option<u64>,
}

impl Reading {
    fn has_reached_limit(&self, job: &ChunkJob) -> bool {
        self.skipped >= (if job.heads { HEADS_MAX } else { SCAN_CHUNKS_MAX }) || self.read >= SCAN_BYTES_MAX
    }
}

/// The reason why a read stopped.
enum Trouble {
    /// The segment does not exist, because it was removed.
    Removed,
    Error(StreamError),
}

impl From<StreamError> for Trouble {
    fn from(error: StreamError) -> Self {
        Self::Error(error)
    }
}

impl<D: Disk> StreamReader<D> {
    /// Creates a reader of the directory that [`super::Streams`] uses. Does not lock it.
    pub fn new(disk: D) -> Self {
        Self { disk, open: VecDeque::with_capacity(OPEN_READ_MAX) }
    }

    /// Reads chunks from [`ChunkJob::from`] on, in their order. If segments were removed, it continues at the
    /// first existing one. If a power failure took the end of a segment, it continues at the next; the
    /// offsets show the gap.
    ///
    /// Inspects at most [`SCAN_CHUNKS_MAX`] unwanted chunks, or makes [`HEADS_MAX`] reads of heads, and inspects at most
    /// [`SCAN_BYTES_MAX`] bytes of them. Finding a time or an offset in a segment without an index may read the whole segment.
    ///
    /// Closes the segments of the stream that the job does not have, because they keep their disk space while they are open.
    ///
    /// # Errors
    /// [`StreamError::Damaged`], [`StreamError::Newer`], [`StreamError::Io`]. If there are chunks before the
    /// damage, the job returns those. The next job at that place gets the error, every time.
    pub fn read(&mut self, job: &ChunkJob) -> Result<Chunks, StreamError> {
        self.open.retain(|((stream, segment), _)| {
            *stream != job.stream || job.segments.binary_search(segment).is_ok()
        });
        let result = self.read_again_if_damaged(job);
        if job.heads {
            // The job does not return to these segments.
            self.open.retain(|((stream, _), _)| *stream != job.stream);
        }
        result
    }

    fn read_again_if_damaged(&mut self, job: &ChunkJob) -> Result<Chunks, StreamError> {
        let result = self.try_read(job);
        if !matches!(result, Err(StreamError::Damaged { .. })) {
            return result;
        }
        // The open files of the stream are closed, because a segment whose first write failed may have been
        // replaced.
        self.open.retain(|((stream, _), _)| *stream != job.stream);
        self.try_read(job)
    }

    fn try_read(&mut self, job: &ChunkJob) -> Result<Chunks, StreamError> {
        let mut next = self.locate(job)?;
        let mut reading = Reading::default();
        let end = loop {
            if next.offset >= job.until {
                break true;
            }
            match self.read_segment(job, &mut next, &mut reading) {
                Ok(false) => break next.offset >= job.until,
                // The chunks before the error are good. The next job gets the error.
                Err(Trouble::Error(_)) if !reading.chunks.is_empty() => break false,
                Err(Trouble::Error(error)) => return Err(error),
                Ok(true) | Err(Trouble::Removed) => match after(job, next.segment) {
                    Some(segment) => next = start(segment),
                    None => {
                        next.offset = job.until;
                        break true;
                    }
                },
            }
        };
        Ok(Chunks { chunks: reading.chunks, next, end, needs: reading.needs })
    }

    /// Returns where to begin; at or after `until` if there is nothing to read.
    fn locate(&mut self, job: &ChunkJob) -> Result<Position, StreamError> {
        let nothing = Position { segment: job.until, at: FILE_HEADER as u64, offset: job.until };
        let Some(&first) = job.segments.first() else { return Ok(nothing) };
        match job.from {
            ReadFrom::First => Ok(start(first)),
            ReadFrom::At(position) if in_segment(job, position.offset) == Some(position.segment) => {
                Ok(position)
            }
            ReadFrom::At(Position { offset, .. }) | ReadFrom::Offset(offset) if offset >= job.until => {
                Ok(Position { offset, ..nothing })
            }
            ReadFrom::At(Position { offset, .. }) | ReadFrom::Offset(offset) => {
                let Some(segment) = in_segment(job, offset) else { return Ok(start(first)) };
                self.find(job, segment, |first, _| first <= offset, |header| header.next() > offset)
            }
            ReadFrom::Time(ms) => {
                let Some(segment) = self.segment_of_time(job, ms)? else { return Ok(nothing) };
                self.find(job, segment, |_, time| time < ms, |header| header.timestamp_ms >= ms)
            }
            ReadFrom::Last => {
                // The last segment may have no chunk yet.
                let mut segments = job.segments.iter().rev().filter(|&&segment| segment < job.until);
                let Some(&segment) = segments.next() else { return Ok(nothing) };
                self.find(job, segment, |first, _| first < job.until, |header| header.next() >= job.until)
            }
        }
    }

    /// Finds the first chunk, in this segment or later ones, for which `is_it` is true. `is_before` tells
    /// which entries of the index are before that chunk or at it: it is true up to some entry and false after
    /// it.
    fn find(
        &mut self,
        job: &ChunkJob,
        segment: u64,
        is_before: impl Fn(u64, u64) -> bool,
        mut is_it: impl FnMut(&ChunkHeader) -> bool,
    ) -> Result<Position, StreamError> {
        let mut next = start(segment);
        if let Ok((disk, file)) = self.handle(job.stream, segment) {
            // The index may have entries for chunks that are lost.
            let length = disk.len(file).map_err(io_error(job.stream, segment))?;
            let entry = index::find_chunk((disk, file), job.stream, segment, |entry| {
                entry.position < length
                    && entry.first < job.until
                    && is_before(entry.first, entry.timestamp_ms)
            });
            if let Some(Entry { first, position, .. }) = entry.map_err(io_error(job.stream, segment))? {
                next = Position { segment, at: position, offset: first };
            }
        }
        loop {
            match self.skip_to(job, &mut next, &mut is_it) {
                Ok(true) => return Ok(next),
                // The last segment may have no header yet: its first write was interrupted.
                Ok(false) | Err(Trouble::Removed) => match after(job, next.segment) {
                    Some(segment) if segment < job.until => next = start(segment),
                    _ => return Ok(Position { offset: job.until, ..next }),
                },
                Err(Trouble::Error(error)) => return Err(error),
            }
        }
    }

    /// Moves `next` to the chunk for which `is_it` is true. Returns false if the segment has none.
    fn skip_to(
        &mut self,
        job: &ChunkJob,
        next: &mut Position,
        mut is_it: impl FnMut(&ChunkHeader) -> bool,
    ) -> Result<bool, Trouble> {
        let end = end(job, next.segment);
        let (disk, file) = self.handle(job.stream, next.segment)?;
        let (mut window, mut want) = (Window::default(), READ_BYTES_MIN);
        while next.offset < end {
            let Some(header) = look(&mut window, (disk, file), job, *next, want)? else { return Ok(false) };
            if is_it(&header) {
                return Ok(true);
            }
            want = if header.bytes() < READ_BYTES_MIN as u64 / 2 { READ_BYTES_MIN } else { SKIP_BYTES };
            advance(next, &header);
        }
        Ok(false)
    }

    /// Returns the last segment whose first chunk is older; the first segment if none is. Returns `None` if
    /// no segment has anything to read.
    fn segment_of_time(&mut self, job: &ChunkJob, ms: u64) -> Result<Option<u64>, StreamError> {
        let segments: Vec<u64> = job.segments.iter().copied().filter(|&first| first < job.until).collect();
        let (mut low, mut high) = (0, segments.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let mut older = false;
            let found = self.skip_to(job, &mut start(segments[middle]), |header| {
                older = header.timestamp_ms < ms;
                true
            });
            match found {
                Err(Trouble::Error(error)) => return Err(error),
                // The segment was removed, and so were all segments before it.
                Err(Trouble::Removed) => low = middle + 1,
                Ok(_) if older => low = middle + 1,
                Ok(_) => high = middle,
            }
        }
        Ok(segments.get(low.saturating_sub(1)).copied())
    }

    /// Reads chunks from `next` on. Returns true if the segment has no more.
    fn read_segment(
        &mut self,
        job: &ChunkJob,
        next: &mut Position,
        reading: &mut Reading,
    ) -> Result<bool, Trouble> {
        let end = end(job, next.segment);
        let (disk, file) = self.handle(job.stream, next.segment)?;
        // A job for heads skips every chunk, and a large read would read their data.
        let most = if job.heads { 0 } else { job.bytes_max as usize };
        let read_bytes = most.clamp(READ_BYTES_MIN, READ_BYTES_MAX);
        let held = job.claim.as_ref().map(|claim| claim.held.clone());
        let (mut window, mut want) = (Window::counted(held), read_bytes);
        while next.offset < end {
            let before = window.read;
            let Some(header) = look(&mut window, (disk, file), job, *next, want)? else { return Ok(true) };
            let place = ChunkPosition { stream: job.stream, at: next.at };
            if job.heads {
                let length = disk.len(file).map_err(io_error(job.stream, next.segment))?;
                if next.at + header.bytes() > length {
                    return Err(damaged(job.stream, *next).into());
                }
            }
            let is_wanted = match &job.wanted {
                _ if job.heads => false,
                Some(wanted) => {
                    let head = window.fill((disk, file), next.at, header.head(), want);
                    let head = head.map_err(io_error(job.stream, next.segment))?.unwrap_or_default();
                    wanted.may_match(header.bloom_of(&head).unwrap_or_default())
                }
                None => true,
            };
            if !is_wanted {
                reading.skipped += u32::from(!job.heads || window.read > before);
                reading.read += window.read - before;
                want = if header.bytes() < read_bytes as u64 / 2 { read_bytes } else { SKIP_BYTES };
                advance(next, &header);
                if reading.has_reached_limit(job) {
                    return Ok(false);
                }
                continue;
            }
            let length = header.bytes() as usize;
            if reading.taken > 0 && reading.taken + length > most {
                return Ok(false);
            }
            if let Some(Claim { held, reserved }) = &job.claim
                && length as u64 > *reserved
                && !held.has_room(length as u64, *reserved + window.len() as u64)
            {
                reading.needs = Some(length as u64);
                return Ok(false);
            }
            let chunk = window.chunk((disk, file), place, &header, read_bytes);
            let chunk = chunk.map_err(io_error(job.stream, next.segment))?;
            let Some(chunk) = chunk else { return Err(damaged(job.stream, *next).into()) };
            reading.taken += length;
            let (first, entries, timestamp_ms) = (header.first, header.entries, header.timestamp_ms);
            reading.chunks.push(Chunk { first, entries, timestamp_ms, data: chunk.slice(header.head()..) });
            advance(next, &header);
        }
        // This segment is read to its end. Another segment may follow.
        Ok(next.offset < job.until)
    }

    /// Returns the segment's file. Its header was checked when it was opened.
    fn handle(&mut self, stream: u64, segment: u64) -> Result<(&mut D, &mut D::File), Trouble> {
        let known = self.open.iter().position(|(open, _)| *open == (stream, segment));
        let handle = match known.and_then(|at| self.open.remove(at)) {
            Some((_, handle)) => handle,
            None => open(&mut self.disk, stream, segment)?,
        };
        if self.open.len() == OPEN_READ_MAX {
            self.open.pop_front();
        }
        self.open.push_back(((stream, segment), handle));
        let (_, handle) = self.open.back_mut().ok_or(Trouble::Removed)?;
        Ok((&mut self.disk, handle))
    }
}

fn open<D: Disk>(disk: &mut D, stream: u64, segment: u64) -> Result<D::File, Trouble> {
    let file = Kind::Segment.name(stream, segment);
    let mut handle = disk.open(&file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Trouble::Removed,
        _ => StreamError::Io { file: file.clone(), error }.into(),
    })?;
    let mut header = [0; FILE_HEADER];
    read_all(disk, &mut handle, 0, &mut header).map_err(io_error(stream, segment))?;
    match files::version(&header, SEGMENT_MAGIC) {
        Some(STREAM_VERSION) => Ok(handle),
        Some(version) if version > STREAM_VERSION => Err(StreamError::Newer { file, version }.into()),
        _ => Err(StreamError::Damaged { file, offset: 0, from: Some(segment) }.into()),
    }
}

/// Returns the header of the chunk at `next`; `None` if the file ends there.
fn look<D: Disk>(
    window: &mut Window,
    file: (&mut D, &mut D::File),
    job: &ChunkJob,
    next: Position,
    want: usize,
) -> Result<Option<ChunkHeader>, StreamError> {
    let place = ChunkPosition { stream: job.stream, at: next.at };
    match window.look(file, place, want).map_err(io_error(job.stream, next.segment))? {
        Look::Chunk(header) if header.first == next.offset => Ok(Some(header)),
        Look::End if after(job, next.segment).is_some() => Ok(None),
        _ => Err(damaged(job.stream, next)),
    }
}

fn advance(next: &mut Position, header: &ChunkHeader) {
    next.at += header.bytes();
    next.offset = header.next();
}

fn start(segment: u64) -> Position {
    Position { segment, at: FILE_HEADER as u64, offset: segment }
}

/// Returns the first offset of the segment after this one, even if this one was removed.
fn after(job: &ChunkJob, segment: u64) -> Option<u64> {
    job.segments.iter().copied().find(|&first| first > segment)
}

/// Returns the offset at which reading this segment must stop.
fn end(job: &ChunkJob, segment: u64) -> u64 {
    after(job, segment).map_or(job.until, |next| next.min(job.until))
}

/// Returns the segment of this offset; `None` if it was removed.
fn in_segment(job: &ChunkJob, offset: u64) -> Option<u64> {
    job.segments.iter().copied().rfind(|&first| first <= offset)
}

fn damaged(stream: u64, at: Position) -> StreamError {
    StreamError::Damaged {
        file: Kind::Segment.name(stream, at.segment),
        offset: at.at,
        from: Some(at.offset),
    }
}

fn io_error(stream: u64, segment: u64) -> impl FnOnce(io::Error) -> StreamError {
    move |error| StreamError::Io { file: Kind::Segment.name(stream, segment), error }
}
