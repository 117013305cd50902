//! Writes packs, counts their live extents, and removes them.
//!
//! ```text
//!            written, synced, named            last extent released            removed
//!   (none) ─────────────────────────▶ alive ─────────────────────────▶ spent ──────────▶ (none)
//!      │         a write or a sync failed, or the log does not name it    ▲ └─┐ the disk refuses: every later
//!      └──────────────────────────────────────────────────────────────────┘ ◀─┘ call tries again
//! ```

use std::collections::BTreeMap;
use std::io::{self, IoSlice};

use super::block::{BLOCK_HEADER, BlockHeader, BlockPosition};
use super::{BLOCK_BYTES, Extent, PACK_BYTES, Run};
use crate::disk::{Disk, read_all, write_all};
use crate::file::{self, FILE_HEADER, FileHeader, PACK_MAGIC, PACK_VERSION};
use crate::files::LOCK;

/// The maximum number of spent packs that could not be removed. At the bound nothing is written until one of
/// them is removed. It is also the number of failures after which a call stops removing packs.
const SPENT_MAX: usize = 4;

/// Settings of packs.
#[derive(Clone, Debug)]
pub struct PackOptions {
    /// The bytes after which a new pack begins.
    pub pack_bytes: u64,
    /// [`Packs::sparse`] names a pack only if all packs together have more bytes than twice their live bytes
    /// plus this number.
    pub garbage_allowed: u64,
}

impl Default for PackOptions {
    /// Allows 32 MiB of garbage, which is eight packs. So a small backlog is never moved.
    fn default() -> Self {
        Self { pack_bytes: PACK_BYTES, garbage_allowed: 32 << 20 }
    }
}

/// The reason why packs could not be opened. Nothing was written.
#[derive(Debug)]
pub enum PackError {
    /// Another process has the packs open.
    Locked,
    /// A pack was written by a newer program.
    NewerFormat { file: String, version: u32 },
    /// The disk refused an operation that the open needs; `file` is empty if it was the directory.
    Io { file: String, error: io::Error },
}

impl std::fmt::Display for PackError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Locked => write!(f, "the packs are in use by another process"),
            Self::NewerFormat { file, version } => {
                write!(f, "pack {file} has format version {version}; this program knows {PACK_VERSION}")
            }
            Self::Io { file, error } if file.is_empty() => write!(f, "the packs' directory: {error}"),
            Self::Io { file, error } => write!(f, "pack {file}: {error}"),
        }
    }
}

impl std::error::Error for PackError {}

/// A write of runs has failed, and nothing was written. The runs are returned, and the owner may hand them
/// over again.
#[derive(Debug)]
pub struct WriteFailure {
    /// The pack that was refused. Empty if the failure did not concern a pack.
    pub file: String,
    /// [`io::ErrorKind::InvalidInput`] if a run is invalid and the disk did not fail; see [`Packs::write`].
    pub error: io::Error,
    pub runs: Vec<Run>,
}

impl std::fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pack {}: {}", self.file, self.error)
    }
}

impl std::error::Error for WriteFailure {}

/// The packs of one directory. Memory: a few words per live extent.
pub struct Packs<D: Disk> {
    disk: D,
    options: PackOptions,
    packs: BTreeMap<u64, Pack>,
    /// Packs that nobody needs, and their bytes.
    spent: BTreeMap<u64, u64>,
    next: u64,
    /// The bytes of all packs, including spent ones that are not removed yet.
    bytes: u64,
    /// The bytes of all live extents.
    live: u64,
}

#[derive(Default)]
struct Pack {
    /// The size of the file in bytes; 0 if it does not exist.
    bytes: u64,
    /// The bytes of each live extent, by offset.
    extents: BTreeMap<u32, u32>,
    /// The sum of the bytes of the live extents.
    live: u64,
    /// True if the pack may have more live extents than are known.
    may_have_more: bool,
    /// True if [`Packs::sparse`] has named this pack.
    named: bool,
}

impl<D: Disk> Packs<D> {
    /// Locks the directory. `known` are the live extents. A pack with none of them is removed: the process
    /// that wrote it ended before it could record it in the log. A repeated extent in `known` counts once. A
    /// missing pack is noticed only when it is read.
    ///
    /// `keep_unknown` says that a part of the log cannot be read. Then no existing pack is removed in this
    /// process if it may have more live extents than the known ones.
    ///
    /// Costs one read of 48 bytes per pack.
    ///
    /// # Errors
    /// See [`PackError`].
    pub fn open(
        mut disk: D,
        options: PackOptions,
        known: impl IntoIterator<Item = Extent>,
        keep_unknown: bool,
    ) -> Result<Self, PackError> {
        disk.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => PackError::Locked,
            _ => PackError::Io { file: LOCK.to_owned(), error },
        })?;
        let mut packs: BTreeMap<u64, Pack> = BTreeMap::new();
        let names = disk.list().map_err(|error| PackError::Io { file: String::new(), error })?;
        for number in names.iter().filter_map(|name| file::pack_number(name)) {
            let bytes = inspect(&mut disk, number)?;
            packs.insert(number, Pack { bytes, ..Pack::default() });
        }
        for extent in known {
            packs.entry(extent.pack).or_default().add(extent.offset, extent.bytes);
        }
        let mut opened = Self {
            disk,
            options,
            next: packs.last_key_value().map_or(1, |(&last, _)| last + 1),
            bytes: packs.values().map(|pack| pack.bytes).sum(),
            live: packs.values().map(|pack| pack.live).sum(),
            packs: BTreeMap::new(),
            spent: BTreeMap::new(),
        };
        for (number, mut pack) in packs {
            pack.may_have_more = keep_unknown && pack.bytes > FILE_HEADER as u64 + pack.live;
            opened.keep_or_spend(number, pack);
        }
        opened.sweep();
        Ok(opened)
    }

    /// Writes the runs. Runs of several owners share a pack while there is room. Returns the extents in the order
    /// of the runs, once these and the names of their packs are synced.
    ///
    /// # Errors
    /// The disk refused. Or, with [`io::ErrorKind::InvalidInput`], a run is invalid: it has no records, an
    /// empty block, a block of several records with more than [`BLOCK_BYTES`], or does not fit a pack of 4
    /// GiB. No run was written then, or what was written is never used.
    pub fn write(&mut self, runs: Vec<Run>) -> Result<Vec<Extent>, WriteFailure> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        match self.try_write(&runs) {
            Ok(written) => {
                for &Extent { pack, offset, bytes } in &written {
                    // The pack counted as spent while it was being written.
                    let spent = self.spent.remove(&pack);
                    let pack = self.packs.entry(pack).or_default();
                    pack.bytes += spent.unwrap_or(0);
                    pack.add(offset, bytes);
                    self.live += u64::from(bytes);
                }
                Ok(written)
            }
            Err((file, error)) => {
                // The files of a failed write are never used, whatever their syncs reported. The next attempt
                // writes new files.
                self.sweep();
                Err(WriteFailure { file, error, runs })
            }
        }
    }

    /// Releases an extent of which nothing is needed any more. The record that says so must be synced. If it
    /// was the last extent of its pack, the pack is removed. If the disk refuses that, every later call tries
    /// again. Does nothing if the extent is not alive, so calling it twice is harmless.
    pub fn release(&mut self, extent: Extent) {
        if let Some(mut pack) = self.packs.remove(&extent.pack) {
            if pack.extents.get(&extent.offset) == Some(&extent.bytes) {
                pack.extents.remove(&extent.offset);
                pack.live -= u64::from(extent.bytes);
                self.live -= u64::from(extent.bytes);
            }
            self.keep_or_spend(extent.pack, pack);
        }
        self.sweep();
    }

    /// Returns a pack that its owners should empty: they write its live records again and release its
    /// extents. It is the pack with the smallest share of live bytes. There is one only if packs have more
    /// bytes than twice the live bytes plus [`PackOptions::garbage_allowed`].
    ///
    /// A pack is named at most once per process and counts as emptied from then on. Another one is named only
    /// if emptying all named packs will not be enough.
    pub fn sparse(&mut self) -> Option<u64> {
        if !self.is_sparse(self.bytes, self.live) {
            return None;
        }
        let (mut bytes, mut live) = (0, 0);
        for pack in self.packs.values().filter(|pack| !pack.may_have_more) {
            bytes += if pack.named { pack.live } else { pack.bytes };
            live += pack.live;
        }
        if !self.is_sparse(bytes, live) {
            return None;
        }
        let candidates =
            self.packs.iter_mut().filter(|(_, pack)| !pack.may_have_more && !pack.named && pack.bytes > 0);
        let (&number, pack) = candidates.min_by_key(|(_, pack)| 1000 * pack.live / pack.bytes)?;
        pack.named = true;
        Some(number)
    }

    /// Returns the bytes on the disk and the bytes of live extents. The second is larger only if packs are
    /// missing.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes, self.live)
    }

    fn is_sparse(&self, bytes: u64, live: u64) -> bool {
        bytes > 2 * live + self.options.garbage_allowed
    }

    fn keep_or_spend(&mut self, number: u64, pack: Pack) {
        if pack.may_have_more || !pack.extents.is_empty() {
            self.packs.insert(number, pack);
        } else {
            self.spent.insert(number, pack.bytes);
        }
    }

    /// Writes packs that stay spent until the caller counts their extents. On an error, returns the pack that
    /// was refused.
    fn try_write(&mut self, runs: &[Run]) -> Result<Vec<Extent>, (String, io::Error)> {
        let groups = group(runs, self.options.pack_bytes).map_err(|error| (String::new(), error))?;
        self.sweep();
        if self.spent.len() >= SPENT_MAX {
            return Err((String::new(), io::Error::other("unused packs cannot be removed")));
        }
        let mut written = Vec::with_capacity(runs.len());
        for Group { runs, bytes } in groups {
            let number = self.next;
            self.next += 1;
            self.bytes += bytes;
            self.spent.insert(number, bytes);
            let pack = write_pack(&mut self.disk, number, runs, &mut written);
            pack.map_err(|error| (file::pack_name(number), error))?;
        }
        self.disk.sync_dir().map_err(|error| (String::new(), error))?;
        Ok(written)
    }

    /// Removes the spent packs. A removed pack may reappear after a power failure, but no extent names it, so
    /// the next open removes it.
    fn sweep(&mut self) {
        let (disk, bytes) = (&mut self.disk, &mut self.bytes);
        let mut refused = 0;
        self.spent.retain(|&number, spent| {
            if refused == SPENT_MAX {
                return true;
            }
            match disk.remove(&file::pack_name(number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    refused += 1;
                    true
                }
                _ => {
                    *bytes -= *spent;
                    false
                }
            }
        });
    }
}

impl Pack {
    fn add(&mut self, offset: u32, bytes: u32) {
        let before = self.extents.insert(offset, bytes).unwrap_or(0);
        self.live = self.live + u64::from(bytes) - u64::from(before);
    }
}

/// Returns the size of a pack, unless its format is newer than this program. A corrupt header is no problem,
/// because every block has its own checksums.
fn inspect<D: Disk>(disk: &mut D, number: u64) -> Result<u64, PackError> {
    let name = file::pack_name(number);
    let io = |error| PackError::Io { file: name.clone(), error };
    let mut handle = disk.open(&name).map_err(io)?;
    let bytes = disk.len(&mut handle).map_err(io)?;
    let mut opening = [0; FILE_HEADER];
    let read = read_all(disk, &mut handle, 0, &mut opening).map_err(io)?;
    match FileHeader::decode(&opening[..read], PACK_MAGIC) {
        Some(header) if header.version > PACK_VERSION => {
            Err(PackError::NewerFormat { file: name, version: header.version })
        }
        _ => Ok(bytes),
    }
}

/// Runs that share a pack.
struct Group<'a> {
    runs: &'a [Run],
    /// The size of the pack in bytes.
    bytes: u64,
}

/// Distributes the runs to packs, in their order.
fn group(runs: &[Run], pack_bytes: u64) -> io::Result<Vec<Group<'_>>> {
    let mut groups = Vec::new();
    let (mut from, mut bytes) = (0, FILE_HEADER as u64);
    for (index, run) in runs.iter().enumerate() {
        let length = length(run)?;
        if index > from && bytes + length > pack_bytes {
            groups.push(Group { runs: &runs[from..index], bytes });
            (from, bytes) = (index, FILE_HEADER as u64);
        }
        bytes += length;
    }
    groups.push(Group { runs: &runs[from..], bytes });
    Ok(groups)
}

/// Returns the bytes that a run takes, or an error if it is invalid.
fn length(run: &Run) -> io::Result<u64> {
    let refuse = |why: &str| {
        let why = format!("a run of owner {:#x} {why}", run.owner);
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    };
    if run.blocks.is_empty() || run.blocks.iter().any(|block| block.is_empty()) {
        return refuse("has no blocks or an empty block");
    }
    if run.blocks.iter().any(|block| block.len() > 1 && block.bytes() > BLOCK_BYTES) {
        return refuse("has a block that is too large");
    }
    let length: u64 = run.blocks.iter().map(|block| (BLOCK_HEADER + block.bytes()) as u64).sum();
    if FILE_HEADER as u64 + length > u64::from(u32::MAX) { refuse("does not fit a pack") } else { Ok(length) }
}

/// Writes and syncs a pack, except its name, and adds its extents.
fn write_pack<D: Disk>(disk: &mut D, number: u64, runs: &[Run], extents: &mut Vec<Extent>) -> io::Result<()> {
    let opening = FileHeader { version: PACK_VERSION, number, generation: 0 }.encode(PACK_MAGIC);
    let mut offset = FILE_HEADER as u64;
    let mut headers = Vec::new();
    for run in runs {
        let start = offset;
        for block in &run.blocks {
            headers
                .push(BlockHeader::encode(block, BlockPosition { pack: number, offset, owner: run.owner }));
            offset += (BLOCK_HEADER + block.bytes()) as u64;
        }
        // Both numbers fit into a u32, because `length` has checked them.
        extents.push(Extent { pack: number, offset: start as u32, bytes: (offset - start) as u32 });
    }
    let mut pieces = vec![IoSlice::new(&opening)];
    for (header, block) in headers.iter().zip(runs.iter().flat_map(|run| &run.blocks)) {
        pieces.push(IoSlice::new(header));
        block.slices(&mut pieces);
    }
    let mut handle = disk.create(&file::pack_name(number))?;
    write_all(disk, &mut handle, 0, &mut pieces)?;
    disk.sync(&mut handle)
}
