//! The files and directories. A disk that forgets has two contents of each: the one that programs see and the one on the disk.
//!
//! A sync begins with [`Disk::begin_sync`] and ends with [`Disk::end_sync`]. Between the two, a cut keeps or loses what it
//! covers. Changes that come after its beginning are not covered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use random::Random;

/// The bytes that a cut keeps or loses as one. Direct writes and reads consist of whole sectors.
pub(crate) const SECTOR: usize = 512;
/// The node of the root directory.
pub(crate) const ROOT: u64 = 1;

/// The bit of a directory in the mode of a node, and that of a file.
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No such file or directory.
    Missing,
    Exists,
    NotEmpty,
    /// The request makes no sense, or this disk refuses it on purpose.
    Invalid,
    /// The request is of a kind that the file system does not have.
    Unknown,
    /// The file system has requests of this kind, but not with these parameters.
    Unsupported,
    /// The power was cut before the sync ended.
    Cut,
}

/// A number that identifies a sync. Later syncs have higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// What a sync covers.
#[derive(Clone, Debug)]
pub(crate) enum Covers {
    /// All changes of a file.
    File,
    /// What a write to this range has changed, and the length of the file if the write is behind its end.
    Written(Range<usize>),
    /// The changes of the names in a directory.
    Directory,
}

/// Who owns a node, and what it permits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub uid: u32,
    pub gid: u32,
    pub permissions: u32,
}

/// A file or a directory.
pub(crate) struct Node {
    pub is_dir: bool,
    pub owner: Owner,
    /// Seconds since the epoch, and nanoseconds.
    pub modified: (u64, u32),
    /// How many answers have named this node to the kernel that it has not forgotten.
    known: u64,
    pub seen: Vec<u8>,
    disk: Vec<u8>,
    /// The sectors that were written since the last sync began.
    dirty: BTreeSet<usize>,
    pub names: BTreeMap<String, u64>,
    disk_names: BTreeMap<String, u64>,
    /// The changes that were not synced. Those of one move between two directories have the same number.
    changes: Vec<(Change, Option<u64>)>,
}

impl Node {
    pub(crate) fn mode(&self) -> u32 {
        self.owner.permissions | if self.is_dir { DIRECTORY } else { REGULAR }
    }
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

/// What a sync that has not ended makes durable.
struct Flying {
    ticket: Ticket,
    node: u64,
    /// Consecutive bytes, with the offset of each run.
    runs: Vec<(usize, Vec<u8>)>,
    /// The length that the file has on the disk after the sync.
    length: Length,
}

#[derive(Clone, Copy)]
enum Length {
    Exactly(usize),
    AtLeast(usize),
}

impl Length {
    fn apply(self, disk: &mut Vec<u8>) {
        match self {
            Self::Exactly(length) => disk.resize(length, 0),
            Self::AtLeast(length) => disk.resize(length.max(disk.len()), 0),
        }
    }
}

/// The files and directories of one disk.
pub(crate) struct Disk {
    nodes: BTreeMap<u64, Node>,
    last: u64,
    /// Without this, all changes are durable at once, and nothing is kept twice.
    forgets: bool,
    /// Syncs that have begun and not ended, in the order of their beginning.
    flying: VecDeque<Flying>,
    tickets: u64,
    /// The last sync that began before the last cut.
    last_cut: Ticket,
    /// No sync ends.
    pub holds_syncs: bool,
    /// The number of sectors and changes of names that cuts have lost.
    pub lost: u64,
    /// The number of direct writes that had to be durable.
    pub direct: u64,
    /// The number of moves between directories.
    moves: u64,
}

impl Disk {
    pub(crate) fn new(forgets: bool) -> Self {
        let (nodes, flying) = (BTreeMap::new(), VecDeque::new());
        let mut disk = Self {
            nodes,
            last: 0,
            forgets,
            flying,
            tickets: 0,
            last_cut: Ticket(0),
            holds_syncs: false,
            lost: 0,
            direct: 0,
            moves: 0,
        };
        let root = disk.add(true, Owner { uid: 0, gid: 0, permissions: 0o755 });
        debug_assert_eq!(root, ROOT);
        disk
    }

    pub(crate) fn node(&self, node: u64) -> Result<&Node, Refused> {
        self.nodes.get(&node).ok_or(Refused::Missing)
    }

    pub(crate) fn node_mut(&mut self, node: u64) -> Result<&mut Node, Refused> {
        self.nodes.get_mut(&node).ok_or(Refused::Missing)
    }

    pub(crate) fn look_up(&self, dir: u64, name: &str) -> Result<u64, Refused> {
        self.node(dir)?.names.get(name).copied().ok_or(Refused::Missing)
    }

    pub(crate) fn make(
        &mut self,
        dir: u64,
        name: String,
        is_dir: bool,
        owner: Owner,
    ) -> Result<u64, Refused> {
        if self.node(dir)?.names.contains_key(&name) {
            return Err(Refused::Exists);
        }
        let made = self.add(is_dir, owner);
        self.change(dir, Change::Add(name, made), None)?;
        Ok(made)
    }

    pub(crate) fn remove(&mut self, dir: u64, name: String) -> Result<(), Refused> {
        let gone = self.look_up(dir, &name)?;
        if !self.node(gone)?.names.is_empty() {
            return Err(Refused::NotEmpty);
        }
        self.change(dir, Change::Remove(name), None)?;
        self.collect(gone);
        Ok(())
    }

    /// Gives a node a new name, in the same directory or in another one. What had this name loses it, unless `replaces` is false.
    pub(crate) fn rename(
        &mut self,
        from: (u64, String),
        to: (u64, String),
        replaces: bool,
    ) -> Result<(), Refused> {
        let moved = self.look_up(from.0, &from.1)?;
        let replaced = self.node(to.0)?.names.get(&to.1).copied();
        if let Some(replaced) = replaced {
            if !replaces {
                return Err(Refused::Exists);
            }
            if !self.node(replaced)?.names.is_empty() {
                return Err(Refused::NotEmpty);
            }
        }
        if from.0 == to.0 {
            self.change(from.0, Change::Rename(from.1, to.1), None)?;
        } else {
            self.moves += 1;
            let number = Some(self.moves);
            self.change(to.0, Change::Add(to.1, moved), number)?;
            self.change(from.0, Change::Remove(from.1), number)?;
        }
        if let Some(replaced) = replaced {
            self.collect(replaced);
        }
        Ok(())
    }

    pub(crate) fn link(&mut self, node: u64, dir: u64, name: String) -> Result<(), Refused> {
        if self.node(dir)?.names.contains_key(&name) {
            return Err(Refused::Exists);
        }
        self.change(dir, Change::Add(name, node), None)
    }

    pub(crate) fn write(&mut self, node: u64, at: usize, data: &[u8]) -> Result<(), Refused> {
        let (end, forgets) = (at + data.len(), self.forgets);
        if self.node(node)?.seen.len() < end {
            self.resize(node, end)?;
        }
        let file = self.node_mut(node)?;
        file.seen[at..end].copy_from_slice(data);
        if forgets {
            file.dirty.extend(at / SECTOR..end.div_ceil(SECTOR));
        }
        Ok(())
    }

    pub(crate) fn resize(&mut self, node: u64, length: usize) -> Result<(), Refused> {
        let forgets = self.forgets;
        let file = self.node_mut(node)?;
        let before = file.seen.len();
        file.seen.resize(length, 0);
        if forgets {
            // What is between the old and the new length has changed.
            file.dirty.extend(before.min(length) / SECTOR..before.max(length).div_ceil(SECTOR));
        }
        Ok(())
    }

    /// Begins a sync of a node. It covers the changes up to now. The changes of names are durable at once.
    pub(crate) fn begin_sync(&mut self, node: u64, covers: Covers) -> Result<Ticket, Refused> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let forgets = self.forgets;
        let file = self.node_mut(node)?;
        if !forgets {
            return Ok(ticket);
        }
        let (mut sectors, mut length) = (BTreeSet::new(), Length::AtLeast(0));
        match covers {
            Covers::File => {
                sectors = std::mem::take(&mut file.dirty);
                length = Length::Exactly(file.seen.len());
            }
            Covers::Written(ref range) => {
                sectors.extend(range.start / SECTOR..range.end.div_ceil(SECTOR));
                for sector in &sectors {
                    file.dirty.remove(sector);
                }
                length = Length::AtLeast(range.end);
            }
            Covers::Directory => {}
        }
        let mut runs: Vec<(usize, Vec<u8>)> = Vec::new();
        for sector in sectors {
            let from = (sector * SECTOR).min(file.seen.len());
            let bytes = &file.seen[from..file.seen.len().min(from + SECTOR)];
            match runs.last_mut() {
                Some((at, run)) if *at + run.len() == from => run.extend_from_slice(bytes),
                _ => runs.push((from, bytes.to_vec())),
            }
        }
        self.flying.push_back(Flying { ticket, node, runs, length });
        if matches!(covers, Covers::Directory) {
            self.sync_names(node)?;
        }
        Ok(ticket)
    }

    /// Ends a sync, and with it all that began before it. Returns an error if the power was cut meanwhile.
    pub(crate) fn end_sync(&mut self, ticket: Ticket) -> Result<(), Refused> {
        while let Some(ended) = self.flying.pop_front_if(|flying| flying.ticket <= ticket) {
            // The file may have been removed and forgotten.
            let Some(Node { disk, .. }) = self.nodes.get_mut(&ended.node) else { continue };
            ended.length.apply(disk);
            for (at, run) in ended.runs {
                copy(&run, at, disk);
            }
        }
        if self.is_cut(ticket) { Err(Refused::Cut) } else { Ok(()) }
    }

    /// Returns true if the power was cut after this sync began. It can only fail.
    pub(crate) fn is_cut(&self, ticket: Ticket) -> bool {
        ticket <= self.last_cut
    }

    fn sync_names(&mut self, node: u64) -> Result<(), Refused> {
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
        Ok(())
    }

    /// Notes that an answer names the node to the kernel.
    pub(crate) fn know(&mut self, node: u64) {
        if let Ok(node) = self.node_mut(node) {
            node.known += 1;
        }
    }

    /// Notes that the kernel has forgotten so many of the answers that named the node.
    pub(crate) fn forget(&mut self, node: u64, answers: u64) {
        if let Ok(node) = self.node_mut(node) {
            node.known = node.known.saturating_sub(answers);
        }
        self.collect(node);
    }

    /// Cuts the power. The rest of what was not synced is what programs see from now on.
    pub(crate) fn cut(&mut self, random: &mut Random) {
        self.last_cut = Ticket(self.tickets);
        for Flying { node, runs, length, .. } in std::mem::take(&mut self.flying) {
            let Some(Node { disk, .. }) = self.nodes.get_mut(&node) else { continue };
            if random.between(0, 2) == 0 {
                length.apply(disk);
            }
            for (at, run) in runs {
                for (number, sector) in run.chunks(SECTOR).enumerate() {
                    if random.between(0, 2) == 0 {
                        copy(sector, at + number * SECTOR, disk);
                    } else {
                        self.lost += 1;
                    }
                }
            }
        }
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
            if seen.len() != disk.len() && random.between(0, 2) == 0 {
                disk.resize(seen.len(), 0);
            }
            for sector in std::mem::take(dirty) {
                let from = sector * SECTOR;
                let to = (from + SECTOR).min(seen.len()).min(disk.len());
                if from < to && random.between(0, 2) == 0 {
                    disk[from..to].copy_from_slice(&seen[from..to]);
                } else {
                    self.lost += 1;
                }
            }
            seen.clone_from(disk);
        }
        let unnamed: Vec<u64> = self.nodes.keys().copied().collect();
        unnamed.into_iter().for_each(|node| self.collect(node));
    }

    fn add(&mut self, is_dir: bool, owner: Owner) -> u64 {
        self.last += 1;
        let node = Node {
            is_dir,
            owner,
            modified: (0, 0),
            known: 0,
            seen: Vec::new(),
            disk: Vec::new(),
            dirty: BTreeSet::new(),
            names: BTreeMap::new(),
            disk_names: BTreeMap::new(),
            changes: Vec::new(),
        };
        self.nodes.insert(self.last, node);
        self.last
    }

    fn change(&mut self, dir: u64, change: Change, number: Option<u64>) -> Result<(), Refused> {
        let forgets = self.forgets;
        let dir = self.node_mut(dir)?;
        change.apply(&mut dir.names);
        if forgets {
            dir.changes.push((change, number));
        }
        Ok(())
    }

    /// Removes a node that nobody can reach any more.
    fn collect(&mut self, node: u64) {
        let is_known = self.nodes.get(&node).is_none_or(|node| node.known > 0);
        let names_it = |dir: &Node| {
            dir.names.values().chain(dir.disk_names.values()).any(|named| *named == node)
                || dir
                    .changes
                    .iter()
                    .any(|(change, _)| matches!(change, Change::Add(_, added) if *added == node))
        };
        if node != ROOT && !is_known && !self.nodes.values().any(names_it) {
            self.nodes.remove(&node);
        }
    }
}

/// Copies what is within the length of the disk.
fn copy(bytes: &[u8], at: usize, disk: &mut [u8]) {
    let to = disk.len().min(at + bytes.len());
    if at < to {
        disk[at..to].copy_from_slice(&bytes[..to - at]);
    }
}

#[cfg(test)]
mod tests;
