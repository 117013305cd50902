//! The end of a turn: what is to be written is written, or handed over.
//!
//! ```text
//!   turn ──▶ poll_handover, poll_stream_jobs ──▶ Writes ── answer at once ──▶ handle_*, turn ──▶ mail, output
//!                                                  └────── or later, as mail of the log's or the streams' thread
//! ```
//!
//! What is written at once is answered within the turn: receipts leave with what else the turn has made.

use wal::{Completion, Handover, StreamAnswer, StreamJob};

use crate::shard::Shard;

/// Rounds of writing in one turn. An answer seldom makes anything to be written; what is left then waits for the next
/// turn, with whatever else has come until then.
const WRITES_MAX: usize = 4;

/// Where a shard's records and chunks go. Nothing of it may wait for a sync, nor for another thread.
pub trait Writes {
    /// Writes records, or takes them to be written; then the answer is [`Shard::handle_logged`], later.
    fn write(&mut self, handover: Handover) -> Option<Completion>;

    /// Does a job of a stream, or takes it to be done; then the answer is [`Shard::handle_stream_answer`], later.
    fn append(&mut self, job: StreamJob) -> Option<StreamAnswer>;
}

impl Shard {
    /// Writes what the turn has made. To be called behind [`Shard::turn`], in front of everything else that polls; true if
    /// something is left for another turn.
    pub fn write(&mut self, writes: &mut impl Writes) -> bool {
        let mut is_left = false;
        for _ in 0..WRITES_MAX {
            let completion = self.poll_handover().and_then(|handover| writes.write(handover));
            let answers: Vec<_> = self.poll_stream_jobs().filter_map(|job| writes.append(job)).collect();
            if completion.is_none() && answers.is_empty() {
                return is_left;
            }
            completion.into_iter().for_each(|completion| self.handle_logged(completion));
            answers.into_iter().for_each(|answer| self.handle_stream_answer(answer));
            is_left |= self.turn();
        }
        true
    }
}
