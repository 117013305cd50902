//! Changes the data directory of a broker that does not run: for a broker that nobody can log in to.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use catalog::access::PasswordHash;
use catalog::{AccountChange, CatalogError, Command};
use wal::files::Sharing;
use wal::{COPY_FILE, CopyEnd, CopyFile, Identity, Options, PackOptions, Records};

use crate::data_dir::{PACKS_DIR, STREAMS_DIR, StartError, open_dir, refuse_newer};
use crate::facts;
use crate::quarantine;
use crate::recovery::{Disks, Purpose, Recovered, recover, write_synced};
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
    let of_log = |error| StartError::Log { data_dir: data_dir.to_owned(), error };
    let sharing = Sharing::of(data_dir);
    let mut disk = open_dir(data_dir, sharing)?;
    wal::lock(&mut disk).map_err(of_log)?;
    refuse_newer(data_dir)?;
    let identity = Identity::look(&mut disk)
        .map_err(|error| StartError::Identity { data_dir: data_dir.to_owned(), error })?;
    let boots = identity.map_or(0, |identity| identity.boots);
    let disks = Disks {
        log: disk,
        packs: open_dir(&data_dir.join(PACKS_DIR), sharing)?,
        streams: open_dir(&data_dir.join(STREAMS_DIR), sharing)?,
        // The reserve of the broker stays as it is.
        log_options: Options { reserve_bytes: 0, ..Options::default() },
        pack_options: PackOptions::default(),
        keep_damaged: &mut |restored, recovery| quarantine::keep_files(data_dir, sharing, restored, recovery),
    };
    let of_recovery = |error| StartError::recovering(data_dir, error);
    let Recovered { mut restored, mut log, recovery, .. } =
        recover(disks, Purpose::Offline).map_err(of_recovery)?;
    if restored.catalog.users().get(&name).is_some() {
        return Err(AddUserError::Exists);
    }
    let command = Command::Account(AccountChange::SetUser { name, hash, tags });
    let mut ids = restored.catalog.queue_ids();
    let decision = restored.catalog.decide(command, &mut ids).map_err(AddUserError::Refused)?;
    let (mut records, before) = (Records::new(), restored.catalog.version());
    for (version, change) in (before + 1..).zip(&decision.changes) {
        facts::push_change(&mut records, version, change);
    }
    write_synced(&mut log, records).map_err(of_recovery)?;
    decision.changes.iter().for_each(|change| restored.catalog.apply(change));
    let mut copy = CopyFile::new(open_dir(data_dir, sharing)?, boots);
    if let CopyEnd::Refused(error) = users_copy::renew(&mut copy, Kept::default(), restored.catalog.users()) {
        let what = format!("the user is added, but cannot replace {COPY_FILE} in {}", data_dir.display());
        return Err(StartError::Io { what, error }.into());
    }
    // A broker that failed has not stopped cleanly, whatever was added since.
    if recovery.clean {
        log.close().map_err(|error| StartError::Io {
            what: format!("cannot write to the log in {}", data_dir.display()),
            error: std::io::Error::other(error.to_string()),
        })?;
    }
    Ok(())
}
