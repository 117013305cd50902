//! Annotations that consumers have given messages of this queue ([`crate::Outcome::Modified`]).
//!
//! They stand beside the entries, by seq, so that a queue whose consumers set none pays nothing for them. A message
//! that is written to a run is written with them. Those of a ready message leave memory then; those of a message that is
//! held, or has come back, stay until it goes.

use std::collections::BTreeMap;

use message::{Annotations, Message};

use super::entry::{Body, Entry};

/// Most bytes that the annotations of one queue may take in memory. Beyond it a message keeps the annotations that it
/// has, and the new ones are counted as refused: the consumers of one queue could otherwise fill the memory of the node.
/// Each queue may take as much.
pub(super) const ANNOTATED_BYTES_MAX: u64 = if cfg!(test) { 64 << 10 } else { 64 << 20 };

/// About the bytes that one entry takes beside its annotations.
const OVERHEAD: u64 = 64;

/// The annotations of a queue's messages.
#[derive(Default)]
pub(super) struct Annotated {
    /// Boxed, for hardly a queue ever has any; `None` if no message has.
    sets: Option<Box<Sets>>,
    refused: u64,
}

#[derive(Default)]
struct Sets {
    by_seq: BTreeMap<u64, Annotations>,
    /// See [`ANNOTATED_BYTES_MAX`].
    bytes: u64,
}

impl Annotated {
    /// Whether no message has annotations here.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sets.is_none()
    }

    /// About the bytes that they take.
    pub fn bytes(&self) -> u64 {
        self.sets.as_ref().map_or(0, |sets| sets.bytes)
    }

    /// How often a consumer's annotations were left out.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Annotations that were refused since are not counted.
    pub fn set_refused(&mut self, refused: u64) {
        self.refused = refused;
    }

    pub fn get(&self, seq: u64) -> Option<&Annotations> {
        self.sets.as_ref()?.by_seq.get(&seq)
    }

    /// The message as it is delivered, if that differs from what was published.
    pub fn shown(&self, seq: u64, message: &Message) -> Option<Message> {
        self.get(seq).map(|annotations| message.annotated(annotations))
    }

    /// Merges annotations into those of a message. Returns whether that changes anything. Annotations for which there
    /// is no room are refused and counted: all of a message's, its publisher's included, may take
    /// [`Annotations::BYTES_MAX`].
    pub fn merge(&mut self, entry: &Entry, newer: &Annotations) -> bool {
        let before = self.get(entry.seq);
        let merged = before.map_or_else(|| newer.clone(), |older| older.merged(newer));
        if before == Some(&merged) {
            return false;
        }
        let fits = match entry.body {
            Body::Here { ref message, .. } => message.has_room_for(&merged),
            // Which keys it has is not known here: none of them counts as replaced.
            Body::Away { annotations, .. } => {
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

    /// Takes back what an earlier life or another place knew of a message, whatever the room.
    pub fn restore(&mut self, seq: u64, annotations: Annotations) {
        let sets = self.sets.get_or_insert_default();
        sets.bytes += bytes_of(&annotations);
        if let Some(before) = sets.by_seq.insert(seq, annotations) {
            sets.bytes -= bytes_of(&before);
        }
    }

    /// The message is gone, or is kept with its annotations from now on.
    #[inline]
    pub fn forget(&mut self, seq: u64) {
        if !self.is_empty() {
            self.take(seq);
        }
    }

    /// Takes the annotations of a message out.
    #[cold]
    pub fn take(&mut self, seq: u64) -> Option<Annotations> {
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
