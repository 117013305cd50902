//! The contents of a file: what readers see, what is synced, and the changes in between.

use random::Random;

/// The bytes that power loss keeps or loses as one.
const SECTOR: usize = 512;

#[derive(Clone, Default)]
pub(super) struct Inode {
    pub written: Vec<u8>,
    pub synced: Vec<u8>,
    /// The changes since the last sync, and doomed changes from before.
    pub pending: Vec<Change>,
    /// The number of changes so far.
    pub changes: u64,
    /// The bytes that are reserved for the file, whether they are written or not.
    pub reserved: u64,
}

#[derive(Clone)]
pub(super) struct Change {
    pub number: u64,
    pub at: usize,
    /// The bytes that are written at `at`. `None` cuts the file there.
    pub bytes: Option<Vec<u8>>,
    pub doomed: bool,
    /// It is a direct write that has not ended.
    pub in_flight: bool,
}

impl Change {
    pub(super) fn apply(&self, image: &mut Vec<u8>) {
        match &self.bytes {
            Some(bytes) => write(image, self.at, bytes),
            None => image.resize(self.at, 0),
        }
    }
}

impl Inode {
    /// Returns the bytes that the file takes of the disk.
    pub(super) fn taken(&self) -> u64 {
        self.reserved.max(self.written.len() as u64)
    }

    pub(super) fn synced(bytes: Vec<u8>) -> Self {
        Self { written: bytes.clone(), synced: bytes, ..Self::default() }
    }

    pub(super) fn change(&mut self, at: usize, bytes: Option<Vec<u8>>) {
        self.pending.push(Change { number: self.changes, at, bytes, doomed: false, in_flight: false });
        self.changes += 1;
    }

    /// Returns the contents of the file after power loss: a prefix of the changes and a part of the next one,
    /// or any of the changes and any sectors of the others.
    pub(super) fn after_power_loss(&self, random: &mut Random) -> Vec<u8> {
        let mut image = self.synced.clone();
        let in_order = random.one_in(2);
        let kept = random.below(self.pending.len() as u64 + 1) as usize;
        for (index, change) in self.pending.iter().enumerate() {
            if in_order && index < kept || !in_order && random.one_in(2) {
                change.apply(&mut image);
            } else if let Some(bytes) = &change.bytes
                && (!in_order || index == kept)
            {
                let mut at = 0;
                while at < bytes.len() {
                    // Sectors are aligned to the file, not to the write.
                    let end = bytes.len().min(at + SECTOR - (change.at + at) % SECTOR);
                    if random.one_in(2) {
                        write(&mut image, change.at + at, &bytes[at..end]);
                    }
                    at = end;
                }
            }
        }
        image
    }
}

pub(super) fn write(image: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if image.len() < at {
        image.resize(at, 0);
    }
    // Most writes are at the end. Without optimisation, `resize` over the whole length would be most of a simulation.
    let (over, behind) = bytes.split_at(bytes.len().min(image.len() - at));
    image[at..at + over.len()].copy_from_slice(over);
    image.extend_from_slice(behind);
}
