//! Facts on their way to the log, and its word on what this shard has handed over.

use broker::ids::QueueId;
use broker::mail::Mail;
use log::{Completion, Size, Step};
use queue::Fact;

use super::journal::{OnSynced, OnWritten};
use super::receipts::push_receipt;
use super::slot::find;
use super::unwritten::ALL;
use super::{Place, Shard};

impl Shard {
    /// Facts of a queue to the journal, as far as the log has to know them.
    pub(super) fn log_facts(&mut self, queue: QueueId, facts: &[Fact]) {
        let Some(slot) = find(&mut self.queues, queue).filter(|slot| slot.logged) else { return };
        for fact in facts {
            match fact {
                Fact::Gone { .. } | Fact::Taken { .. } => {
                    if let Fact::Gone { first, last } = *fact {
                        let (kept, receipts) = (&mut slot.unwritten, &mut self.receipts);
                        let settled = self.unwritten.settle(queue, kept, (first, last), receipts);
                        self.counters.never_written += settled;
                        if settled == last - first + 1 {
                            continue;
                        }
                    }
                    if slot.gone.is_none() && slot.taken.is_none() {
                        self.gone.push(queue);
                    }
                    if let Some(ended) = slot.keep_back(fact) {
                        self.journal.push_fact(queue, &ended, None, slot.fsync);
                    }
                }
                Fact::Put { .. } | Fact::Returned { .. } | Fact::Stored(_) | Fact::Damaged => {
                    // The log must know the messages that it is told of.
                    self.unwritten.write(slot, ALL, &mut self.journal);
                    let run =
                        if let Fact::Stored(stored) = fact { slot.extents.get(&stored.run) } else { None };
                    self.journal.push_fact(queue, fact, run.map(|kept| kept.extent), slot.fsync);
                }
            }
        }
    }

    /// Writes the facts that were kept back. To be called at the end of a turn, before [`Shard::poll_handover`].
    pub fn close_records(&mut self) {
        let mut gone = std::mem::take(&mut self.gone);
        for queue in gone.drain(..) {
            let slot = find(&mut self.queues, queue);
            let Some(slot) = slot else { continue };
            for fact in slot.take_kept() {
                self.journal.push_fact(queue, &fact, None, slot.fsync);
            }
        }
        self.gone = gone;
    }

    /// The log's word on a handover: receipts may leave, or the records come back to be handed over again.
    pub fn handle_logged(&mut self, completion: Completion) {
        let Completion { ticket, step, result, file, size, .. } = completion;
        let error = match (step, result) {
            (Step::Written, result) => match self.journal.handle_written(ticket, result) {
                Some(Ok(on_written)) => {
                    self.written(on_written, file, size);
                    None
                }
                refused => refused.and_then(Result::err),
            },
            (Step::Synced, Ok(())) => {
                while let Some(on_synced) = self.journal.handle_synced(ticket) {
                    self.synced(on_synced);
                }
                None
            }
            (Step::Synced, Err(error)) => {
                self.journal.sync_again();
                Some(error)
            }
        };
        if let Some(error) = error {
            // Of one failed sync everybody hears who waited for it.
            if self.log_failed.replace(step).is_none() {
                tracing::error!(shard = self.id, "the log could not write: {error}; publishing is stopped");
            }
            return;
        }
        if self.log_failed.take_if(|failed| *failed == step).is_some() {
            tracing::info!(shard = self.id, "the log can write again");
        }
        self.send_receipts();
        self.send_answers();
        self.publish_live_bytes();
    }

    fn written(&mut self, on_written: OnWritten, file: u64, size: Size) {
        // It stands in files from the newest known before to the newest that it went to.
        let from = self.log_file.max(size.oldest.unwrap_or(0).min(file));
        self.log_file = self.log_file.max(file);
        self.log_is_short(size.short);
        self.tell_size(size);
        let OnWritten { receipts, puts, stored, definitions, evacuated } = on_written;
        for (queue, first, last) in puts {
            let slot = find(&mut self.queues, queue);
            if let Some(slot) = slot {
                slot.note_place(Place { file: from, first, last });
            }
        }
        for (queue, run) in stored {
            let slot = find(&mut self.queues, queue);
            if let Some(kept) = slot.and_then(|slot| slot.extents.get_mut(&run)) {
                kept.file = Some(from);
            }
        }
        if definitions {
            self.definitions_file = from;
        }
        if let Some((file, bytes)) = evacuated {
            self.send(0, Mail::Evacuated { file, bytes });
        }
        for receipt in receipts {
            push_receipt(&mut self.receipts, receipt);
        }
        if let Some(file) = self.evacuate_next.take() {
            self.handle_evacuate(file);
        }
    }

    fn synced(&mut self, on_synced: OnSynced) {
        let OnSynced { receipts, decided, released } = on_synced;
        for receipt in receipts {
            push_receipt(&mut self.receipts, receipt);
        }
        if let Some(decider) = &mut self.decider {
            decider.synced(decided).into_iter().for_each(|command| self.post.propose(None, command));
        }
        for extent in released {
            self.pages.release(extent);
        }
    }

    /// Whether the log lives on its reserve, as far as it is known here.
    pub(super) fn log_is_short(&mut self, short: bool) {
        match (std::mem::replace(&mut self.log_short, short), short) {
            (false, true) => tracing::error!(
                shard = self.id,
                "the disk is full: the log lives on its reserve; publishing is stopped until there is room for it again"
            ),
            (true, false) => tracing::info!(shard = self.id, "the disk has room again: publishing goes on"),
            _ => {}
        }
    }

    /// Bytes that the end of this turn writes, so far: records and chunks.
    pub fn bytes_to_write(&self) -> u64 {
        self.journal.open_bytes() + self.streams.bytes_to_write()
    }

    /// Tries the log again after a failure, or asks how it is. Nothing new is taken before it has answered well.
    pub fn retry_log(&mut self) {
        if self.log_refuses() {
            self.log_retry = true;
            self.journal.ask();
        }
    }

    /// Whether the log takes nothing new: then [`Shard::retry_log`] is to be called now and then.
    pub fn log_refuses(&self) -> bool {
        self.log_failed.is_some() || self.log_short
    }
}
