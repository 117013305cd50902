//! Reads a stream's files when it is opened.
//!
//! ```text
//!  segments but the last   trusted: synced before the next one began, if appends sync; else until somebody reads them
//!  the last one            verified from the last entry of its index on, every chunk
//!       │ ends where a chunk ends ─────────────────────────────────────▶ good
//!       │ something else, and no whole chunk after it ─────────────────▶ interrupted: cut there
//!       │ something else, then a whole chunk, and between them
//!       │    a sector of zeros: power failed before it was written ────▶ interrupted: left in place, a new segment begins
//!       └ something else, then a whole chunk ──────────────────────────▶ damaged: nothing is written
//! ```
//!
//! What is synced is never cut, because a sync covers everything before it, too.
//!
//! The stream's note (`notes.rs`) says up to which offset everything must be there. If something is missing,
//! nothing is written and the stream is not opened: otherwise its offsets would be used again.

use std::io::{self, IoSlice};
use std::sync::Arc;

use super::chunk::{CHUNK_HEADER, ChunkHeader, ChunkPosition};
use super::files::{self, FILE_HEADER, Kind, SEGMENT_MAGIC};
use super::index::{self, Entry, Index};
use super::notes::Note;
use super::window::{Look, WINDOW_BYTES, Window};
use super::{Retained, STREAM_VERSION, StreamCut, StreamError};
use crate::disk::{Disk, read_all, write_all};

/// The minimum bytes that a disk writes or loses as one.
const SECTOR: u64 = 512;

/// The minimum number of zeros that count as a lost sector. Fewer zeros at the edge of a sector may be data.
const ZEROS_MIN: u64 = 8;

/// The bytes of a file that are searched for whole chunks at a time.
const SEARCH_BYTES: usize = 1 << 20;

/// A segment and its size on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub first: u64,
    /// The size of the segment's file in bytes. For the last segment: the bytes of its header and its good
    /// chunks.
    pub bytes: u64,
    /// The timestamp of the segment's newest chunk, once that chunk was read.
    pub newest_ms: Option<u64>,
}

/// The last chunk of a segment or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub first: u64,
    pub timestamp_ms: u64,
}

/// The result of an open.
#[derive(Debug)]
pub(super) struct Found {
    pub segments: Vec<Segment>,
    pub next: u64,
    pub last: Option<Last>,
    /// The index of the last segment.
    pub index: Index,
    /// True if the last segment may be written to.
    pub writable: bool,
    /// True if the file of the last segment ends with its last chunk.
    pub is_whole: bool,
    pub cut: Option<StreamCut>,
}

/// What power loss and refused writes have left of a stream.
#[derive(Default)]
pub(super) struct Left {
    /// The gap that power loss explains. Of several gaps the last one.
    pub gap: Option<StreamError>,
    /// The segments whose files end inside a chunk or inside their header, or have a chunk that overlaps the next segment, and where
    /// that begins in the file. The last segment is not among them.
    pub torn: Vec<(u64, u64)>,
}

/// Looks for missing entries: the newest segment or its end, and gaps between two segments. Returns an error
/// if only damage explains it. Returns a gap as a value if power loss may have left it. Such gaps can be
/// between any segments, because removed names may reappear one by one.
pub(super) fn missing<D: Disk>(
    disk: &mut D,
    stream: u64,
    firsts: &[u64],
    note: Option<(Note, bool)>,
) -> Result<Left, StreamError> {
    let guaranteed_to = guaranteed_to(note);
    if let Some((note, _)) = note.filter(|_| firsts.is_empty() && guaranteed_to > 0) {
        let file = Kind::Segment.name(stream, note.newest);
        return Err(StreamError::Missing { file, from: note.from, to: guaranteed_to });
    }
    if let Some((note, same_boot)) = note.filter(|(note, _)| guaranteed_to > note.newest) {
        let Note { newest, bytes, written, synced, .. } = note;
        let file = Kind::Segment.name(stream, newest);
        match firsts.last() {
            Some(&last) if last > newest => {}
            Some(&last) if last == newest => {
                let (found, _) = inspect(disk, stream, newest).map_err(io_error(stream, newest))?;
                if found < bytes && (same_boot || synced == written) {
                    let (walk, _) = walk(disk, stream, newest, u64::MAX).map_err(io_error(stream, newest))?;
                    return Err(StreamError::Damaged { file, offset: found, from: Some(walk.next) });
                }
            }
            _ => return Err(StreamError::Missing { file, from: newest, to: guaranteed_to }),
        }
    }
    let mut left = Left::default();
    // An older program may have added segments and removed others since, without updating the note.
    if let (Some((note, same_boot)), &[first, ..]) = (note, firsts)
        && first > note.from
        && firsts.last() == Some(&note.newest)
    {
        let file = Kind::Segment.name(stream, note.from);
        let error = StreamError::Missing { file, from: note.from, to: first };
        match same_boot {
            true => return Err(error),
            false => left.gap = Some(error),
        }
    }
    for pair in firsts.windows(2) {
        let (segment, to) = (pair[0], pair[1]);
        let (mut walk, stop) = walk(disk, stream, segment, to).map_err(io_error(stream, segment))?;
        let from = walk.next;
        let rest = match stop {
            Stop::There if walk.at < walk.length => walk.to(disk, u64::MAX),
            _ => Ok(stop),
        };
        if let Stop::Torn(at) | Stop::Overlaps(at) = rest.map_err(io_error(stream, segment))? {
            left.torn.push((segment, at));
        }
        // A reader of the segment reports corrupt chunks.
        if matches!(stop, Stop::EndOfFile | Stop::Torn(_) | Stop::Overlaps(_)) {
            let error = StreamError::Missing { file: Kind::Segment.name(stream, segment), from, to };
            // Removed names may reappear after power loss. But no power loss tears a chunk that was synced. What a refused write
            // has left looks the same: the note claims no sync before that was cut off.
            let is_damage = note.is_some_and(|(note, same_boot)| {
                note.from < to && (same_boot || (matches!(stop, Stop::Torn(_)) && note.synced >= to))
            });
            match is_damage {
                true => return Err(error),
                false => left.gap = Some(error),
            }
        }
    }
    Ok(left)
}

/// Returns the offset up to which everything was written and can be missing only because of damage.
pub(super) fn guaranteed_to(note: Option<(Note, bool)>) -> u64 {
    note.map_or(0, |(note, same_boot)| if same_boot { note.written.max(note.synced) } else { note.synced })
}

/// Why a walk over the chunks of a segment ended.
#[derive(Clone, Copy)]
enum Stop {
    /// The wanted offset is reached.
    There,
    /// The file ends between two chunks.
    EndOfFile,
    /// The file ends inside the chunk that begins at this position, or inside its own header, which begins at 0.
    Torn(u64),
    /// The chunk at this position ends after the wanted offset. If another segment begins there, the chunk is of a refused append.
    Overlaps(u64),
    /// The next bytes are no chunk, or not the next one.
    Corrupt,
}

/// A walk over the whole chunks of a segment. Reads only their heads, from the last entry of the index on.
struct Walk<F> {
    stream: u64,
    file: F,
    length: u64,
    window: Window,
    /// The position behind the last chunk, and the offset there.
    at: u64,
    next: u64,
    last: Option<Last>,
}

impl<F> Walk<F> {
    /// Goes on, up to the offset `end`.
    fn to<D: Disk<File = F>>(&mut self, disk: &mut D, end: u64) -> io::Result<Stop> {
        if self.length < FILE_HEADER as u64 {
            return Ok(Stop::Torn(0));
        }
        loop {
            if self.next >= end {
                return Ok(Stop::There);
            }
            let place = ChunkPosition { stream: self.stream, at: self.at };
            match self.window.look((&mut *disk, &mut self.file), place, WINDOW_BYTES)? {
                Look::Chunk(header) if header.first != self.next => return Ok(Stop::Corrupt),
                Look::Chunk(header) if self.at + header.bytes() > self.length => {
                    return Ok(Stop::Torn(self.at));
                }
                Look::Chunk(header) if header.next() > end => return Ok(Stop::Overlaps(self.at)),
                Look::Chunk(header) => {
                    (self.at, self.next) = (self.at + header.bytes(), header.next());
                    self.last = Some(Last { first: header.first, timestamp_ms: header.timestamp_ms });
                }
                Look::End => return Ok(Stop::EndOfFile),
                Look::Bad if self.is_in_head(disk)? => return Ok(Stop::Torn(self.at)),
                Look::Bad => return Ok(Stop::Corrupt),
            }
        }
    }

    /// Returns true if the file ends inside the header or filter of the next chunk.
    fn is_in_head<D: Disk<File = F>>(&mut self, disk: &mut D) -> io::Result<bool> {
        let bytes = self.window.fill((disk, &mut self.file), self.at, CHUNK_HEADER, WINDOW_BYTES)?;
        let Some(bytes) = bytes else { return Ok(true) };
        let header = ChunkHeader::decode(&bytes).filter(|header| header.first == self.next);
        Ok(header.is_some_and(|header| self.at + header.head() as u64 > self.length))
    }
}

/// Walks over the whole chunks of a segment, up to the offset `end`.
fn walk<D: Disk>(disk: &mut D, stream: u64, segment: u64, end: u64) -> io::Result<(Walk<D::File>, Stop)> {
    let mut file = disk.open(&Kind::Segment.name(stream, segment))?;
    let length = disk.len(&mut file)?;
    // The index may have entries for chunks that are lost.
    let is_before = |entry: &Entry| entry.first < end && entry.position < length;
    let entry = index::find_chunk((&mut *disk, &mut file), stream, segment, is_before)?;
    let (at, next) = entry.map_or((FILE_HEADER as u64, segment), |entry| (entry.position, entry.first));
    let mut walk = Walk { stream, file, length, window: Window::default(), at, next, last: None };
    let stop = walk.to(disk, end)?;
    Ok((walk, stop))
}

/// Cuts what [`missing`] has found behind the chunks of segments, because power loss or a refused write explains it. A reader
/// then finds that the segments end there. So that it finds the same in a segment without a whole header, writes one.
pub(super) fn cut_torn<D: Disk>(disk: &mut D, stream: u64, torn: &[(u64, u64)]) -> Result<(), StreamError> {
    let mut cut = |segment, at| {
        let mut file = disk.open(&Kind::Segment.name(stream, segment))?;
        disk.truncate(&mut file, at)?;
        if at < FILE_HEADER as u64 {
            write_all(disk, &mut file, at, &mut [IoSlice::new(&files::header(SEGMENT_MAGIC))])?;
        }
        disk.sync(&mut file)
    };
    torn.iter().try_for_each(|&(segment, at)| cut(segment, at).map_err(io_error(stream, segment)))
}

/// Returns what a damaged stream holds before the offset `end`, where its damage begins. `None` if that is nothing.
pub(super) fn readable<D: Disk>(
    disk: &mut D,
    stream: u64,
    firsts: &[u64],
    end: u64,
) -> io::Result<Option<Retained>> {
    let segments: Arc<[u64]> = firsts.iter().copied().filter(|&first| first < end).collect();
    let (Some(&first), Some(&newest)) = (segments.first(), segments.last()) else { return Ok(None) };
    let mut bytes = 0;
    for &segment in &*segments {
        bytes += inspect(disk, stream, segment)?.0;
    }
    let last = walk(disk, stream, newest, end)?.0.last;
    Ok(Some(Retained {
        first,
        next: end,
        last_chunk: last.map(|last| last.first),
        bytes,
        first_timestamp_ms: first_time(disk, stream, first)?,
        last_timestamp_ms: last.map(|last| last.timestamp_ms),
        segments,
    }))
}

/// Inspects the segments of a stream, at least one, in ascending order. Below `guaranteed_to` nothing may be
/// missing.
pub(super) fn recover<D: Disk>(
    disk: &mut D,
    stream: u64,
    firsts: &[u64],
    guaranteed_to: u64,
) -> Result<Found, StreamError> {
    let mut segments = Vec::with_capacity(firsts.len());
    for &first in firsts {
        let (bytes, version) = inspect(disk, stream, first).map_err(io_error(stream, first))?;
        if let Some(version) = version.filter(|&version| version > STREAM_VERSION) {
            return Err(StreamError::Newer { file: Kind::Segment.name(stream, first), version });
        }
        segments.push(Segment { first, bytes, newest_ms: None });
    }
    let Some(segment) = segments.last_mut() else { return Err(StreamError::NotOpen { stream }) };
    let first = segment.first;
    let (tail, cut) = Tail::read_whole(disk, stream, first, guaranteed_to)?;
    let mut index = tail.index;
    index.add(disk, stream, first, tail.entries);
    index.flush(disk, stream, first);
    segment.bytes = tail.end;
    let mut last = tail.last;
    // The segment is written to only if it was verified from its start. Otherwise a part before later synced
    // entries could be missing. If the index were lost then, an open would cut those entries together with
    // the missing part.
    let is_verified = tail.last.is_some() && tail.is_verified;
    let is_whole = match &cut {
        // The zeros may be damage after all, so the whole chunks after them are kept. Nobody reads them,
        // because the segment ends where the next one begins.
        Some(cut) if cut.left => false,
        // The end is cut before the segment is written to again. Otherwise power loss could bring old bytes
        // back between new ones.
        Some(_) => truncate(disk, stream, first, tail.end).is_ok(),
        None => true,
    };
    if last.is_none() && segments.len() > 1 {
        last = last_chunk(disk, stream, segments[segments.len() - 2].first, first).unwrap_or(None);
    }
    let writable = is_verified && is_whole;
    Ok(Found { segments, next: tail.next, last, index, writable, is_whole, cut })
}

/// Returns the last chunk of a segment that ends before `end`, where the next one begins. Stops before the
/// first corrupt chunk.
pub(super) fn last_chunk<D: Disk>(
    disk: &mut D,
    stream: u64,
    segment: u64,
    end: u64,
) -> io::Result<Option<Last>> {
    let mut file = disk.open(&Kind::Segment.name(stream, segment))?;
    let mut window = Window::default();
    let entry = index::find_chunk((&mut *disk, &mut file), stream, segment, |entry| entry.first < end)?;
    let (mut at, mut next) =
        entry.map_or((FILE_HEADER as u64, segment), |entry| (entry.position, entry.first));
    let mut last = None;
    while next < end
        && let Look::Chunk(header) =
            window.look((&mut *disk, &mut file), ChunkPosition { stream, at }, WINDOW_BYTES)?
        && header.first == next
    {
        (at, next) = (at + header.bytes(), header.next());
        last = Some(Last { first: header.first, timestamp_ms: header.timestamp_ms });
    }
    Ok(last)
}

/// Returns the timestamp of a segment's first chunk, if there is one.
pub(super) fn first_time<D: Disk>(disk: &mut D, stream: u64, segment: u64) -> io::Result<Option<u64>> {
    let mut file = disk.open(&Kind::Segment.name(stream, segment))?;
    let place = ChunkPosition { stream, at: FILE_HEADER as u64 };
    let look = Window::default().look((disk, &mut file), place, CHUNK_HEADER)?;
    Ok(match look {
        Look::Chunk(header) if header.first == segment => Some(header.timestamp_ms),
        _ => None,
    })
}

/// Returns the size of a segment in bytes, and its version if it has a header.
fn inspect<D: Disk>(disk: &mut D, stream: u64, first: u64) -> io::Result<(u64, Option<u32>)> {
    let mut file = disk.open(&Kind::Segment.name(stream, first))?;
    let bytes = disk.len(&mut file)?;
    let mut header = [0; FILE_HEADER];
    let read = read_all(disk, &mut file, 0, &mut header)?;
    Ok((bytes, files::version(&header[..read], SEGMENT_MAGIC)))
}

fn truncate<D: Disk>(disk: &mut D, stream: u64, first: u64, end: u64) -> io::Result<()> {
    let mut file = disk.open(&Kind::Segment.name(stream, first))?;
    disk.truncate(&mut file, end)?;
    disk.sync(&mut file)
}

/// The last segment, verified.
pub(super) struct Tail {
    /// The bytes of the header and good chunks; 0 if there is no chunk.
    end: u64,
    pub next: u64,
    last: Option<Last>,
    index: Index,
    /// True if the segment was verified from its start.
    is_verified: bool,
    /// The verified chunks, for the index if it ends too early.
    entries: Vec<Entry>,
    /// The bytes after `end`.
    bad: Option<Rest>,
}

/// The bytes after the last good chunk.
struct Rest {
    bytes: u64,
    /// True if there are whole chunks among these bytes.
    has_chunks: bool,
}

impl Tail {
    /// Reads the last segment. Returns an error if only damage explains what it has, or what it lacks below
    /// `guaranteed_to`. Also returns what an interrupted write has left.
    pub(super) fn read_whole<D: Disk>(
        disk: &mut D,
        stream: u64,
        segment: u64,
        guaranteed_to: u64,
    ) -> Result<(Self, Option<StreamCut>), StreamError> {
        let tail = Self::read(disk, stream, segment)?;
        let file = Kind::Segment.name(stream, segment);
        if tail.next < guaranteed_to {
            return Err(match tail.bad {
                Some(_) => {
                    let offset = tail.end.max(FILE_HEADER as u64);
                    StreamError::Damaged { file, offset, from: Some(tail.next) }
                }
                None => StreamError::Missing { file, from: tail.next, to: guaranteed_to },
            });
        }
        let cut = tail.bad.as_ref().map(|&Rest { bytes, has_chunks }| StreamCut {
            file,
            offset: tail.end,
            bytes,
            left: has_chunks,
        });
        Ok((tail, cut))
    }

    fn read<D: Disk>(disk: &mut D, stream: u64, segment: u64) -> Result<Self, StreamError> {
        let name = Kind::Segment.name(stream, segment);
        let io = |error| StreamError::Io { file: name.clone(), error };
        let mut file = disk.open(&name).map_err(io)?;
        let length = disk.len(&mut file).map_err(io)?;
        let mut header = [0; FILE_HEADER];
        read_all(disk, &mut file, 0, &mut header).map_err(io)?;
        let (end, next, entries) = (0, segment, Vec::new());
        let mut tail =
            Self { end, next, last: None, index: Index::EMPTY, is_verified: false, entries, bad: None };
        let has_header = length >= FILE_HEADER as u64 && files::version(&header, SEGMENT_MAGIC).is_some();
        if has_header {
            tail.walk(disk, &mut file, (stream, segment), length).map_err(io)?;
        }
        if tail.end < length {
            let from = tail.end.max(if has_header { FILE_HEADER as u64 } else { 0 });
            let bad = Bad { stream, from, next: tail.next, length };
            let whole = bad.whole_chunk(disk, &mut file).map_err(io)?;
            if let Some(at) = whole
                && !bad.has_lost_sector(disk, &mut file, at).map_err(io)?
            {
                // A crash does not explain these bytes, so they are damage.
                return Err(StreamError::Damaged { file: name, offset: from, from: Some(tail.next) });
            }
            tail.bad = Some(Rest { bytes: length - tail.end, has_chunks: whole.is_some() });
        }
        Ok(tail)
    }

    /// Goes over the chunks from the last entry of the index on.
    fn walk<D: Disk>(
        &mut self,
        disk: &mut D,
        file: &mut D::File,
        (stream, segment): (u64, u64),
        length: u64,
    ) -> io::Result<()> {
        let mut window = Window::default();
        let (mut at, mut below) = (FILE_HEADER as u64, length);
        while let Some((number, entry)) = index::find(disk, stream, segment, |entry| entry.position < below) {
            let place = ChunkPosition { stream, at: entry.position };
            // An entry of the index may outlive the chunk to which it points.
            if let Look::Chunk(header) = window.look((&mut *disk, &mut *file), place, WINDOW_BYTES)?
                && header.first == entry.first
                && window.chunk((&mut *disk, &mut *file), place, &header, WINDOW_BYTES)?.is_some()
            {
                (at, self.next) = (entry.position, entry.first);
                self.index = Index::after(number, &entry);
                break;
            }
            below = entry.position;
        }
        self.is_verified = at == FILE_HEADER as u64;
        loop {
            let place = ChunkPosition { stream, at };
            let look = window.look((&mut *disk, &mut *file), place, WINDOW_BYTES)?;
            let Look::Chunk(header) = look else { break };
            let is_next = header.first == self.next
                && self.last.is_none_or(|last| last.timestamp_ms <= header.timestamp_ms);
            let whole = window.chunk((&mut *disk, &mut *file), place, &header, WINDOW_BYTES)?;
            if !is_next || whole.is_none() {
                break;
            }
            self.entries.push(Entry { first: header.first, timestamp_ms: header.timestamp_ms, position: at });
            at += header.bytes();
            (self.end, self.next) = (at, header.next());
            self.last = Some(Last { first: header.first, timestamp_ms: header.timestamp_ms });
        }
        Ok(())
    }
}

/// The bytes after the last good chunk of a file.
pub(super) struct Bad {
    pub stream: u64,
    /// The position where the next chunk should be.
    pub from: u64,
    /// The first offset of that chunk.
    pub next: u64,
    /// The length of the file in bytes.
    pub length: u64,
}

impl Bad {
    /// Returns the first later position with a whole chunk.
    pub(super) fn whole_chunk<D: Disk>(&self, disk: &mut D, file: &mut D::File) -> io::Result<Option<u64>> {
        let (mut search, mut window) = (Window::default(), Window::default());
        let mut from = self.from;
        while from + (CHUNK_HEADER as u64) <= self.length {
            let bytes = (self.length - from).min(SEARCH_BYTES as u64) as usize;
            let Some(bytes) = search.fill((&mut *disk, &mut *file), from, bytes, 0)? else { break };
            for (at, header) in bytes.windows(CHUNK_HEADER).enumerate() {
                let Some(header) = ChunkHeader::decode(header) else { continue };
                let place = ChunkPosition { stream: self.stream, at: from + at as u64 };
                let plausible = header.first >= self.next && place.at > self.from;
                if !plausible || place.at + header.bytes() > self.length {
                    continue;
                }
                let look = window.look((&mut *disk, &mut *file), place, CHUNK_HEADER)?;
                if matches!(look, Look::Chunk(_))
                    && window.chunk((&mut *disk, &mut *file), place, &header, 0)?.is_some()
                {
                    return Ok(Some(place.at));
                }
            }
            from += (bytes.len() - CHUNK_HEADER + 1) as u64;
        }
        Ok(None)
    }

    /// Returns true if a sector between the bad place and `end`, or the inspected part of one, has only
    /// zeros.
    fn has_lost_sector<D: Disk>(&self, disk: &mut D, file: &mut D::File, end: u64) -> io::Result<bool> {
        let mut window = Window::default();
        let mut at = self.from;
        while at < end {
            let sector = end.min(at - at % SECTOR + SECTOR);
            let bytes = window.fill((&mut *disk, &mut *file), at, (sector - at) as usize, WINDOW_BYTES)?;
            let zero = bytes.is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0));
            if zero && sector - at >= ZEROS_MIN {
                return Ok(true);
            }
            at = sector;
        }
        Ok(false)
    }
}

fn io_error(stream: u64, first: u64) -> impl FnOnce(io::Error) -> StreamError {
    move |error| StreamError::Io { file: Kind::Segment.name(stream, first), error }
}
