//! Creates files and directories that belong to their owner alone, whatever the umask of the process says. The whole product
//! creates those of a data directory here.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The directory of the log file below a data directory.
pub const LOGS_DIR: &str = "logs";

/// Who may use the files of a data directory besides their owner. Others than the group never may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    #[default]
    Owner,
    /// The group of the directory (`data_dir.group_access`), for containers whose user is another one after each start.
    Group,
}

impl Sharing {
    /// Returns how an existing directory is shared, for a program that only visits it.
    pub fn of(directory: &Path) -> Self {
        let mode = std::fs::metadata(directory).map_or(0, |metadata| metadata.mode());
        match mode & 0o7777 == Self::Group.directory() {
            true => Self::Group,
            false => Self::Owner,
        }
    }

    /// Returns the mode of a directory.
    pub fn directory(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Group => 0o2770,
        }
    }

    /// Returns the mode of a file.
    pub fn file(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Group => 0o660,
        }
    }

    /// Returns the mode of a log file. Whoever watches a broker may read it as a member of its group.
    pub fn log_file(self) -> u32 {
        match self {
            Self::Owner => 0o640,
            Self::Group => 0o660,
        }
    }
}

/// Opens a file with these options. If there is none, creates it with this mode.
///
/// # Errors
/// The file cannot be opened or created.
pub fn open_or_create(options: &OpenOptions, path: &Path, mode: u32) -> io::Result<File> {
    loop {
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match create_new(options, path, mode) {
            // Somebody else has created it in between.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created,
        }
    }
}

/// Creates a file with this mode.
///
/// # Errors
/// The file exists, or cannot be created.
pub fn create_new(options: &OpenOptions, path: &Path, mode: u32) -> io::Result<File> {
    let file = options.clone().create_new(true).mode(mode).open(path)?;
    // The umask may have removed bits.
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Creates a directory and its missing parents, and syncs their names. So a power failure cannot remove the
/// directory of files that are synced later.
///
/// # Errors
/// A directory cannot be created or synced.
pub fn create_directory(path: &Path, sharing: Sharing) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
    for made in missing.iter().rev().filter(|made| !made.as_os_str().is_empty()) {
        match std::fs::DirBuilder::new().mode(sharing.directory()).create(made) {
            // `a/..` exists as soon as `a` does.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            created => created?,
        }
        // The umask may have removed bits, and the call to create a directory ignores the bit for the group.
        std::fs::set_permissions(made, Permissions::from_mode(sharing.directory()))?;
    }
    if !path.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    // The parent of a relative path with one component is the empty string.
    let parents = missing.iter().filter_map(|made| made.parent());
    parents.map(|parent| parent.join(".")).try_for_each(|parent| File::open(parent)?.sync_all())
}
