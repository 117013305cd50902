//! What shards hand to the log, and what they are told.

use std::io;

use crate::machine::Size;
use crate::record::Records;

/// One hand-over of a shard: answered exactly once when it is written, or cannot be; and if it was written and asked
/// for a sync, once more when it is synced, or cannot be.
#[derive(Debug)]
pub struct Handover {
    pub shard: u32,
    /// The shard's number for it.
    pub ticket: u64,
    /// May be empty: then `sync` alone asks for everything written so far to be synced.
    pub records: Records,
    /// Somebody waits to see it synced.
    pub sync: bool,
}

/// What a [`Completion`] speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The records are written. On an error they are not, and come back.
    Written,
    /// The records, and everything written before them, are synced. On an error they stay written, the log keeps them,
    /// and what is handed over later with `sync` asks for them too.
    Synced,
}

/// The answer to a [`Handover`].
#[derive(Debug)]
pub struct Completion {
    pub shard: u32,
    pub ticket: u64,
    pub step: Step,
    pub result: Result<(), WriteError>,
    /// The number of the newest file that holds records of the hand-over, once they are written; 0 if it had none, or
    /// on an error.
    pub file: u64,
    /// What the log takes on the disk now; nothing on an error.
    pub size: Size,
}

/// The disk refused, twice: in the file that was open and in a fresh one.
#[derive(Debug)]
pub struct WriteError {
    pub kind: io::ErrorKind,
    /// What the operating system called it, if it did.
    pub errno: Option<i32>,
    /// The file that refused last; empty if it was none.
    pub file: String,
    /// What was handed over and not written, to be handed over again when the shard sees fit.
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

/// What went wrong with a batch, before it is told to everyone who was in it.
pub(crate) struct Failure {
    pub error: io::Error,
    /// Empty if it was no file.
    pub file: String,
}

impl Failure {
    pub fn with(&self, records: Records) -> WriteError {
        let (kind, errno) = (self.error.kind(), self.error.raw_os_error());
        WriteError { kind, errno, file: self.file.clone(), records }
    }
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> Self {
        failure.with(Records::new())
    }
}
