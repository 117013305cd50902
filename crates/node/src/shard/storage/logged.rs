//! Facts on their way to the log, and its word on what this shard has handed over.

use broker::ids::DECIDER;
use broker::mail::Mail;
use wal::{Completion, Handover, Size, Step};

use super::journal::{OnSynced, OnWritten};
use crate::facts::Place;
use crate::shard::Shard;

impl Shard {
    /// Writes the facts that were kept back. To be called at the end of a turn, before [`Shard::poll_handover`].
    pub fn close_records(&mut self) {
        let mut gone = std::mem::take(&mut self.storage.gone);
        for queue in gone.drain(..) {
            let slot = self.queues.get_mut(queue);
            let Some(slot) = slot else { continue };
            for fact in slot.take_kept() {
                self.storage.journal.push_fact(queue, &fact, None, slot.driver.syncs());
            }
        }
        self.storage.gone = gone;
    }

    /// The log's word on a handover: receipts may leave, or the records come back to be handed over again.
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
            // Of one failed sync everybody hears who waited for it.
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
        self.send_answers();
        self.publish_live_bytes();
    }

    fn written(&mut self, on_written: OnWritten, file: u64, size: Size) {
        // It stands in files from the newest known before to the newest that it went to.
        let from = self.storage.log_file.max(size.oldest.unwrap_or(0).min(file));
        self.storage.log_file = self.storage.log_file.max(file);
        self.note_log_short(size.short);
        self.tell_size(size);
        let OnWritten { mut receipts, puts, stored, definitions, evacuated } = on_written;
        for (queue, first, last) in puts {
            let slot = self.queues.get_mut(queue);
            if let Some(slot) = slot {
                slot.note_place(Place { file: from, first, last });
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
            self.mail.send(DECIDER, Mail::Evacuated { file, bytes });
        }
        receipts.drain().for_each(|receipt| self.mail.receipts.push(receipt));
        if let Some(file) = self.storage.evacuate_next.take() {
            self.handle_evacuate(file);
        }
    }

    fn synced(&mut self, on_synced: OnSynced) {
        let OnSynced { mut receipts, decided, released } = on_synced;
        receipts.drain().for_each(|receipt| self.mail.receipts.push(receipt));
        self.changes_synced(decided);
        for extent in released {
            self.storage.pages.release(extent);
        }
    }

    /// Notes whether the log lives on its reserve, as far as it is known here.
    pub(in crate::shard) fn note_log_short(&mut self, short: bool) {
        match (std::mem::replace(&mut self.storage.log_short, short), short) {
            (false, true) => tracing::error!(
                shard = self.here.id,
                "the disk is full: the log lives on its reserve; publishing is stopped until there is room for it again"
            ),
            (true, false) => {
                tracing::info!(shard = self.here.id, "the disk has room again: publishing goes on")
            }
            _ => {}
        }
    }

    /// Tries the log again after a failure, or asks how it is. Nothing new is taken before it has answered well.
    pub fn retry_log(&mut self) {
        if self.log_refuses() {
            self.storage.log_retry = true;
            self.storage.journal.ask();
        }
    }

    /// Whether the log takes nothing new: then [`Shard::retry_log`] is to be called now and then.
    pub fn log_refuses(&self) -> bool {
        self.storage.refuses()
    }

    /// Records for the log, if it has taken the last ones.
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
