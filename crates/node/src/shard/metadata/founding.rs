//! Which groups of quorum queues this node has founded, as its log says. On the node shard.
//!
//! ```text
//!   declaration applied ──> waiting ──────────────────────────────────> Founded ──> note: all up to this index
//!          └──> home ──> the member, its base ──> the log has written it ──┘
//! ```
//!
//! A member without records is founded only if its declaration is above the last note: see [`crate::facts::Restored::founded`].

use std::collections::BTreeSet;

use catalog::ids::{NodeNumber, QueueId};
use catalog::{Change, QueueRecord};

use crate::facts::push_founded;
use crate::shard::Shard;

/// The groups that are being founded; see the module.
#[derive(Debug, Default)]
pub(super) struct Founding {
    /// The queues whose base is not known to be written, by the index of their declaration. Bounded by the quorum queues.
    waiting: BTreeSet<(u64, QueueId)>,
    /// The index of the last note.
    pub noted: u64,
}

/// Returns true if this node has a member of the queue's group.
fn has_member(record: &QueueRecord, node: NodeNumber) -> bool {
    record.is_quorum() && record.members.has(node)
}

impl Shard {
    /// Called at a start. `noted` is the index of the last note, `newest` that of the newest declaration of a quorum queue, and `waiting` are the
    /// queues that are founded now. A kill may have come between the base of a group and the note.
    pub(crate) fn begin_founding(&mut self, noted: u64, newest: u64, waiting: &[(u64, QueueId)]) {
        self.metadata.founding = Some(Founding { waiting: waiting.iter().copied().collect(), noted });
        if noted == 0 || newest > noted {
            self.note_founded();
        }
    }

    /// Called on the node shard before it applies a change of the entry `index`.
    pub(super) fn follow_founding(&mut self, change: &Change, index: u64) {
        let Some(founding) = &mut self.metadata.founding else { return };
        match change {
            Change::QueueDeclared(record) if has_member(record, self.here.number) => {
                founding.waiting.insert((index, record.id));
            }
            Change::QueueForgotten { queue } if !founding.waiting.is_empty() => {
                if let Some(record) = self.metadata.catalog.queue_by_id(*queue)
                    && founding.waiting.remove(&(record.declared, *queue))
                {
                    // Others may have waited for it only.
                    self.note_founded();
                }
            }
            _ => {}
        }
    }

    /// Called on the node shard when the log has the bases of the groups of these queues.
    pub(in crate::shard) fn handle_founded(&mut self, queues: &[QueueId]) {
        let Some(founding) = &mut self.metadata.founding else { return };
        for queue in queues {
            // One that was deleted meanwhile does not wait any more.
            if let Some(record) = self.metadata.catalog.queue_by_id(*queue) {
                founding.waiting.remove(&(record.declared, *queue));
            }
        }
        self.note_founded();
    }

    /// Writes a note if more groups are founded than the last one says.
    fn note_founded(&mut self) {
        let Some(founding) = &mut self.metadata.founding else { return };
        let first = founding.waiting.first().map(|(declared, _)| declared.saturating_sub(1));
        let index = first.unwrap_or(self.metadata.applied);
        if index > founding.noted {
            founding.noted = index;
            self.storage.push_records(|into| push_founded(into, index));
        }
    }
}
