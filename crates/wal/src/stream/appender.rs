//! Writing the files of streams, with a limited number of open files.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use super::chunk::{ChunkHeader, ChunkPosition};
use super::files::{self, Kind, SEGMENT_MAGIC, VERSION_BYTES, VERSION_FILE};
use super::index::Entry;
use super::notes::Notes;
use super::recover::Left;
use super::{NewChunk, STREAM_VERSION, StreamError, recover};
use crate::disk::{Disk, PendingSync, read_all, write_all};
use crate::files::LOCK;

/// The maximum number of segments kept open for appending. At the bound, the one used longest ago is closed;
/// its next chunk opens it again.
pub const OPEN_WRITE_MAX: usize = 64;

/// The disk and the open files on it.
pub(super) struct Files<D: Disk> {
    pub disk: D,
    pub notes: Notes,
    /// The open files by stream and first offset. The most recently used file is the last.
    open: VecDeque<((u64, u64), D::File)>,
    /// A reused buffer for the headers and filters of the chunks being written.
    heads: Vec<u8>,
    /// True if files were removed, so that their names may come back after power loss.
    has_removed: bool,
    /// True if the version file exists and is valid.
    has_version: bool,
    /// True if the version file exists and is corrupt. This is harmless, because every segment has its own
    /// version.
    pub is_damaged: bool,
}

impl<D: Disk> Files<D> {
    /// Reads the version of the directory, if it has one, and the notes.
    pub(super) fn new(mut disk: D) -> Result<Self, StreamError> {
        let mut bytes = [0; VERSION_BYTES];
        let read = match disk.open(VERSION_FILE) {
            Ok(mut file) => read_all(&mut disk, &mut file, 0, &mut bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        };
        let read = read.map_err(StreamError::io(VERSION_FILE))?;
        let version = files::directory_version(&bytes[..read]);
        if let Some(version) = version.filter(|&version| version > STREAM_VERSION) {
            return Err(StreamError::Newer { file: VERSION_FILE.into(), version });
        }
        // If the creation of the version file was interrupted, the file is empty or holds zeros. This does
        // not count as damage.
        let is_damaged = version.is_none() && bytes.iter().any(|&byte| byte != 0);
        let (open, heads, has_removed, has_version) = (VecDeque::new(), Vec::new(), false, version.is_some());
        let notes = Notes::read(&mut disk).map_err(StreamError::io(LOCK))?;
        Ok(Self { disk, notes, open, heads, has_removed, has_version, is_damaged })
    }

    /// Writes consecutive chunks at byte `at`, the end of a segment, in one vectored write. Returns their
    /// positions. If `at` is 0, the segment is created or replaced.
    pub(super) fn write(
        &mut self,
        (stream, segment): (u64, u64),
        at: u64,
        chunks: &[NewChunk],
    ) -> io::Result<Vec<Entry>> {
        let header = files::header(SEGMENT_MAGIC);
        let header = if at == 0 { &header[..] } else { &[] };
        let mut position = at + header.len() as u64;
        let mut entries = Vec::with_capacity(chunks.len());
        let mut heads = std::mem::take(&mut self.heads);
        heads.clear();
        for chunk in chunks {
            let &NewChunk { first, entries: count, timestamp_ms, .. } = chunk;
            entries.push(Entry { first, timestamp_ms, position });
            let (bloom, place) = (chunk.bloom.as_ref(), ChunkPosition { stream, at: position });
            ChunkHeader::encode(place, (first, count, timestamp_ms), bloom, &chunk.data, &mut heads);
            position += bytes(chunk);
        }
        let mut pieces = Vec::with_capacity(1 + 2 * chunks.len());
        pieces.push(IoSlice::new(header));
        let mut rest = &heads[..];
        for chunk in chunks {
            let (head, behind) = rest.split_at(bytes(chunk) as usize - chunk.data.len());
            pieces.extend([IoSlice::new(head), IoSlice::new(&chunk.data)]);
            rest = behind;
        }
        let written = if at == 0 { self.create(stream, segment) } else { self.open(stream, segment) };
        let written = written.and_then(|(disk, file)| write_all(disk, file, at, &mut pieces));
        self.heads = heads;
        written.map(|()| entries)
    }

    /// Looks for missing segments; see [`recover::missing`].
    pub(super) fn missing(&mut self, stream: u64, firsts: &[u64]) -> Result<Left, StreamError> {
        recover::missing(&mut self.disk, stream, firsts, self.notes.get(stream))
    }

    /// See [`recover::cut_torn`].
    pub(super) fn cut_torn(&mut self, stream: u64, torn: &[(u64, u64)]) -> Result<(), StreamError> {
        recover::cut_torn(&mut self.disk, stream, torn)
    }

    /// Cuts a segment that is never written again. Returns false if the disk refuses. Then the bytes stay and are ignored.
    pub(super) fn abandon(&mut self, stream: u64, segment: u64, end: u64) -> bool {
        let cut = self.open(stream, segment).and_then(|(disk, file)| disk.truncate(file, end));
        self.close(stream, segment);
        cut.is_ok()
    }

    /// Removes a segment, and then its index. The next start removes an index without a segment.
    pub(super) fn remove(&mut self, stream: u64, segment: u64) -> io::Result<()> {
        self.close(stream, segment);
        self.remove_file(&Kind::Segment.name(stream, segment))?;
        let _ = self.remove_file(&Kind::Index.name(stream, segment));
        Ok(())
    }

    /// Removes a file if it exists. A disk may report a failure although it has removed the file.
    pub(super) fn remove_file(&mut self, name: &str) -> io::Result<()> {
        self.has_removed = true;
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match self.disk.remove(name) {
            Err(error) if is_missing(&error) => Ok(()),
            Err(_) if self.disk.open(name).is_err_and(|error| is_missing(&error)) => Ok(()),
            removed => removed,
        }
    }

    /// Syncs the names of removed files, if there are any. Without it they could come back one by one, so that a stream would
    /// begin with old messages and have a gap behind them.
    pub(super) fn sync_removed(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_removed) { self.disk.sync_dir() } else { Ok(()) }
    }

    pub(super) fn begin_sync(&mut self, stream: u64, segment: u64) -> io::Result<PendingSync> {
        let (disk, file) = self.open(stream, segment)?;
        Ok(disk.begin_sync(file))
    }

    pub(super) fn close(&mut self, stream: u64, segment: u64) {
        self.open.retain(|(open, _)| *open != (stream, segment));
    }

    /// Creates the file of a segment. If one of that name exists, its first write failed or it holds no good
    /// chunk. It stays until the new file replaces it, because its name says how far the stream has come.
    fn create(&mut self, stream: u64, segment: u64) -> io::Result<(&mut D, &mut D::File)> {
        self.close(stream, segment);
        self.write_version()?;
        let name = Kind::Segment.name(stream, segment);
        let file = match self.disk.create(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let new = Kind::New.name(stream, segment);
                self.remove_file(&new)?;
                let file = self.disk.create(&new)?;
                self.disk.rename(&new, &name)?;
                file
            }
            created => created?,
        };
        self.keep_open(stream, segment, file)
    }

    fn open(&mut self, stream: u64, segment: u64) -> io::Result<(&mut D, &mut D::File)> {
        let known = self.open.iter().position(|(open, _)| *open == (stream, segment));
        let file = match known.and_then(|at| self.open.remove(at)) {
            Some((_, file)) => file,
            None => self.disk.open(&Kind::Segment.name(stream, segment))?,
        };
        self.keep_open(stream, segment, file)
    }

    fn keep_open(&mut self, stream: u64, segment: u64, file: D::File) -> io::Result<(&mut D, &mut D::File)> {
        if self.open.len() == OPEN_WRITE_MAX {
            self.open.pop_front();
        }
        self.open.push_back(((stream, segment), file));
        let (_, file) = self.open.back_mut().ok_or(io::ErrorKind::NotFound)?;
        Ok((&mut self.disk, file))
    }

    /// Writes the version file before the first segment is created.
    fn write_version(&mut self) -> io::Result<()> {
        if self.has_version {
            return Ok(());
        }
        let mut file = match self.disk.create(VERSION_FILE) {
            // An earlier creation of the version file was interrupted, so it is written again.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.disk.open(VERSION_FILE)?,
            created => created?,
        };
        self.disk.truncate(&mut file, 0)?;
        write_all(&mut self.disk, &mut file, 0, &mut [IoSlice::new(&files::version_file())])?;
        self.has_version = true;
        Ok(())
    }
}

/// Returns how many bytes a chunk takes in its segment.
pub(super) fn bytes(chunk: &NewChunk) -> u64 {
    let bloom = chunk.bloom.as_ref().map_or(0, |bloom| bloom.as_bytes().len());
    (super::chunk::CHUNK_HEADER + bloom + chunk.data.len()) as u64
}
