//! A file system in memory, for tests and benchmarks, that this program serves to the kernel (FUSE).
//!
//! It is false in two ways, which exclude each other:
//!
//! | | it forgets | it does not forget |
//! |---|---|---|
//! | for | tests | benchmarks |
//! | a cut of the power | loses a random part of what was not synced: each sector by itself, each length of a file, and each change of a name. It is made by looking up the name `.cut-SEED` in the root | does not exist |
//! | page cache | none for writes: each reaches the file system at once | as on a real disk: the kernel keeps what is written until it must write it, or until a sync |
//!
//! Both know direct writes (`O_DIRECT`), and asynchronous ones (`io_submit`). A direct write or read must consist of whole sectors. A direct write that must
//! be durable (`RWF_DSYNC`, `O_DSYNC`) is a sync of its own sectors, and of the length of the file if the write makes it longer. The kernel
//! turns other writes with these flags into a write and an `fsync`.
//!
//! Syncs can be slow ([`SyncTime`]), and they can stand still: looking up the name `.hold-syncs` in the root holds all of them, until `.let-syncs` is
//! looked up. A slow sync delays neither other syncs nor other requests. But Linux itself lets writes to
//! a file wait while an `fsync` of this file is at a FUSE file system; those of ext4 and XFS do not wait. So the program `false-disk` can
//! delay `fsync` and `fdatasync` before they reach the file system ([`Options::fsync_is_instant`]). Direct writes wait for no durable direct write
//! that does not make the file longer.
#![forbid(unsafe_code)]

mod disk;
mod mount;
mod protocol;
mod server;
mod time;

pub use mount::{Mounted, Namespace, Outcome};
pub use server::{FalseDisk, Served, device};
pub use time::{Stalls, SyncTime};

/// What a disk does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What was not synced may be lost.
    pub forgets: bool,
    /// Refuses `O_DIRECT` with `EINVAL`, as some file systems do.
    pub refuses_direct: bool,
    /// How long syncs take.
    pub sync_time: SyncTime,
    /// `fsync` and `fdatasync` take no time, because somebody else delays them. Direct writes that must be durable still do.
    pub fsync_is_instant: bool,
}
