//! The copy of the users in a file beside the log (`wal::CopyFile`), as the deciding shard sees it.
//!
//! ```text
//!   changes of users are synced in the log ──▶ applied ──▶ one job for all of them ──▶ answered
//! ```
//!
//! One job is in flight at a time. The next one has everything that was changed meanwhile.

use wal::{CopyEnd, CopyJob};

use crate::shard::Shard;
use crate::users_copy;

/// How far the copy has come. Versions are those of the catalog.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// The version of the first change that neither the copy nor the job in flight has.
    missing: Option<u64>,
    /// The version of the first change that the job in flight has and the copy has not.
    in_flight: Option<u64>,
    /// True if the last job failed. Then the next one waits for the next chores.
    rests: bool,
}

/// The version for which nobody waits: the copy itself is missing.
const NOBODY_WAITS: u64 = u64::MAX;

impl Copied {
    fn note(&mut self, version: u64) {
        self.missing = Some(self.missing.map_or(version, |missing| missing.min(version)));
    }

    /// Returns the version of the last change that may be answered.
    pub fn answered_to(&self) -> u64 {
        self.in_flight.or(self.missing).map_or(u64::MAX, |first| first.saturating_sub(1))
    }
}

impl Shard {
    /// Called once, on the deciding shard. From now on a change of users is answered when their copy has it. `is_missing`
    /// says that there is no copy of the present users.
    pub fn copy_users(&mut self, is_missing: bool) {
        let missing = is_missing.then_some(NOBODY_WAITS);
        self.metadata.copied = Some(Copied { missing, ..Copied::default() });
    }

    /// Returns the next job for the copy of the users.
    pub fn poll_copy_job(&mut self) -> Option<CopyJob> {
        let copied =
            self.metadata.copied.as_mut().filter(|copied| copied.in_flight.is_none() && !copied.rests)?;
        copied.in_flight = Some(copied.missing.take()?);
        let users = self.metadata.catalog.users().clone();
        Some(Box::new(move || users_copy::encode(&users)))
    }

    /// Handles the end of the job in flight.
    pub fn handle_copied(&mut self, end: CopyEnd) {
        let Some(copied) = &mut self.metadata.copied else { return };
        let Some(first) = copied.in_flight.take() else { return };
        match end {
            CopyEnd::Written => {}
            CopyEnd::Removed(error) => {
                copied.note(NOBODY_WAITS);
                copied.rests = true;
                tracing::warn!(
                    "the copy of users and permissions could not be written: {error}. Until it can, they are in the log alone"
                );
            }
            CopyEnd::Refused(error) => {
                copied.note(first);
                copied.rests = true;
                tracing::error!(
                    "the copy of users and permissions could neither be written nor removed: {error}. Changes of them wait"
                );
            }
        }
        self.send_answers();
    }

    /// Called with the version of the catalog after a change of users was applied.
    pub(super) fn note_users_changed(&mut self, version: u64) {
        if let Some(copied) = &mut self.metadata.copied {
            copied.note(version);
        }
    }

    /// Called from time to time. A copy that could not be written is tried again.
    pub(in crate::shard) fn copy_users_again(&mut self) {
        if let Some(copied) = &mut self.metadata.copied {
            copied.rests = false;
        }
    }
}
