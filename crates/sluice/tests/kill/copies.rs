//! Kills the broker while messages are on the disk twice: their copy is written, and the original still
//! exists.
//!
//! The broker is stopped with SIGSTOP again and again, and its files are inspected each time, until one of
//! them holds copies. Then the stopped broker is killed. So the kill reliably hits a copy, complete or partly
//! written, whose original has not been released.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::BufRead as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::content::{Id, body};
use crate::broker::Broker;

/// The interval at which the files are inspected.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// The most inspections until a copy is found.
const CHECKS_MAX: usize = 8_000;
/// The maximum disk use. It is exceeded only if nothing is ever copied.
const BYTES_MAX: u64 = 256 << 20;

/// The kind of copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    /// Live records of the oldest log file, copied to the end of the log.
    Log,
    /// Live messages of a run in a pack, copied to a new pack.
    Run,
}

impl Copied {
    /// Returns the disk use below which nothing is copied. It is the garbage that the log may hold, or half
    /// of the garbage that packs may hold.
    fn bytes_min(self) -> u64 {
        match self {
            Self::Log => 32 << 20,
            Self::Run => 16 << 20,
        }
    }
}

/// The least number of duplicate messages that counts as a copy. With fewer, the copy has only begun, or
/// there is another reason: for example, messages were delivered while they were paged out.
const COPIES_MIN: usize = 200;

/// Stops the broker repeatedly until there are copies, then kills it. Returns the number of copies at the
/// kill, or 0 if none were found; the broker is killed in either case.
///
/// # Errors
/// The traffic has ended first.
pub(super) fn kill_at_copy(
    broker: Broker,
    data: &Path,
    copied: Copied,
    seed: u64,
    mut ended: impl FnMut() -> bool,
) -> Result<usize, &'static str> {
    let mut files = Files::new(data, copied, seed);
    for _ in 0..CHECKS_MAX {
        std::thread::sleep(CHECK_INTERVAL);
        if ended() {
            return Err("the publishers ended before the kill");
        }
        let bytes = files.bytes();
        if bytes > BYTES_MAX {
            break;
        }
        if bytes < copied.bytes_min() || !files.may_hold_copies() {
            continue;
        }
        broker.stop();
        if files.copies() >= COPIES_MIN {
            broker.kill();
            // The copies are counted again, because the result must describe what the next start finds.
            return Ok(files.copies());
        }
        broker.resume();
    }
    broker.kill();
    Ok(0)
}

/// The files that may hold copies, and the messages found in them.
struct Files {
    copied: Copied,
    folder: PathBuf,
    seed: u64,
    files: BTreeMap<u64, Known>,
}

#[derive(Default)]
struct Known {
    /// The offset up to which the file was inspected. In a pack it is the end of the last message found, in a
    /// log file the start of the last batch.
    at: u64,
    ids: HashSet<Id>,
}

impl Files {
    fn new(data: &Path, copied: Copied, seed: u64) -> Self {
        let folder = if copied == Copied::Log { data.to_owned() } else { data.join("packs") };
        Self { copied, folder, seed, files: BTreeMap::new() }
    }

    fn bytes(&self) -> u64 {
        self.list().values().filter_map(|path| Some(path.metadata().ok()?.len())).sum()
    }

    /// Returns true if it is worth stopping the broker: there may be a file that was not read yet.
    fn may_hold_copies(&self) -> bool {
        let is_known = |number| self.files.get(number).is_some_and(|known| known.ids.len() >= COPIES_MIN);
        self.copied == Copied::Log || !self.list().keys().all(is_known)
    }

    /// The number of copies whose originals still exist.
    fn copies(&mut self) -> usize {
        let there = self.list();
        self.files.retain(|number, _| there.contains_key(number));
        for (number, path) in there {
            let known = self.files.entry(number).or_default();
            let Ok(file) = File::open(path) else { continue };
            match self.copied {
                Copied::Log => {
                    let added = added_batches(&file, number, &mut known.at);
                    find(known, &added, self.seed);
                }
                Copied::Run => {
                    let added = added_bytes(&file, known.at);
                    known.at += find(known, &added, self.seed) as u64;
                }
            }
        }
        match self.copied {
            Copied::Log => {
                let Some((_, oldest)) = self.files.first_key_value() else { return 0 };
                // The copies are at the end of the log. They may span two files.
                let newer = self.files.values().skip(1).rev().take(2).flat_map(|known| &known.ids);
                newer.filter(|id| oldest.ids.contains(id)).count()
            }
            Copied::Run => {
                let is_copy = |(number, known): &(&u64, &Known)| {
                    let stands_before =
                        |id| self.files.range(..*number).any(|(_, older)| older.ids.contains(id));
                    known.ids.iter().all(stands_before)
                };
                self.files.iter().filter(is_copy).map(|(_, known)| known.ids.len()).sum()
            }
        }
    }

    fn list(&self) -> BTreeMap<u64, PathBuf> {
        let suffix = if self.copied == Copied::Log { ".log" } else { ".pack" };
        let paths = std::fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let numbered = paths.filter_map(|path| {
            let number = path.file_name()?.to_str()?.strip_suffix(suffix)?.parse().ok()?;
            Some((number, path))
        });
        numbered.collect()
    }
}

/// Returns the bytes of a pack from `at` on.
fn added_bytes(file: &File, at: u64) -> Vec<u8> {
    let length = file.metadata().map_or(0, |meta| meta.len());
    let mut added = vec![0; length.saturating_sub(at) as usize];
    if file.read_exact_at(&mut added, at).is_err() {
        added.clear();
    }
    added
}

/// Returns the payloads of the batch at `at` in a log file and of all later batches (layout:
/// `crates/wal/src/file.rs`, `batch.rs`). A different number or generation belongs to an earlier use of
/// the file.
fn added_batches(file: &File, number: u64, at: &mut u64) -> Vec<u8> {
    let (mut opening, mut header) = ([0; 48], [0; 64]);
    let mut added = Vec::new();
    if file.read_exact_at(&mut opening, 0).is_err() || opening[16..24] != number.to_le_bytes() {
        return added;
    }
    let mut next = (*at).max(opening.len() as u64);
    while file.read_exact_at(&mut header, next).is_ok() && header[8..16] == opening[24..32] {
        let length = u64::from_le_bytes(header[48..56].try_into().unwrap());
        let before = added.len();
        added.resize(before + length as usize, 0);
        if file.read_exact_at(&mut added[before..], next + header.len() as u64).is_err() {
            added.truncate(before);
            break;
        }
        // The search stays at this batch, because the last batch may still be in the process of being
        // written.
        *at = next;
        next += header.len() as u64 + length;
    }
    added
}

/// Finds messages. Returns the offset at which the last one ends. It looks at each second octet of a start only, which the standard
/// library finds quickly also where this crate is not optimised.
fn find(known: &mut Known, bytes: &[u8], seed: u64) -> usize {
    let (mut rest, mut end) = (bytes, 0);
    while rest.skip_until(DATA[1]).is_ok_and(|passed| passed > 0) {
        let at = bytes.len() - rest.len();
        if !bytes[..at].ends_with(&DATA[..2]) || !rest.starts_with(&DATA[2..]) {
            continue;
        }
        rest = &rest[1..];
        if let Some((id, behind)) =
            octets(rest).and_then(|octets| Some((identify(octets, seed)?, octets.len())))
        {
            known.ids.insert(id);
            rest = &rest[behind..];
            end = bytes.len() - rest.len();
        }
    }
    end
}

/// The start of a data section; the encoded binary follows.
const DATA: [u8; 3] = [0x00, 0x53, 0x75];

fn octets(binary: &[u8]) -> Option<&[u8]> {
    match binary {
        [0xa0, length, octets @ ..] => octets.get(..usize::from(*length)),
        [0xb0, a, b, c, d, octets @ ..] => octets.get(..u32::from_be_bytes([*a, *b, *c, *d]) as usize),
        _ => None,
    }
}

fn identify(octets: &[u8], seed: u64) -> Option<Id> {
    let word = |at: usize| octets.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
    let id = Id { publisher: usize::try_from(word(0)?).ok()?, number: word(8)? };
    (*octets == *body(seed, id)).then_some(id)
}
