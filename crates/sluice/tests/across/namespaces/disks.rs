//! The disks of the nodes. They are mounted in the namespace of the test.

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::Command;

use false_disk::{Mounted, Options};

use super::say;
use crate::nodes::Node;

/// The node with the small disk, and its size: some times what the log takes.
const FULL: usize = 0;
const SMALL: u64 = 128 * 1024 * 1024;
/// With less free space the node has an alarm, which stops publishers on all nodes.
const ALARM: &str = "disk_free_limit.absolute=24MiB";
/// The node with the disk whose syncs can stand still.
const SLOW: usize = 1;

pub(super) struct Disks {
    small: PathBuf,
    /// `None` if the system has no file systems in user space.
    slow: Option<(PathBuf, Mounted)>,
}

impl Disks {
    /// Mounts the disks of nodes that do not run yet.
    pub(super) fn mount(nodes: &mut [Node]) -> Self {
        let data = |node: &Node| {
            let data = node.directory.path().join("data");
            std::fs::create_dir(&data).unwrap();
            data
        };
        let small = data(&nodes[FULL]);
        let words = ["-t", "tmpfs", "-o", &format!("size={SMALL}"), "sluice"];
        assert!(Command::new("mount").args(words).arg(&small).status().unwrap().success());
        nodes[FULL].sets.push(ALARM.to_owned());
        let slow = data(&nodes[SLOW]);
        let mounted = Mounted::new(&slow, Options::default());
        if let Err(error) = &mounted {
            say(&format!(
                "network: no sync stands still, because no file system can be in user space here: {error}"
            ));
        }
        Self { small, slow: mounted.ok().map(|mounted| (slow, mounted)) }
    }

    /// Lets the small disk be full.
    pub(super) fn fill(&self) {
        let mut file = std::fs::File::create(self.small.join("filler")).unwrap();
        let full = loop {
            if let Err(error) = file.write_all(&[1; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
    }

    pub(super) fn clean(&self) {
        std::fs::remove_file(self.small.join("filler")).unwrap();
    }

    /// Lets no sync of the false disk end, or all of them.
    pub(super) fn hold_syncs(&self, holds: bool) {
        if let Some((slow, _)) = &self.slow {
            // The disk has no such names: to look them up is what counts.
            assert!(!slow.join(if holds { ".hold-syncs" } else { ".let-syncs" }).exists());
        }
    }

    /// Unmounts the disks of nodes that have ended.
    pub(super) fn unmount(self) {
        assert!(Command::new("umount").arg(self.small).status().unwrap().success());
        if let Some((_, mounted)) = self.slow {
            mounted.unmount().unwrap();
        }
    }
}
