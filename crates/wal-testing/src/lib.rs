//! A disk that fails and crashes on purpose, in the same way for the same seed.
//!
//! Every file has two images: *written* is what a reader sees, *synced* is what certainly survives power
//! loss. Changes since the last sync are kept in a list. At power loss some of them, or parts of them, are
//! lost in any order. Where a file was overwritten, the old contents may come back sector by sector.
//!
//! A sync covers the changes made before it began. Changes during the sync are not covered, and if the sync
//! fails they are in doubt as well.
//!
//! A direct write is visible at once, and synced when it has ended. Until then, power loss may tear it, sector by sector. It knows nothing
//! of the page cache: unsynced changes of the same block, from before, may come back over it.
//!
//! A sync that fails **dooms** the changes that it covered: no later sync in the same process makes them
//! durable. (A restart without power loss makes the next sync cover them again. On Linux this is true only
//! while the page cache still counts them as dirty.)

mod inode;

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inode::{Change, Inode, write};
pub use random::Random;
use wal::{BLOCK, Blocks, BootId, Disk, Ended, Log, PendingSync};

/// Forgets files of a log at once, while no sync is in flight. Returns false if some of them are still there.
pub fn forget<D: Disk>(log: &mut Log<D>, file: u64) -> bool {
    log.forget(file);
    log.sync(&mut Vec::new());
    log.size().oldest.is_none_or(|oldest| oldest > file)
}

/// The operations of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    Lock,
    List,
    Create,
    Open,
    Write,
    Sync,
    Read,
    Len,
    Truncate,
    Rename,
    Remove,
    SyncDir,
    Reserve,
    Note,
    Direct,
    Fill,
}

/// The operations that change a disk without direct writes.
pub const CHANGES: [Op; 7] =
    [Op::Create, Op::Write, Op::Sync, Op::Truncate, Op::Rename, Op::Remove, Op::SyncDir];

/// The operations that change a disk with direct writes.
pub const ALL_CHANGES: [Op; 9] = [
    Op::Create,
    Op::Write,
    Op::Sync,
    Op::Truncate,
    Op::Rename,
    Op::Remove,
    Op::SyncDir,
    Op::Direct,
    Op::Fill,
];

/// The way in which a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed: everything written survives.
    Process,
    /// Power is lost: unsynced changes may be lost or torn.
    Power,
}

/// A disk in memory. Clones share the same disk.
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    holds: bool,
}

/// An open file of a [`SimDisk`].
#[derive(Clone, Copy, Debug)]
pub struct FalseFile(usize);

impl SimDisk {
    pub fn new(seed: u64) -> Self {
        Self::with(State { random: Random(seed), boot: seed, ..State::default() })
    }

    /// Makes each of these operations fail with this error number, with this probability in a thousand.
    pub fn fail(&self, ops: &[Op], per_mille: u64, errno: i32) {
        let mut state = self.state();
        state.failing = ops.iter().fold(0, |set, &op| set | 1 << op as u8);
        (state.per_mille, state.errno) = (per_mille, errno);
    }

    /// Makes the changing operation after the next `n` ones fail with this error number.
    pub fn fail_nth(&self, n: u64, errno: i32) {
        let mut state = self.state();
        state.fail_at = Some((state.changes + n, errno));
    }

    /// Interrupts the changing operation after the next `n` ones halfway. Nothing works after that.
    pub fn die_at(&self, n: u64) {
        let mut state = self.state();
        state.die_at = Some(state.changes + n);
    }

    /// Makes writes take fewer bytes than offered, with this probability in a thousand.
    pub fn shorten(&self, per_mille: u64) {
        self.state().short_per_mille = per_mille;
    }

    /// Makes direct writes possible, and fills. Lasts over crashes.
    pub fn allow_direct(&self) {
        let mut state = self.state();
        (state.direct, state.fills) = (true, true);
    }

    /// Makes fills possible, but no direct writes. Lasts over crashes.
    pub fn allow_fill(&self) {
        self.state().fills = true;
    }

    /// Limits the size of all files together. A write without enough capacity takes a part, or fails with
    /// `ENOSPC`. The limit survives crashes.
    pub fn limit(&self, bytes: u64) {
        self.state().capacity = Some(bytes);
    }

    /// Returns the bytes that all files take.
    pub fn taken(&self) -> u64 {
        self.state().taken()
    }

    /// Makes a failing sync, or direct write, also discard the written image of what it covered, like a system that reclaims
    /// the memory. Readers then see the old contents or zeros, also after power loss.
    pub fn drop_refused(&self) {
        self.state().drops_refused = true;
    }

    /// Ends all failures. Doomed changes stay doomed.
    pub fn heal(&self) {
        let mut state = self.state();
        (state.failing, state.fail_at, state.short_per_mille) = (0, None, 0);
    }

    /// Returns true if [`SimDisk::die_at`] has taken effect.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Returns the number of changing operations so far.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Returns the disk as the next process finds it.
    pub fn crash(&self, how: Crash) -> Self {
        let mut old = self.state();
        let random = Random(old.random.next());
        let mut new = State {
            random,
            capacity: old.capacity,
            direct: old.direct,
            fills: old.fills,
            ..State::default()
        };
        match how {
            Crash::Process => {
                (new.boot, new.note) = (old.boot, old.note.clone());
                (new.inodes, new.names, new.synced_names) =
                    (old.inodes.clone(), old.names.clone(), old.synced_names.clone());
                new.inodes
                    .iter_mut()
                    .flat_map(|inode| &mut inode.pending)
                    .for_each(|change| (change.doomed, change.in_flight) = (false, false));
            }
            Crash::Power => {
                new.boot = new.random.next();
                new.note = Inode::synced(old.note.after_power_loss(&mut new.random));
                let mut names = old.synced_names.clone();
                for name in old.names.keys().chain(old.synced_names.keys()) {
                    if new.random.one_in(2) {
                        match old.names.get(name) {
                            Some(&inode) => names.insert(name.clone(), inode),
                            None => names.remove(name),
                        };
                    }
                }
                for inode in &old.inodes {
                    let data = inode.after_power_loss(&mut new.random);
                    new.inodes.push(Inode { reserved: inode.reserved, ..Inode::synced(data) });
                }
                // The disk had no room for both the old and the new files, so the removals must have reached
                // it.
                new.names = names;
                let removed = old.synced_names.keys().filter(|name| !old.names.contains_key(*name));
                for name in removed {
                    if new.capacity.is_some_and(|capacity| new.taken() > capacity) {
                        new.names.remove(name);
                    }
                }
                new.synced_names = new.names.clone();
            }
        }
        Self::with(new)
    }

    /// Returns how often this operation was requested, successfully or not.
    pub fn count(&self, op: Op) -> u64 {
        self.state().counts[op as usize]
    }

    /// Returns the largest buffer that a read was asked to fill, in bytes.
    pub fn longest_read(&self) -> usize {
        self.state().longest_read
    }

    /// Returns the number of bytes that reads have asked for.
    pub fn bytes_read(&self) -> u64 {
        self.state().bytes_read
    }

    /// Returns the shard that is told of the end of the last direct write.
    pub fn told(&self) -> Option<u32> {
        self.state().told
    }

    /// Returns the names and written images of all files.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        state.names.iter().map(|(name, &inode)| (name.clone(), state.inodes[inode].written.clone())).collect()
    }

    /// Adds a file, synced.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        let inode = state.inodes.len();
        state.inodes.push(Inode::synced(bytes.to_vec()));
        state.names.insert(name.into(), inode);
        state.synced_names.insert(name.into(), inode);
    }

    /// Returns everything that [`Disk::write_note`] wrote. It is not part of [`SimDisk::files`].
    pub fn note(&self) -> Vec<u8> {
        self.state().note.written.clone()
    }

    /// Replaces the notes, synced.
    pub fn put_note(&self, note: &[u8]) {
        self.state().note = Inode::synced(note.to_vec());
    }

    /// Removes a file without the knowledge of the log.
    pub fn lose(&self, name: &str) {
        let mut state = self.state();
        state.names.remove(name);
        state.synced_names.remove(name);
    }

    fn with(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)), holds: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for SimDisk {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), holds: false }
    }
}

impl Drop for SimDisk {
    fn drop(&mut self) {
        if self.holds {
            self.state().locked = false;
        }
    }
}

impl Disk for SimDisk {
    type File = FalseFile;

    fn lock(&mut self) -> io::Result<()> {
        if self.holds {
            return Ok(());
        }
        let mut state = self.state();
        state.begin(Op::Lock)?.finish()?;
        if state.locked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locked = true;
        drop(state);
        self.holds = true;
        Ok(())
    }

    fn boot_id(&mut self) -> Option<BootId> {
        let mut boot = BootId::default();
        boot[..8].copy_from_slice(&self.state().boot.to_le_bytes());
        // A boot identifier must not be all zeros.
        boot[8..].fill(0x5a);
        Some(boot)
    }

    fn read_notes(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.note())
    }

    fn write_note(&mut self, offset: u64, note: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let verdict = state.begin(Op::Note)?;
        if verdict.applies {
            write(&mut state.note.written, offset as usize, note);
            state.note.change(offset as usize, Some(note.to_vec()));
        }
        verdict.finish()
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.begin(Op::List)?.finish()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&mut self, name: &str) -> io::Result<FalseFile> {
        let mut state = self.state();
        let verdict = state.begin(Op::Create)?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = state.inodes.len();
        if verdict.applies {
            state.inodes.push(Inode::default());
            state.names.insert(name.into(), inode);
        }
        verdict.finish()?;
        Ok(FalseFile(inode))
    }

    fn open(&mut self, name: &str) -> io::Result<FalseFile> {
        let mut state = self.state();
        state.begin(Op::Open)?.finish()?;
        state.names.get(name).map(|&inode| FalseFile(inode)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write_vectored_at(
        &mut self,
        file: &mut FalseFile,
        offset: u64,
        pieces: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let mut state = self.state();
        let verdict = state.begin(Op::Write)?;
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| &**piece).collect();
        let mut bytes = pieces.concat();
        let per_mille = state.short_per_mille;
        let short = state.random.below(1000) < per_mille;
        if (verdict.error.is_some() || short) && !bytes.is_empty() {
            let least = usize::from(verdict.error.is_none());
            let most = bytes.len() as u64 - least as u64 + 1;
            let taken = state.random.below(most) as usize + least;
            bytes.truncate(taken);
        }
        // Overwritten and reserved bytes need no new room.
        let there = state.inodes[file.0].taken().saturating_sub(offset);
        let free = state.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(state.taken()));
        let room = free.saturating_add(there);
        let full = verdict.error.is_none() && room == 0 && !bytes.is_empty();
        bytes.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        let (inode, at) = (&mut state.inodes[file.0], offset as usize);
        write(&mut inode.written, at, &bytes);
        let taken = bytes.len();
        inode.change(at, Some(bytes));
        verdict.finish()?;
        if full { Err(io::Error::from_raw_os_error(libc::ENOSPC)) } else { Ok(taken) }
    }

    fn begin_sync(&mut self, file: &mut FalseFile) -> PendingSync {
        let (disk, index) = (self.clone(), file.0);
        let before = self.state().inodes[index].changes;
        Box::new(move || {
            let mut state = disk.state();
            let verdict = state.begin(Op::Sync)?;
            let drops = state.drops_refused;
            let inode = &mut state.inodes[index];
            if verdict.error.is_some() {
                if drops {
                    let length = inode.written.len();
                    inode.written.clone_from(&inode.synced);
                    inode.written.resize(length, 0);
                    // What was discarded cannot reach the disk later. Only the length of the file is left.
                    inode.pending.retain(|change| change.in_flight);
                    inode.change(length, None);
                }
                inode
                    .pending
                    .iter_mut()
                    .filter(|change| !change.in_flight)
                    .for_each(|change| change.doomed = true);
            } else {
                let (safe, left): (Vec<Change>, _) = inode
                    .pending
                    .drain(..)
                    .partition(|change| !change.doomed && !change.in_flight && change.number < before);
                safe.iter().for_each(|change| change.apply(&mut inode.synced));
                inode.pending = left;
            }
            verdict.finish()
        })
    }

    fn begin_sync_dir(&mut self) -> PendingSync {
        let disk = self.clone();
        let (changes, names) = (self.changes(), self.state().names.clone());
        Box::new(move || {
            let mut state = disk.state();
            let verdict = state.begin(Op::SyncDir)?;
            // Another sync that began later may have made more names durable. Its result stays.
            if verdict.applies && changes >= state.names_synced_at {
                (state.synced_names, state.names_synced_at) = (names, changes);
            }
            verdict.finish()
        })
    }

    fn begin_fill(&mut self, name: &str, bytes: u64) -> PendingSync {
        let (disk, name) = (self.clone(), name.to_owned());
        Box::new(move || {
            let mut state = disk.state();
            if !state.fills {
                return Err(io::ErrorKind::Unsupported.into());
            }
            let verdict = state.begin(Op::Fill)?;
            let there = state.names.get(&name).copied();
            let taken = there.map_or(0, |inode| state.inodes[inode].taken());
            let missing = bytes.saturating_sub(taken);
            if state.capacity.is_some_and(|capacity| state.taken() + missing > capacity) {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            if verdict.applies {
                let index = there.unwrap_or_else(|| {
                    state.inodes.push(Inode::default());
                    let index = state.inodes.len() - 1;
                    state.names.insert(name.clone(), index);
                    index
                });
                let inode = &mut state.inodes[index];
                let length = inode.written.len().max(bytes as usize);
                inode.written.resize(length, 0);
                *inode = Inode::synced(std::mem::take(&mut inode.written));
            }
            verdict.finish()
        })
    }

    fn open_direct(&mut self, name: &str) -> io::Result<FalseFile> {
        if !self.state().direct {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.open(name)
    }

    fn begin_direct(
        &mut self,
        file: &mut FalseFile,
        offset: u64,
        blocks: Blocks,
        shard: u32,
    ) -> Result<(), (io::Error, Blocks)> {
        let mut state = self.state();
        state.told = Some(shard);
        let verdict = match state.begin(Op::Direct) {
            Ok(verdict) => verdict,
            Err(error) => return Err((error, blocks)),
        };
        let (inode, at, length) = (&mut state.inodes[file.0], offset as usize, blocks.bytes().len());
        let is_aligned = at.is_multiple_of(BLOCK) && length.is_multiple_of(BLOCK) && length > 0;
        assert!(is_aligned, "{length} bytes at {at} are no blocks");
        assert!(at + length <= inode.written.len(), "{length} bytes at {at} make the file longer");
        let is_refused = verdict.error.is_some() && (state.dead || state.random.one_in(2));
        assert!(state.in_flight.is_none(), "one is in flight");
        let inode = &mut state.inodes[file.0];
        if verdict.applies || !is_refused {
            write(&mut inode.written, at, blocks.bytes());
            inode.change(at, Some(blocks.bytes().to_vec()));
            inode.pending.last_mut().expect("it was added").in_flight = true;
        }
        if is_refused {
            let error = verdict.finish().expect_err("it is refused");
            return Err((error, blocks));
        }
        state.in_flight = Some((file.0, blocks, verdict.error));
        Ok(())
    }

    fn end_direct(&mut self, waits: bool) -> Option<Ended> {
        let mut state = self.state();
        if state.dead || !waits && state.in_flight.is_some() && state.random.one_in(2) {
            return None;
        }
        let (index, blocks, error) = state.in_flight.take()?;
        let drops = state.drops_refused;
        let inode = &mut state.inodes[index];
        let at = inode.pending.iter().position(|change| change.in_flight);
        let mut change = inode.pending.remove(at.expect("it is in flight"));
        change.in_flight = false;
        if error.is_some() {
            if drops {
                let end = change.at + blocks.bytes().len();
                let (written, synced) = (&mut inode.written, &inode.synced);
                (change.at..end).for_each(|at| written[at] = synced.get(at).copied().unwrap_or(0));
            }
            change.doomed = true;
            inode.pending.push(change);
        } else {
            change.apply(&mut inode.synced);
        }
        Some(Ended { blocks, result: Verdict { applies: true, error }.finish() })
    }

    fn read_at(&mut self, file: &mut FalseFile, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        state.longest_read = state.longest_read.max(into.len());
        state.bytes_read += into.len() as u64;
        state.begin(Op::Read)?.finish()?;
        let from = state.inodes[file.0].written.get(offset as usize..).unwrap_or_default();
        let length = from.len().min(into.len());
        into[..length].copy_from_slice(&from[..length]);
        Ok(length)
    }

    fn len(&mut self, file: &mut FalseFile) -> io::Result<u64> {
        let mut state = self.state();
        state.begin(Op::Len)?.finish()?;
        Ok(state.inodes[file.0].written.len() as u64)
    }

    fn truncate(&mut self, file: &mut FalseFile, length: u64) -> io::Result<()> {
        let mut state = self.state();
        let verdict = state.begin(Op::Truncate)?;
        if verdict.applies {
            let inode = &mut state.inodes[file.0];
            inode.written.resize(length as usize, 0);
            inode.reserved = inode.reserved.min(length);
            inode.change(length as usize, None);
        }
        verdict.finish()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let verdict = state.begin(Op::Rename)?;
        if verdict.applies {
            let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
            state.names.insert(to.into(), inode);
        }
        verdict.finish()
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        let verdict = state.begin(Op::Remove)?;
        if verdict.applies {
            state.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        }
        verdict.finish()
    }

    fn reserve(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        let verdict = state.begin(Op::Reserve)?;
        if let Some(inode) = state.names.remove(name) {
            state.inodes[inode].reserved = 0;
        }
        verdict.finish()?;
        if state.capacity.is_some_and(|capacity| state.taken() + bytes > capacity) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let inode = state.inodes.len();
        state.inodes.push(Inode { reserved: bytes, ..Inode::default() });
        state.names.insert(name.into(), inode);
        Ok(())
    }
}

#[derive(Default)]
struct State {
    random: Random,
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    /// [`Self::changes`] when the sync of `synced_names` began.
    names_synced_at: u64,
    locked: bool,
    /// The identifier of this boot of the machine.
    boot: u64,
    note: Inode,
    counts: [u64; 16],
    longest_read: usize,
    bytes_read: u64,
    changes: u64,
    /// The operations that fail, with a bit for each [`Op`].
    failing: u32,
    per_mille: u64,
    errno: i32,
    short_per_mille: u64,
    drops_refused: bool,
    fail_at: Option<(u64, i32)>,
    die_at: Option<u64>,
    dead: bool,
    capacity: Option<u64>,
    /// Direct writes are possible.
    direct: bool,
    fills: bool,
    /// See [`SimDisk::told`].
    told: Option<u32>,
    /// The direct write in flight: its file, its memory, and the error with which it will end.
    in_flight: Option<(usize, Blocks, Option<i32>)>,
}

/// What happens to an operation: whether it takes effect, and the error that it reports. It may take effect
/// and still report an error.
struct Verdict {
    applies: bool,
    error: Option<i32>,
}

impl Verdict {
    fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }
}

impl State {
    /// Returns the bytes that all files take. Files without a name do not count.
    fn taken(&self) -> u64 {
        let named = self.names.values().map(|&inode| &self.inodes[inode]);
        named.map(Inode::taken).sum()
    }

    fn begin(&mut self, op: Op) -> io::Result<Verdict> {
        if self.dead {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.counts[op as usize] += 1;
        let change = ALL_CHANGES.contains(&op);
        let at = self.changes;
        self.changes += u64::from(change);
        let mut error = None;
        if change && self.die_at == Some(at) {
            self.dead = true;
            error = Some(libc::EIO);
        } else if let Some((nth, errno)) = self.fail_at
            && change
            && nth == at
        {
            error = Some(errno);
        } else if self.failing >> op as u8 & 1 == 1 && self.random.below(1000) < self.per_mille {
            error = Some(self.errno);
        }
        let applies = error.is_none() || self.random.one_in(2);
        Ok(Verdict { applies, error })
    }
}
