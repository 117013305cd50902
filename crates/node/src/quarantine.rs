//! What the log has lost, and which queues that closes.
//!
//! ```text
//!   Log::open ──► damage ──► quarantine: whose may it be?
//!                              the catalog's           the node does not start; if it is told to accept that,
//!                                                      as if they were any queue's
//!                              these queues'           Damaged, for each of them ──► the log, synced
//!                              any queue's             Damaged, for all that are durable, and Noted, so that
//!                                                      no queue is closed for what was lost before its time
//! ```
//!
//! The damaged files are kept beside the log, for the log gives its own back in time ([`keep_files`]).

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;

use broker::ids::QueueId;
use log::{Damage, Owners, Records, Recovery};
use queue::Fact;

use crate::facts::{self, CATALOG, Restored};

/// Where damaged files of the log are kept, in the data directory.
const DAMAGED_DIR: &str = "damaged";

/// Definitions of queues, exchanges, bindings or policies may be lost: what is known may be wrong.
#[derive(Debug)]
pub enum DefinitionsLost {
    Damage(Damage),
    Unreadable,
}

impl fmt::Display for DefinitionsLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damage(Damage { file, offset, bytes, .. }) => write!(
                f,
                "definitions of queues, exchanges or bindings may be lost: log file {file} is damaged at offset \
                 {offset}, {bytes} bytes"
            ),
            Self::Unreadable => {
                write!(f, "a definition in the log is in a form that this program does not know")
            }
        }
    }
}

impl std::error::Error for DefinitionsLost {}

/// Closes every queue that may have a record where the log is damaged, and those of which a record cannot be read.
/// Returns what the log must have, synced, before the queues are used; nothing if that is known already.
///
/// `accept_lost_definitions`: where the catalog may have lost a record, every durable queue that is known of is closed.
///
/// # Errors
/// The catalog may have lost a record, and that is not accepted; or it has one that this program does not know, which
/// is not damage.
pub fn quarantine(
    restored: &mut Restored,
    recovery: &Recovery,
    accept_lost_definitions: bool,
) -> Result<Records, DefinitionsLost> {
    if restored.unreadable_owners.contains(&CATALOG) {
        return Err(DefinitionsLost::Unreadable);
    }
    let mut records = Records::new();
    let mut close = |restored: &mut Restored, owners: &BTreeSet<u64>| {
        let mut names = Vec::new();
        for &owner in owners {
            let id = QueueId(owner);
            let Some(record) = restored.catalog.queue_by_id(id) else { continue };
            names.push(record.name.to_string());
            let queue = restored.queues.entry(id).or_default();
            if !queue.is_damaged() {
                queue.damage();
                facts::push_fact(&mut records, id, &Fact::Damaged, None);
            }
        }
        names
    };
    let mut noted = Vec::new();
    for damage in &recovery.damage {
        let Damage { file, offset, bytes, owners, synced } = damage;
        if restored.noted.contains(&(file.clone(), *offset)) {
            continue;
        }
        let definitions = match owners {
            Owners::Only(owners) => owners.contains(&CATALOG),
            // Definitions are always synced: where nothing was, there was none.
            Owners::All => *synced,
        };
        if definitions && !accept_lost_definitions {
            return Err(DefinitionsLost::Damage(damage.clone()));
        }
        if definitions {
            tracing::error!(file, offset, "definitions may be lost here, which is accepted");
        }
        let owners: BTreeSet<u64> = match owners {
            Owners::Only(owners) if !definitions => owners.iter().copied().collect(),
            _ => {
                noted.push((file, *offset));
                let queues = restored.catalog.queues();
                queues.filter(|q| q.durable && q.exclusive.is_none()).map(|q| q.id.0).collect()
            }
        };
        let queues = close(restored, &owners).join(", ");
        tracing::error!(file, offset, bytes, queues, "the log is damaged here; these queues are closed");
    }
    let unreadable = std::mem::take(&mut restored.unreadable_owners);
    let queues = close(restored, &unreadable).join(", ");
    if !queues.is_empty() {
        tracing::error!(queues, "records in the log cannot be read; these queues are closed");
    }
    noted.into_iter().for_each(|(file, offset)| facts::push_noted(&mut records, file, offset));
    Ok(records)
}

/// Keeps the damaged files of the log as long as a queue is closed; they are given back by the first start at which
/// none is.
///
/// # Errors
/// The directory of the damaged files cannot be made, filled or removed.
pub fn keep_files(data_dir: &Path, restored: &Restored, recovery: &Recovery) -> io::Result<()> {
    let kept = data_dir.join(DAMAGED_DIR);
    if !restored.has_damaged() {
        return match std::fs::remove_dir_all(&kept) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let files: BTreeSet<&str> = recovery.damage.iter().map(|damage| damage.file.as_str()).collect();
    if files.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(&kept)?;
    for file in files {
        match std::fs::hard_link(data_dir.join(file), kept.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    std::fs::File::open(&kept)?.sync_all()
}
