//! Finds the queues that may have lost records to damage in the log, and closes them.
//!
//! ```text
//!   Log::open ──► damage ──► quarantine: whose records may be lost?
//!                              the catalog's           the node does not start; if that is accepted,
//!                                                      it is treated as "any queue's"
//!                              those of known queues   Damaged, for each of them ──► the log, synced
//!                              any queue's             Damaged, for all durable queues, and Noted, so that
//!                                                      no queue declared later is closed for this damage
//!              definitions are missing                 as if damage concerned the catalog
//!              the records of a group are missing      Damaged, for its queue
//! ```
//!
//! The damaged files are also kept beside the log, because the log deletes its own files in time. The same
//! goes for data that was cut off the log's end ([`keep_files`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;

use catalog::QueueRecord;
use catalog::ids::QueueId;
use queue::LocalFact;
use wal::files::{Sharing, create_directory};
use wal::{Cut, Damage, Owners, Records, Recovery, is_cut};

use crate::facts::{self, CATALOG, Restored, RestoredQueue};

/// The directory for damaged files of the log, inside the data directory.
pub(crate) const DAMAGED_DIR: &str = "damaged";

/// Definitions of queues, exchanges, bindings or policies may be lost, so the recovered catalog may be wrong.
#[derive(Debug)]
pub enum DefinitionsLost {
    Damage(Damage),
    /// The group of the catalog lacks records, although no damage says where they were.
    Missing,
    Unreadable,
}

impl fmt::Display for DefinitionsLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damage(damage) => {
                write!(f, "definitions of queues, exchanges or bindings may be lost: {damage}")
            }
            Self::Missing => {
                f.write_str("definitions of queues, exchanges or bindings are missing in the log")
            }
            Self::Unreadable => {
                write!(f, "the log has a definition that this version does not know")
            }
        }
    }
}

impl std::error::Error for DefinitionsLost {}

/// What [`quarantine`] has found.
#[derive(Debug)]
pub struct Quarantined {
    /// The records that must be written and synced before the queues are used. They are empty if the log says all of this
    /// already.
    pub records: Records,
    /// Which damage is handled then. They are written when everything else is that follows from it.
    pub noted: Records,
    /// True if definitions may be lost, which an earlier start has not handled. Users may be among them.
    pub definitions_lost: bool,
}

/// Closes every queue that may have lost a record where the log is damaged, and every queue with an
/// unreadable record. Streams stay open: the log has no messages of them, and their segments are checked by themselves.
///
/// If `accept_lost_definitions` is set and the catalog may have lost a record, every known durable queue is
/// closed.
///
/// # Errors
/// The catalog may have lost a record, and that is not accepted. Or the catalog has a record that this
/// program does not know, which is not damage.
pub fn quarantine(
    restored: &mut Restored,
    recovery: &Recovery,
    accept_lost_definitions: bool,
) -> Result<Quarantined, DefinitionsLost> {
    if restored.unreadable_owners.contains(&CATALOG) {
        return Err(DefinitionsLost::Unreadable);
    }
    // Older programs have noted that streams were closed.
    let Restored { catalog, queues, .. } = restored;
    queues.retain(|id, _| catalog.is_stream(*id) != Some(true));
    let (mut records, mut definitions_lost) = (Records::new(), false);
    let mut close = |restored: &mut Restored, owners: &BTreeSet<u64>| {
        let mut names = Vec::new();
        for &owner in owners {
            let id = QueueId(owner);
            // A queue that is not known now may be known later. Then it is closed, too.
            let queue = match (restored.catalog.queue_by_id(id), restored.unclaimed.get_mut(&id)) {
                (Some(record), _) if record.is_stream() => continue,
                (Some(record), _) => {
                    names.push(format!("'{}' in vhost '{}'", record.name, record.vhost));
                    restored.queues.entry(id).or_default()
                }
                (None, Some(unclaimed)) => &mut unclaimed.queue,
                (None, None) => continue,
            };
            if !queue.is_damaged() {
                queue.damage();
                facts::push_local_fact(&mut records, id, &LocalFact::Damaged, None);
            }
        }
        names
    };
    let mut noted = Vec::new();
    for damage in &recovery.damage {
        let Damage { file, offset, owners, .. } = damage;
        if restored.noted.contains(&(file.clone(), *offset)) {
            continue;
        }
        let definitions = concerns_definitions(restored, damage);
        if definitions && !accept_lost_definitions {
            return Err(DefinitionsLost::Damage(damage.clone()));
        }
        if definitions {
            definitions_lost = true;
            tracing::error!(
                "{damage}: definitions may be lost here; the broker starts because accept_lost_definitions is true"
            );
        }
        let owners: BTreeSet<u64> = match owners {
            Owners::Only(owners) if !definitions => owners.iter().copied().collect(),
            _ => {
                noted.push((file, *offset));
                all_known(restored)
            }
        };
        let queues = close(restored, &owners).join(", ");
        tracing::error!(queues, "{damage}: these queues are closed");
    }
    if restored.lacks_definitions() && !definitions_lost {
        if !accept_lost_definitions {
            return Err(DefinitionsLost::Missing);
        }
        definitions_lost = true;
        let owners = all_known(restored);
        let queues = close(restored, &owners).join(", ");
        tracing::error!(
            queues,
            "definitions are missing in the log: these queues are closed; the broker starts because accept_lost_definitions is true"
        );
    }
    let lost = lost_groups(restored);
    let queues = close(restored, &lost).join(", ");
    if !queues.is_empty() {
        tracing::error!(
            queues,
            "the records of their Raft groups are missing in the log; these queues are closed"
        );
    }
    let unreadable = std::mem::take(&mut restored.unreadable_owners);
    let queues = close(restored, &unreadable).join(", ");
    if !queues.is_empty() {
        tracing::error!(queues, "records in the log cannot be read; these queues are closed");
    }
    let mut of_noted = Records::new();
    noted.into_iter().for_each(|(file, offset)| facts::push_noted(&mut of_noted, file, offset));
    Ok(Quarantined { records, noted: of_noted, definitions_lost })
}

/// Returns the quorum queues whose groups have lost all of their records. See [`Restored::founded`].
fn lost_groups(restored: &Restored) -> BTreeSet<u64> {
    let (founded, node) = (restored.founded(), restored.node());
    let is_lost = |record: &QueueRecord| {
        let has_group = restored.queues.get(&record.id).is_some_and(RestoredQueue::has_group);
        record.is_quorum() && record.members.has(node) && record.declared <= founded && !has_group
    };
    if founded == 0 {
        return BTreeSet::new();
    }
    restored.catalog.queues().filter(|record| is_lost(record)).map(|record| record.id.0).collect()
}

/// Returns all owners that may have lost a record: the durable queues that are no streams, and those of unclaimed data.
fn all_known(restored: &Restored) -> BTreeSet<u64> {
    let queues = restored.catalog.queues().filter(|q| q.outlives_restart() && !q.is_stream());
    let known = queues.map(|q| q.id);
    known.chain(restored.unclaimed.keys().copied()).map(|id| id.0).collect()
}

/// Returns true if a definition may be lost in this damage, whether or not an earlier start has handled it.
pub(crate) fn concerns_definitions(restored: &Restored, damage: &Damage) -> bool {
    // A name that is no number is not known to be older than anything.
    let file = damage.file.split('.').next().and_then(|number| number.parse().ok()).unwrap_or(u64::MAX);
    if !restored.may_lack_definitions_of(file) {
        return false;
    }
    match &damage.owners {
        Owners::Only(owners) => owners.contains(&CATALOG),
        // Definitions are always synced. If no synced record is missing here, no definition is lost.
        Owners::All => damage.synced,
    }
}

/// The number of newest cut-off parts of the log that are kept. Each has a few megabytes at most.
const CUTS_MAX: usize = 16;

/// Keeps the damaged files of the log while any queue is closed. The first start without a closed queue
/// deletes them. What was cut off the log is always kept, up to the newest 16.
///
/// # Errors
/// The directory of the damaged files cannot be created, filled, or read.
pub fn keep_files(
    data_dir: &Path,
    sharing: Sharing,
    restored: &Restored,
    recovery: &Recovery,
) -> io::Result<()> {
    let kept = data_dir.join(DAMAGED_DIR);
    let damaged = recovery.damage.iter().filter(|damage| !damage.missing);
    let damaged: BTreeSet<&str> = match restored.has_damaged() {
        true => damaged.map(|damage| damage.file.as_str()).collect(),
        false => BTreeSet::new(),
    };
    // The list includes parts that were cut off by a start that failed.
    let cuts = names(data_dir)?.into_iter().filter(|name| is_cut(name));
    let cuts: Vec<String> = cuts.collect();
    if !kept.exists() && damaged.is_empty() && cuts.is_empty() {
        return Ok(());
    }
    create_directory(&kept, sharing.directory())?;
    for file in damaged {
        match std::fs::hard_link(data_dir.join(file), kept.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    for cut in cuts {
        std::fs::rename(data_dir.join(&cut), kept.join(&cut))?;
    }
    let (mut cuts, others): (Vec<_>, Vec<_>) = names(&kept)?.into_iter().partition(|name| is_cut(name));
    // The names begin with the number of the log file, so sorting them sorts them by age.
    cuts.sort_unstable();
    cuts.truncate(cuts.len().saturating_sub(CUTS_MAX));
    let others = if restored.has_damaged() { Vec::new() } else { others };
    for name in cuts.into_iter().chain(others) {
        std::fs::remove_file(kept.join(name))?;
    }
    if names(&kept)?.is_empty() {
        return std::fs::remove_dir(kept);
    }
    std::fs::File::open(&kept)?.sync_all()
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

/// Counts the readable records that were cut off the log, for each queue by name.
pub fn count_cut(restored: &Restored, cut: &Cut) -> String {
    let mut counts = BTreeMap::new();
    for (&owner, &records) in &cut.records {
        let queue = restored.catalog.queue_by_id(QueueId(owner)).map(|record| record.name.to_string());
        let name = match owner {
            CATALOG => "definitions".to_owned(),
            _ => queue.unwrap_or_else(|| "unknown queues".to_owned()),
        };
        *counts.entry(name).or_insert(0) += records;
    }
    let counts: Vec<String> = counts.iter().map(|(name, records)| format!("{name}: {records}")).collect();
    counts.join(", ")
}
