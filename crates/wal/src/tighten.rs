//! Gives the modes of new files to those that older versions or a copy have left in a data directory.

use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::copy::{COPY_FILE, NEW_NAME as NEW_COPY};
use crate::file::{number, spare_number};
use crate::files::{LOCK, LOGS_DIR, MODE, Sharing};
use crate::identity::{NAME as IDENTITY, NEW_NAME as NEW_IDENTITY};
use crate::machine::RESERVE;
use crate::recover::is_cut;

/// Files that are created in it belong to the directory's group.
const SETGID: u32 = 0o2000;

/// Everybody may create files in it, and remove their own.
const STICKY: u32 = 0o1000;

/// What file systems put into the top directory of a volume.
const LOST_AND_FOUND: &str = "lost+found";

/// The bits of a mode by which others than the owner may do anything.
const NOT_OWNER: u32 = 0o077;

/// What [`tighten`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tightened {
    /// The number of files and directories whose modes are others now.
    pub changed: usize,
    /// What could not be changed and gives more people access.
    pub loose: Option<Loose>,
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

/// Gives the modes of new files and directories to those that exist in a data directory: its own, and those of `folders`.
/// These are left as they are, and are [`Loose`] if they give more people access:
///
/// - It belongs to another user.
/// - The directory is set up for a group (setgid), and `sharing` is not, or for everybody (sticky).
/// - It is the directory itself, and others have put something there, too.
///
/// # Errors
/// A directory cannot be read.
pub fn tighten(directory: &Path, sharing: Sharing, folders: &[&str]) -> io::Result<Tightened> {
    let root = std::fs::metadata(directory)?;
    let is_for_group = root.mode() & SETGID != 0 && sharing == Sharing::Owner;
    let may_change = !is_for_group && root.mode() & STICKY == 0;
    let mut tightening = Tightening { sharing, may_change, done: Tightened::default() };
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
            // Where a link leads to, others may keep their log files, too.
            let is_elsewhere = name == LOGS_DIR && path.is_symlink();
            let files = if name == LOGS_DIR { sharing.log_file() } else { sharing.file() };
            if path.is_dir() && !is_elsewhere {
                tightening.visit_folder(&path, files)?;
            }
        } else if is_own_file(name) {
            tightening.visit(&path, Kind::File, sharing.file());
        }
    }
    Ok(tightening.done)
}

/// Returns true if a file of this name in the top directory is one of the log, or one beside it.
fn is_own_file(name: &str) -> bool {
    [LOCK, IDENTITY, NEW_IDENTITY, COPY_FILE, NEW_COPY, RESERVE].contains(&name)
        || number(name).is_some()
        || spare_number(name).is_some()
        || is_cut(name)
}

/// Gives the mode of a new log file to one that exists, as [`tighten`] does.
pub fn tighten_log_file(path: &Path, sharing: Sharing) {
    let parent = path.parent().and_then(|parent| std::fs::metadata(parent.join(".")).ok());
    let is_for_group = parent.is_none_or(|parent| parent.mode() & SETGID != 0) && sharing == Sharing::Owner;
    let mut tightening = Tightening { sharing, may_change: !is_for_group, done: Tightened::default() };
    tightening.visit(path, Kind::File, sharing.log_file());
}

fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

struct Tightening {
    sharing: Sharing,
    may_change: bool,
    done: Tightened,
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
            // It belongs to somebody else, or is gone. Whoever needs it says so.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound) =>
            {
                return Ok(());
            }
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
        let was_set = may_change && std::fs::set_permissions(path, Permissions::from_mode(wanted)).is_ok();
        // A file system without modes of its own may accept any and keep none.
        let after = match was_set {
            true => std::fs::metadata(path).map_or(wanted, |metadata| metadata.mode() & MODE),
            false => mode,
        };
        self.done.changed += usize::from(after != mode);
        if after & NOT_OWNER & !wanted != 0 {
            let loose = || Loose { example: path.to_owned(), mode: after, count: 0 };
            let loose = self.done.loose.get_or_insert_with(loose);
            loose.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(what: &str) -> Self {
            let path = std::env::temp_dir().join(format!("sluice-tighten-{what}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str, mode: u32) {
            std::fs::write(self.0.join(name), name).unwrap();
            self.set(name, mode);
        }

        fn directory(&self, name: &str, mode: u32) {
            std::fs::create_dir(self.0.join(name)).unwrap();
            self.set(name, mode);
        }

        fn set(&self, name: &str, mode: u32) {
            std::fs::set_permissions(self.0.join(name), Permissions::from_mode(mode)).unwrap();
        }

        fn mode(&self, name: &str) -> u32 {
            std::fs::metadata(self.0.join(name)).unwrap().mode() & MODE
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn what_a_link_to_the_logs_leads_to_is_left_alone() {
        let scratch = Scratch::new("link");
        scratch.directory("elsewhere", 0o755);
        scratch.file("elsewhere/of-others.log", 0o644);
        scratch.directory("data", 0o755);
        std::os::unix::fs::symlink(scratch.0.join("elsewhere"), scratch.0.join("data/logs")).unwrap();
        let done = tighten(&scratch.0.join("data"), Sharing::Owner, &[]).unwrap();
        assert_eq!(done, Tightened { changed: 1, loose: None });
        let modes = ["data", "elsewhere", "elsewhere/of-others.log"].map(|name| scratch.mode(name));
        assert_eq!(modes, [0o700, 0o755, 0o644]);
    }

    #[test]
    fn what_is_no_directory_is_no_folder() {
        let scratch = Scratch::new("no-folder");
        scratch.file("logs", 0o644);
        std::os::unix::fs::symlink(scratch.0.join("nowhere"), scratch.0.join("packs")).unwrap();
        tighten(&scratch.0, Sharing::Owner, &["packs"]).unwrap();
        assert_eq!(scratch.mode("logs"), 0o644);
    }

    #[test]
    fn only_names_that_the_log_makes_are_its_own() {
        let scratch = Scratch::new("names");
        let others = ["app.log", "film.cut", "tyre.spare", "1.log", "00000000000000000001-.cut"];
        let own = [
            "lock",
            "00000000000000000001.log",
            "00000000000000000002.spare",
            "00000000000000000003-4096.cut",
        ];
        own.iter().chain(&others).for_each(|name| scratch.file(name, 0o644));
        let done = tighten(&scratch.0, Sharing::Owner, &[]).unwrap();
        assert_eq!(done.changed, own.len());
        assert_eq!(own.map(|name| scratch.mode(name)), [0o600; 4]);
        assert_eq!(others.map(|name| scratch.mode(name)), [0o644; 5]);
        assert_eq!(done.loose.unwrap().example, scratch.0, "others have files in it, so it stays as it is");
    }

    /// The top directory of a volume in Kubernetes belongs to root and has a mode of its own.
    #[test]
    fn a_file_of_the_broker_says_whether_a_group_is_let_in() {
        let scratch = Scratch::new("sharing");
        assert_eq!(Sharing::of(&scratch.0), Sharing::Owner, "there is no file");
        scratch.file("lock", 0o600);
        scratch.set("", 0o2775);
        assert_eq!(Sharing::of(&scratch.0), Sharing::Owner);
        scratch.set("lock", 0o660);
        assert_eq!(Sharing::of(&scratch.0), Sharing::Group);
        scratch.set("lock", 0o640);
        assert_eq!(Sharing::of(&scratch.0), Sharing::Owner);
    }
}
