//! Creates files and directories that belong to their owner alone, whatever the umask of the process says. The whole product
//! creates those of a data directory here.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The bits of a mode.
pub(crate) const MODE: u32 = 0o7777;

/// The bits by which a group may read and write a file.
const GROUP_USES: u32 = 0o060;

/// What the owner of a file needs.
const OWNER_OF_FILE: u32 = 0o600;

/// What the owner of a directory needs.
const OWNER_OF_DIRECTORY: u32 = 0o700;

/// What a directory is created with that the umask is to decide about.
const USUAL_DIRECTORY: u32 = 0o777;

/// The file whose lock protects the whole directory.
pub(crate) const LOCK: &str = "lock";

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
    /// Returns how an existing data directory is shared, for a program that only visits it. A file of the broker says so: the
    /// directory may be the top of a volume, whose mode is somebody else's choice.
    pub fn of(directory: &Path) -> Self {
        let mode = std::fs::metadata(directory.join(LOCK)).map_or(0, |metadata| metadata.mode());
        match mode & GROUP_USES == GROUP_USES {
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

    /// Returns the mode of a directory outside the data directory that is made for the log file.
    pub fn log_directory(self) -> u32 {
        match self {
            Self::Owner => 0o750,
            Self::Group => 0o2770,
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

/// Opens a file with these options. If there is none, creates it with this mode. A symbolic link to a file that does not exist
/// creates that file.
///
/// # Errors
/// The file cannot be opened or created.
pub fn open_or_create(options: &OpenOptions, path: &Path, mode: u32) -> io::Result<File> {
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match create_new(options, path, mode) {
        // Somebody else has created it in between, or it is a link to a file that does not exist. The umask may take bits away.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            options.clone().create(true).mode(mode).open(path)
        }
        created => created,
    }
}

/// Creates a file with this mode.
///
/// # Errors
/// The file exists, or cannot be created.
pub fn create_new(options: &OpenOptions, path: &Path, mode: u32) -> io::Result<File> {
    let file = options.clone().create_new(true).mode(mode).open(path)?;
    // The umask may have removed bits.
    let given = file.metadata()?.mode();
    correct(given, mode, OWNER_OF_FILE, |mode| file.set_permissions(mode))?;
    Ok(file)
}

/// Sets a mode if something new was given another one. A file system that has no modes of its own refuses that. Then what was
/// given is enough if the owner has what it `needs`: the start warns of what others may use.
fn correct(
    given: u32,
    wanted: u32,
    needs: u32,
    set: impl FnOnce(Permissions) -> io::Result<()>,
) -> io::Result<()> {
    if given & MODE == wanted {
        return Ok(());
    }
    match set(Permissions::from_mode(wanted)) {
        Err(error)
            if given & needs == needs
                && matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        done => done,
    }
}

/// Creates a directory with this mode, and its missing parents with the usual one. Syncs their names, so a power failure
/// cannot remove the directory of files that are synced later.
///
/// # Errors
/// A directory cannot be created or synced.
pub fn create_directory(path: &Path, mode: u32) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
    for made in missing.iter().rev().filter(|made| !made.as_os_str().is_empty()) {
        let is_parent = *made != path;
        let asked = if is_parent { USUAL_DIRECTORY } else { mode };
        match std::fs::DirBuilder::new().mode(asked).create(made) {
            // `a/..` exists as soon as `a` does.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            created => created?,
        }
        // The umask may have removed bits, and the call to create a directory ignores the bit for the group.
        let given = std::fs::metadata(made)?.mode();
        let wanted = if is_parent { (given & MODE) | OWNER_OF_DIRECTORY } else { mode };
        correct(given, wanted, OWNER_OF_DIRECTORY, |mode| std::fs::set_permissions(made, mode))?;
    }
    if !path.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    // The parent of a relative path with one component is the empty string.
    let parents = missing.iter().filter_map(|made| made.parent());
    parents.map(|parent| parent.join(".")).try_for_each(|parent| File::open(parent)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_modes_is_used_if_the_owner_has_what_it_needs() {
        use io::ErrorKind::{PermissionDenied, StorageFull, Unsupported};
        for kind in [PermissionDenied, Unsupported] {
            assert!(correct(0o100_755, 0o600, OWNER_OF_FILE, |_| Err(kind.into())).is_ok());
            assert!(correct(0o100_400, 0o600, OWNER_OF_FILE, |_| Err(kind.into())).is_err());
            assert!(correct(0o040_600, 0o700, OWNER_OF_DIRECTORY, |_| Err(kind.into())).is_err());
        }
        assert!(correct(0o100_755, 0o600, OWNER_OF_FILE, |_| Err(StorageFull.into())).is_err());
        let nothing_to_do = correct(0o100_600, 0o600, OWNER_OF_FILE, |_| Err(StorageFull.into()));
        assert!(nothing_to_do.is_ok(), "a mode that is right is not set");
    }

    #[test]
    fn a_link_to_a_file_that_does_not_exist_creates_it() {
        let folder = std::env::temp_dir().join(format!("sluice-files-link-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (link, file) = (folder.join("link"), folder.join("file"));
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let opened = open_or_create(OpenOptions::new().append(true), &link, 0o600);
        let mode = std::fs::metadata(&file).map(|created| created.mode() & MODE);
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
        assert!(opened.is_ok(), "{opened:?}");
        assert_eq!(mode.expect("the file is there"), 0o600);
    }
}
