//! What shards hand to the log, and the answers.

use std::io;

use crate::record::Records;
use crate::space::Size;

/// The records that a shard hands over at once. The log answers a handover once when it is written or cannot
/// be written: at once, unless it is kept while a sync is in flight ([`Handover::urgent`]). If the handover was written and asked for a sync, the log answers once more when it is synced
/// or cannot be synced.
#[derive(Debug)]
pub struct Handover {
    pub shard: u32,
    /// The number that the shard gave this handover.
    pub ticket: u64,
    /// The records; the list may be empty. An empty handover with `sync` asks to sync everything written so
    /// far.
    pub records: Records,
    /// True if somebody waits until the records are synced.
    pub sync: bool,
    /// True if somebody waits until the records are written, and not only for a sync. Otherwise the log may write them later: when the
    /// sync in flight has ended.
    pub urgent: bool,
}

/// The step that a [`Completion`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The records are written. On an error they are not written, and the error returns them.
    Written,
    /// The records, and everything written before them, are synced. On an error they stay written and the log
    /// keeps them in memory. A later handover with `sync` syncs them as well.
    Synced,
}

/// The answer to a [`Handover`].
#[derive(Debug)]
pub struct Completion {
    pub shard: u32,
    pub ticket: u64,
    pub step: Step,
    pub result: Result<(), WriteError>,
    /// The number of the newest file that holds records of the handover, for [`Step::Written`]. 0 if the
    /// handover had no records, and on an error.
    pub file: u64,
    /// The disk space that the log takes now. All zeros after an error.
    pub size: Size,
}

/// The records could not be written. The disk refused twice: in the current file and in a new one.
#[derive(Debug)]
pub struct WriteError {
    pub kind: io::ErrorKind,
    /// The number of the operating system's error, if there was one.
    pub errno: Option<i32>,
    /// The name of the file that was refused last. Empty if the failure did not concern a file.
    pub file: String,
    /// The records that were not written. The shard may hand them over again.
    pub records: Records,
}

impl WriteError {
    pub(crate) fn without_file(error: io::Error) -> Self {
        Failure { error, file: String::new() }.into()
    }
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.file.is_empty() {
            write!(f, "log file {}: ", self.file)?;
        }
        match self.errno {
            Some(errno) => write!(f, "{}", io::Error::from_raw_os_error(errno)),
            None => write!(f, "{}", self.kind),
        }
    }
}

impl std::error::Error for WriteError {}

/// The reason why a batch failed. Each handover in the batch gets its [`WriteError`] from it.
pub(crate) struct Failure {
    pub error: io::Error,
    /// The name of the file. Empty if the failure did not concern a file.
    pub file: String,
}

impl Failure {
    pub(crate) fn with(&self, records: Records) -> WriteError {
        let (kind, errno) = (self.error.kind(), self.error.raw_os_error());
        WriteError { kind, errno, file: self.file.clone(), records }
    }
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> Self {
        failure.with(Records::new())
    }
}
