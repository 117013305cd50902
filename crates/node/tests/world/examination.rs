//! What `sluice doctor` says about simulated disks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use node::doctor::{Examined, examine};
use wal_testing::SimDisk;

use crate::recovered::SimDisks;

/// The number of directories that were made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A directory with the files of simulated disks, and what is in it.
pub(super) struct Examination {
    directory: PathBuf,
    examined: Examined,
}

impl Examination {
    /// Writes the files to a directory of this machine, and examines it.
    pub(super) fn of(disks: &SimDisks) -> Self {
        let number = MADE.fetch_add(1, Relaxed);
        let directory = std::env::temp_dir().join(format!("sluice-damage-{}-{number}", std::process::id()));
        let SimDisks { log, packs, streams, unclaimed } = disks;
        write(&directory, log);
        write(&directory.join("packs"), packs);
        write(&directory.join("streams"), streams);
        write(&directory.join("unclaimed"), unclaimed);
        let before = contents(&directory);
        let examined = examine(&directory).expect("nobody uses the directory");
        assert_eq!(contents(&directory), before, "doctor changes nothing");
        Self { directory, examined }
    }

    pub(super) fn is_sound(&self) -> bool {
        self.examined.is_sound()
    }

    /// Checks that it says what a start does.
    pub(super) fn check(&self, is_refused: bool, mut closed: Vec<String>, unclaimed: &[u64]) {
        assert_eq!(self.examined.lost.is_some(), is_refused);
        let mut told = self.examined.closed.clone();
        told.sort_unstable();
        closed.sort_unstable();
        assert_eq!(told, closed);
        let owners: Vec<u64> = self.examined.unclaimed.iter().map(|data| data.owner).collect();
        assert_eq!(owners, unclaimed);
    }
}

impl Drop for Examination {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn write(directory: &Path, disk: &SimDisk) {
    std::fs::create_dir_all(directory).unwrap();
    for (name, bytes) in disk.files() {
        std::fs::write(directory.join(name), bytes).unwrap();
    }
    // Notes are in the lock file.
    std::fs::write(directory.join("lock"), disk.note()).unwrap();
}

fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for folder in ["", "packs", "streams", "unclaimed"] {
        for entry in std::fs::read_dir(directory.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                files.insert(path.clone(), std::fs::read(path).unwrap());
            }
        }
    }
    files
}
