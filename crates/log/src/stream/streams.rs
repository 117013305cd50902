//! What appends to streams, counts what they have, and removes what is beyond their limits.

use super::sync::{StreamSyncEnd, StreamSyncJob};
use super::{AppendFailure, StreamAnswer, StreamError, StreamJob};
use crate::disk::Disk;

/// The streams of one directory.
pub struct Streams<D: Disk> {
    disk: D,
}

impl<D: Disk> Streams<D> {
    /// Takes the directory and lists it: no stream is touched before it is opened.
    ///
    /// # Errors
    /// [`StreamError::Locked`], [`StreamError::Newer`], [`StreamError::Io`]. Nothing was written.
    pub fn new(mut disk: D) -> Result<Self, StreamError> {
        disk.lock().map_err(StreamError::io(""))?;
        Ok(Self { disk })
    }

    /// The streams that have files.
    pub fn owners(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::empty()
    }

    /// Removes the files of streams that are not known: they were removed in a life that ended before it had done so.
    pub fn keep(&mut self, known: impl Fn(u64) -> bool) {
        let _ = known;
    }

    /// Does a job, and tells what is to be synced for it: on any thread, one after the other, each end to be told with
    /// [`Streams::end_sync`].
    pub fn handle(&mut self, job: StreamJob, answers: &mut Vec<StreamAnswer>) -> Option<StreamSyncJob> {
        let error = |stream| StreamError::NotOpen { stream };
        answers.push(match job {
            StreamJob::Open { shard, stream, .. } => {
                StreamAnswer::Opened { shard, stream, result: Err(error(stream)), cut: None }
            }
            StreamJob::Append { shard, stream, chunks, .. } => {
                let failure = AppendFailure { error: error(stream), chunks, kept: None };
                StreamAnswer::Appended { shard, stream, result: Err(failure) }
            }
            StreamJob::Limit { shard, stream, .. } => {
                StreamAnswer::Kept { shard, stream, result: Err(error(stream)) }
            }
            StreamJob::Remove { .. } => return None,
        });
        None
    }

    /// A job of [`Streams::handle`] has ended: answers the append that it was for.
    pub fn end_sync(&mut self, end: StreamSyncEnd, answers: &mut Vec<StreamAnswer>) {
        let _ = (end, answers);
    }

    /// The disk, for tests that look behind the streams' back.
    pub fn disk(&self) -> &D {
        &self.disk
    }
}
