//! What the log needs from a disk, and the implementation over a real one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Read};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aio::{BLOCK, Blocks, Ended};
use rustix::fs::{Advice, FallocateFlags, OFlags};

use crate::files::{self, LOCK, Sharing};
use crate::note::BootId;

/// A sync that has begun. Calling it waits, on any thread, until the sync has ended.
pub type PendingSync = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// A flat directory of files. Everything the log does to the outside world goes through it.
///
/// Names contain no separators. Every method returns the operating system's answer; the log decides what it
/// means.
pub trait Disk: Send {
    /// An open file; closed when dropped.
    type File: Send + 'static;

    /// Locks the directory until this disk is dropped. Does nothing if this disk has locked it already.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if somebody else has locked it.
    fn lock(&mut self) -> io::Result<()>;

    /// Returns an identifier of this boot of the machine. Within one boot all written data is still there,
    /// synced or not. Returns `None` if the system does not tell.
    fn boot_id(&mut self) -> Option<BootId> {
        None
    }

    /// Returns the contents of the lock file: everything that [`Disk::write_note`] wrote, in this process and
    /// earlier ones.
    fn read_notes(&mut self) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Overwrites a few bytes of the lock file at an offset. The caller must hold the lock.
    fn write_note(&mut self, _offset: u64, _note: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// Returns the names of all files, in any order.
    fn list(&mut self) -> io::Result<Vec<String>>;

    /// Creates an empty file.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if a file of this name exists.
    fn create(&mut self, name: &str) -> io::Result<Self::File>;

    /// Opens an existing file.
    fn open(&mut self, name: &str) -> io::Result<Self::File>;

    /// Opens an existing file that will be overwritten from its start. The disk may read it ahead: writing a
    /// part of a block must wait for the rest of the block if that is not in memory.
    fn open_over(&mut self, name: &str) -> io::Result<Self::File> {
        self.open(name)
    }

    /// Writes at an offset in bytes, over existing bytes and beyond the end of the file. Returns how many
    /// bytes were taken, possibly fewer than offered.
    fn write_vectored_at(
        &mut self,
        file: &mut Self::File,
        offset: u64,
        pieces: &[IoSlice<'_>],
    ) -> io::Result<usize>;

    /// Begins to sync a file (`fdatasync`). If the sync succeeds, everything written to the file before it
    /// began survives power loss; later writes may or may not. After an error, nothing written since the last
    /// successful sync is known to be on the disk, and a repeated sync cannot tell. Two syncs of one file
    /// must never be in flight at once, because the system reports an error to only one of them.
    fn begin_sync(&mut self, file: &mut Self::File) -> PendingSync;

    /// Begins to sync the directory. If the sync succeeds, all files created, renamed and removed before it
    /// began stay so after power loss.
    fn begin_sync_dir(&mut self) -> PendingSync;

    /// Syncs a file and waits until that has ended.
    fn sync(&mut self, file: &mut Self::File) -> io::Result<()> {
        self.begin_sync(file)()
    }

    /// Syncs the directory and waits until that has ended.
    fn sync_dir(&mut self) -> io::Result<()> {
        self.begin_sync_dir()()
    }

    /// Begins to make an existing spare, or a new file of this name, consist of at least `bytes` written and synced bytes, and to drop
    /// its pages from the page cache. Its contents do not matter. Then a sync of the file writes nothing but what was written to it.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] if the disk has no capacity for it. After any error the file may exist.
    fn begin_fill(&mut self, _name: &str, _bytes: u64) -> PendingSync {
        Box::new(|| Err(io::ErrorKind::Unsupported.into()))
    }

    /// Opens a file for direct writes, in addition to its other handle.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`], among others: the file system or the system has no direct writes.
    fn open_direct(&mut self, _name: &str) -> io::Result<Self::File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Begins to write whole blocks past the page cache, at a multiple of [`BLOCK`] within the file. Waits for no sync. When the write has
    /// ended the blocks are synced, and the shard is told to call [`Disk::end_direct`]. One such write is in flight at a time. Within
    /// one file, a block must not be written both ways unless the file was synced in between.
    ///
    /// # Errors
    /// Returns the blocks. A part of them may have been written.
    fn begin_direct(
        &mut self,
        _file: &mut Self::File,
        _offset: u64,
        blocks: Blocks,
        _shard: u32,
    ) -> Result<(), (io::Error, Blocks)> {
        Err((io::ErrorKind::Unsupported.into(), blocks))
    }

    /// Returns the direct write in flight if it has ended. With `waits`, waits for it. Returns `None` if there is none. After an error,
    /// any part of the write may be on the disk.
    fn end_direct(&mut self, _waits: bool) -> Option<Ended> {
        None
    }

    /// Reads at an offset in bytes. `Ok(0)` is the end of the file.
    fn read_at(&mut self, file: &mut Self::File, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Returns the length of the file in bytes.
    fn len(&mut self, file: &mut Self::File) -> io::Result<u64>;

    /// Cuts the file to `length` bytes.
    fn truncate(&mut self, file: &mut Self::File, length: u64) -> io::Result<()>;

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Makes the file of this name occupy `bytes` of disk space. Its contents do not matter.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] if the disk has no capacity for it. After any error the file does not
    /// exist.
    fn reserve(&mut self, name: &str, bytes: u64) -> io::Result<()>;
}

/// The maximum number of pieces per vectored write; common systems accept this many (`IOV_MAX`).
const PIECES_MAX: usize = 1024;

/// Writes all pieces from `offset` on, at most [`PIECES_MAX`] at a time, and continues after short writes.
pub(crate) fn write_all<D: Disk>(
    disk: &mut D,
    file: &mut D::File,
    offset: u64,
    pieces: &mut [IoSlice<'_>],
) -> io::Result<()> {
    let (mut rest, mut offset) = (pieces, offset);
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let offered = rest.len().min(PIECES_MAX);
        match disk.write_vectored_at(file, offset, &rest[..offered]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                IoSlice::advance_slices(&mut rest, written);
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns true if the disk refused because it has no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Fills `into` from `offset` on. Returns how many bytes were read before the end of the file.
pub(crate) fn read_all<D: Disk>(
    disk: &mut D,
    file: &mut D::File,
    offset: u64,
    into: &mut [u8],
) -> io::Result<usize> {
    let mut at = 0;
    while at < into.len() {
        match disk.read_at(file, offset + at as u64, &mut into[at..]) {
            Ok(0) => break,
            Ok(read) => at += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at)
}

/// The file in which Linux gives the identifier of the boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Locks a file until it is dropped.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if somebody else has locked it.
pub(crate) fn locked(file: File) -> io::Result<File> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns the identifier of this boot of the machine, if Linux gives it.
pub(crate) fn boot_id() -> Option<BootId> {
    let text = std::fs::read_to_string(BOOT_ID).ok()?;
    let digits = text.trim().replace('-', "");
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

/// A directory of the file system.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
    dir: Arc<File>,
    lock: Option<File>,
    sharing: Sharing,
    direct: Option<aio::Writes>,
}

/// The file systems that sync direct writes, by the numbers that `statfs` gives: ext4 (also ext2 and ext3) and XFS.
const SYNC_DIRECT_WRITES: [u64; 2] = [0xef53, 0x5846_5342];

/// How much is filled with one write. So that a sync of the log, which is more urgent, seldom waits for more than this.
const FILL_BYTES: usize = 256 << 10;

impl RealDisk {
    /// Opens the directory at `path`. Creates it and its missing parents. What is new belongs to its owner alone.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::shared(path, Sharing::Owner)
    }

    /// Like [`Self::new`], for a directory that others may use, too.
    pub fn shared(path: impl AsRef<Path>, sharing: Sharing) -> io::Result<Self> {
        let path = path.as_ref().to_path_buf();
        files::create_directory(&path, sharing.directory())?;
        let dir = Arc::new(File::open(&path)?);
        Ok(Self { path, dir, lock: None, sharing, direct: None })
    }

    /// Returns true if the file system is known to sync a direct write that asks for it (`RWF_DSYNC`). Not all do: a server of FUSE or
    /// virtio-fs may ignore it, although it syncs a file when it is told to.
    pub fn syncs_direct_writes(&self) -> bool {
        let kind = rustix::fs::fstatfs(&self.dir).map(|system| system.f_type as u64);
        kind.is_ok_and(|kind| SYNC_DIRECT_WRITES.contains(&kind))
    }

    /// Makes direct writes possible. The bells tell the shards of the ends of their writes.
    pub fn with_direct(self, direct: aio::Writes) -> Self {
        Self { direct: Some(direct), ..self }
    }

    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let mut file = files::open_or_create(OpenOptions::new().write(true), path, self.sharing.file())?;
        let missing = bytes.saturating_sub(file.metadata()?.len());
        if missing == 0 {
            return Ok(());
        }
        // Asking for the free space is cheaper than an allocation that fails halfway. Callers retry often, so
        // the difference matters.
        let system = rustix::fs::fstatvfs(&self.dir)?;
        if system.f_bavail.saturating_mul(system.f_frsize) < missing {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            // The file system or this disk does not support `fallocate`.
            Err(rustix::io::Errno::OPNOTSUPP) => {
                io::copy(&mut io::repeat(0).take(bytes), &mut file)?;
                file.sync_data()
            }
            done => Ok(done?),
        }
    }
}

/// The flag to open a file for direct writes.
const DIRECT: i32 = OFlags::DIRECT.bits() as i32;

/// See [`Disk::begin_fill`].
fn fill(path: &Path, dir: &File, mode: u32, bytes: u64, is_direct: bool) -> io::Result<()> {
    match fill_with(if is_direct { DIRECT } else { 0 }, path, dir, mode, bytes) {
        // The file system knows no direct writes.
        Err(error) if is_direct && error.kind() == io::ErrorKind::InvalidInput => {
            fill_with(0, path, dir, mode, bytes)
        }
        filled => filled,
    }
}

fn fill_with(flags: i32, path: &Path, dir: &File, mode: u32, bytes: u64) -> io::Result<()> {
    let file = files::open_or_create(OpenOptions::new().write(true).custom_flags(flags), path, mode)?;
    let length = file.metadata()?.len();
    let system = rustix::fs::fstatvfs(dir)?;
    if system.f_bavail.saturating_mul(system.f_frsize) < bytes.saturating_sub(length) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    // In one piece, so that few batches are written to two extents. What the file system cannot do is no error.
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Err(error) if is_full(&error.into()) => return Err(error.into()),
        _ => {}
    }
    let mut zeros = Blocks::default();
    zeros.clear(FILL_BYTES);
    zeros.push(&vec![0; FILL_BYTES]);
    let mut at = length / BLOCK as u64 * BLOCK as u64;
    while at < bytes {
        let next = (bytes - at).next_multiple_of(BLOCK as u64).min(FILL_BYTES as u64);
        file.write_all_at(&zeros.bytes()[..next as usize], at)?;
        at += next;
    }
    file.sync_data()?;
    if flags == DIRECT {
        // Pages that are left from an earlier use would be in the way of direct writes.
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

impl Disk for RealDisk {
    type File = Arc<File>;

    fn lock(&mut self) -> io::Result<()> {
        if self.lock.is_some() {
            return Ok(());
        }
        let path = self.path.join(LOCK);
        let file = files::open_or_create(OpenOptions::new().write(true), &path, self.sharing.file())?;
        self.lock = Some(locked(file)?);
        Ok(())
    }

    fn boot_id(&mut self) -> Option<BootId> {
        boot_id()
    }

    fn read_notes(&mut self) -> io::Result<Vec<u8>> {
        std::fs::read(self.path.join(LOCK))
    }

    fn write_note(&mut self, offset: u64, note: &[u8]) -> io::Result<()> {
        self.lock.as_ref().ok_or(io::ErrorKind::NotFound)?.write_all_at(note, offset)
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&mut self, name: &str) -> io::Result<Arc<File>> {
        let (options, path) = (OpenOptions::new().read(true).write(true).clone(), self.path.join(name));
        files::create_new(&options, &path, self.sharing.file()).map(Arc::new)
    }

    fn open(&mut self, name: &str) -> io::Result<Arc<File>> {
        OpenOptions::new().read(true).write(true).open(self.path.join(name)).map(Arc::new)
    }

    fn open_over(&mut self, name: &str) -> io::Result<Arc<File>> {
        let file = self.open(name)?;
        // The call is only advice: without it the file is merely slower. It costs 0.1 ms if the file is in
        // memory, as it usually is.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::WillNeed);
        Ok(file)
    }

    fn write_vectored_at(
        &mut self,
        file: &mut Arc<File>,
        offset: u64,
        pieces: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&**file, pieces, offset)?)
    }

    fn begin_sync(&mut self, file: &mut Arc<File>) -> PendingSync {
        let file = Arc::clone(file);
        Box::new(move || file.sync_data())
    }

    fn begin_sync_dir(&mut self) -> PendingSync {
        let dir = Arc::clone(&self.dir);
        Box::new(move || dir.sync_all())
    }

    fn begin_fill(&mut self, name: &str, bytes: u64) -> PendingSync {
        let (path, dir, mode) = (self.path.join(name), Arc::clone(&self.dir), self.sharing.file());
        let is_direct = self.direct.is_some();
        Box::new(move || fill(&path, &dir, mode, bytes, is_direct))
    }

    fn open_direct(&mut self, name: &str) -> io::Result<Arc<File>> {
        if self.direct.is_none() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        OpenOptions::new().write(true).custom_flags(DIRECT).open(self.path.join(name)).map(Arc::new)
    }

    fn begin_direct(
        &mut self,
        file: &mut Arc<File>,
        offset: u64,
        blocks: Blocks,
        shard: u32,
    ) -> Result<(), (io::Error, Blocks)> {
        let Some(direct) = &mut self.direct else { return Err((io::ErrorKind::Unsupported.into(), blocks)) };
        direct.submit(file, offset, blocks, shard as usize)
    }

    fn end_direct(&mut self, waits: bool) -> Option<Ended> {
        let direct = self.direct.as_mut()?;
        if waits { direct.wait() } else { direct.ended() }
    }

    fn read_at(&mut self, file: &mut Arc<File>, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        file.read_at(into, offset)
    }

    fn len(&mut self, file: &mut Arc<File>) -> io::Result<u64> {
        Ok(file.metadata()?.len())
    }

    fn truncate(&mut self, file: &mut Arc<File>, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn reserve(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        let path = self.path.join(name);
        let reserved = self.allocate(&path, bytes);
        if reserved.is_err() {
            // The file may be partly allocated. It would waste space that others need, so it is removed.
            drop(std::fs::remove_file(&path));
        }
        reserved
    }
}
