//! Faults in the files of a broker that does not run, and what they take.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use wal::{Damage, Disk as _, Log, Options, Owners, Record};
use wal_testing::{Crash, Random, SimDisk};

use crate::recovered::SimDisks;

/// Owner of the catalog's records.
pub(super) const CATALOG: u64 = 0;

/// Owner of the notes that the node writes for its next start.
pub(super) const NODE: u64 = u64::MAX;

/// The most bytes that a fault changes.
const BYTES_MAX: u64 = 64;

/// The shortest body of a record that is searched in a file.
const BODY_MIN: usize = 12;

/// Where the fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A byte in the body of a record of a queue.
    Message,
    /// A byte in the body of a record of the catalog.
    Definition,
    /// Some bytes of a file of the log.
    Log,
    /// A whole file of the log.
    LogFile,
    /// Some bytes of a pack.
    Pack,
    PackFile,
    /// Some bytes of a segment that is not the newest of its stream.
    Segment,
    SegmentFile,
    /// Some bytes of the index of a segment, or the whole index. It has no messages.
    Index,
    Nothing,
}

pub(crate) const PLACES: [Place; 10] = [
    Place::Message,
    Place::Definition,
    Place::Log,
    Place::LogFile,
    Place::Pack,
    Place::PackFile,
    Place::Segment,
    Place::SegmentFile,
    Place::Index,
    Place::Nothing,
];

impl Place {
    pub(super) fn is_in_log(self) -> bool {
        matches!(self, Self::Message | Self::Definition | Self::Log | Self::LogFile)
    }
}

/// Whose data a fault may concern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Suspects {
    All,
    /// Every queue that is no stream.
    Queues,
    Only(BTreeSet<u64>),
}

/// A fault that was made.
pub(crate) struct Fault {
    pub place: Place,
    pub suspects: Suspects,
    /// What was done, for people.
    pub what: String,
    /// The batch with the damaged record, if the fault is in no other.
    pub batch: Option<u64>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault {:?}, {}", self.place, self.what)
    }
}

/// The valid records of a log, by their batches, and the damage that the log has found.
pub(crate) struct Contents {
    pub batches: BTreeMap<u64, Vec<Record>>,
    damage: Vec<Damage>,
}

impl Contents {
    /// Reads a copy of the log.
    pub(crate) fn of(log: &SimDisk) -> Self {
        let mut batches: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
        let options = Options { seed: Some(1), ..Options::default() };
        let mut add = |record: Record| batches.entry(record.batch).or_default().push(record);
        let opened = Log::open(log.crash(Crash::Process), options, &mut add);
        let (_, recovery) = opened.expect("the disk does not fail");
        Self { batches, damage: recovery.damage }
    }

    /// Returns true if the log has damage that it had not `before`, and that may have held records of anybody.
    pub(super) fn may_concern_all(&self, before: &Self) -> bool {
        let mut new = self.damage.iter().filter(|damage| !before.damage.contains(damage));
        new.any(|damage| damage.owners == Owners::All)
    }

    /// Returns the batches that `self` has and `other` does not, with the owners of their records.
    pub(super) fn without(&self, other: &Self) -> BTreeMap<u64, BTreeSet<u64>> {
        let lost = self.batches.iter().filter(|(number, _)| !other.batches.contains_key(number));
        lost.map(|(number, records)| (*number, owners(records))).collect()
    }

    /// Returns the records that are not the catalog's, in any order, without their places.
    pub(super) fn of_queues(&self) -> Vec<(u64, u64, u8, Vec<u8>)> {
        let records = self.batches.values().flatten().filter(|record| record.owner != CATALOG);
        let mut records: Vec<_> =
            records.map(|record| (record.owner, record.seq, record.kind, record.body.to_vec())).collect();
        records.sort_unstable();
        records
    }

    pub(super) fn has_records_of(&self, owner: u64) -> bool {
        self.batches.values().flatten().any(|record| record.owner == owner)
    }

    /// Returns the last batch that was there, as the log says in the batches that are left. If the
    /// machine has not restarted, nothing that was written may be missing, and otherwise nothing that was synced. See the
    /// formats of notes and batches in the crate `wal`.
    pub(super) fn known(&self, log: &SimDisk) -> u64 {
        let word = |bytes: &[u8], at: usize| {
            bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        };
        let note = log.note();
        let mut known = word(&note, 40);
        if log.clone().boot_id().is_some_and(|boot| note.get(8..24) == Some(&boot[..])) {
            let last = self.batches.keys().next_back().copied().unwrap_or(0);
            known = known.max(word(&note, 32)).max(last);
        }
        for (_, bytes) in files(log, ".log") {
            for at in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"SLbt")) {
                if self.batches.contains_key(&word(&bytes, at + 16)) {
                    known = known.max(word(&bytes, at + 32));
                }
            }
        }
        known
    }
}

fn owners(records: &[Record]) -> BTreeSet<u64> {
    records.iter().map(|record| record.owner).collect()
}

fn files(disk: &SimDisk, suffix: &str) -> Vec<(String, Vec<u8>)> {
    disk.files().into_iter().filter(|(name, bytes)| name.ends_with(suffix) && !bytes.is_empty()).collect()
}

/// Makes a fault at such a place, if there is one. `log` is what is in the log.
pub(crate) fn make(place: Place, disks: &SimDisks, log: &Contents, random: &mut Random) -> Fault {
    let made =
        match place {
            Place::Message | Place::Definition => in_record(place, disks, log, random),
            Place::Log => {
                in_any(&disks.log, &files(&disks.log, ".log"), random).map(|what| (Suspects::All, what))
            }
            Place::LogFile => {
                lose_any(&disks.log, &files(&disks.log, ".log"), random).map(|what| (Suspects::All, what))
            }
            Place::Pack => in_any(&disks.packs, &files(&disks.packs, ".pack"), random)
                .map(|what| (Suspects::Queues, what)),
            Place::PackFile => lose_any(&disks.packs, &files(&disks.packs, ".pack"), random)
                .map(|what| (Suspects::Queues, what)),
            Place::Segment => in_any(&disks.streams, &older_segments(&disks.streams), random)
                .map(|what| (stream(&what), what)),
            Place::SegmentFile => lose_any(&disks.streams, &older_segments(&disks.streams), random)
                .map(|what| (stream(&what), what)),
            Place::Index => {
                let indexes = files(&disks.streams, ".index");
                let made = match random.one_in(2) {
                    true => in_any(&disks.streams, &indexes, random),
                    false => lose_any(&disks.streams, &indexes, random),
                };
                made.map(|what| (Suspects::Only(BTreeSet::new()), what))
            }
            Place::Nothing => None,
        };
    let (suspects, what) = made.unwrap_or_else(|| (Suspects::Only(BTreeSet::new()), "no fault".to_owned()));
    let batch = what.strip_prefix("batch ").and_then(|rest| rest.split(' ').next()?.parse().ok());
    Fault { place, suspects, what, batch }
}

/// Changes a byte in the body of a record.
fn in_record(
    place: Place,
    disks: &SimDisks,
    log: &Contents,
    random: &mut Random,
) -> Option<(Suspects, String)> {
    let is_meant = |record: &&Record| match place {
        Place::Definition => record.owner == CATALOG,
        _ => ![CATALOG, NODE].contains(&record.owner),
    };
    let records = log.batches.values().flatten().filter(is_meant);
    let records: Vec<&Record> = records.filter(|record| record.body.len() >= BODY_MIN).collect();
    let record = pick(&records, random)?;
    let mut found = Vec::new();
    for (name, bytes) in files(&disks.log, ".log") {
        let places = bytes.windows(record.body.len()).enumerate();
        let places = places.filter(|(_, window)| *window == &record.body[..]).map(|(at, _)| at);
        found.extend(places.map(|at| (name.clone(), at)));
    }
    let (name, at) = pick(&found, random)?.clone();
    let at = at + random.below(record.body.len() as u64) as usize;
    change(&disks.log, &name, at, 1, random);
    // There are several if an evacuation has copied it, or a failed write was repeated.
    let is_one = found.len() == 1;
    let batch = if is_one { format!("batch {} ", record.batch) } else { String::new() };
    let what = format!("{batch}in {name} at {at}: owner {:x}, seq {}", record.owner, record.seq);
    let suspects = match is_one {
        true => Suspects::Only(owners(&log.batches[&record.batch])),
        false => Suspects::All,
    };
    Some((suspects, what))
}

/// Changes some bytes of a file.
fn in_any(disk: &SimDisk, files: &[(String, Vec<u8>)], random: &mut Random) -> Option<String> {
    let (name, bytes) = pick(files, random)?;
    let at = random.below(bytes.len() as u64) as usize;
    let n = 1 + random.below(BYTES_MAX);
    change(disk, name, at, n as usize, random);
    Some(format!("{name} at {at}, {n} bytes"))
}

fn lose_any(disk: &SimDisk, files: &[(String, Vec<u8>)], random: &mut Random) -> Option<String> {
    let (name, _) = pick(files, random)?;
    disk.lose(name);
    Some(format!("{name} is lost"))
}

fn change(disk: &SimDisk, name: &str, at: usize, n: usize, random: &mut Random) {
    let mut bytes = disk.files().remove(name).expect("the file is there");
    let end = bytes.len().min(at + n);
    bytes[at..end].iter_mut().for_each(|byte| *byte ^= 1 + random.below(255) as u8);
    disk.put(name, &bytes);
}

fn pick<'a, T>(of: &'a [T], random: &mut Random) -> Option<&'a T> {
    if of.is_empty() { None } else { of.get(random.below(of.len() as u64) as usize) }
}

/// Returns the segments behind which their stream has another one. Nobody may take damage there for the end of a write.
fn older_segments(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let mut segments = files(disk, ".segment");
    let streams: Vec<Suspects> = segments.iter().map(|(name, _)| stream(name)).collect();
    let mut at = 0;
    // The names begin with the stream and the number of the first message.
    segments.retain(|_| {
        at += 1;
        streams.get(at) == Some(&streams[at - 1])
    });
    segments
}

/// Returns the stream whose file has this name.
fn stream(name: &str) -> Suspects {
    let id = name.split('-').next().and_then(|id| u64::from_str_radix(id, 16).ok());
    Suspects::Only(id.into_iter().collect())
}
