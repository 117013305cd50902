//! The copy of the users in a file beside the log (`wal::CopyFile`), as the node shard sees it.
//!
//! ```text
//!   changes of users are synced in the log ──▶ applied ──▶ one job for all of them ──▶ answered
//! ```
//!
//! One job is in flight at a time. The next one has everything that was changed meanwhile.

use wal::{CopyEnd, CopyJob};

use crate::shard::Shard;
use crate::users_copy;

/// How far the copy has come. It counts the entries that the shard has applied.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// True if there may be a copy. The next start would take what it has for the newest.
    stands: bool,
    /// The index of the first entry that neither the copy nor the job in flight has.
    missing: Option<u64>,
    in_flight: Option<Job>,
    /// True if the last job failed. Then the next one waits for the next chores.
    rests: bool,
    /// True if no job has succeeded since one failed. That is logged once.
    fails: bool,
}

/// A job in flight.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// The index of the first entry that the job has and the copy has not.
    first: Option<u64>,
}

impl Copied {
    fn note(&mut self, index: u64) {
        self.missing = Some(self.missing.map_or(index, |missing| missing.min(index)));
    }

    /// Returns the index of the last entry that may be answered: there is no copy without it now, and no job can make one.
    pub(super) fn answered_to(&self) -> u64 {
        if !self.stands && self.in_flight.is_none() {
            return u64::MAX;
        }
        let of_job = self.in_flight.and_then(|job| job.first);
        let first = self.missing.into_iter().chain(of_job).min();
        first.map_or(u64::MAX, |first| first.saturating_sub(1))
    }
}

impl Shard {
    /// Called once, on the node shard. From now on a change of users is answered when their copy has it. `start` says
    /// how writing the copy of the present users has ended.
    pub fn copy_users(&mut self, start: &CopyEnd) {
        let mut copied = Copied { stands: !matches!(start, CopyEnd::Removed(_)), ..Copied::default() };
        copied.fails = !matches!(start, CopyEnd::Written);
        if matches!(start, CopyEnd::Refused(_)) {
            // There may be an old one. Nothing has changed yet, but it must be replaced.
            copied.note(self.metadata.applied + 1);
        }
        self.metadata.copied = Some(copied);
    }

    /// Returns the next job for the copy of the users.
    pub fn poll_copy_job(&mut self) -> Option<CopyJob> {
        let copied =
            self.metadata.copied.as_mut().filter(|copied| copied.in_flight.is_none() && !copied.rests)?;
        if copied.stands && copied.missing.is_none() {
            return None;
        }
        copied.in_flight = Some(Job { first: copied.missing.take() });
        let users = self.metadata.catalog.users().clone();
        Some(Box::new(move || users_copy::encode(&users)))
    }

    /// Handles the end of the job in flight.
    pub fn handle_copied(&mut self, end: CopyEnd) {
        let Some(copied) = &mut self.metadata.copied else { return };
        let Some(job) = copied.in_flight.take() else { return };
        copied.stands = !matches!(end, CopyEnd::Removed(_));
        copied.rests = !matches!(end, CopyEnd::Written);
        let has_failed_before = std::mem::replace(&mut copied.fails, copied.rests);
        match end {
            CopyEnd::Written => {}
            CopyEnd::Removed(error) if !has_failed_before => tracing::warn!(
                "the copy of users and permissions could not be written: {error}. Until it can, they are in the log alone"
            ),
            CopyEnd::Removed(_) => {}
            CopyEnd::Refused(error) => {
                // If the job had no changes, whatever is there has all of them. It is still tried again.
                copied.note(job.first.unwrap_or(u64::MAX));
                if !has_failed_before {
                    tracing::error!(
                        "the copy of users and permissions could neither be written nor removed: {error}. Changes of them wait"
                    );
                }
            }
        }
        self.send_answers();
    }

    /// Called with the index of an entry that has changed users, when it is applied.
    pub(super) fn note_users_changed(&mut self, index: u64) {
        if let Some(copied) = &mut self.metadata.copied {
            copied.note(index);
        }
    }

    /// Called from time to time. A copy that could not be written is tried again.
    pub(in crate::shard) fn copy_users_again(&mut self) {
        if let Some(copied) = &mut self.metadata.copied {
            copied.rests = false;
        }
    }
}
