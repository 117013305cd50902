//! How long records that nobody waits for are held back, so that more of them go to the log together. Records of the journal and facts of
//! entries have the same limits, because both end in the same log.

/// The time for which records that nobody waits for, such as those of settled messages, are held back to
/// batch them, in milliseconds. If the process is killed meanwhile, those messages are delivered again, which
/// is allowed.
pub(super) const LAZY_MS: u64 = 20;

/// Records that nobody waits for go to the log at once if they have this many bytes.
pub(super) const LAZY_BYTES_MAX: usize = 64 * 1024;

/// The most capacity that a new batch gets from the start. It is used under load, when the previous ones
/// were as large.
pub(super) const CAPACITY_MAX: usize = 64 * 1024;
