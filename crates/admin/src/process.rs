//! Figures of this process from the operating system. They exist only on Linux.

use std::fs;

/// Figures from `/proc/self`; `None` where they are not available.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Process {
    pub resident_bytes: Option<u64>,
    pub open_fds: Option<u64>,
    pub max_fds: Option<u64>,
}

impl Process {
    pub(crate) fn read() -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        Self {
            resident_bytes: word(&read("status"), "VmRSS:").map(|kib| kib * 1024),
            open_fds: open_fds(),
            max_fds: word(&read("limits"), "Max open files"),
        }
    }
}

/// The number of open descriptors. Linux 6.2 and later report it directly. On older versions they must be
/// listed, which takes a microsecond or more for each.
fn open_fds() -> Option<u64> {
    const DESCRIPTORS: &str = "/proc/self/fd";
    let told = fs::metadata(DESCRIPTORS).ok().map(|directory| directory.len()).filter(|open| *open > 0);
    // The listing itself has one descriptor open, which is not counted.
    told.or_else(|| fs::read_dir(DESCRIPTORS).ok().map(|fds| (fds.count() as u64).saturating_sub(1)))
}

/// Returns the first number after `name`, where `name` is at the start of a line.
fn word(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_after_names_are_found() {
        assert_eq!(word("VmPeak:\t 9 kB\nVmRSS:\t   1234 kB\n", "VmRSS:"), Some(1234));
        assert_eq!(word("Max open files            1024    524288   files", "Max open files"), Some(1024));
        assert_eq!(word("Max open files            unlimited", "Max open files"), None);
    }
}
