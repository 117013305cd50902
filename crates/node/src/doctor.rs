//! Looks at the data directory of a broker that does not run, and changes nothing: what is in it, what is damaged, and what a
//! start of this program would do.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use catalog::ids::{Origin, QueueId};
use wal::{
    COPY_FILE, FileKind, Flaw, FoundCopy, Identity, IdentityError, LOG_VERSION, Log, Options, PackOptions,
    PackReader, PreviewDisk, ReadError, StreamCut, StreamFlaw, Surveyed, survey,
};

use crate::data_dir::{PACKS_DIR, STREAMS_DIR, StartError, UNCLAIMED_DIR, next_start, refuse_newer};
use crate::facts::{Restored, RestoredQueue, Unclaimed};
use crate::quarantine::DefinitionsLost;
use crate::recovery::{Disks, Purpose, Recovered, recover};

/// The most damaged places that are described one by one. A disk that is broken everywhere fills neither the memory nor the
/// screen.
const DAMAGE_MAX: usize = 1000;

/// The damaged places of a directory, for people.
#[derive(Debug, Default)]
pub struct Damages {
    /// The first of them, each once.
    pub told: Vec<String>,
    /// How many others there are.
    pub more: u64,
}

impl Damages {
    fn add(&mut self, what: impl fmt::Display) {
        let what = what.to_string();
        // The note of a stream and its files can say the same.
        if self.told.last() == Some(&what) {
            return;
        }
        match self.told.len() < DAMAGE_MAX {
            true => self.told.push(what),
            false => self.more += 1,
        }
    }
}

/// The end of a file that a start does not use, because a write was interrupted there.
#[derive(Debug)]
pub struct Torn {
    /// The file, and where in it the end begins.
    pub file: String,
    pub offset: u64,
    pub bytes: u64,
}

/// The data of a queue that is not known.
#[derive(Debug)]
pub struct UnclaimedData {
    /// The id of the queue.
    pub owner: u64,
    pub records: u64,
    /// The bytes of the records, of runs in packs, and of segments of a stream.
    pub bytes: u64,
}

/// What is in a data directory. The directory is locked until this is dropped, so that no broker changes what is being read.
#[derive(Debug)]
pub struct Examined {
    /// The identifier of the directory, and how often a broker has started with it. `None` before the first start.
    pub identity: Option<Identity>,
    /// The files by their folder, kind and version, and how many there are.
    pub files: Vec<(&'static str, FileKind, Option<u32>, Surveyed)>,
    /// The queues by their type: how many there are, and the messages in them that the log knows. It knows no messages of
    /// streams.
    pub queues: BTreeMap<&'static str, (u64, u64)>,
    /// True if the broker was stopped, and did not fail.
    pub clean: bool,
    /// The ends of the log and of streams that a start does not use. This is no damage: nobody was told that they are stored.
    pub torn: Vec<Torn>,
    pub damage: Damages,
    /// The names of the queues that are closed because messages of them may be lost.
    pub closed: Vec<String>,
    /// Data of queues that are not known, although nothing says that they were deleted. A start keeps it.
    pub unclaimed: Vec<UnclaimedData>,
    /// Why a start would be refused, because definitions may be lost.
    pub lost: Option<DefinitionsLost>,
    _lock: Lock,
}

/// The log, which holds the lock of the directory.
struct Lock {
    _log: Log<PreviewDisk>,
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock")
    }
}

impl Examined {
    /// Returns true if the broker would start with everything that was in the directory.
    pub fn is_sound(&self) -> bool {
        self.damage.told.is_empty() && self.closed.is_empty() && self.lost.is_none()
    }

    /// Returns the newest version of the log in the directory if a start of this program writes a newer one. From then on,
    /// programs that know only the returned version refuse the directory.
    pub fn raised_from(&self) -> Option<u32> {
        let newest = self.files.iter().filter(|(_, kind, ..)| *kind == FileKind::Log);
        newest.filter_map(|(_, _, version, _)| *version).max().filter(|version| *version < LOG_VERSION)
    }
}

/// Examines a data directory: reads every file and checks what has a checksum.
///
/// # Errors
/// A broker uses it, its format is newer than this program, or it cannot be read.
pub fn examine(data_dir: &Path) -> Result<Examined, StartError> {
    let io = |error| StartError::Io { what: format!("cannot read {}", data_dir.display()), error };
    let open = |path: &Path| PreviewDisk::new(path).map_err(io);
    let mut disk = open(data_dir)?;
    let of_log = |error| StartError::Log { data_dir: data_dir.to_owned(), error };
    wal::lock(&mut disk).map_err(of_log)?;
    refuse_newer(data_dir)?;
    let mut files = Vec::new();
    let add = |folder, disk: &mut PreviewDisk, files: &mut Vec<_>| -> Result<(), StartError> {
        let found = survey(disk).map_err(io)?;
        files.extend(found.into_iter().map(|((kind, version), row)| (folder, kind, version, row)));
        Ok(())
    };
    add("", &mut disk, &mut files)?;
    let mut damage = Damages::default();
    let identity = match Identity::look(&mut disk) {
        // A start is refused, but what else is damaged is of interest, too.
        Err(error @ IdentityError::Damaged) => {
            damage.add(error);
            None
        }
        looked => looked.map_err(|error| StartError::Identity { data_dir: data_dir.to_owned(), error })?,
    };
    if FoundCopy::look(&mut disk).map_err(io)? == FoundCopy::Unreadable {
        damage.add(format_args!(
            "file {COPY_FILE} is damaged: it has the copy of users and permissions, which the next start writes again"
        ));
    }
    let (packs_dir, streams_dir) = (data_dir.join(PACKS_DIR), data_dir.join(STREAMS_DIR));
    let unclaimed_dir = data_dir.join(UNCLAIMED_DIR);
    let folders = [(PACKS_DIR, &packs_dir), (STREAMS_DIR, &streams_dir), (UNCLAIMED_DIR, &unclaimed_dir)];
    for (folder, path) in folders {
        if path.is_dir() {
            add(folder, &mut open(path)?, &mut files)?;
        }
    }
    let open_if_there = |path: &Path| match path.is_dir() {
        true => PreviewDisk::new(path),
        false => Ok(PreviewDisk::nothing()),
    };
    let disks = Disks {
        log: disk,
        packs: &mut |_| open_if_there(&packs_dir).map(Some),
        streams: &mut |_| open_if_there(&streams_dir).map(Some),
        log_options: Options { reserve_bytes: 0, ..Options::default() },
        pack_options: PackOptions::default(),
        unclaimed: &mut |_| match unclaimed_dir.is_dir() {
            true => PreviewDisk::new(&unclaimed_dir).map(Some),
            false => Ok(None),
        },
        origin: identity.as_ref().map_or_else(Origin::default, next_start),
        in_cluster: identity.and_then(|identity| identity.membership).map(|membership| membership.number),
        mutation: None,
        keep_damaged: &mut |_, _| Ok(()),
    };
    let recovered = recover(disks, Purpose::Look);
    let Recovered { mut restored, log, recovery, mut streams, flaws, lost, .. } =
        recovered.map_err(|error| StartError::recovering(data_dir, error))?;
    if recovery.corrupt_note {
        damage.add("file lock is damaged at offset 0: it says how far the log was written");
    }
    for file in &recovery.corrupt_headers {
        damage.add(format_args!("log file {file} is damaged at offset 0: its records can be read"));
    }
    recovery.damage.iter().for_each(|place| damage.add(place));
    restored.unreadable.iter().for_each(|record| damage.add(format_args!("unreadable {record}")));
    let mut torn = Vec::new();
    torn.extend(recovery.cut.as_ref().filter(|cut| cut.torn).map(|cut| Torn {
        file: cut.file.clone(),
        offset: cut.offset,
        bytes: cut.bytes,
    }));

    if packs_dir.is_dir() {
        check_packs(&mut PackReader::new(open(&packs_dir)?), &restored, &mut damage);
    } else if restored.queues.values().any(|queue| queue.live_extents().next().is_some()) {
        damage.add(format_args!("the directory {PACKS_DIR} is missing: it had messages"));
    }
    if streams_dir.is_dir() {
        let name = |stream: Option<u64>| of_queue(&restored, QueueId(stream?));
        for StreamFlaw { stream, error, .. } in flaws {
            damage.add(format_args!("{error}{}", name(stream).unwrap_or_default()));
        }
        let cuts = streams.verify(&mut |stream, error| {
            damage.add(format_args!("{error}{}", name(stream).unwrap_or_default()));
        });
        torn.extend(cuts.into_iter().map(|StreamCut { file, offset, bytes, .. }| Torn {
            file: format!("{STREAMS_DIR}/{file}"),
            offset,
            bytes,
        }));
    } else if restored.catalog.queues().any(|record| record.is_stream()) {
        damage.add(format_args!("the directory {STREAMS_DIR} is missing: it had the messages of streams"));
    }

    let node = restored.node();
    let mut queues: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    let mut closed = Vec::new();
    for record in restored.catalog.queues() {
        let mut queue = restored.queues.get_mut(&record.id);
        if let Some(queue) = queue.as_deref_mut().filter(|queue| !queue.is_damaged())
            && queue.handle_certain(node).is_none()
        {
            let (name, vhost) = (&record.name, &record.vhost);
            damage.add(format_args!("unreadable entry of the group of queue '{name}' in vhost '{vhost}'"));
        }
        let row = queues.entry(record.kind()).or_default();
        row.0 += 1;
        row.1 += queue.as_deref().map_or(0, RestoredQueue::len);
        if queue.is_some_and(|queue| queue.is_damaged()) {
            closed.push(format!("'{}' in vhost '{}'", record.name, record.vhost));
        }
    }
    let unclaimed = restored.unclaimed.iter();
    let unclaimed = unclaimed.map(|(id, Unclaimed { records, bytes, .. })| UnclaimedData {
        owner: id.0,
        records: *records,
        bytes: *bytes,
    });
    let unclaimed = unclaimed.collect();
    let (clean, _lock) = (recovery.clean, Lock { _log: log });
    Ok(Examined { identity, files, queues, clean, torn, damage, closed, unclaimed, lost, _lock })
}

/// Reads the messages in packs, one block after the other.
fn check_packs(reader: &mut PackReader<PreviewDisk>, restored: &Restored, damage: &mut Damages) {
    let mut runs: Vec<_> = restored
        .queues
        .iter()
        .flat_map(|(id, queue)| queue.live_extents().map(|extent| (extent.pack, extent.offset, extent, *id)))
        .collect();
    runs.sort_unstable_by_key(|(pack, offset, ..)| (*pack, *offset));
    let mut opened = None;
    for (pack, _, extent, queue) in runs {
        // A missing pack is reported by its first block.
        if opened.replace(pack) != Some(pack)
            && let Err(error @ ReadError::Damaged { what: Flaw::Opening, .. }) = reader.check_header(pack)
        {
            damage.add(error);
        }
        let mut position = Some(0);
        while let Some(at) = position {
            position = match reader.read(extent, queue.0, at) {
                Ok(block) => block.next,
                Err(error) => {
                    damage.add(format_args!("{error}{}", of_queue(restored, queue).unwrap_or_default()));
                    None
                }
            };
        }
    }
}

/// Returns the names of a queue in parentheses, for the end of a line. `None` if there is no such queue.
fn of_queue(restored: &Restored, id: QueueId) -> Option<String> {
    restored
        .catalog
        .queue_by_id(id)
        .map(|record| format!(" (queue '{}' in vhost '{}')", record.name, record.vhost))
}

#[cfg(test)]
mod tests {
    use wal::RealDisk;

    use super::*;

    #[test]
    fn no_broker_starts_on_a_directory_that_is_being_examined() {
        let directory = std::env::temp_dir().join(format!("sluice-doctor-{}", std::process::id()));
        let lock = || wal::lock(&mut RealDisk::new(&directory).unwrap());
        // The lock file is there from now on.
        lock().unwrap();
        let examined = examine(&directory).unwrap();
        assert!(lock().is_err(), "a broker could change what is being read");
        assert!(examined.is_sound());
        drop(examined);
        lock().unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
