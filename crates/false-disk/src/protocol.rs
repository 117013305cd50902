//! Requests of the kernel and their answers (`linux/fuse.h`).

use std::time::{SystemTime, UNIX_EPOCH};

use random::Random;
use rustix::fs::{OFlags, RenameFlags};

use crate::Options;
use crate::disk::{Covers, Disk, Node, Owner, Refused, SECTOR, Ticket};

/// The size of the kernel's header of a request.
pub(crate) const HEADER: usize = 40;
/// The most bytes of one write.
pub(crate) const WRITE_MAX: u32 = 1 << 20;
/// The most direct writes and reads of asynchronous IO that the kernel sends before it gets answers. Its default of 12 is less than
/// the queue of a disk.
const BACKGROUND_MAX: u16 = 256;
/// Looking up a name with this prefix in the root cuts the power. The rest of the name is a seed.
const CUT: &str = ".cut-";
/// Looking up the first of these names in the root holds all syncs, and the second one lets them end.
const HOLD: &str = ".hold-syncs";
const LET: &str = ".let-syncs";
/// How long the kernel of a disk that does not forget keeps names and attributes. Nobody else changes them.
const KEPT_S: u64 = 86_400;

/// Flags of INIT.
const ASYNC_READ: u32 = 1 << 0;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIO: u32 = 1 << 15;
const WRITEBACK_CACHE: u32 = 1 << 16;
const MAX_PAGES: u32 = 1 << 22;

/// The flag of a write that must be durable. In rustix, `DSYNC` has the value of `O_SYNC`, which has one more bit.
const O_DSYNC: u32 = 0o10_000;

/// Flags of the answer to an open. The first makes all IO of the descriptor direct. The others keep the page cache of an earlier open,
/// and let direct writes to one file proceed at the same time.
const DIRECT_IO: u32 = 1 << 0;
const KEEP_CACHE: u32 = 1 << 1;
const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// The attributes that SETATTR changes.
const MODE: u32 = 1 << 0;
const UID: u32 = 1 << 1;
const GID: u32 = 1 << 2;
const SIZE: u32 = 1 << 3;
const MODIFIED: u32 = 1 << 5;
const MODIFIED_NOW: u32 = 1 << 8;

/// A request: its kind, its number, its node and who asks.
pub(crate) struct Request<'a> {
    pub code: u32,
    pub unique: u64,
    node: u64,
    uid: u32,
    gid: u32,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            code: u32_at(bytes, 4),
            unique: u64_at(bytes, 8),
            node: u64_at(bytes, 16),
            uid: u32_at(bytes, 24),
            gid: u32_at(bytes, 28),
            body: &bytes[HEADER..],
        }
    }
}

/// What becomes of a request.
pub(crate) enum Outcome {
    Answer(Vec<u8>),
    /// The answer to a sync, for the time when it has ended.
    WhenSynced(Ticket, Vec<u8>),
    /// The answer to a sync that takes no time.
    Synced(Ticket),
    /// The kernel expects no answer.
    Nothing,
}

/// Handles one request.
pub(crate) fn handle(disk: &mut Disk, options: &Options, request: &Request<'_>) -> Result<Outcome, Refused> {
    let Request { code, node, body, .. } = *request;
    let mut calls = Calls { disk, options, request };
    let answer = match code {
        // LOOKUP
        1 => calls.look_up(&names(body)[0])?,
        // FORGET
        2 => {
            calls.disk.forget(node, u64_at(body, 0));
            return Ok(Outcome::Nothing);
        }
        // BATCH_FORGET
        42 => {
            for one in body[8..].chunks_exact(16) {
                calls.disk.forget(u64_at(one, 0), u64_at(one, 8));
            }
            return Ok(Outcome::Nothing);
        }
        // GETATTR
        3 => calls.attributes(node)?,
        // SETATTR
        4 => calls.set_attributes()?,
        // MKDIR
        9 => calls.make(true, u32_at(body, 0), &body[8..])?,
        // UNLINK, RMDIR
        10 | 11 => {
            calls.disk.remove(node, names(body)[0].clone())?;
            Vec::new()
        }
        // RENAME, RENAME2
        12 => calls.rename(RenameFlags::empty(), &body[8..])?,
        45 => calls.rename(RenameFlags::from_bits_retain(u32_at(body, 8)), &body[16..])?,
        // LINK
        13 => {
            let linked = u64_at(body, 0);
            calls.disk.link(linked, node, names(&body[8..])[0].clone())?;
            calls.entry(linked)?
        }
        // OPEN
        14 => calls.open(u32_at(body, 0))?,
        // OPENDIR
        27 => vec![0; 16],
        // READ
        15 => calls.read()?,
        // WRITE
        16 => return calls.write(),
        // STATFS
        17 => room(),
        // FSYNC, FSYNCDIR
        20 | 30 => {
            let covers = if code == 20 { Covers::File } else { Covers::Directory };
            let ticket = calls.disk.begin_sync(node, covers)?;
            let takes_time = !options.fsync_is_instant;
            return Ok(if takes_time {
                Outcome::WhenSynced(ticket, Vec::new())
            } else {
                Outcome::Synced(ticket)
            });
        }
        // INIT
        26 => init(options),
        // READDIR
        28 => calls.list()?,
        // CREATE
        35 => {
            let opened = calls.open(u32_at(body, 0))?;
            [calls.make(false, u32_at(body, 4), &body[16..])?, opened].concat()
        }
        // FALLOCATE
        43 => calls.allocate()?,
        // RELEASE, RELEASEDIR
        18 | 29 => Vec::new(),
        _ => return Err(Refused::Unknown),
    };
    Ok(Outcome::Answer(answer))
}

/// The requests that take more than a line.
struct Calls<'a> {
    disk: &'a mut Disk,
    options: &'a Options,
    request: &'a Request<'a>,
}

impl Calls<'_> {
    fn look_up(&mut self, name: &str) -> Result<Vec<u8>, Refused> {
        if let Some(seed) = name.strip_prefix(CUT).filter(|_| self.options.forgets) {
            self.disk.cut(&mut Random(seed.parse().unwrap_or(0)));
            return Err(Refused::Missing);
        }
        if name == HOLD || name == LET {
            self.disk.holds_syncs = name == HOLD;
            return Err(Refused::Missing);
        }
        let found = self.disk.look_up(self.request.node, name)?;
        self.entry(found)
    }

    fn set_attributes(&mut self) -> Result<Vec<u8>, Refused> {
        let Request { node, body, .. } = *self.request;
        let valid = u32_at(body, 0);
        if valid & SIZE != 0 {
            self.disk.resize(node, u64_at(body, 16) as usize)?;
        }
        let changed = self.disk.node_mut(node)?;
        if valid & MODE != 0 {
            changed.owner.permissions = u32_at(body, 68) & 0o7777;
        }
        if valid & UID != 0 {
            changed.owner.uid = u32_at(body, 76);
        }
        if valid & GID != 0 {
            changed.owner.gid = u32_at(body, 80);
        }
        if valid & MODIFIED_NOW != 0 {
            changed.modified = now();
        } else if valid & MODIFIED != 0 {
            changed.modified = (u64_at(body, 40), u32_at(body, 60));
        }
        self.attributes(node)
    }

    fn make(&mut self, is_dir: bool, mode: u32, name: &[u8]) -> Result<Vec<u8>, Refused> {
        let owner = Owner { uid: self.request.uid, gid: self.request.gid, permissions: mode & 0o7777 };
        let made = self.disk.make(self.request.node, names(name)[0].clone(), is_dir, owner)?;
        self.disk.node_mut(made)?.modified = now();
        self.entry(made)
    }

    fn rename(&mut self, flags: RenameFlags, pair: &[u8]) -> Result<Vec<u8>, Refused> {
        if !RenameFlags::NOREPLACE.contains(flags) {
            return Err(Refused::Invalid);
        }
        let (names, to) = (names(pair), u64_at(self.request.body, 0));
        let replaces = !flags.contains(RenameFlags::NOREPLACE);
        self.disk.rename((self.request.node, names[0].clone()), (to, names[1].clone()), replaces)?;
        Ok(Vec::new())
    }

    fn open(&self, flags: u32) -> Result<Vec<u8>, Refused> {
        let how = if is_direct(flags) {
            if self.options.refuses_direct {
                return Err(Refused::Invalid);
            }
            DIRECT_IO | PARALLEL_DIRECT_WRITES
        } else if self.options.forgets {
            // After a cut, the page cache would show what the disk has lost.
            0
        } else {
            KEEP_CACHE
        };
        let mut out = vec![0; 16];
        out[8..12].copy_from_slice(&how.to_le_bytes());
        Ok(out)
    }

    fn read(&self) -> Result<Vec<u8>, Refused> {
        let Request { node, body, .. } = *self.request;
        let (at, size) = (u64_at(body, 8) as usize, u32_at(body, 16) as usize);
        if is_direct(u32_at(body, 32)) {
            self.check_direct(at, size)?;
        }
        let bytes = &self.disk.node(node)?.seen;
        let from = at.min(bytes.len());
        Ok(bytes[from..bytes.len().min(from + size)].to_vec())
    }

    fn write(&mut self) -> Result<Outcome, Refused> {
        let Request { node, body, .. } = *self.request;
        let (at, size, flags) = (u64_at(body, 8) as usize, u32_at(body, 16) as usize, u32_at(body, 32));
        if is_direct(flags) {
            self.check_direct(at, size)?;
        }
        self.disk.write(node, at, &body[40..40 + size])?;
        self.disk.node_mut(node)?.modified = now();
        let answer = [&(size as u32).to_le_bytes()[..], &[0; 4]].concat();
        // After a buffered write that must be durable, the kernel sends an FSYNC.
        if is_direct(flags) && flags & O_DSYNC != 0 {
            self.disk.direct += 1;
            return Ok(Outcome::WhenSynced(
                self.disk.begin_sync(node, Covers::Written(at..at + size))?,
                answer,
            ));
        }
        Ok(Outcome::Answer(answer))
    }

    /// As a real disk does, refuses a direct write or read of a part of a sector.
    fn check_direct(&self, at: usize, size: usize) -> Result<(), Refused> {
        if self.options.refuses_direct || !at.is_multiple_of(SECTOR) || !size.is_multiple_of(SECTOR) {
            return Err(Refused::Invalid);
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<u8>, Refused> {
        let Request { node, body, .. } = *self.request;
        let (from, size) = (u64_at(body, 8) as usize, u32_at(body, 16) as usize);
        let mut out = Vec::new();
        for (at, (name, node)) in self.disk.node(node)?.names.iter().enumerate().skip(from) {
            let length = (24 + name.len()).next_multiple_of(8);
            if out.len() + length > size {
                break;
            }
            let kind = if self.disk.node(*node).is_ok_and(|node| node.is_dir) { 4_u32 } else { 8 };
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

    fn allocate(&mut self) -> Result<Vec<u8>, Refused> {
        let Request { node, body, .. } = *self.request;
        let (end, mode) = ((u64_at(body, 8) + u64_at(body, 16)) as usize, u32_at(body, 24));
        if mode != 0 {
            return Err(Refused::Unsupported);
        }
        if self.disk.node(node)?.seen.len() < end {
            self.disk.resize(node, end)?;
        }
        Ok(Vec::new())
    }

    /// How long the kernel keeps what it was told about names and attributes. After a cut it would be wrong.
    fn kept_s(&self) -> u64 {
        if self.options.forgets { 0 } else { KEPT_S }
    }

    fn attributes(&self, node: u64) -> Result<Vec<u8>, Refused> {
        let kept = self.kept_s().to_le_bytes();
        Ok([&kept[..], &[0; 8], &attributes_of(node, self.disk.node(node)?)].concat())
    }

    fn entry(&mut self, node: u64) -> Result<Vec<u8>, Refused> {
        let attributes = attributes_of(node, self.disk.node(node)?);
        self.disk.know(node);
        let kept = self.kept_s().to_le_bytes();
        Ok([&node.to_le_bytes()[..], &[0; 8], &kept, &kept, &[0; 8], &attributes].concat())
    }
}

fn attributes_of(number: u64, node: &Node) -> Vec<u8> {
    let length = node.seen.len() as u64;
    let mut out = vec![0; 88];
    out[..8].copy_from_slice(&number.to_le_bytes());
    out[8..16].copy_from_slice(&length.to_le_bytes());
    out[16..24].copy_from_slice(&length.div_ceil(512).to_le_bytes());
    for (at, seconds) in [(24, node.modified.0), (32, node.modified.0), (40, node.modified.0)] {
        out[at..at + 8].copy_from_slice(&seconds.to_le_bytes());
    }
    for at in [48, 52, 56] {
        out[at..at + 4].copy_from_slice(&node.modified.1.to_le_bytes());
    }
    out[60..64].copy_from_slice(&node.mode().to_le_bytes());
    out[64..68].copy_from_slice(&1_u32.to_le_bytes());
    out[68..72].copy_from_slice(&node.owner.uid.to_le_bytes());
    out[72..76].copy_from_slice(&node.owner.gid.to_le_bytes());
    out[80..84].copy_from_slice(&4096_u32.to_le_bytes());
    out
}

fn init(options: &Options) -> Vec<u8> {
    let cache = if options.forgets { 0 } else { WRITEBACK_CACHE };
    let flags = ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES | cache;
    let mut out = vec![0; 64];
    out[..4].copy_from_slice(&7_u32.to_le_bytes());
    out[4..8].copy_from_slice(&31_u32.to_le_bytes());
    out[8..12].copy_from_slice(&WRITE_MAX.to_le_bytes());
    out[12..16].copy_from_slice(&flags.to_le_bytes());
    out[16..18].copy_from_slice(&BACKGROUND_MAX.to_le_bytes());
    out[18..20].copy_from_slice(&BACKGROUND_MAX.to_le_bytes());
    out[20..24].copy_from_slice(&WRITE_MAX.to_le_bytes());
    // The granularity of times.
    out[24..28].copy_from_slice(&1_u32.to_le_bytes());
    out[28..30].copy_from_slice(&((WRITE_MAX / 4096) as u16).to_le_bytes());
    out
}

/// Says that there is plenty of room.
fn room() -> Vec<u8> {
    let mut out = vec![0; 80];
    for at in [0, 8, 16, 24, 32] {
        out[at..at + 8].copy_from_slice(&(1_u64 << 24).to_le_bytes());
    }
    out[40..44].copy_from_slice(&4096_u32.to_le_bytes());
    out[44..48].copy_from_slice(&255_u32.to_le_bytes());
    out[48..52].copy_from_slice(&4096_u32.to_le_bytes());
    out
}

fn is_direct(flags: u32) -> bool {
    OFlags::from_bits_retain(flags).contains(OFlags::DIRECT)
}

fn now() -> (u64, u32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs(), since.subsec_nanos())
}

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
