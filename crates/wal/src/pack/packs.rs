//! What writes packs, counts what is alive in them, and removes them.
//!
//! ```text
//!            written, synced, named            last extent released            removed
//!   (none) ─────────────────────────▶ alive ─────────────────────────▶ spent ──────────▶ (none)
//!      │         something failed, or nobody knew of it at open           ▲ └─┐ the disk refuses: tried again
//!      └──────────────────────────────────────────────────────────────────┘ ◀─┘ by every later call
//! ```

use std::collections::BTreeMap;
use std::io::{self, IoSlice};

use super::block::{BLOCK_HEADER, BlockHeader, Place};
use super::{BLOCK_BYTES, Extent, PACK_BYTES, Run};
use crate::disk::{Disk, LOCK, read_all, write_all};
use crate::file::{self, FILE_HEADER, FileHeader, PACK_MAGIC, PACK_VERSION};

/// Spent packs that could not be removed; at the bound nothing is written until one can, and no more of them are
/// tried at a time.
const SPENT_MAX: usize = 4;

/// How packs are kept.
#[derive(Clone, Debug)]
pub struct PackOptions {
    /// Bytes after which a new pack begins.
    pub pack_bytes: u64,
    /// Bytes that packs may hold beyond twice what is alive in them before [`Packs::sparse`] names one.
    pub garbage_allowed: u64,
}

impl Default for PackOptions {
    /// 32 MiB of garbage: eight packs, so that a small backlog is never moved.
    fn default() -> Self {
        Self { pack_bytes: PACK_BYTES, garbage_allowed: 32 << 20 }
    }
}

/// Why packs could not be opened. Nothing was written.
#[derive(Debug)]
pub enum PackError {
    /// Another process has them open.
    Locked,
    /// A pack was written by a newer program.
    NewerFormat { file: String, version: u32 },
    /// The disk refused something that open cannot do without; `file` is empty if it was the directory.
    Io { file: String, error: io::Error },
}

impl std::fmt::Display for PackError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Locked => write!(f, "the packs are in use by another process"),
            Self::NewerFormat { file, version } => {
                write!(f, "pack {file} has format version {version}; this program knows {PACK_VERSION}")
            }
            Self::Io { file, error } if file.is_empty() => write!(f, "their directory: {error}"),
            Self::Io { file, error } => write!(f, "pack {file}: {error}"),
        }
    }
}

impl std::error::Error for PackError {}

/// Nothing was written; the runs come back to be handed over again when the owner sees fit.
#[derive(Debug)]
pub struct WriteFailure {
    /// The pack that was refused; empty if it was none.
    pub file: String,
    /// [`io::ErrorKind::InvalidInput`] if it was not the disk that refused: see [`Packs::write`].
    pub error: io::Error,
    pub runs: Vec<Run>,
}

impl std::fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pack {}: {}", self.file, self.error)
    }
}

impl std::error::Error for WriteFailure {}

/// The packs of one directory. Memory: a few words for each extent that is alive.
pub struct Packs<D: Disk> {
    disk: D,
    options: PackOptions,
    packs: BTreeMap<u64, Pack>,
    /// Packs that nobody needs, and their bytes.
    spent: BTreeMap<u64, u64>,
    next: u64,
    /// Bytes of all packs, the spent ones that are still there included.
    bytes: u64,
    /// Bytes of all extents that are alive.
    live: u64,
}

#[derive(Default)]
struct Pack {
    /// Of the file; 0 if it is not there.
    bytes: u64,
    /// Bytes of the extents that are alive, by offset.
    extents: BTreeMap<u32, u32>,
    /// Their sum.
    live: u64,
    /// Somebody may need more of it than is known.
    held: bool,
    /// [`Packs::sparse`] has named it.
    named: bool,
}

impl<D: Disk> Packs<D> {
    /// Takes the directory. `known` are the extents that are alive; a pack with none of them is removed, for it was
    /// written by a life that ended before it could say so. An extent that stands twice in `known` counts once; one
    /// whose pack is not there is found out by who reads it.
    ///
    /// With `keep_unknown` (not everything that was said can be read) no pack of former lives is removed in this life
    /// of which more than the known extents could be needed.
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
            pack.held = keep_unknown && pack.bytes > FILE_HEADER as u64 + pack.live;
            opened.keep_or_spend(number, pack);
        }
        opened.sweep();
        Ok(opened)
    }

    /// Writes the runs, those of several owners into one pack as long as there is room, and returns where each of them
    /// stands, in their order, once they and the names of their packs are synced.
    ///
    /// # Errors
    /// The disk refused; or, with [`io::ErrorKind::InvalidInput`], a run has no records, an empty block, a block of
    /// several records with more than [`BLOCK_BYTES`], or does not fit a pack of 4 GiB. Nothing is left of any of the
    /// runs, or nobody will ever find it.
    pub fn write(&mut self, runs: Vec<Run>) -> Result<Vec<Extent>, WriteFailure> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        match self.try_write(&runs) {
            Ok(written) => {
                for &Extent { pack, offset, bytes } in &written {
                    // Until now nobody needed it.
                    let spent = self.spent.remove(&pack);
                    let pack = self.packs.entry(pack).or_default();
                    pack.bytes += spent.unwrap_or(0);
                    pack.add(offset, bytes);
                    self.live += u64::from(bytes);
                }
                Ok(written)
            }
            Err((file, error)) => {
                // Whatever a sync said or did, these files are not believed: the next attempt makes others.
                self.sweep();
                Err(WriteFailure { file, error, runs })
            }
        }
    }

    /// Nothing in this extent is needed any more, and what says so is synced. When it was the last of its pack, the
    /// pack is removed; while the disk refuses that, every later call tries again. An extent that is not alive is
    /// ignored, so that saying it twice does no harm.
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

    /// A pack worth emptying: the one with the least alive, if packs hold more than twice what is alive, and
    /// [`PackOptions::garbage_allowed`]. Its owners write what is alive of it anew and release it.
    ///
    /// A pack is named at most once in this life, and counts as emptied from then on: asked again, another is named
    /// only if emptying those named before will not be enough.
    pub fn sparse(&mut self) -> Option<u64> {
        if !self.is_sparse(self.bytes, self.live) {
            return None;
        }
        let (mut bytes, mut live) = (0, 0);
        for pack in self.packs.values().filter(|pack| !pack.held) {
            bytes += if pack.named { pack.live } else { pack.bytes };
            live += pack.live;
        }
        if !self.is_sparse(bytes, live) {
            return None;
        }
        let candidates =
            self.packs.iter_mut().filter(|(_, pack)| !pack.held && !pack.named && pack.bytes > 0);
        let (&number, pack) = candidates.min_by_key(|(_, pack)| 1000 * pack.live / pack.bytes)?;
        pack.named = true;
        Some(number)
    }

    /// Bytes on the disk, and of the extents that are alive. The second is larger only if packs are missing.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes, self.live)
    }

    /// The disk, for tests that look behind the packs' back.
    #[cfg(any(test, feature = "testing"))]
    pub fn disk(&self) -> &D {
        &self.disk
    }

    fn is_sparse(&self, bytes: u64, live: u64) -> bool {
        bytes > 2 * live + self.options.garbage_allowed
    }

    fn keep_or_spend(&mut self, number: u64, pack: Pack) {
        if pack.held || !pack.extents.is_empty() {
            self.packs.insert(number, pack);
        } else {
            self.spent.insert(number, pack.bytes);
        }
    }

    /// Makes packs, which are spent until they are known to be needed; on an error, tells which was refused.
    fn try_write(&mut self, runs: &[Run]) -> Result<Vec<Extent>, (String, io::Error)> {
        let groups = group(runs, self.options.pack_bytes).map_err(|error| (String::new(), error))?;
        self.sweep();
        if self.spent.len() >= SPENT_MAX {
            return Err((String::new(), io::Error::other("packs that nobody needs cannot be removed")));
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

    /// Removes what nobody needs. Names that come back after a power failure are known to nobody.
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

/// The length of a pack whose format is not newer than this program. A pack whose header is damaged is none the worse
/// for it: its blocks prove themselves.
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
    /// Of the pack.
    bytes: u64,
}

/// Deals the runs out to packs, in their order.
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

/// Bytes that a run takes, if it can be written.
fn length(run: &Run) -> io::Result<u64> {
    let refuse = |why: &str| {
        let why = format!("a run of owner {:#x} {why}", run.owner);
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    };
    if run.blocks.is_empty() || run.blocks.iter().any(|block| block.is_empty()) {
        return refuse("has an empty block, or none");
    }
    if run.blocks.iter().any(|block| block.len() > 1 && block.bytes() > BLOCK_BYTES) {
        return refuse("has a block that is too large");
    }
    let length: u64 = run.blocks.iter().map(|block| (BLOCK_HEADER + block.bytes()) as u64).sum();
    if FILE_HEADER as u64 + length > u64::from(u32::MAX) { refuse("does not fit a pack") } else { Ok(length) }
}

/// Makes a pack that is synced but for its name, and adds its extents.
fn write_pack<D: Disk>(disk: &mut D, number: u64, runs: &[Run], extents: &mut Vec<Extent>) -> io::Result<()> {
    let opening = FileHeader { version: PACK_VERSION, number, generation: 0 }.encode(PACK_MAGIC);
    let mut offset = FILE_HEADER as u64;
    let mut headers = Vec::new();
    for run in runs {
        let start = offset;
        for block in &run.blocks {
            headers.push(BlockHeader::encode(block, Place { pack: number, offset, owner: run.owner }));
            offset += (BLOCK_HEADER + block.bytes()) as u64;
        }
        // Whoever made the groups has seen to it that both fit.
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
