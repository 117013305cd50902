//! Creates files and directories that belong to their owner alone, whatever the umask of the process says. The whole product
//! creates those of a data directory here.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The directory of the log file below a data directory.
pub const LOGS_DIR: &str = "logs";

/// Files that are created in it belong to the directory's group.
const SETGID: u32 = 0o2000;

/// The bits of a mode.
const MODE: u32 = 0o7777;

/// The bits of a mode by which others than the owner may do anything.
const NOT_OWNER: u32 = 0o077;

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
        match mode & MODE == Self::Group.directory() {
            true => Self::Group,
            false => Self::Owner,
        }
    }

    fn directory(self) -> u32 {
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

/// What others than the owner may still use after [`tighten`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loose {
    /// One of the files or directories, and its mode.
    pub example: PathBuf,
    pub mode: u32,
    /// The number of all of them.
    pub count: usize,
}

/// Gives the modes of new files and directories to those that exist in a data directory. Returns what could not be changed and
/// gives more people access: it belongs to somebody else, or the directory is set up for a group (setgid) and `sharing` is not.
///
/// # Errors
/// A directory cannot be read.
pub fn tighten(directory: &Path, sharing: Sharing) -> io::Result<Option<Loose>> {
    let root = std::fs::metadata(directory)?;
    let is_for_group = root.mode() & SETGID != 0 && sharing == Sharing::Owner;
    let mut tightening = Tightening { sharing, may_change: !is_for_group, loose: None };
    // The top directory of a volume often belongs to root. Who may only list it cannot read what is in it.
    if sharing == Sharing::Owner || is_own(&root) {
        tightening.visit(directory, &root, sharing.directory());
    }
    tightening.walk(directory, sharing.file())?;
    Ok(tightening.loose)
}

/// Gives the mode of a new log file to one that exists, as [`tighten`] does.
pub fn tighten_log_file(path: &Path, sharing: Sharing) {
    let parent = path.parent().and_then(|parent| std::fs::metadata(parent.join(".")).ok());
    let is_for_group = parent.is_none_or(|parent| parent.mode() & SETGID != 0) && sharing == Sharing::Owner;
    if let Ok(metadata) = std::fs::symlink_metadata(path)
        && metadata.is_file()
    {
        let mut tightening = Tightening { sharing, may_change: !is_for_group, loose: None };
        tightening.visit(path, &metadata, sharing.log_file());
    }
}

fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

struct Tightening {
    sharing: Sharing,
    may_change: bool,
    loose: Option<Loose>,
}

impl Tightening {
    /// Visits what is in a directory. `files` is the mode of its files.
    fn walk(&mut self, directory: &Path, files: u32) -> io::Result<()> {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            let metadata = match std::fs::symlink_metadata(&path) {
                // It was removed in between.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            if metadata.is_dir() {
                self.visit(&path, &metadata, self.sharing.directory());
                let is_of_log = path.file_name().is_some_and(|name| name == LOGS_DIR);
                let files = if is_of_log { self.sharing.log_file() } else { files };
                match self.walk(&path, files) {
                    // It belongs to somebody else, such as the `lost+found` of a volume. Nothing in it is ours.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                    walked => walked?,
                }
            } else if metadata.is_file() {
                self.visit(&path, &metadata, files);
            }
        }
        Ok(())
    }

    fn visit(&mut self, path: &Path, metadata: &Metadata, wanted: u32) {
        let mode = metadata.mode() & MODE;
        if mode == wanted {
            return;
        }
        let may_change = self.may_change && is_own(metadata);
        if may_change && std::fs::set_permissions(path, Permissions::from_mode(wanted)).is_ok() {
            return;
        }
        if mode & NOT_OWNER & !wanted != 0 {
            let loose = self.loose.get_or_insert_with(|| Loose { example: path.to_owned(), mode, count: 0 });
            loose.count += 1;
        }
    }
}
