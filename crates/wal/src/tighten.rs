//! Gives the modes of new files to those that older versions or a copy have left in a data directory.

use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::disk::LOCK;
use crate::file::{LOG_SUFFIX, SPARE_SUFFIX};
use crate::files::{LOGS_DIR, Sharing};
use crate::identity::{NAME as IDENTITY, NEW_NAME as NEW_IDENTITY};
use crate::machine::RESERVE;
use crate::recover::CUT_SUFFIX;

/// Files that are created in it belong to the directory's group.
const SETGID: u32 = 0o2000;

/// Everybody may create files in it, and remove their own.
const STICKY: u32 = 0o1000;

/// What file systems put into the top directory of a volume.
const LOST_AND_FOUND: &str = "lost+found";

/// The bits of a mode.
const MODE: u32 = 0o7777;

/// The bits of a mode by which others than the owner may do anything.
const NOT_OWNER: u32 = 0o077;

/// What others than the owner may still use after [`tighten`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loose {
    /// One of the files or directories, and its mode.
    pub example: PathBuf,
    pub mode: u32,
    /// The number of all of them.
    pub count: usize,
}

/// Gives the modes of new files and directories to those that exist in a data directory: its own, and those of `folders`. Returns
/// what could not be changed and gives more people access:
///
/// - It belongs to another user.
/// - The directory is set up for a group (setgid), and `sharing` is not, or for everybody (sticky).
/// - It is the directory itself, and others have put something there, too.
///
/// # Errors
/// A directory cannot be read.
pub fn tighten(directory: &Path, sharing: Sharing, folders: &[&str]) -> io::Result<Option<Loose>> {
    let root = std::fs::metadata(directory)?;
    let is_for_group = root.mode() & SETGID != 0 && sharing == Sharing::Owner;
    let may_change = !is_for_group && root.mode() & STICKY == 0;
    let mut tightening = Tightening { sharing, may_change, loose: None };
    let names = std::fs::read_dir(directory)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<String>>>()?;
    let is_folder = |name: &str| folders.contains(&name) || name == LOGS_DIR;
    let has_others =
        names.iter().any(|name| !is_folder(name) && !is_own_file(name) && name != LOST_AND_FOUND);
    // The top directory of a volume often belongs to root. Who may only list it cannot read what is in it.
    if sharing == Sharing::Owner || is_own(&root) {
        tightening.may_change = may_change && !has_others;
        tightening.visit(directory, Kind::Directory, sharing.directory());
        tightening.may_change = may_change;
    }
    for name in &names {
        let path = directory.join(name);
        if is_folder(name) {
            let files = if name == LOGS_DIR { sharing.log_file() } else { sharing.file() };
            tightening.visit_folder(&path, files)?;
        } else if is_own_file(name) {
            tightening.visit(&path, Kind::File, sharing.file());
        }
    }
    Ok(tightening.loose)
}

/// Returns true if a file of this name in the top directory is one of the log, or one beside it.
fn is_own_file(name: &str) -> bool {
    [LOCK, IDENTITY, NEW_IDENTITY, RESERVE].contains(&name)
        || [LOG_SUFFIX, SPARE_SUFFIX, CUT_SUFFIX].iter().any(|suffix| name.ends_with(suffix))
}

/// Gives the mode of a new log file to one that exists, as [`tighten`] does.
pub fn tighten_log_file(path: &Path, sharing: Sharing) {
    let parent = path.parent().and_then(|parent| std::fs::metadata(parent.join(".")).ok());
    let is_for_group = parent.is_none_or(|parent| parent.mode() & SETGID != 0) && sharing == Sharing::Owner;
    let mut tightening = Tightening { sharing, may_change: !is_for_group, loose: None };
    tightening.visit(path, Kind::File, sharing.log_file());
}

fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

struct Tightening {
    sharing: Sharing,
    may_change: bool,
    loose: Option<Loose>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
}

impl Tightening {
    /// Visits a directory and the files in it.
    fn visit_folder(&mut self, folder: &Path, files: u32) -> io::Result<()> {
        self.visit(folder, Kind::Directory, self.sharing.directory());
        let entries = match std::fs::read_dir(folder) {
            // It belongs to somebody else. Whoever needs it says so.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            self.visit(&entry?.path(), Kind::File, files);
        }
        Ok(())
    }

    /// Gives something this mode. What is gone meanwhile or of another kind, such as a link, is left alone.
    fn visit(&mut self, path: &Path, kind: Kind, wanted: u32) {
        // The data directory itself may be named by a link.
        let metadata = match kind {
            Kind::Directory => std::fs::metadata(path).ok().filter(Metadata::is_dir),
            Kind::File => std::fs::symlink_metadata(path).ok().filter(Metadata::is_file),
        };
        let Some(metadata) = metadata else { return };
        let mode = metadata.mode() & MODE;
        if mode == wanted {
            return;
        }
        let may_change = self.may_change && is_own(&metadata);
        if may_change && std::fs::set_permissions(path, Permissions::from_mode(wanted)).is_ok() {
            return;
        }
        if mode & NOT_OWNER & !wanted != 0 {
            let loose = self.loose.get_or_insert_with(|| Loose { example: path.to_owned(), mode, count: 0 });
            loose.count += 1;
        }
    }
}
