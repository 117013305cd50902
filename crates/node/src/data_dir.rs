//! What a start does with a data directory before the node runs: which files it takes, their modes, and what happens if they are
//! damaged.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use catalog::ids::{NodeId, Origin};
use wal::files::Sharing;
use wal::tighten::{self, Loose, Tightened};
use wal::{
    FileKind, Identity, IdentityError, Membership, OpenError, PackError, PreviewDisk, RealDisk, StreamError,
};

use crate::facts::NotAlone;
use crate::quarantine::{DAMAGED_DIR, DefinitionsLost};
pub(crate) use crate::recovery::{PACKS_DIR, STREAMS_DIR};
use crate::recovery::{RecoverError, unclaimed};

/// Why a node does not start.
#[derive(Debug)]
pub enum StartError {
    /// The log in this data directory cannot be opened.
    Log { data_dir: PathBuf, error: OpenError },
    /// The identity of this data directory cannot be read or renewed.
    Identity { data_dir: PathBuf, error: IdentityError },
    /// The packs in this directory cannot be opened.
    Packs { packs_dir: PathBuf, error: PackError },
    /// The streams in this directory cannot be opened.
    Streams { streams_dir: PathBuf, error: StreamError },
    /// The log may have lost definitions.
    Definitions { data_dir: PathBuf, lost: DefinitionsLost },
    /// The log of a member of a cluster may have lost definitions.
    OfMember { data_dir: PathBuf, lost: DefinitionsLost },
    /// The directory is one of a cluster.
    NotAlone { data_dir: PathBuf, error: NotAlone },
    /// The node is a member of a cluster, and the settings of the cluster are missing.
    NoClusterSettings { data_dir: PathBuf, membership: Membership },
    /// The node cannot listen for others of its cluster, or cannot form one.
    Cluster(String),
    /// A thread cannot be started, or the data directory cannot be used.
    Io { what: String, error: io::Error },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log { data_dir, error: OpenError::Locked } => {
                write!(f, "data directory {} is in use by another broker", data_dir.display())
            }
            Self::Log { data_dir, error: OpenError::Io { file, error } }
                if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
            {
                let named = format!("the data directory {}, which --data-dir names", data_dir.display());
                write!(f, "cannot write to {named}: file {file}: {error}")
            }
            Self::Log { data_dir, error } => {
                write!(f, "cannot open the log in {}: {error}", data_dir.display())
            }
            Self::Identity { data_dir, error } => {
                write!(f, "cannot start on the data directory {}: {error}", data_dir.display())
            }
            Self::Definitions { data_dir, lost } => write!(
                f,
                "cannot start on {}: {lost}; start with an intact copy of the directory, or with another one{}",
                data_dir.display(),
                match lost {
                    DefinitionsLost::Damage(_) | DefinitionsLost::Missing =>
                        ", or with accept_lost_definitions = true, which closes every remaining queue and keeps its data",
                    DefinitionsLost::Unreadable => "",
                }
            ),
            Self::OfMember { data_dir, lost } => write!(
                f,
                "cannot start on {}: {lost}; this node is a member of a cluster, whose other nodes have the definitions and go on without it; \
                 accept_lost_definitions is for a node alone",
                data_dir.display()
            ),
            Self::Packs { packs_dir, error } => {
                write!(f, "cannot open the packs in {}: {error}", packs_dir.display())
            }
            Self::Streams { streams_dir, error } => {
                write!(f, "cannot open the streams in {}: {error}", streams_dir.display())
            }
            Self::NotAlone { data_dir, error } => {
                write!(f, "cannot start on the data directory {}: {error}", data_dir.display())
            }
            Self::NoClusterSettings { data_dir, membership: Membership { cluster, number } } => write!(
                f,
                "cannot start on the data directory {}: it belongs to node {number} of cluster {:032x}, and the configuration lists no nodes; \
                 set cluster_formation.classic_config.nodes.N, cluster.listener and cluster.secret as before",
                data_dir.display(),
                u128::from_be_bytes(*cluster)
            ),
            Self::Cluster(why) => f.write_str(why),
            Self::Io { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl StartError {
    /// Says in which directory a recovery has failed.
    pub(crate) fn recovering(data_dir: &Path, error: RecoverError) -> Self {
        let data_dir = data_dir.to_owned();
        let io = |what: &str, error| {
            let what = format!("cannot {what} in {}", data_dir.display());
            Self::Io { what, error }
        };
        match error {
            RecoverError::Keep(error) => io("keep copies of the damaged log files", error),
            RecoverError::Unclaimed(error) => io("read the copies of unclaimed records", error),
            RecoverError::Write(error) => io("write to the log", error),
            RecoverError::Folder { folder, error } => of_directory(&data_dir.join(folder))(error),
            RecoverError::Log(error) => Self::Log { data_dir, error },
            RecoverError::Definitions(lost) => Self::Definitions { data_dir, lost },
            RecoverError::OfMember(lost) => Self::OfMember { data_dir, lost },
            RecoverError::NotAlone(error) => Self::NotAlone { data_dir, error },
            RecoverError::Packs(error) => Self::Packs { packs_dir: data_dir.join(PACKS_DIR), error },
            RecoverError::Streams(error) => Self::Streams { streams_dir: data_dir.join(STREAMS_DIR), error },
        }
    }
}

/// Returns the start of the node that this identity counts.
pub(crate) fn this_start(identity: &Identity) -> Origin {
    let [a, b, c, d, ..] = identity.node;
    Origin { node: NodeId(u32::from_be_bytes([a, b, c, d])), boot: identity.boots as u32 }
}

/// Returns the start after the one that this identity counts.
pub(crate) fn next_start(identity: &Identity) -> Origin {
    let Origin { node, boot } = this_start(identity);
    Origin { node, boot: boot.saturating_add(1) }
}

/// Refuses a data directory of a newer program, before anything in it is changed.
pub(crate) fn refuse_newer(data_dir: &Path) -> Result<(), StartError> {
    let (packs_dir, streams_dir) = (data_dir.join(PACKS_DIR), data_dir.join(STREAMS_DIR));
    for folder in [data_dir.to_owned(), packs_dir.clone(), streams_dir.clone()] {
        if !folder.is_dir() {
            continue;
        }
        let newer = PreviewDisk::new(&folder).and_then(|mut disk| wal::newer_file(&mut disk));
        let what = || format!("cannot read {}", folder.display());
        let newer = newer.map_err(|error| StartError::Io { what: what(), error })?;
        let Some((kind, file, version)) = newer else { continue };
        return Err(match kind {
            FileKind::Pack => {
                StartError::Packs { packs_dir, error: PackError::NewerFormat { file, version } }
            }
            FileKind::Segment => {
                StartError::Streams { streams_dir, error: StreamError::Newer { file, version } }
            }
            FileKind::Log | FileKind::Other => StartError::Log {
                data_dir: data_dir.to_owned(),
                error: OpenError::NewerFormat { file, version },
            },
        });
    }
    let unclaimed_dir = data_dir.join(UNCLAIMED_DIR);
    if unclaimed_dir.is_dir() {
        let listed = PreviewDisk::new(&unclaimed_dir).and_then(|mut disk| unclaimed::list(&mut disk));
        listed.map_err(|error| StartError::recovering(data_dir, RecoverError::Unclaimed(error)))?;
    }
    Ok(())
}

pub(crate) fn open_dir(path: &Path, sharing: Sharing) -> Result<RealDisk, StartError> {
    RealDisk::shared(path, sharing).map_err(of_directory(path))
}

fn of_directory(path: &Path) -> impl FnOnce(io::Error) -> StartError {
    move |error| StartError::Io {
        what: format!("cannot use the data directory {}, which --data-dir names", path.display()),
        error,
    }
}

/// The directory of the copies of unclaimed records, inside the data directory.
pub(crate) const UNCLAIMED_DIR: &str = "unclaimed";

/// Opens a folder of a data directory. If it does not exist, it is made if `make` is true, else there is none.
pub(crate) fn open_folder(
    data_dir: &Path,
    folder: &str,
    sharing: Sharing,
    make: bool,
) -> io::Result<Option<RealDisk>> {
    let path = data_dir.join(folder);
    if !make && !path.is_dir() {
        return Ok(None);
    }
    let disk = RealDisk::shared(&path, sharing)?;
    // An earlier process may have been killed after it had made the folder, and before its name was synced.
    File::open(data_dir)?.sync_all()?;
    Ok(Some(disk))
}

/// Removes the directory of the copies of unclaimed records if nothing is in it.
pub(crate) fn remove_empty_unclaimed(data_dir: &Path) {
    // If the disk refuses, an empty directory is left.
    let _ = std::fs::remove_dir(data_dir.join(UNCLAIMED_DIR));
}

/// The directories below a data directory.
const FOLDERS: [&str; 4] = [PACKS_DIR, STREAMS_DIR, DAMAGED_DIR, UNCLAIMED_DIR];

/// Gives the modes of new files to those that older versions or a copy have left. Logs how many were changed, and what cannot be.
pub(crate) fn tighten(data_dir: &Path, sharing: Sharing) -> Result<(), StartError> {
    let Tightened { changed, loose } =
        tighten::tighten(data_dir, sharing, &FOLDERS).map_err(of_directory(data_dir))?;
    if changed > 0 {
        let (of, setting) = match sharing {
            Sharing::Owner => ("their owner's alone", "true lets their group in"),
            Sharing::Group => ("their owner's and their group's", "false shuts their group out"),
        };
        tracing::info!(
            "{changed} files and directories of the data directory have new modes: they are {of}; data_dir.group_access = {setting}"
        );
    }
    if let Some(loose) = loose {
        let Loose { example, mode, count } = loose;
        tracing::warn!(
            "the data directory is not its owner's alone: others may use {} (mode {mode:04o}), {count} files and directories in \
             all. They belong to another user, or the directory has other files, too, or is set up for a group; \
             data_dir.group_access = true says that a group is intended",
            example.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crc32c(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1)))
        })
    }

    #[test]
    fn a_copy_of_a_newer_program_is_refused_and_named() {
        let data_dir = std::env::temp_dir().join(format!("sluice-newer-copy-{}", std::process::id()));
        let mut disk = RealDisk::new(data_dir.join(UNCLAIMED_DIR)).unwrap();
        let copy = wal::Aside::write(&mut disk, 0x0100_0002, 1, &wal::AsideRecords::default()).unwrap();
        let sound = refuse_newer(&data_dir);
        let path = data_dir.join(UNCLAIMED_DIR).join(copy.name());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[8] += 1;
        let check = crc32c(&bytes[..44]);
        bytes[44..48].copy_from_slice(&check.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let newer = refuse_newer(&data_dir);
        std::fs::remove_dir_all(&data_dir).unwrap();
        assert!(sound.is_ok());
        let told = newer.unwrap_err().to_string();
        assert!(told.starts_with("cannot read the copies of unclaimed records in "), "{told}");
        assert!(told.ends_with("file 0000000001000002 has format version 2; this program knows 1"), "{told}");
    }

    #[test]
    fn a_data_directory_that_cannot_be_written_is_named() {
        let error = ErrorKind::PermissionDenied.into();
        let error = StartError::Log {
            data_dir: "/var/lib/x".into(),
            error: OpenError::Io { file: "lock".into(), error },
        };
        let told = error.to_string();
        let expected = "cannot write to the data directory /var/lib/x, which --data-dir names: file lock: ";
        assert!(told.starts_with(expected), "{told}");
    }
}
