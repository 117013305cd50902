//! Transactions: messages and settlements wait for `tx.commit`. RabbitMQ promises no more than this (docs/from-rabbitmq.md,
//! AMQP 0.9.1): a transaction that concerns several queues is not atomic.

use std::collections::VecDeque;

use amqp091::{
    BasicPublish, ConfirmSelectOk, Method, ReplyCode, TxCommit, TxCommitOk, TxRollbackOk, TxSelectOk,
};
use queue::{Outcome, Verdict};

use super::confirms::{Confirms, Published};
use super::held::{Held, HeldMessage};
use super::{Gate, PUBLISHER, Refused, refusal};
use crate::cx::Cx;
use crate::ids::QueueId;
use crate::intake::Run;

/// The state of a channel with transactions.
#[derive(Debug, Default)]
pub(super) struct Tx {
    messages: Vec<HeldMessage>,
    settlements: Vec<Settlement>,
    bytes: usize,
    /// The messages of the commit that have no receipt. The client waits for them.
    uncommitted: usize,
    /// True if a queue has rejected a message of the commit.
    has_failed: bool,
}

#[derive(Debug)]
struct Settlement {
    tag: u64,
    multiple: bool,
    outcome: Outcome,
}

impl Tx {
    pub fn publish(&mut self, message: HeldMessage) {
        self.bytes += message.len() + size_of::<HeldMessage>();
        self.messages.push(message);
    }

    pub fn settle(&mut self, tag: u64, multiple: bool, outcome: Outcome) {
        self.bytes += size_of::<Settlement>();
        self.settlements.push(Settlement { tag, multiple, outcome });
    }

    /// Returns the number of messages, and of settlements, that wait for the commit.
    pub fn waiting(&self) -> (u64, u64) {
        (self.messages.len() as u64, self.settlements.len() as u64)
    }

    /// Returns the bytes that wait for the commit.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Gate {
    pub(super) fn select_confirms(&mut self, channel: u16, nowait: bool) -> Result<(), Refused> {
        let Some(state) = self.channel(channel) else { return Ok(()) };
        if state.tx.is_some() {
            return Err(refusal::precondition_failed("cannot switch from tx to confirm mode"));
        }
        state.confirms.get_or_insert_with(Box::<Confirms>::default);
        if !nowait {
            self.conn.send(channel, &Method::ConfirmSelectOk(ConfirmSelectOk));
        }
        Ok(())
    }

    pub(super) fn select_tx(&mut self, channel: u16) -> Result<(), Refused> {
        let Some(state) = self.channel(channel) else { return Ok(()) };
        if state.confirms.is_some() {
            return Err(refusal::precondition_failed("cannot switch from confirm to tx mode"));
        }
        state.tx.get_or_insert_with(Box::<Tx>::default);
        self.has_tx = true;
        self.conn.send(channel, &Method::TxSelectOk(TxSelectOk));
        Ok(())
    }

    /// Ends the connection if what waits for commits takes too much memory.
    pub(super) fn bound_tx(&mut self, cx: &mut Cx<'_>) {
        let max = usize::try_from(cx.settings.connection_unfinished_memory()).unwrap_or(usize::MAX);
        if self.held_bytes() > max {
            let text = format!("transactions without a commit take more than {max} bytes");
            self.fail(refusal::connection(ReplyCode::ResourceError, text), cx);
        }
    }

    pub(super) fn commit(&mut self, channel: u16, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let Some(state) = self.channel(channel) else { return Ok(()) };
        let Some(tx) = &mut state.tx else {
            return Err(refusal::precondition_failed("channel is not transactional"));
        };
        tx.bytes = 0;
        tx.has_failed = false;
        let (messages, settlements) = (std::mem::take(&mut tx.messages), std::mem::take(&mut tx.settlements));
        for Settlement { tag, multiple, outcome } in settlements {
            self.settle(channel, tag, multiple, &outcome, cx)?;
        }
        // The receipts may arrive before all messages are published. So one more is missing until then.
        if let Some(tx) = self.channel(channel).and_then(|state| state.tx.as_mut()) {
            tx.uncommitted += messages.len() + 1;
        }
        self.commit_messages(channel, messages.into(), cx);
        Ok(())
    }

    /// Publishes the messages of a commit. If somebody must be asked about one of them, it waits, and all messages behind it. The
    /// first that is refused ends the channel.
    pub(super) fn commit_messages(
        &mut self,
        channel: u16,
        mut messages: VecDeque<HeldMessage>,
        cx: &mut Cx<'_>,
    ) {
        while let Some(message) = messages.pop_front() {
            // The channel may have ended while the messages were held.
            if !self.conn.channel_is_open(channel) {
                return;
            }
            let published = message
                .arriving()
                .and_then(|arriving| self.try_publish(channel, &arriving, Published::Committed, cx));
            match published {
                Ok(true) => {}
                Ok(false) => self.committed(channel, 1, cx),
                Err(Refused::Unknown(question)) => {
                    messages.push_front(message);
                    return self.hold(Held::Commit(channel, messages), question, cx);
                }
                Err(refused) => {
                    let failed = (BasicPublish::CLASS_ID, BasicPublish::METHOD_ID);
                    return self.refuse_method(channel, failed, refused, cx);
                }
            }
        }
        self.committed(channel, 1, cx);
    }

    /// Called when messages of a commit have their receipts. The last of them completes the commit.
    fn committed(&mut self, channel: u16, messages: usize, cx: &mut Cx<'_>) {
        let Some(tx) = self.channel(channel).and_then(|state| state.tx.as_mut()) else { return };
        tx.uncommitted = tx.uncommitted.saturating_sub(messages);
        match (tx.uncommitted, tx.has_failed) {
            (0, false) => self.conn.send(channel, &Method::TxCommitOk(TxCommitOk)),
            (0, true) => {
                let refused = refusal::precondition_failed("partial tx completion");
                self.refuse_method(channel, (TxCommit::CLASS_ID, TxCommit::METHOD_ID), refused, cx);
            }
            _ => {}
        }
    }

    pub(super) fn roll_back(&mut self, channel: u16) -> Result<(), Refused> {
        let Some(tx) = self.channel(channel).and_then(|state| state.tx.as_mut()) else {
            return Err(refusal::precondition_failed("channel is not transactional"));
        };
        tx.messages.clear();
        tx.settlements.clear();
        tx.bytes = 0;
        self.conn.send(channel, &Method::TxRollbackOk(TxRollbackOk));
        Ok(())
    }

    /// Reports receipts to a publisher; see [`crate::gate::Gate::handle_receipts`].
    pub fn handle_receipts(
        &mut self,
        at: u64,
        _queue: QueueId,
        range: (u64, u64),
        verdict: Verdict,
        cx: &mut Cx<'_>,
    ) {
        if self.unanswered.handle_receipts(at, range, verdict, cx) {
            return;
        }
        let (channel, _) = super::parts(at);
        let Some(state) = super::channel_in(&mut self.channels, channel) else { return };
        let super::Channel { publisher: Some(publisher), confirms, tx, .. } = state else { return };
        let mut committed = 0;
        publisher.intake.handle_receipts(range, verdict, cx, |run: Run<Published>| match run.first {
            Published::Committed => {
                committed += 1;
                if let (Some(tx), Verdict::Rejected(_)) = (tx.as_mut(), run.verdict) {
                    tx.has_failed = true;
                }
            }
            Published::Confirmed(_) => confirms.iter_mut().for_each(|confirms| confirms.note(run)),
            Published::Unconfirmed => {}
        });
        self.touch(channel, PUBLISHER);
        if committed > 0 {
            self.committed(channel, committed, cx);
        }
    }
}
