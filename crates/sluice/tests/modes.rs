//! Who may read and write what the broker creates: its owner alone, whatever the umask says.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{Gid, Uid, chown};

use super::broker::{Broker, Directory, Starting, verb};

/// With the last one, a program could not even read its own files.
const UMASKS: [&str; 5] = ["0000", "0022", "0027", "0077", "0777"];

const SHARED: &str = "data_dir.group_access=true";

const WARNING: &str = "the data directory is not its owner's alone";

fn start(directory: &Directory, umask: &str, sets: &[&str]) -> Broker {
    let sets = [sets, &["log.file=sluice.log"]].concat();
    Starting::spawn_under(directory, &format!("umask {umask}"), &sets).finish()
}

/// Makes the broker create files of each kind.
fn fill(broker: &Broker) {
    for kind in ["classic", "quorum", "stream"] {
        broker.verb(&["declare", "queue", kind, "--type", kind]).done();
        broker.verb(&["send", kind, "a message"]).done();
    }
}

/// Returns the modes of a directory and of everything in it, by the paths.
fn modes(data: &Path) -> BTreeMap<String, (bool, u32)> {
    let mut modes = BTreeMap::new();
    let mut left = vec![data.to_owned()];
    while let Some(path) = left.pop() {
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        modes.insert(path.strip_prefix(data).unwrap().display().to_string(), (metadata.is_dir(), mode));
        if metadata.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    modes
}

/// Checks the modes of all directories, all files, and the log file.
fn check(data: &Path, directories: u32, files: u32, log: u32, when: &str) {
    let modes = modes(data);
    assert!(
        modes.len() > 8
            && modes.contains_key("lock")
            && modes.keys().any(|path| path.starts_with("streams/"))
    );
    for (path, (is_directory, mode)) in modes {
        let wanted = match is_directory {
            true => directories,
            false if path.starts_with("logs/") => log,
            false => files,
        };
        assert_eq!(format!("{mode:04o}"), format!("{wanted:04o}"), "{path} {when}");
    }
}

#[test]
fn everything_belongs_to_its_owner_alone_whatever_the_umask_is() {
    for umask in UMASKS {
        let directory = Directory::new("modes");
        let broker = start(&directory, umask, &[]);
        fill(&broker);
        assert!(broker.terminate().success());
        check(&directory.path().join("data"), 0o700, 0o600, 0o640, &format!("with umask {umask}"));
        assert!(!directory.logged().contains(WARNING), "{}", directory.logged());
    }
}

#[test]
fn a_group_may_be_let_in_and_nobody_else() {
    for umask in UMASKS {
        let directory = Directory::new("modes-group");
        let broker = start(&directory, umask, &[SHARED]);
        fill(&broker);
        assert!(broker.terminate().success());
        check(&directory.path().join("data"), 0o2770, 0o660, 0o660, &format!("with umask {umask}"));
        assert!(!directory.logged().contains(WARNING), "{}", directory.logged());
    }
}

/// Whoever watches a broker may reach the file of its log, if it is outside the data directory.
#[test]
fn a_group_reaches_a_log_file_outside_the_data_directory() {
    let directory = Directory::new("modes-log");
    let (above, logs) = (directory.path().join("var"), directory.path().join("var/log/sluice"));
    let dir = format!("log.dir={}", logs.display());
    assert!(start(&directory, "0022", &[&dir]).terminate().success());
    let modes = modes(&above);
    for (path, mode) in [("", 0o755), ("log", 0o755), ("log/sluice", 0o750), ("log/sluice/sluice.log", 0o640)]
    {
        assert_eq!(format!("{:04o}", modes[path].1), format!("{mode:04o}"), "{path}");
    }
    assert!(!directory.path().join("data/logs").exists());
    assert!(!directory.logged().contains("have new modes"), "{}", directory.logged());
}

fn set_modes(data: &Path, directories: u32, files: u32) {
    for (path, (is_directory, _)) in modes(data) {
        let mode = if is_directory { directories } else { files };
        std::fs::set_permissions(data.join(path), Permissions::from_mode(mode)).unwrap();
    }
}

#[test]
fn what_an_older_version_has_left_is_tightened() {
    let directory = Directory::new("modes-old");
    let data = directory.path().join("data");
    let broker = start(&directory, "0022", &[]);
    fill(&broker);
    assert!(broker.terminate().success());
    set_modes(&data, 0o755, 0o644);
    assert!(start(&directory, "0022", &[]).terminate().success());
    check(&data, 0o700, 0o600, 0o640, "after a start");
    let logged = directory.logged();
    assert_eq!(logged.matches("have new modes: they are their owner's alone").count(), 1, "{logged}");
    assert!(logged.contains("data_dir.group_access = true lets their group in"), "{logged}");
    // The group is let in later, and shut out again.
    assert!(start(&directory, "0022", &[SHARED]).terminate().success());
    check(&data, 0o2770, 0o660, 0o660, "with group access");
    assert!(!directory.logged().contains(WARNING), "{}", directory.logged());
}

#[test]
fn a_directory_that_is_set_up_for_a_group_is_warned_of_once_and_used() {
    let directory = Directory::new("modes-setgid");
    let data = directory.path().join("data");
    assert!(start(&directory, "0022", &[]).terminate().success());
    set_modes(&data, 0o2775, 0o664);
    let broker = start(&directory, "0022", &[]);
    fill(&broker);
    assert!(broker.terminate().success());
    let logged = directory.logged();
    assert_eq!(logged.matches(WARNING).count(), 1, "{logged}");
    assert!(logged.contains("(mode 2775)") && logged.contains("data_dir.group_access = true"), "{logged}");
    let kept = modes(&data);
    assert_eq!(
        (kept[""], kept["lock"]),
        ((true, 0o2775), (false, 0o664)),
        "they are as the operator has made them"
    );
    assert!(kept.values().any(|(is_directory, mode)| !is_directory && *mode == 0o600), "new files are tight");
    // With the setting, the group stays and everybody else is shut out.
    assert!(start(&directory, "0022", &[SHARED]).terminate().success());
    check(&data, 0o2770, 0o660, 0o660, "with group access");
    assert_eq!(directory.logged().matches(WARNING).count(), 1);
}

#[test]
fn files_of_another_user_are_warned_of_once() {
    let directory = Directory::new("modes-other");
    let data = directory.path().join("data");
    assert!(start(&directory, "0022", &[]).terminate().success());
    let (foreign, also) = (data.join("packs/foreign"), data.join("packs/also"));
    for path in [&foreign, &also] {
        std::fs::write(path, "of another user").unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        // Only root can give files away.
        if chown(path, Some(Uid::from_raw(65_534)), Some(Gid::from_raw(65_534))).is_err() {
            return;
        }
    }
    assert!(start(&directory, "0022", &[]).terminate().success());
    let logged = directory.logged();
    assert_eq!(logged.matches(WARNING).count(), 1, "{logged}");
    assert!(logged.contains("(mode 0644), 2 files and directories in all"), "{logged}");

    // With group access, the top directory may belong to root, as that of a volume does.
    for path in [&foreign, &also] {
        std::fs::set_permissions(path, Permissions::from_mode(0o660)).unwrap();
    }
    chown(&data, Some(Uid::from_raw(65_534)), None).unwrap();
    std::fs::set_permissions(&data, Permissions::from_mode(0o2775)).unwrap();
    assert!(start(&directory, "0022", &[SHARED]).terminate().success());
    assert_eq!(directory.logged().matches(WARNING).count(), 1);
}

/// Somebody may have named a directory that is not the broker's alone.
#[test]
fn what_is_not_the_brokers_is_left_alone() {
    let directory = Directory::new("modes-mixed");
    let data = directory.path().join("data");
    assert!(start(&directory, "0022", &[]).terminate().success());
    let (program, folder) = (data.join("program"), data.join("folder"));
    std::fs::write(&program, "#!/bin/sh").unwrap();
    std::fs::create_dir(&folder).unwrap();
    set_modes(&data, 0o755, 0o755);
    assert!(start(&directory, "0022", &[]).terminate().success());
    let modes = modes(&data);
    for (path, mode) in
        [("", 0o755), ("program", 0o755), ("folder", 0o755), ("lock", 0o600), ("packs", 0o700)]
    {
        assert_eq!(format!("{:04o}", modes[path].1), format!("{mode:04o}"), "{path}");
    }
    let logged = directory.logged();
    assert_eq!(logged.matches(WARNING).count(), 1, "{logged}");
    assert!(logged.contains("(mode 0755), 1 files and directories in all"), "{logged}");
}

/// The top directory of a volume in Kubernetes belongs to root and has a mode of its own, which says nothing.
#[test]
fn a_group_is_let_in_whatever_the_mode_of_the_volume_is() {
    let directory = Directory::new("modes-volume");
    let data = directory.path().join("data");
    assert!(start(&directory, "0022", &[SHARED]).terminate().success());
    std::fs::set_permissions(&data, Permissions::from_mode(0o2775)).unwrap();
    // Only root can give files away.
    let is_of_another = chown(&data, Some(Uid::from_raw(65_534)), None).is_ok();
    // A part that was cut off the log makes a command and a start create a directory.
    let cut = |from: u32| std::fs::write(data.join(format!("{:020}-{from}.cut", 1)), "cut").unwrap();
    let damaged = || modes(&data)["damaged"].1;
    cut(48);
    let password = directory.path().join("password");
    std::fs::write(&password, "a password").unwrap();
    let (data_dir, password) = (data.to_str().unwrap(), password.to_str().unwrap());
    verb::sluice(&["add", "user", "anna", "--data-dir", data_dir, "--password-file", password]).done();
    assert_eq!(format!("{:04o}", damaged()), "2770", "after a command");
    if is_of_another {
        std::fs::remove_dir_all(data.join("damaged")).unwrap();
        cut(49);
        assert!(start(&directory, "0022", &[SHARED]).terminate().success());
        assert_eq!(format!("{:04o}", damaged()), "2770", "after a start");
    }
}
