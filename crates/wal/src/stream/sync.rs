//! Syncing appends while others continue.

use std::io;

use crate::disk::PendingSync;

/// The files of an append, or of the part of it that goes to one segment, and possibly the directory, to be
/// synced. May run in parallel with all appends. Jobs must run one after the other.
#[must_use = "waiting appends are answered when the sync job ends"]
pub struct StreamSyncJob {
    pub(super) stream: u64,
    /// The files and their names, in the order in which they were written.
    pub(super) files: Vec<(String, PendingSync)>,
    pub(super) names: Option<PendingSync>,
}

/// The result of a [`StreamSyncJob`].
#[derive(Debug)]
#[must_use = "the streams wait for the result of the sync job"]
pub struct StreamSyncEnd {
    pub(super) stream: u64,
    /// On an error, the name of the file that was refused. The name is empty if it was the directory.
    pub(super) result: Result<(), (String, io::Error)>,
}

impl StreamSyncJob {
    /// Syncs everything and waits for it. Stops at the first error.
    pub fn run(self) -> StreamSyncEnd {
        let files = self.files.into_iter().try_for_each(|(file, sync)| sync().map_err(|error| (file, error)));
        let names = |()| self.names.map_or(Ok(()), |sync| sync()).map_err(|error| (String::new(), error));
        StreamSyncEnd { stream: self.stream, result: files.and_then(names) }
    }
}

impl std::fmt::Debug for StreamSyncJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StreamSyncJob({:016x}, {} files)", self.stream, self.files.len())
    }
}
