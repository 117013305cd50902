//! Transactions: messages and settlements wait for `tx.commit`. A transaction that concerns several queues is not atomic, but one
//! that fails loses nothing: its messages are published before anything is settled (docs/guarantees.md, Transactions).
//!
//! ```text
//!   tx.commit ──> checking ──> publishing ──> settling ──> tx.commit-ok
//!                    │             └── a queue rejects a message: 406, nothing is settled
//!                    └── a message is not permitted any more: 403, 404, 406, nothing is published or settled
//! ```
//!
//! | step | a commit waits here for |
//! |---|---|
//! | checking | the end of an alarm, if it has messages (then no input is taken, as for a publish); somebody who decides permissions |
//! | publishing | routes that take more than a turn (then no input is taken); the receipts of all messages |
//! | settling | the answers of the queues: all settlements are stored |
//!
//! What the client sends on the channel before the commit has ended is handled after it. The other channels go on, so that the
//! commits of several channels share a write. If the channel ends in between, the deliveries that are not settled return to their
//! queues, as without a commit.

use std::collections::VecDeque;

use amqp091::{
    BasicPublish, ConfirmSelectOk, Method, ReplyCode, TxCommit, TxCommitOk, TxRollbackOk, TxSelectOk,
};
use bytes::Bytes;
use catalog::ids::QueueId;
use queue::{Refusal, Verdict};
use ranges::{Ranges, Span};

use super::confirms::{Confirms, Published};
use super::held::{Arriving, Deferred, HeldMessage};
use super::unsettled::Run;
use super::{Gate, PUBLISHER, Phase, Refused, refusal};
use crate::cx::Cx;
use crate::intake;
use crate::moving::name_of;

/// The class and the number of `tx.commit`.
const COMMIT: (u16, u16) = (TxCommit::CLASS_ID, TxCommit::METHOD_ID);
const PUBLISH: (u16, u16) = (BasicPublish::CLASS_ID, BasicPublish::METHOD_ID);

/// The state of a channel with transactions.
#[derive(Debug, Default)]
pub(super) struct Tx {
    messages: Vec<HeldMessage>,
    /// The tags of the deliveries that were settled. How is known to [`super::unsettled::Unsettled`].
    settled: Vec<Span>,
    /// The bytes of the messages.
    bytes: usize,
    /// How far the commit has come. `None` if there is none.
    commit: Option<Step>,
    /// What the client has sent since the commit.
    behind: VecDeque<Deferred>,
}

/// A step of a commit; see the module.
#[derive(Debug)]
enum Step {
    Checking {
        /// The number of messages that are permitted, according to this version of the catalog.
        checked: usize,
        version: u64,
    },
    Publishing {
        /// The messages that are not published yet, because the route of the first one takes more than this turn.
        left: VecDeque<HeldMessage>,
        /// The number of messages without a receipt.
        unconfirmed: usize,
        /// True if a queue has rejected a message.
        is_rejected: bool,
    },
    Settling {
        /// The number of settlements without an answer.
        unanswered: usize,
    },
}

impl Tx {
    /// Returns the number of messages that wait for the commit.
    pub(super) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Notes that deliveries with these tags were settled.
    pub(super) fn note_settled(&mut self, tags: Span) {
        self.settled.push_joined(tags);
    }

    /// Returns the bytes that wait for the commit, or for its end.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
            + self.settled.len() * size_of::<Span>()
            + self.behind.iter().map(|held| held.bytes() + size_of::<Deferred>()).sum::<usize>()
    }

    /// Returns true if what the client sends must wait.
    fn is_busy(&self) -> bool {
        self.commit.is_some() || !self.behind.is_empty()
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

    fn tx(&mut self, channel: u16) -> Option<&mut Tx> {
        self.channel(channel)?.tx.as_deref_mut()
    }

    // ---- before the commit --------------------------------------------------------------------------------

    /// Adds a message to the transaction. What can be checked without a queue is checked now, and again at the commit.
    pub(super) fn publish_in_tx(&mut self, channel: u16, arriving: &Arriving<'_>, cx: &mut Cx<'_>) {
        match self.check_publish(channel, arriving, cx) {
            Ok(()) => {}
            Err(Refused::Awaits(awaited)) => {
                return self.hold(Deferred::Publish(HeldMessage::new(channel, arriving)), awaited, cx);
            }
            Err(refused) => {
                let failed = (BasicPublish::CLASS_ID, BasicPublish::METHOD_ID);
                return self.refuse_method(channel, failed, refused, cx);
            }
        }
        if let Some(tx) = self.tx(channel) {
            let message = HeldMessage::new(channel, arriving);
            tx.bytes += message.len() + size_of::<HeldMessage>();
            tx.messages.push(message);
        }
        self.bound_tx(cx);
    }

    /// Ends the connection if what waits for commits takes too much memory.
    fn bound_tx(&mut self, cx: &mut Cx<'_>) {
        let max = usize::try_from(cx.settings.connection_unfinished_memory()).unwrap_or(usize::MAX);
        if self.held_bytes() > max {
            let text = format!("transactions without a commit take more than {max} bytes");
            self.fail(refusal::connection(ReplyCode::ResourceError, text), cx);
        }
    }

    /// Drops the messages. The deliveries are unsettled again, and can be settled in another way.
    pub(super) fn roll_back(&mut self, channel: u16) -> Result<(), Refused> {
        let Some(state) = self.channel(channel) else { return Ok(()) };
        let Some(tx) = &mut state.tx else {
            return Err(refusal::precondition_failed("channel is not transactional"));
        };
        tx.messages.clear();
        tx.bytes = 0;
        tx.settled.drain(..).for_each(|tags| state.unsettled.roll_back(tags));
        self.conn.send(channel, &Method::TxRollbackOk(TxRollbackOk));
        Ok(())
    }

    // ---- the commit -----------------------------------------------------------------------------------------

    pub(super) fn commit(&mut self, channel: u16, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let Some(state) = self.channel(channel) else { return Ok(()) };
        let Some(tx) = &mut state.tx else {
            return Err(refusal::precondition_failed("channel is not transactional"));
        };
        tx.commit = Some(Step::Checking { checked: 0, version: cx.catalog.version() });
        self.continue_commit(channel, cx);
        Ok(())
    }

    /// Continues a commit that has not published all its messages yet.
    pub(super) fn continue_commit(&mut self, channel: u16, cx: &mut Cx<'_>) {
        if self.tx(channel).is_some_and(|tx| matches!(tx.commit, Some(Step::Publishing { .. }))) {
            return self.publish_left(channel, cx);
        }
        match self.check_messages(channel, cx) {
            Ok(true) => self.publish_messages(channel, cx),
            Ok(false) => {}
            Err(Refused::Awaits(awaited)) => self.hold(Deferred::Commit(channel), awaited, cx),
            Err(refused) => self.refuse_method(channel, COMMIT, refused, cx),
        }
    }

    /// Checks all messages of a commit. Returns false if the commit waits for the end of an alarm.
    fn check_messages(&mut self, channel: u16, cx: &mut Cx<'_>) -> Result<bool, Refused> {
        let is_blocked = self.blocked;
        let Some(tx) = self.tx(channel) else { return Ok(false) };
        let Some(Step::Checking { checked, version }) = tx.commit else { return Ok(false) };
        let messages = std::mem::take(&mut tx.messages);
        let mut result = Ok(true);
        // The rights may have changed while somebody was asked.
        let mut at = if version == cx.catalog.version() { checked } else { 0 };
        if is_blocked && !messages.is_empty() {
            (at, result) = (0, Ok(false));
            self.stop(Deferred::Commit(channel));
        } else {
            while let Some(message) = messages.get(at) {
                let arriving = message.arriving();
                if let Err(refused) = arriving.and_then(|arriving| self.check_publish(channel, &arriving, cx))
                {
                    result = Err(refused);
                    break;
                }
                at += 1;
            }
        }
        if let Some(tx) = self.tx(channel) {
            tx.messages = messages;
            tx.commit = Some(Step::Checking { checked: at, version: cx.catalog.version() });
        }
        result
    }

    /// Publishes the messages of a commit, which were all checked just before.
    fn publish_messages(&mut self, channel: u16, cx: &mut Cx<'_>) {
        let Some(tx) = self.tx(channel) else { return };
        let left = VecDeque::from(std::mem::take(&mut tx.messages));
        // The commit itself counts as one message until all of them are published.
        let unconfirmed = left.len() + 1;
        tx.commit = Some(Step::Publishing { left, unconfirmed, is_rejected: false });
        self.publish_left(channel, cx);
    }

    /// Publishes the messages that are left, as far as their routes are found in this turn. If an alarm has begun meanwhile, they
    /// wait for its end.
    fn publish_left(&mut self, channel: u16, cx: &mut Cx<'_>) {
        let is_blocked = self.blocked;
        let Some(tx) = self.tx(channel) else { return };
        let Some(Step::Publishing { left, .. }) = &mut tx.commit else { return };
        if is_blocked && !left.is_empty() {
            return self.stop(Deferred::Commit(channel));
        }
        let mut left = std::mem::take(left);
        tx.bytes = 0;
        let mut answered = 0;
        self.trust_publisher(channel, true);
        while let Some(message) = left.pop_front() {
            let published = message
                .arriving()
                .and_then(|arriving| self.try_publish(channel, &arriving, Published::Committed, cx));
            match published {
                Ok(true) => {}
                Ok(false) => answered += 1,
                Err(Refused::Awaits(awaited)) => {
                    left.push_front(message);
                    self.trust_publisher(channel, false);
                    self.keep_left(channel, left);
                    self.confirmed(channel, answered, cx);
                    return self.hold(Deferred::Commit(channel), awaited, cx);
                }
                Err(refused) => return self.refuse_method(channel, COMMIT, refused, cx),
            }
        }
        self.trust_publisher(channel, false);
        self.confirmed(channel, answered + 1, cx);
    }

    /// Keeps the messages of a commit that are not published yet.
    fn keep_left(&mut self, channel: u16, kept: VecDeque<HeldMessage>) {
        let Some(tx) = self.tx(channel) else { return };
        tx.bytes = kept.iter().map(|message| message.len() + size_of::<HeldMessage>()).sum();
        if let Some(Step::Publishing { left, .. }) = &mut tx.commit {
            *left = kept;
        }
    }

    /// Returns the property list of the next message that a commit publishes.
    pub(super) fn next_property_list(&mut self, channel: u16) -> Option<Bytes> {
        match &self.tx(channel)?.commit {
            Some(Step::Publishing { left, .. }) => left.front().map(HeldMessage::property_list),
            _ => None,
        }
    }

    /// Sets whether the messages that follow were checked.
    fn trust_publisher(&mut self, channel: u16, is_trusted: bool) {
        if let Some(publisher) = self.channel(channel).and_then(|state| state.publisher.as_mut()) {
            publisher.intake.trust(is_trusted);
        }
    }

    /// Called when messages of a commit have their receipts, or need none. After the last one, the deliveries are settled.
    fn confirmed(&mut self, channel: u16, messages: usize, cx: &mut Cx<'_>) {
        let Some(tx) = self.tx(channel) else { return };
        let Some(Step::Publishing { unconfirmed, is_rejected, .. }) = &mut tx.commit else { return };
        *unconfirmed = unconfirmed.saturating_sub(messages);
        match (*unconfirmed, *is_rejected) {
            (0, false) => self.settle_committed(channel, cx),
            (0, true) => {
                let refused = refusal::precondition_failed("partial tx completion");
                self.refuse_method(channel, COMMIT, refused, cx);
            }
            _ => {}
        }
    }

    /// Settles the deliveries of a commit, in the order of their tags.
    fn settle_committed(&mut self, channel: u16, cx: &mut Cx<'_>) {
        let Some(tx) = self.tx(channel) else { return };
        let mut tags = std::mem::take(&mut tx.settled);
        tags.sort_unstable();
        let Some(state) = self.channel(channel) else { return };
        let mut runs: Vec<Run> = Vec::new();
        for tags in tags {
            for (delivered, settlement) in state.unsettled.commit(tags) {
                runs.push_joined(Run::new(&delivered, settlement));
            }
        }
        if let Some((queue, why)) = state.out_of_reach(&runs) {
            return self.fail_commit(channel, &queue, why, cx);
        }
        let mut unanswered = 0;
        for run in &runs {
            unanswered += usize::from(self.settle_run(channel, run, cx));
        }
        if let Some(tx) = self.tx(channel) {
            tx.commit = Some(Step::Settling { unanswered });
        }
        self.stored(channel, 0);
    }

    /// Ends a channel whose commit cannot settle deliveries of this queue: they will be delivered again.
    pub(super) fn fail_commit(&mut self, channel: u16, queue: &str, why: Refusal, cx: &mut Cx<'_>) {
        let refused = refusal::by_queue(why, queue, &self.peer.vhost, cx.catalog);
        self.refuse_method(channel, COMMIT, refused, cx);
    }

    /// Called when settlements of a commit are stored. The last of them completes the commit.
    pub(super) fn stored(&mut self, channel: u16, settlements: usize) {
        let Some(tx) = self.tx(channel) else { return };
        let Some(Step::Settling { unanswered }) = &mut tx.commit else { return };
        *unanswered = unanswered.saturating_sub(settlements);
        if *unanswered == 0 {
            tx.commit = None;
            self.conn.send(channel, &Method::TxCommitOk(TxCommitOk));
        }
    }

    // ---- what waits -----------------------------------------------------------------------------------------

    /// Returns true if a commit of the channel has not ended, so that what the client sends must wait.
    pub(super) fn is_committing(&mut self, channel: u16) -> bool {
        self.has_tx && self.tx(channel).is_some_and(|tx| tx.is_busy())
    }

    /// Keeps what the client has sent until the commit has ended.
    pub(super) fn hold_behind_commit(&mut self, channel: u16, held: Deferred) {
        if let Some(tx) = self.tx(channel) {
            tx.behind.push_back(held);
            self.note_held(channel);
        }
    }

    /// Notes that the channel has something to continue with. Until then, the socket is not read.
    fn note_held(&mut self, channel: u16) {
        if !self.held.contains(&channel) {
            self.held.push(channel);
        }
    }

    /// Continues with what has waited for a commit.
    pub(super) fn continue_channels(&mut self, cx: &mut Cx<'_>) {
        for channel in std::mem::take(&mut self.held) {
            if self.continue_channel(channel, cx) {
                self.note_held(channel);
            }
        }
        if self.held.is_empty() {
            // What the client has sent meanwhile was not read.
            self.conn.forgive_silence(cx.now_ms);
        }
    }

    /// Returns true if something is left.
    fn continue_channel(&mut self, channel: u16, cx: &mut Cx<'_>) -> bool {
        loop {
            let is_open = self.phase == Phase::Open;
            let Some(tx) = self.tx(channel) else { return false };
            if !is_open || tx.commit.is_some() {
                return true;
            }
            match tx.behind.pop_front() {
                Some(held) => self.handle_held(held, cx),
                None => return false,
            }
        }
    }

    // ---- from queues ----------------------------------------------------------------------------------------

    /// Reports receipts to a publisher; see [`crate::gate::Gate::handle_receipts`].
    pub fn handle_receipts(
        &mut self,
        at: u64,
        queue: QueueId,
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
        let (mut committed, mut unknown) = (0, None);
        let mut note = |run: intake::Run<Published>| match run.first {
            Published::Committed if run.verdict == Verdict::Unknown => unknown = Some(COMMIT),
            Published::Confirmed(_) if run.verdict == Verdict::Unknown => unknown = Some(PUBLISH),
            Published::Committed => {
                committed += 1;
                let step = tx.as_mut().and_then(|tx| tx.commit.as_mut());
                if let (Some(Step::Publishing { is_rejected, .. }), Verdict::Rejected(_)) =
                    (step, run.verdict)
                {
                    *is_rejected = true;
                }
            }
            Published::Confirmed(_) => confirms.iter_mut().for_each(|confirms| confirms.note(run)),
            Published::Unconfirmed => {}
        };
        publisher.intake.handle_receipts(range, verdict, cx, &mut note);
        self.touch(channel, PUBLISHER);
        if let Some(failed) = unknown {
            // No answer is true, so the channel ends without one.
            let why = Refusal::OutcomeUnknown { node: cx.placements.other_node(queue) };
            let refused = refusal::by_queue(why, &name_of(cx.catalog, queue), &self.peer.vhost, cx.catalog);
            return self.refuse_method(channel, failed, refused, cx);
        }
        if committed > 0 {
            self.confirmed(channel, committed, cx);
        }
    }
}
