//! Appends to streams, and knows all streams of a directory.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

use super::appender::Files;
use super::files::{Kind, VERSION_FILE, parse};
use super::recover::{self, Left};
use super::state::{Appended, Stream};
use super::sync::{StreamSyncEnd, StreamSyncJob};
use super::verify::verify;
use super::{
    AppendFailure, NewChunk, Retained, StreamAnswer, StreamCut, StreamError, StreamJob, StreamLimits,
};
use crate::disk::Disk;
use crate::files::LOCK;

/// The maximum number of files whose removal may fail before the rest is left for later.
const REFUSED_MAX: usize = 4;

/// The streams of one directory. Memory: a few words per segment, and the chunks of unanswered appends.
pub struct Streams<D: Disk> {
    files: Files<D>,
    /// The streams that were not opened yet, each with the first offsets of its segments, ascending.
    listed: BTreeMap<u64, Vec<u64>>,
    open: HashMap<u64, Stream>,
    /// Streams whose sync failed when they were opened. They stay closed in this process, because a later
    /// success would prove nothing.
    doubtful: HashSet<u64>,
    /// The names of files that nobody needs and that are still to be removed.
    strays: Vec<String>,
    /// Open streams whose notes are out of date.
    notes_due: Vec<u64>,
}

/// A problem that [`Streams::check`] has found.
#[derive(Debug)]
pub struct StreamFlaw {
    /// The stream with the problem. `None` if the problem concerns no single stream.
    pub stream: Option<u64>,
    pub error: StreamError,
    /// True if the stream cannot be opened. If false, power loss explains the problem, and what is left can
    /// be read.
    pub closes: bool,
}

impl<D: Disk> Streams<D> {
    /// Returns true if the directory has files of this stream.
    pub fn has(&self, stream: u64) -> bool {
        self.listed.contains_key(&stream)
    }

    /// Locks the directory and lists it. A stream is not touched before it is opened.
    ///
    /// # Errors
    /// [`StreamError::Locked`], [`StreamError::Newer`], [`StreamError::Io`]. Nothing was written.
    pub fn new(mut disk: D) -> Result<Self, StreamError> {
        disk.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StreamError::Locked,
            _ => StreamError::io(LOCK)(error),
        })?;
        let names = disk.list().map_err(StreamError::io(""))?;
        let files = Files::new(disk)?;
        let mut listed: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let (mut indexes, mut strays) = (Vec::new(), Vec::new());
        for name in names {
            match parse(&name) {
                Some((stream, first, Kind::Segment)) => listed.entry(stream).or_default().push(first),
                Some((stream, first, Kind::Index)) => indexes.push((stream, first, name)),
                Some((_, _, Kind::New)) => strays.push(name),
                None => {}
            }
        }
        listed.values_mut().for_each(|firsts| firsts.sort_unstable());
        let has_segment = |stream: &u64, first: &u64| {
            listed.get(stream).is_some_and(|firsts| firsts.binary_search(first).is_ok())
        };
        indexes.retain(|(stream, first, _)| !has_segment(stream, first));
        strays.extend(indexes.into_iter().map(|(_, _, name)| name));
        let (open, doubtful, notes_due) = (HashMap::new(), HashSet::new(), Vec::new());
        Ok(Self { files, listed, open, doubtful, strays, notes_due })
    }

    /// The streams that have files and were not opened yet.
    pub fn owners(&self) -> impl Iterator<Item = u64> + '_ {
        self.listed.keys().copied()
    }

    /// Returns the bytes of the segments of a stream that was not opened yet. A segment that cannot be read counts as empty.
    pub fn bytes_of(&mut self, stream: u64) -> u64 {
        let disk = &mut self.files.disk;
        let names =
            self.listed.get(&stream).into_iter().flatten().map(|&first| Kind::Segment.name(stream, first));
        let mut bytes = |name: String| disk.open(&name).and_then(|mut file| disk.len(&mut file)).unwrap_or(0);
        names.map(&mut bytes).sum()
    }

    /// Removes the files of streams that are not known, because their removal was interrupted, and other
    /// leftovers. Must be called before any stream is opened. If the disk refuses, each removal of a stream
    /// tries again.
    pub fn keep(&mut self, known: impl Fn(u64) -> bool) {
        let strays = &mut self.strays;
        self.listed.retain(|&stream, firsts| {
            let is_known = known(stream);
            if !is_known {
                strays.extend(firsts.iter().flat_map(|&first| names(stream, first)));
            }
            is_known
        });
        let gone: Vec<u64> = self.files.notes.streams().filter(|&stream| !known(stream)).collect();
        gone.into_iter().for_each(|stream| self.files.notes.remove(&mut self.files.disk, stream));
        self.sweep();
    }

    /// Looks for missing parts of streams, from the names and ends of files and the notes. Must be called
    /// before any stream is opened. The contents of files are checked only when a stream is opened or read.
    pub fn check(&mut self) -> Vec<StreamFlaw> {
        let mut flaws = Vec::new();
        if self.files.is_damaged {
            let error = StreamError::Damaged { file: VERSION_FILE.to_owned(), offset: 0, from: None };
            flaws.push(StreamFlaw { stream: None, error, closes: false });
        }
        let mut streams: BTreeSet<u64> = self.files.notes.streams().collect();
        streams.extend(self.listed.keys());
        for stream in streams {
            let firsts = self.listed.get(&stream).map_or(&[][..], Vec::as_slice);
            let (error, closes) = match self.files.missing(stream, firsts) {
                Ok(Left { gap: None, .. }) => continue,
                Ok(Left { gap: Some(gap), .. }) => (gap, false),
                // The problem is not reported here, because opening the stream will return the same error.
                Err(StreamError::Io { .. }) => continue,
                Err(error) => (error, true),
            };
            flaws.push(StreamFlaw { stream: Some(stream), error, closes });
        }
        flaws
    }

    /// Reads every file of the streams and checks what it contains, one chunk after the other. Calls `on_flaw` for each damaged
    /// place that [`Streams::check`] does not return. Returns what interrupted writes have left at the end of
    /// streams. Must be called before any stream is opened. Changes nothing.
    pub fn verify(&mut self, on_flaw: &mut dyn FnMut(Option<u64>, StreamError)) -> Vec<StreamCut> {
        for offset in self.files.notes.corrupt() {
            on_flaw(None, StreamError::Damaged { file: LOCK.to_owned(), offset, from: None });
        }
        let mut cuts = Vec::new();
        for (&stream, firsts) in &self.listed {
            let note = self.files.notes.get(stream);
            cuts.extend(verify(&mut self.files.disk, stream, firsts, note, &mut |error| {
                on_flaw(Some(stream), error);
            }));
        }
        cuts
    }

    /// Writes the notes of streams that were appended to, for the next process. Called when there is nothing
    /// else to do.
    pub fn note(&mut self) {
        for stream in self.notes_due.drain(..) {
            if let Some(open) = self.open.get_mut(&stream) {
                open.note(&mut self.files);
            }
        }
    }

    /// Syncs everything, also what was removed, and writes the notes, so that entries that are missing after a reboot are noticed. If
    /// a sync fails, the note does not claim it.
    pub fn close(mut self) {
        for open in self.open.values_mut() {
            let _ = open.sync_found(&mut self.files);
            open.note(&mut self.files);
        }
        // If the disk refuses, what was removed may come back, and nothing is lost.
        let _ = self.files.sync_removed();
    }

    /// Does a job. Returns what must be synced for it. The caller runs these jobs on any thread, one after
    /// the other, and passes each result to [`Streams::end_sync`].
    pub fn handle(&mut self, job: StreamJob, answers: &mut Vec<StreamAnswer>) -> Option<StreamSyncJob> {
        match job {
            StreamJob::Open { shard, stream, limits, sync, now_ms } => {
                let (result, cut) = self.open(stream, limits, sync, now_ms);
                let readable = result.as_ref().err().and_then(|error| self.readable(stream, error));
                answers.push(StreamAnswer::Opened { shard, stream, result, cut, readable });
            }
            StreamJob::Append { shard, stream, chunks, sync } => {
                let appended = self.append(shard, stream, chunks, sync);
                self.note_if_needed(stream);
                return answer(shard, stream, appended, answers);
            }
            StreamJob::Limit { shard, stream, limits, now_ms } => {
                let limit = |open: &mut Stream| open.limit(&mut self.files, limits, now_ms);
                let result = self.open.get_mut(&stream).map(limit).ok_or(StreamError::NotOpen { stream });
                answers.push(StreamAnswer::Limited { shard, stream, result });
            }
            StreamJob::Remove { stream } => self.remove(stream, answers),
        }
        None
    }

    /// Does a job if it is an append without sync and takes a single small write to the end of a segment, and
    /// sometimes a few bytes of its index; see [`crate::AT_ONCE_BYTES_MAX`].
    ///
    /// # Errors
    /// Returns the job untouched, for [`Streams::handle`].
    pub fn append_at_once(&mut self, job: StreamJob) -> Result<StreamAnswer, StreamJob> {
        let StreamJob::Append { shard, stream, chunks, sync: false } = job else { return Err(job) };
        match self.open.get_mut(&stream).filter(|open| open.has_room(&chunks)) {
            Some(open) => {
                let result = open.append_unsynced(&mut self.files, chunks);
                self.note_if_needed(stream);
                Ok(StreamAnswer::Appended { shard, stream, result })
            }
            None => Err(StreamJob::Append { shard, stream, chunks, sync: false }),
        }
    }

    /// Takes the result of a sync job. Answers its append, or writes more of it to the next segment and
    /// returns the sync job for that.
    pub fn end_sync(&mut self, end: StreamSyncEnd, answers: &mut Vec<StreamAnswer>) -> Option<StreamSyncJob> {
        let stream = end.stream;
        let (shard, appended) = self.open.get_mut(&stream)?.end_sync(&mut self.files, end.result)?;
        self.note_if_needed(stream);
        answer(shard, stream, appended, answers)
    }

    fn note_if_needed(&mut self, stream: u64) {
        if self.open.get_mut(&stream).is_some_and(|open| open.note_if_needed(&mut self.files)) {
            self.notes_due.push(stream);
        }
    }

    fn open(
        &mut self,
        stream: u64,
        limits: StreamLimits,
        sync: bool,
        now_ms: u64,
    ) -> (Result<Retained, StreamError>, Option<StreamCut>) {
        if let Some(open) = self.open.get_mut(&stream) {
            return (Ok(open.limit(&mut self.files, limits, now_ms)), None);
        }
        let firsts = self.listed.get(&stream).map_or(&[][..], Vec::as_slice);
        let opened = Stream::open(&mut self.files, stream, firsts, limits);
        if let Err(StreamError::Missing { .. } | StreamError::Damaged { .. }) = opened {
            self.files.notes.mark_missing(&mut self.files.disk, stream);
        }
        match opened {
            Ok((mut opened, cut)) => {
                if sync && let Err(error) = self.sync_found(stream, &mut opened) {
                    return (Err(error), cut);
                }
                let retained = opened.limit(&mut self.files, limits, now_ms);
                self.listed.remove(&stream);
                self.open.insert(stream, opened);
                (Ok(retained), cut)
            }
            Err(error) => (Err(error), None),
        }
    }

    /// Returns what can be read of a stream that is damaged. `None` if that is nothing, or if it is not known.
    fn readable(&mut self, stream: u64, error: &StreamError) -> Option<Retained> {
        let (StreamError::Damaged { from: Some(end), .. } | StreamError::Missing { from: end, .. }) = *error
        else {
            return None;
        };
        recover::readable(&mut self.files.disk, stream, self.listed.get(&stream)?, end).ok()?
    }

    /// Syncs what another process has written, because its last append may have been interrupted before the
    /// sync. Otherwise power loss could remove entries that readers have already seen.
    fn sync_found(&mut self, stream: u64, opened: &mut Stream) -> Result<(), StreamError> {
        if self.doubtful.contains(&stream) {
            let last = opened.segments().last().map(|segment| Kind::Segment.name(stream, segment));
            let error = io::Error::other("a sync has failed; the stream can be opened after a restart");
            return Err(StreamError::Io { file: last.unwrap_or_default(), error });
        }
        let synced = opened.sync_found(&mut self.files);
        if synced.is_err() {
            self.doubtful.insert(stream);
        }
        synced
    }

    fn append(&mut self, shard: u32, stream: u64, chunks: Vec<NewChunk>, sync: bool) -> Appended {
        match self.open.get_mut(&stream) {
            Some(open) => open.append(&mut self.files, shard, chunks, sync),
            None => {
                let error = StreamError::NotOpen { stream };
                Appended::Now(Err(AppendFailure { error, chunks, retained: None }))
            }
        }
    }

    fn remove(&mut self, stream: u64, answers: &mut Vec<StreamAnswer>) {
        let mut firsts = self.listed.remove(&stream).unwrap_or_default();
        if let Some(open) = self.open.remove(&stream) {
            firsts.extend(open.files());
            if let Some((shard, chunks)) = open.into_unanswered() {
                let error = StreamError::NotOpen { stream };
                let result = Err(AppendFailure { error, chunks, retained: None });
                answers.push(StreamAnswer::Appended { shard, stream, result });
            }
        }
        for first in firsts {
            self.files.close(stream, first);
            self.strays.extend(names(stream, first));
        }
        self.files.notes.remove(&mut self.files.disk, stream);
        self.sweep();
    }

    /// Removes files that nobody needs.
    fn sweep(&mut self) {
        let (files, mut refused) = (&mut self.files, 0);
        self.strays.retain(|name| {
            let gone = refused < REFUSED_MAX && files.remove_file(name).is_ok();
            refused += usize::from(!gone);
            !gone
        });
    }
}

/// Answers an append, unless something must be synced for it first.
fn answer(
    shard: u32,
    stream: u64,
    appended: Appended,
    answers: &mut Vec<StreamAnswer>,
) -> Option<StreamSyncJob> {
    match appended {
        Appended::Now(result) => answers.push(StreamAnswer::Appended { shard, stream, result }),
        Appended::WhenSynced(job) => return Some(job),
    }
    None
}

/// Returns the names of the files of a segment.
fn names(stream: u64, first: u64) -> impl Iterator<Item = String> {
    [Kind::Segment, Kind::Index, Kind::New].into_iter().map(move |kind| kind.name(stream, first))
}
