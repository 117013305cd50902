//! The annotations that consumers have set on messages of this queue ([`crate::Outcome::Modified`]).
//!
//! They are stored by sequence number outside the entries, so a queue without them pays nothing. When a message is
//! written to a run, its annotations are written with it. Those of a ready message then leave memory. Those of an
//! unsettled or requeued message stay until the message is removed.

use std::collections::BTreeMap;

use message::{Annotations, Message};

use super::entry::{Body, Entry};

/// The maximum memory for the annotations of one queue, in bytes. Beyond it, a message keeps its present annotations,
/// and new ones are counted as refused. Without this bound, the consumers of one queue could fill the memory of the
/// node.
pub(super) const ANNOTATED_BYTES_MAX: u64 = if cfg!(test) { 64 << 10 } else { 64 << 20 };

/// The approximate memory overhead of one entry, in bytes.
const OVERHEAD: u64 = 64;

/// The annotations of a queue's messages.
#[derive(Default)]
pub(super) struct Annotated {
    /// `None` if no message has annotations. Boxed because few queues ever have any.
    sets: Option<Box<Sets>>,
    refused: u64,
}

#[derive(Default)]
struct Sets {
    by_seq: BTreeMap<u64, Annotations>,
    /// The approximate memory, limited by [`ANNOTATED_BYTES_MAX`].
    bytes: u64,
}

impl Annotated {
    /// Returns true if there are no annotations.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_none()
    }

    /// Returns the approximate memory of all annotations, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.sets.as_ref().map_or(0, |sets| sets.bytes)
    }

    /// Returns how often a consumer's annotations were refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Resets the count of refused annotations to an earlier value.
    pub(super) fn set_refused(&mut self, refused: u64) {
        self.refused = refused;
    }

    pub(super) fn get(&self, seq: u64) -> Option<&Annotations> {
        self.sets.as_ref()?.by_seq.get(&seq)
    }

    /// Returns the message with its annotations, or `None` if it has none here.
    pub(super) fn shown(&self, seq: u64, message: &Message) -> Option<Message> {
        self.get(seq).map(|annotations| message.annotated(annotations))
    }

    /// Merges annotations into those of a message. Returns whether this changed anything. Annotations are refused and
    /// counted if they do not fit: all annotations of a message, including its publisher's, may have
    /// [`Annotations::BYTES_MAX`] bytes.
    pub(super) fn merge(&mut self, entry: &Entry, newer: &Annotations) -> bool {
        let before = self.get(entry.seq);
        let merged = before.map_or_else(|| newer.clone(), |older| older.merged(newer));
        if before == Some(&merged) {
            return false;
        }
        let fits = match entry.body {
            Body::InMemory { ref message, .. } => message.has_room_for(&merged),
            // The keys of the publisher's annotations are not in memory, so none of them counts as replaced.
            Body::OnDisk { annotations, .. } => {
                let shrinks = before.is_some_and(|older| merged.len() <= older.len());
                shrinks || annotations.bytes() + merged.len() <= Annotations::BYTES_MAX
            }
        };
        let bytes = self.bytes() - before.map_or(0, bytes_of) + bytes_of(&merged);
        if !fits || bytes > ANNOTATED_BYTES_MAX {
            self.refused += 1;
            return false;
        }
        self.restore(entry.seq, merged);
        true
    }

    /// Sets the annotations of a message to a known value, without checking any limit.
    pub(super) fn restore(&mut self, seq: u64, annotations: Annotations) {
        let sets = self.sets.get_or_insert_default();
        sets.bytes += bytes_of(&annotations);
        if let Some(before) = sets.by_seq.insert(seq, annotations) {
            sets.bytes -= bytes_of(&before);
        }
    }

    /// Called when the message was removed, or was stored together with its annotations.
    #[inline]
    pub(super) fn forget(&mut self, seq: u64) {
        if !self.is_empty() {
            self.take(seq);
        }
    }

    /// Removes and returns the annotations of a message.
    #[cold]
    pub(super) fn take(&mut self, seq: u64) -> Option<Annotations> {
        let sets = self.sets.as_mut()?;
        let annotations = sets.by_seq.remove(&seq)?;
        sets.bytes -= bytes_of(&annotations);
        if sets.by_seq.is_empty() {
            self.sets = None;
        }
        Some(annotations)
    }
}

fn bytes_of(annotations: &Annotations) -> u64 {
    annotations.len() as u64 + OVERHEAD
}
