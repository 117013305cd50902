//! Syncing the appends that ask for it, while others go on.

use std::io;

use crate::disk::PendingSync;

/// The files of one append, or of what it may write to one segment, and their names, to be synced. May run beside everything that appends; jobs run one after
/// the other.
#[must_use = "whoever waits is answered at the end of it"]
pub struct StreamSyncJob {
    pub(super) stream: u64,
    /// With their names, in the order in which they were written.
    pub(super) files: Vec<(String, PendingSync)>,
    pub(super) names: Option<PendingSync>,
}

/// How a [`StreamSyncJob`] has ended.
#[derive(Debug)]
#[must_use = "the streams wait for it"]
pub struct StreamSyncEnd {
    pub(super) stream: u64,
    /// The file that was refused; no name if it was the directory.
    pub(super) result: Result<(), (String, io::Error)>,
}

impl StreamSyncJob {
    /// Waits until everything is synced, or something refuses.
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
