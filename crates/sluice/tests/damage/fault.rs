//! Makes one fault in the files of a broker that is not running.

use std::fs;
use std::path::{Path, PathBuf};

use random::Random;

/// A fault in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// One bit is flipped.
    Flip,
    /// The file is cut at any byte.
    Truncate,
    Remove,
    /// The file has the content it had when half of the messages had been published.
    Older,
    /// The file swaps its content with another file of its kind.
    Swap,
    Nothing,
}

const FAULTS: [Fault; 8] = [
    Fault::Flip,
    Fault::Flip,
    Fault::Flip,
    Fault::Truncate,
    Fault::Remove,
    Fault::Older,
    Fault::Swap,
    Fault::Nothing,
];

impl Fault {
    pub(super) fn pick(random: &mut Random) -> Self {
        FAULTS[random.between(0, FAULTS.len() as u64) as usize]
    }

    /// Makes the fault in a suitable file. Returns a description of what was done.
    pub(super) fn make(self, data: &Path, older: &Path, random: &mut Random) -> String {
        let mut files = files(data);
        files.retain(|file| match self {
            Self::Flip | Self::Truncate => size(&data.join(file)) > 0,
            Self::Older => older.join(file).exists(),
            Self::Swap => true,
            Self::Remove => true,
            Self::Nothing => false,
        });
        let Some(last) = files.len().checked_sub(1) else { return format!("{self:?}") };
        let name = files[random.between(0, last as u64 + 1) as usize].clone();
        let file = data.join(&name);
        let mut bytes = fs::read(&file).unwrap();
        let at = random.between(0, bytes.len().max(1) as u64) as usize;
        let mut what = format!("{self:?} {}", name.display());
        match self {
            Self::Flip => {
                let bit = random.between(0, 8);
                bytes[at] ^= 1 << bit;
                fs::write(&file, bytes).unwrap();
                what += &format!(" at {at}, bit {bit}");
            }
            Self::Truncate => {
                fs::write(&file, &bytes[..at]).unwrap();
                what += &format!(" to {at} of {} bytes", bytes.len());
            }
            Self::Remove => fs::remove_file(&file).unwrap(),
            Self::Older => drop(fs::copy(older.join(&name), &file).unwrap()),
            Self::Swap => {
                let like = |other: &&PathBuf| other.extension() == name.extension() && **other != name;
                if let Some(other) = files.iter().find(like) {
                    let theirs = fs::read(data.join(other)).unwrap();
                    fs::write(&file, theirs).unwrap();
                    fs::write(data.join(other), bytes).unwrap();
                    what += &format!(" with {}", other.display());
                }
            }
            Self::Nothing => {}
        }
        what
    }
}

/// Lists the files of a data directory that hold data.
fn files(data: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for directory in ["", "packs", "streams"] {
        for entry in fs::read_dir(data.join(directory)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            let is_spare = name.to_str().is_none_or(|name| name == "reserve" || name.ends_with(".spare"));
            if entry.file_type().unwrap().is_file() && !is_spare {
                files.push(Path::new(directory).join(name));
            }
        }
    }
    files.sort_unstable();
    files
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).unwrap().len()
}

/// Copies the files of a data directory that hold data.
pub(super) fn copy(data: &Path, to: &Path) {
    for directory in ["", "packs", "streams"] {
        fs::create_dir_all(to.join(directory)).unwrap();
    }
    for file in files(data) {
        // A file may disappear while it is copied.
        drop(fs::copy(data.join(&file), to.join(&file)));
    }
}
