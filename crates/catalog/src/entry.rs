//! A committed change, as every shard of every node applies it.

use std::sync::Arc;

use queue::Ticket;

use super::{Answer, Change};
use crate::ids::{Origin, ShardId};

/// Who has asked for a change. It is plain data, so that an entry of a log can carry it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// The node that has asked, and its start. Shard and ticket mean something only there.
    pub origin: Origin,
    /// The shard on which the change was proposed.
    pub shard: ShardId,
    /// The ticket under which the shard waits for the answer. With `None` nobody waits.
    pub ticket: Option<Ticket>,
    /// The user who asks for it, if the broker knows that and events are on.
    pub by: Option<Arc<str>>,
}

/// The changes of one command, in the order in which all shards apply them.
///
/// What follows from the changes is done where the entry is applied, and not where it was decided (docs/decisions/0054).
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Counts the entries from 1. A shard applies the entry `index` after `index - 1`.
    pub index: u64,
    pub asker: Asker,
    pub changes: Arc<[Change]>,
    /// The answer to the asker. It leaves when all shards of the asker's node have applied the entry.
    pub answer: Answer,
}
