//! Passes facts to the log, and handles the log's answers to this shard's handovers.

use broker::ids::NODE_SHARD;
use broker::mail::Mail;
use wal::{Completion, Handover, Size, Step};

use super::journal::{Answer, OnSynced, OnWritten};
use crate::facts::SeqsInFile;
use crate::shard::Shard;

impl Shard {
    /// Adds the facts that were kept back to the journal.
    pub(in crate::shard) fn add_kept_facts(&mut self) {
        let mut queues = std::mem::take(&mut self.storage.with_kept_facts);
        for queue in queues.drain(..) {
            let Some(slot) = self.queues.get_mut(queue) else { continue };
            self.storage.journal.push_kept(slot);
        }
        self.storage.with_kept_facts = queues;
    }

    /// Handles the log's answer to a handover: receipts may leave, or the records must be handed over again.
    pub fn handle_logged(&mut self, completion: Completion) {
        let Completion { ticket, step, result, file, size, .. } = completion;
        let error = match (step, result) {
            (Step::Written, result) => match self.storage.journal.handle_written(ticket, result) {
                Some(Ok(on_written)) => {
                    self.written(on_written, file, size);
                    None
                }
                refused => refused.and_then(Result::err),
            },
            (Step::Synced, Ok(())) => {
                while let Some(on_synced) = self.storage.journal.handle_synced(ticket) {
                    self.synced(on_synced);
                }
                None
            }
            (Step::Synced, Err(error)) => {
                self.storage.journal.sync_again();
                Some(error)
            }
        };
        if let Some(error) = error {
            // A failed sync is reported for each handover that waited for it. It is logged only once.
            if self.storage.log_failed.replace(step).is_none() {
                tracing::error!(
                    shard = self.here.id,
                    "the log could not write: {error}; publishing is stopped"
                );
            }
            return;
        }
        if self.storage.log_failed.take_if(|failed| *failed == step).is_some() {
            tracing::info!(shard = self.here.id, "the log can write again");
        }
        self.send_receipts();
        self.publish_live_bytes();
    }

    fn written(&mut self, on_written: OnWritten, file: u64, size: Size) {
        // The records may be in any file between the newest known before and the newest that was written.
        let from = self.storage.log_file.max(size.oldest.unwrap_or(0).min(file));
        self.storage.log_file = self.storage.log_file.max(file);
        self.note_log_on_reserve(size.on_reserve);
        self.report_size(size);
        let OnWritten { mut receipts, answers, puts, founded, stored, definitions, evacuated } = on_written;
        if !founded.is_empty() {
            self.mail.send(NODE_SHARD, Mail::Founded { queues: founded });
        }
        for (queue, first, last) in puts {
            let slot = self.queues.get_mut(queue);
            if let Some(slot) = slot {
                slot.note_place(SeqsInFile { file: from, first, last });
            }
        }
        for (queue, run) in stored {
            let slot = self.queues.get_mut(queue);
            if let Some(kept) = slot.and_then(|slot| slot.extents.get_mut(&run)) {
                kept.file = Some(from);
            }
        }
        if let Some(file) = definitions {
            self.storage.definitions_file = file;
        }
        if let Some((file, bytes)) = evacuated {
            self.mail.send(NODE_SHARD, Mail::Evacuated { file, bytes });
        }
        receipts.drain().for_each(|receipt| self.mail.receipts.push(receipt));
        self.send_settled(answers);
        if let Some(file) = self.storage.evacuate_next.take() {
            self.handle_evacuate(file);
        }
    }

    fn synced(&mut self, on_synced: OnSynced) {
        let OnSynced { mut receipts, answers, released, rounds } = on_synced;
        receipts.drain().for_each(|receipt| self.mail.receipts.push(receipt));
        self.send_settled(answers);
        self.rounds_synced(rounds);
        for extent in released {
            self.storage.pages.release(extent);
        }
    }

    /// Sends the answers to settlements that are stored now.
    fn send_settled(&mut self, answers: Vec<Answer>) {
        answers.into_iter().for_each(|Answer { queue, effect }| self.carry_out(queue, effect));
    }

    /// Records whether the log uses its reserve, and logs the change.
    pub(in crate::shard) fn note_log_on_reserve(&mut self, on_reserve: bool) {
        match (std::mem::replace(&mut self.storage.log_on_reserve, on_reserve), on_reserve) {
            (false, true) => tracing::error!(
                shard = self.here.id,
                "the disk is full: the log uses its reserve; publishing is stopped until there is space again"
            ),
            (true, false) => {
                tracing::info!(shard = self.here.id, "the disk has space again: publishing continues")
            }
            _ => {}
        }
    }

    /// Tries the log again after a failure, or asks for its state. Nothing new is accepted before it
    /// succeeds.
    pub fn retry_log(&mut self) {
        if self.log_refuses() {
            self.storage.log_retry = true;
            self.storage.journal.ask();
        }
    }

    /// Returns true if the log accepts nothing new. Then [`Shard::retry_log`] must be called from time to
    /// time.
    pub fn log_refuses(&self) -> bool {
        self.storage.refuses()
    }

    /// Returns records for the log, if it has answered the last handover.
    pub fn poll_handover(&mut self) -> Option<Handover> {
        self.write_overdue();
        self.close_records();
        let storage = &mut self.storage;
        if storage.log_failed.is_some() && !storage.log_retry {
            return None;
        }
        let shard = u32::from(self.here.id);
        let handover = storage.journal.poll_handover(shard, self.here.now_ms, self.stopping)?;
        storage.log_retry = false;
        Some(handover)
    }
}
