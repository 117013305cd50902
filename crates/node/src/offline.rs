//! Changes the data directory of a broker that does not run: for a broker that nobody can log in to.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use catalog::access::PasswordHash;
use catalog::ids::{NodeNumber, Origin, QueueId};
use catalog::{AccountChange, CatalogError, Change, Command};
use wal::files::Sharing;
use wal::{COPY_FILE, CopyEnd, CopyFile, Identity, Log, Options, PackOptions, RealDisk, Recovery, StreamJob};

use crate::data_dir::{
    PACKS_DIR, STREAMS_DIR, StartError, UNCLAIMED_DIR, next_start, open_dir, open_folder, refuse_newer,
    remove_empty_unclaimed,
};
use crate::facts::{Restored, Unclaimed};
use crate::quarantine;
use crate::recovery::{
    Disks, Purpose, RecoverError, Recovered, RecoveredLog, recover, recover_log, unclaimed, write_synced,
};
use crate::users_copy::{self, Kept};

/// Why a user cannot be added.
#[derive(Debug)]
pub enum AddUserError {
    /// A broker uses the directory, or could not start on it.
    Directory(StartError),
    /// There is a user with this name.
    Exists,
    /// The name or a tag is not allowed.
    Refused(CatalogError),
}

impl fmt::Display for AddUserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => write!(f, "{error}"),
            Self::Exists => write!(f, "the user exists already"),
            Self::Refused(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for AddUserError {}

impl From<StartError> for AddUserError {
    fn from(error: StartError) -> Self {
        Self::Directory(error)
    }
}

/// Adds a user to the data directory of a broker that does not run. The user is synced when this function returns. Otherwise
/// the directory is as after a start that was interrupted: an incomplete end of the log is cut off, and queues with damaged
/// records are closed.
///
/// # Errors
/// See [`AddUserError`].
pub fn add_user(
    data_dir: &Path,
    name: Arc<str>,
    hash: PasswordHash,
    tags: Arc<[String]>,
) -> Result<(), AddUserError> {
    let sharing = Sharing::of(data_dir);
    let opened = open(data_dir, sharing)?;
    let boots = opened.boots;
    // The user needs no packs and no streams.
    let RecoveredLog { mut restored, mut log, recovery, .. } = opened.recover(recover_log)?;
    if restored.catalog.users().get(&name).is_some() {
        return Err(AddUserError::Exists);
    }
    let command = Command::Account(AccountChange::SetUser { name, hash, tags });
    let mut ids = restored.catalog.queue_ids();
    let decision = restored.catalog.decide(command, &mut ids).map_err(AddUserError::Refused)?;
    decision.changes.into_iter().for_each(|change| restored.change(change));
    write_changes(&mut restored, &mut log, data_dir)?;
    let mut copy = CopyFile::new(open_dir(data_dir, sharing)?, boots);
    if let CopyEnd::Refused(error) = users_copy::renew(&mut copy, Kept::default(), restored.catalog.users()) {
        let what = format!("the user is added, but cannot replace {COPY_FILE} in {}", data_dir.display());
        return Err(StartError::Io { what, error }.into());
    }
    close(log, &recovery, data_dir)?;
    Ok(())
}

/// Why unclaimed data cannot be deleted.
#[derive(Debug)]
pub enum DeleteUnclaimedError {
    /// A broker uses the directory, or could not start on it, or the disk refuses.
    Directory(StartError),
    /// There is no unclaimed data of this owner. The owners that have some.
    Unknown(Vec<u64>),
}

impl fmt::Display for DeleteUnclaimedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => write!(f, "{error}"),
            Self::Unknown(owners) if owners.is_empty() => write!(f, "there is no unclaimed data"),
            Self::Unknown(owners) => {
                let owners: Vec<String> = owners.iter().map(|owner| format!("{owner:016x}")).collect();
                write!(f, "it has no unclaimed data; these owners have some: {}", owners.join(", "))
            }
        }
    }
}

impl std::error::Error for DeleteUnclaimedError {}

impl From<StartError> for DeleteUnclaimedError {
    fn from(error: StartError) -> Self {
        Self::Directory(error)
    }
}

/// Deletes the unclaimed data of an owner from the data directory of a broker that does not run: its records, its segments if it was
/// a stream, and its runs in packs. Returns how much it was. Otherwise the directory is as after [`add_user`].
///
/// # Errors
/// See [`DeleteUnclaimedError`].
pub fn delete_unclaimed(data_dir: &Path, owner: u64) -> Result<Unclaimed, DeleteUnclaimedError> {
    let sharing = Sharing::of(data_dir);
    let Recovered { mut restored, mut log, mut packs, mut streams, recovery, .. } =
        open(data_dir, sharing)?.recover(recover)?;
    let Some(deleted) = restored.unclaimed.remove(&QueueId(owner)) else {
        let owners = restored.unclaimed.keys().map(|id| id.0).collect();
        return Err(DeleteUnclaimedError::Unknown(owners));
    };
    // From now on it is certain that the queue was deleted. An interrupted deletion is finished by the next start.
    restored.change(Change::QueueForgotten { queue: QueueId(owner) });
    write_changes(&mut restored, &mut log, data_dir)?;
    deleted.queue.extents().for_each(|extent| packs.release(extent));
    streams.handle(StreamJob::Remove { stream: owner }, &mut Vec::new());
    let removed = open_folder(data_dir, UNCLAIMED_DIR, sharing, false).and_then(|disk| {
        let Some(mut disk) = disk else { return Ok(()) };
        unclaimed::list(&mut disk)?.get(&owner).map_or(Ok(()), |aside| aside.remove(&mut disk))
    });
    let what = || format!("cannot remove the file of owner {owner:016x} in {}", data_dir.display());
    removed.map_err(|error| StartError::Io { what: what(), error })?;
    remove_empty_unclaimed(data_dir);
    close(log, &recovery, data_dir)?;
    Ok(deleted)
}

/// Writes the changes of the catalog, and syncs them.
fn write_changes(
    restored: &mut Restored,
    log: &mut Log<RealDisk>,
    data_dir: &Path,
) -> Result<(), StartError> {
    let records = restored.write_changes().map_err(RecoverError::NotAlone);
    let written = records.and_then(|records| write_synced(log, records));
    written.map_err(|error| StartError::recovering(data_dir, error))
}

/// A directory that no broker uses, locked.
struct Opened<'a> {
    data_dir: &'a Path,
    sharing: Sharing,
    log: RealDisk,
    /// How often a broker has started with it.
    boots: u64,
    /// The next start.
    next: Origin,
    /// The number of the node in its cluster.
    in_cluster: Option<NodeNumber>,
}

impl Opened<'_> {
    /// Recovers with [`recover`] or [`recover_log`].
    fn recover<R>(
        self,
        how: impl FnOnce(Disks<'_, RealDisk>, Purpose<'_>) -> Result<R, RecoverError>,
    ) -> Result<R, StartError> {
        let Self { data_dir, sharing, log, next, in_cluster, .. } = self;
        let disks = Disks {
            log,
            packs: &mut |make| open_folder(data_dir, PACKS_DIR, sharing, make),
            streams: &mut |make| open_folder(data_dir, STREAMS_DIR, sharing, make),
            unclaimed: &mut |make| open_folder(data_dir, UNCLAIMED_DIR, sharing, make),
            // The reserve of the broker stays as it is.
            log_options: Options { reserve_bytes: 0, ..Options::default() },
            pack_options: PackOptions::default(),
            keep_damaged: &mut |restored, recovery| {
                quarantine::keep_files(data_dir, sharing, restored, recovery)
            },
            origin: next,
            in_cluster,
            mutation: None,
        };
        how(disks, Purpose::Offline).map_err(|error| StartError::recovering(data_dir, error))
    }
}

fn open(data_dir: &Path, sharing: Sharing) -> Result<Opened<'_>, StartError> {
    let of_log = |error| StartError::Log { data_dir: data_dir.to_owned(), error };
    let mut log = open_dir(data_dir, sharing)?;
    wal::lock(&mut log).map_err(of_log)?;
    refuse_newer(data_dir)?;
    let identity = Identity::look(&mut log)
        .map_err(|error| StartError::Identity { data_dir: data_dir.to_owned(), error })?;
    let next = identity.as_ref().map_or_else(Origin::default, next_start);
    let in_cluster = identity.and_then(|identity| identity.membership).map(|membership| membership.number);
    let boots = identity.map_or(0, |identity| identity.boots);
    Ok(Opened { data_dir, sharing, log, boots, next, in_cluster })
}

/// Closes the log. A broker that failed has not stopped cleanly, whatever was written since.
fn close(log: Log<RealDisk>, recovery: &Recovery, data_dir: &Path) -> Result<(), StartError> {
    if !recovery.clean {
        return Ok(());
    }
    log.close().map_err(|error| StartError::Io {
        what: format!("cannot write to the log in {}", data_dir.display()),
        error: io::Error::other(error.to_string()),
    })
}
