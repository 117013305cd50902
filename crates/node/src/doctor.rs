//! Looks at the data directory of a broker that does not run, and changes nothing: what is in it, what is damaged, and what a
//! start of this program would do.

use std::collections::BTreeMap;
use std::path::Path;

use wal::{
    FileKind, Identity, LOG_VERSION, Log, Options, PackOptions, Packs, PreviewDisk, StreamFlaw, Streams,
    Surveyed, survey,
};

use crate::facts::{Restored, RestoredQueue};
use crate::node::{PACKS_DIR, STREAMS_DIR, StartError, refuse_newer};
use crate::quarantine::{self, DefinitionsLost};

/// What is in a data directory.
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
    /// The bytes at the end of the log that a start cuts off, because a write was interrupted.
    pub torn_bytes: u64,
    /// What is damaged, for people.
    pub damage: Vec<String>,
    /// The names of the queues that are closed because messages of them may be lost.
    pub closed: Vec<String>,
    /// Why a start would be refused, because definitions may be lost.
    pub lost: Option<DefinitionsLost>,
}

impl Examined {
    /// Returns true if the broker would start with everything that was in the directory.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty() && self.closed.is_empty() && self.lost.is_none()
    }

    /// Returns the newest version of the log in the directory if a start of this program writes a newer one. From then on,
    /// programs that know only the returned version refuse the directory.
    pub fn raised_from(&self) -> Option<u32> {
        let newest = self.files.iter().filter(|(_, kind, ..)| *kind == FileKind::Log);
        newest.filter_map(|(_, _, version, _)| *version).max().filter(|version| *version < LOG_VERSION)
    }
}

/// Examines a data directory.
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
    let identity = Identity::look(&mut disk)
        .map_err(|error| StartError::Identity { data_dir: data_dir.to_owned(), error })?;
    let mut restored = Restored::default();
    let options = Options { reserve_bytes: 0, ..Options::default() };
    let (_log, recovery) =
        Log::open(disk, options, &mut |record| restored.handle_record(record)).map_err(of_log)?;
    restored.finish();
    let mut damage: Vec<String> = recovery.damage.iter().map(ToString::to_string).collect();
    damage.extend(restored.unreadable.iter().map(|record| format!("unreadable {record}")));
    let lost = quarantine::quarantine(&mut restored, &recovery, false).err();

    let packs_dir = data_dir.join(PACKS_DIR);
    if packs_dir.is_dir() {
        let mut disk = open(&packs_dir)?;
        add(PACKS_DIR, &mut disk, &mut files)?;
        Packs::open(disk, PackOptions::default(), restored.extents(), true)
            .map_err(|error| StartError::Packs { packs_dir: packs_dir.clone(), error })?;
    }
    let streams_dir = data_dir.join(STREAMS_DIR);
    if streams_dir.is_dir() {
        let mut disk = open(&streams_dir)?;
        add(STREAMS_DIR, &mut disk, &mut files)?;
        let mut streams = Streams::new(disk)
            .map_err(|error| StartError::Streams { streams_dir: streams_dir.clone(), error })?;
        damage.extend(streams.check().into_iter().map(|StreamFlaw { error, .. }| error.to_string()));
    }

    let mut queues: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    let mut closed = Vec::new();
    for record in restored.catalog.queues() {
        let queue = restored.queues.get(&record.id);
        let row = queues.entry(record.kind()).or_default();
        row.0 += 1;
        row.1 += queue.map_or(0, RestoredQueue::len);
        if queue.is_some_and(RestoredQueue::is_damaged) {
            closed.push(record.name.to_string());
        }
    }
    let torn_bytes = recovery.cut.as_ref().filter(|cut| cut.torn).map_or(0, |cut| cut.bytes);
    Ok(Examined { identity, files, queues, clean: recovery.clean, torn_bytes, damage, closed, lost })
}
