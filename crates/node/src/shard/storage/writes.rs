//! The end of a turn: its records and chunks are written, or handed over.
//!
//! ```text
//!   turn ──▶ poll_handover, poll_stream_jobs ──▶ Writes ── answer at once ──▶ handle_*, turn ──▶ mail, output
//!                                                  └────── or later, as mail of the log's or the streams' thread
//! ```
//!
//! A write that completes at once is answered within the turn, so receipts leave with the other results of
//! the turn.

use wal::{Completion, Handover, StreamAnswer, StreamJob};

use crate::shard::Shard;

/// The most rounds of writing in one turn. An answer seldom leads to more writing. What is left waits for the
/// next turn, with whatever else has arrived by then.
const WRITES_MAX: usize = 4;

/// The destination of a shard's records and chunks. Its methods must not wait for a sync, nor for another
/// thread.
pub trait Writes {
    /// Writes records and returns the completion. Or accepts them and returns `None`; the completion is then
    /// passed to [`Shard::handle_logged`] later.
    fn write(&mut self, handover: Handover) -> Option<Completion>;

    /// Writes the handover that was accepted last soon, although nobody waits until it is written: records wait behind it.
    fn hurry(&mut self) {}

    /// Does a job of a stream and returns the answer. Or accepts it and returns `None`; the answer is then
    /// passed to [`Shard::handle_stream_answer`] later.
    fn append(&mut self, job: StreamJob) -> Option<StreamAnswer>;
}

impl Shard {
    /// Writes what the turn has made. Called after [`Shard::turn`] and before all other polls. Returns true
    /// if work is left for another turn.
    pub fn write(&mut self, writes: &mut impl Writes) -> bool {
        let is_left = self.write_rounds(writes);
        // Also the last round may have made what waits behind a handover of this turn.
        if self.storage.is_held_up() {
            writes.hurry();
        }
        is_left
    }

    fn write_rounds(&mut self, writes: &mut impl Writes) -> bool {
        let mut is_left = false;
        for _ in 0..WRITES_MAX {
            let completion = self.poll_handover().and_then(|handover| writes.write(handover));
            let answers: Vec<_> = self.poll_stream_jobs().filter_map(|job| writes.append(job)).collect();
            // Handing over may itself have moved something: see `close_records`.
            let has_moved = self.groups.take_moved();
            if completion.is_none() && answers.is_empty() && !has_moved {
                return is_left;
            }
            completion.into_iter().for_each(|completion| self.handle_logged(completion));
            answers.into_iter().for_each(|answer| self.handle_stream_answer(answer));
            is_left |= self.turn();
        }
        true
    }
}
