//! A file system in memory that forgets: what was not synced may be lost when the power is cut.
//!
//! It speaks the kernel's FUSE protocol (`linux/fuse.h`) over the descriptor that `mount` was given. Each file has two
//! contents, the one that programs see and the one on the disk. A write changes the first, `fsync` makes the second equal to
//! it. A directory has the names that programs see, and the list of changes that were not synced.
//!
//! A cut takes a random part of what was not synced to the disk: each sector of 512 bytes by itself, each length of a file,
//! and each change of a name. Then programs see what is on the disk. Looking up the name `.cut-SEED` in the root cuts the
//! power.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use random::Random;

const SECTOR: usize = 512;
const CUT: &str = ".cut-";
/// The size of the kernel's header of a request, and of an answer.
const IN: usize = 40;
/// The most bytes of one write.
const WRITE_MAX: u32 = 1 << 20;

/// How often it is tried whether the file system is mounted.
const MOUNT_TRIES: u32 = 5_000;
const MOUNT_INTERVAL: Duration = Duration::from_millis(1);

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EINTR: i32 = 4;
const EEXIST: i32 = 17;
const ENOSYS: i32 = 38;
const ENOTEMPTY: i32 = 39;

#[derive(Clone, Default)]
struct Content {
    bytes: Vec<u8>,
}

/// A file or a directory.
struct Node {
    is_dir: bool,
    seen: Content,
    disk: Content,
    /// The sectors that were written since the last sync.
    dirty: BTreeSet<usize>,
    names: BTreeMap<String, u64>,
    disk_names: BTreeMap<String, u64>,
    /// The changes that were not synced. Those of one move between two directories have the same number.
    changes: Vec<(Change, Option<u64>)>,
}

/// A change of the names in a directory.
#[derive(Clone)]
enum Change {
    Add(String, u64),
    Remove(String),
    Rename(String, String),
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Add(name, node) => drop(names.insert(name.clone(), *node)),
            Self::Remove(name) => drop(names.remove(name)),
            // If the name to be moved has not reached the disk, neither has its new name.
            Self::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }
}

/// The file system.
pub(super) struct Forgetful {
    nodes: BTreeMap<u64, Node>,
    last: u64,
    /// The number of sectors and changes of names that cuts have lost.
    lost: u64,
    /// The number of moves between directories.
    moves: u64,
}

/// An answer: its body, or an error number.
type Answer = Result<Vec<u8>, i32>;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Returns the names at the end of a request; each ends with a zero.
fn names(bytes: &[u8]) -> Vec<String> {
    bytes.split(|byte| *byte == 0).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

impl Forgetful {
    pub(super) fn new() -> Self {
        let mut all = Self { nodes: BTreeMap::new(), last: 0, lost: 0, moves: 0 };
        all.add(true);
        all
    }

    /// Answers requests until the file system is unmounted. Returns how much cuts have lost.
    pub(super) fn serve(mut self, mut device: File) -> u64 {
        let (mut request, mut waited) = (vec![0; IN + WRITE_MAX as usize + 4096], 0);
        loop {
            let length = match device.read(&mut request) {
                Ok(length) => length,
                // It is not mounted yet.
                Err(error) if error.raw_os_error() == Some(EPERM) && waited < MOUNT_TRIES => {
                    waited += 1;
                    std::thread::sleep(MOUNT_INTERVAL);
                    continue;
                }
                // The request was interrupted.
                Err(error) if matches!(error.raw_os_error(), Some(ENOENT | EINTR)) => continue,
                Err(_) => return self.lost,
            };
            let (code, unique, node) = (u32_at(&request, 4), u64_at(&request, 8), u64_at(&request, 16));
            // FORGET and BATCH_FORGET have no answer.
            if matches!(code, 2 | 42) {
                continue;
            }
            let answer = self.answer(code, node, &request[IN..length]);
            let (error, body) = answer.map_or_else(|error| (-error, Vec::new()), |body| (0, body));
            let mut out = Vec::with_capacity(16 + body.len());
            out.extend_from_slice(&(16 + body.len() as u32).to_le_bytes());
            out.extend_from_slice(&error.to_le_bytes());
            out.extend_from_slice(&unique.to_le_bytes());
            out.extend_from_slice(&body);
            // The request may have been interrupted.
            drop(device.write(&out));
        }
    }

    fn answer(&mut self, code: u32, node: u64, body: &[u8]) -> Answer {
        match code {
            // LOOKUP
            1 => {
                let name = &names(body)[0];
                if let Some(seed) = name.strip_prefix(CUT) {
                    self.cut(&mut Random(seed.parse().unwrap_or(0)));
                    return Err(ENOENT);
                }
                let found = *self.node(node)?.names.get(name).ok_or(ENOENT)?;
                self.entry(found)
            }
            // GETATTR
            3 => self.attributes(node),
            // SETATTR: only the length matters.
            4 => {
                if u32_at(body, 0) & (1 << 3) != 0 {
                    self.resize(node, u64_at(body, 16) as usize)?;
                }
                self.attributes(node)
            }
            // MKDIR
            9 => {
                let name = names(&body[8..])[0].clone();
                let made = self.make(node, name, true)?;
                self.entry(made)
            }
            // UNLINK, RMDIR
            10 | 11 => {
                let name = names(body)[0].clone();
                let gone = *self.node(node)?.names.get(&name).ok_or(ENOENT)?;
                if code == 11 && !self.node(gone)?.names.is_empty() {
                    return Err(ENOTEMPTY);
                }
                self.change(node, Change::Remove(name))
            }
            // RENAME, RENAME2
            12 | 45 => {
                let pair = names(&body[if code == 12 { 8 } else { 16 }..]);
                let moved = *self.node(node)?.names.get(&pair[0]).ok_or(ENOENT)?;
                let to = u64_at(body, 0);
                if to == node {
                    return self.change(node, Change::Rename(pair[0].clone(), pair[1].clone()));
                }
                self.moves += 1;
                let number = Some(self.moves);
                self.change_as(to, Change::Add(pair[1].clone(), moved), number)?;
                self.change_as(node, Change::Remove(pair[0].clone()), number)
            }
            // LINK
            13 => {
                let (linked, name) = (u64_at(body, 0), names(&body[8..])[0].clone());
                if self.node(node)?.names.contains_key(&name) {
                    return Err(EEXIST);
                }
                self.change(node, Change::Add(name, linked))?;
                self.entry(linked)
            }
            // OPEN, OPENDIR
            14 | 27 => Ok(vec![0; 16]),
            // READ
            15 => {
                let (at, size) = (u64_at(body, 8) as usize, u32_at(body, 16) as usize);
                let bytes = &self.node(node)?.seen.bytes;
                let from = at.min(bytes.len());
                Ok(bytes[from..bytes.len().min(from + size)].to_vec())
            }
            // WRITE
            16 => {
                let (at, size) = (u64_at(body, 8) as usize, u32_at(body, 16) as usize);
                let data = &body[40..40 + size];
                if self.node(node)?.seen.bytes.len() < at + size {
                    self.resize(node, at + size)?;
                }
                let file = self.nodes.get_mut(&node).ok_or(ENOENT)?;
                file.seen.bytes[at..at + size].copy_from_slice(data);
                file.dirty.extend(at / SECTOR..(at + size).div_ceil(SECTOR));
                Ok([&(size as u32).to_le_bytes()[..], &[0; 4]].concat())
            }
            // STATFS: there is plenty of room.
            17 => {
                let mut out = vec![0; 80];
                for at in [0, 8, 16, 24, 32] {
                    out[at..at + 8].copy_from_slice(&(1_u64 << 24).to_le_bytes());
                }
                out[40..44].copy_from_slice(&4096_u32.to_le_bytes());
                out[44..48].copy_from_slice(&255_u32.to_le_bytes());
                out[48..52].copy_from_slice(&4096_u32.to_le_bytes());
                Ok(out)
            }
            // FSYNC
            20 => {
                let file = self.nodes.get_mut(&node).ok_or(ENOENT)?;
                let (seen, disk) = (&file.seen.bytes, &mut file.disk.bytes);
                disk.resize(seen.len(), 0);
                for sector in std::mem::take(&mut file.dirty) {
                    let to = seen.len().min((sector + 1) * SECTOR);
                    if let Some(range) = (sector * SECTOR < to).then_some(sector * SECTOR..to) {
                        disk[range.clone()].copy_from_slice(&seen[range]);
                    }
                }
                Ok(Vec::new())
            }
            // INIT
            26 => {
                let mut out = vec![0; 64];
                out[..4].copy_from_slice(&7_u32.to_le_bytes());
                out[4..8].copy_from_slice(&31_u32.to_le_bytes());
                out[8..12].copy_from_slice(&WRITE_MAX.to_le_bytes());
                // BIG_WRITES and MAX_PAGES
                out[12..16].copy_from_slice(&(1_u32 << 5 | 1 << 22).to_le_bytes());
                out[20..24].copy_from_slice(&WRITE_MAX.to_le_bytes());
                out[24..28].copy_from_slice(&1_u32.to_le_bytes());
                out[28..30].copy_from_slice(&((WRITE_MAX / 4096) as u16).to_le_bytes());
                Ok(out)
            }
            // READDIR
            28 => {
                let (from, size) = (u64_at(body, 8) as usize, u32_at(body, 16) as usize);
                let mut out = Vec::new();
                for (at, (name, node)) in self.node(node)?.names.iter().enumerate().skip(from) {
                    let length = (24 + name.len()).next_multiple_of(8);
                    if out.len() + length > size {
                        break;
                    }
                    let kind = if self.nodes.get(node).is_some_and(|node| node.is_dir) { 4_u32 } else { 8 };
                    let end = out.len() + length;
                    out.extend_from_slice(&node.to_le_bytes());
                    out.extend_from_slice(&(at as u64 + 1).to_le_bytes());
                    out.extend_from_slice(&(name.len() as u32).to_le_bytes());
                    out.extend_from_slice(&kind.to_le_bytes());
                    out.extend_from_slice(name.as_bytes());
                    out.resize(end, 0);
                }
                Ok(out)
            }
            // FSYNCDIR
            30 => {
                let moves: BTreeSet<u64> =
                    self.node(node)?.changes.iter().filter_map(|(_, number)| *number).collect();
                let has_move = |dir: &Node| {
                    dir.changes.iter().any(|(_, number)| number.is_some_and(|number| moves.contains(&number)))
                };
                // A move reaches the disk as a whole.
                for (at, dir) in &mut self.nodes {
                    if *at == node || has_move(dir) {
                        dir.disk_names = dir.names.clone();
                        dir.changes.clear();
                    }
                }
                Ok(Vec::new())
            }
            // CREATE
            35 => {
                let name = names(&body[16..])[0].clone();
                let made = self.make(node, name, false)?;
                Ok([self.entry(made)?, vec![0; 16]].concat())
            }
            // FALLOCATE
            43 => {
                let end = (u64_at(body, 8) + u64_at(body, 16)) as usize;
                if self.node(node)?.seen.bytes.len() < end {
                    self.resize(node, end)?;
                }
                Ok(Vec::new())
            }
            // RELEASE, FLUSH, RELEASEDIR, ACCESS
            18 | 25 | 29 | 34 => Ok(Vec::new()),
            _ => Err(ENOSYS),
        }
    }

    fn node(&self, node: u64) -> Result<&Node, i32> {
        self.nodes.get(&node).ok_or(ENOENT)
    }

    fn add(&mut self, is_dir: bool) -> u64 {
        self.last += 1;
        let (seen, disk) = (Content::default(), Content::default());
        let (dirty, names, disk_names) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        self.nodes
            .insert(self.last, Node { is_dir, seen, disk, dirty, names, disk_names, changes: Vec::new() });
        self.last
    }

    fn make(&mut self, dir: u64, name: String, is_dir: bool) -> Result<u64, i32> {
        if self.node(dir)?.names.contains_key(&name) {
            return Err(EEXIST);
        }
        let made = self.add(is_dir);
        self.change(dir, Change::Add(name, made))?;
        Ok(made)
    }

    fn change(&mut self, dir: u64, change: Change) -> Answer {
        self.change_as(dir, change, None)
    }

    fn change_as(&mut self, dir: u64, change: Change, number: Option<u64>) -> Answer {
        let dir = self.nodes.get_mut(&dir).ok_or(ENOENT)?;
        change.apply(&mut dir.names);
        dir.changes.push((change, number));
        Ok(Vec::new())
    }

    fn resize(&mut self, node: u64, length: usize) -> Result<(), i32> {
        let file = self.nodes.get_mut(&node).ok_or(ENOENT)?;
        let before = file.seen.bytes.len();
        file.seen.bytes.resize(length, 0);
        // What is between the old and the new length has changed.
        file.dirty.extend(before.min(length) / SECTOR..before.max(length).div_ceil(SECTOR));
        Ok(())
    }

    fn attributes_of(&self, node: u64) -> Result<Vec<u8>, i32> {
        let found = self.node(node)?;
        let length = found.seen.bytes.len() as u64;
        let mode: u32 = if found.is_dir { 0o040_755 } else { 0o100_644 };
        let mut out = vec![0; 88];
        out[..8].copy_from_slice(&node.to_le_bytes());
        out[8..16].copy_from_slice(&length.to_le_bytes());
        out[16..24].copy_from_slice(&length.div_ceil(512).to_le_bytes());
        out[60..64].copy_from_slice(&mode.to_le_bytes());
        out[64..68].copy_from_slice(&1_u32.to_le_bytes());
        out[80..84].copy_from_slice(&4096_u32.to_le_bytes());
        Ok(out)
    }

    /// The kernel keeps nothing that it was told about names and lengths.
    fn attributes(&self, node: u64) -> Answer {
        Ok([vec![0; 16], self.attributes_of(node)?].concat())
    }

    fn entry(&self, node: u64) -> Answer {
        Ok([node.to_le_bytes().to_vec(), vec![0; 32], self.attributes_of(node)?].concat())
    }

    /// Cuts the power.
    fn cut(&mut self, random: &mut Random) {
        let of_moves = random.next();
        for node in self.nodes.values_mut() {
            for (change, number) in std::mem::take(&mut node.changes) {
                let is_kept = match number {
                    Some(number) => Random(of_moves ^ number).between(0, 2) == 0,
                    None => random.between(0, 2) == 0,
                };
                if is_kept {
                    change.apply(&mut node.disk_names);
                } else {
                    self.lost += 1;
                }
            }
            node.names = node.disk_names.clone();
            let Node { seen, disk, dirty, .. } = node;
            // If the new length is kept, sectors that are not read as zeros.
            if seen.bytes.len() != disk.bytes.len() && random.between(0, 2) == 0 {
                disk.bytes.resize(seen.bytes.len(), 0);
            }
            for sector in std::mem::take(dirty) {
                let from = sector * SECTOR;
                let to = (from + SECTOR).min(seen.bytes.len()).min(disk.bytes.len());
                if from < to && random.between(0, 2) == 0 {
                    disk.bytes[from..to].copy_from_slice(&seen.bytes[from..to]);
                } else {
                    self.lost += 1;
                }
            }
            seen.bytes.clone_from(&disk.bytes);
        }
    }
}
