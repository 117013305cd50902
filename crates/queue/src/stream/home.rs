//! The machine on the shard that owns a stream (its home). It accepts messages, has them written, and notifies the
//! followers.

use std::collections::VecDeque;

use ranges::{Range, Ranges};

use super::chunk::Filling;
use crate::contract::{Chunk, Follower, Retained, StreamUpdate};
use crate::{
    Attach, Config, DeletedReason, Effect, GoneReason, Publish, PublisherId, Receipt, Receipts, Refusal,
    RejectReason, Report, Request, Requester, Ticket, Verdict,
};

/// The time after a failure until the disk is tried again, in milliseconds.
const RETRY_MS: u64 = 200;

/// The time between two checks of the age of the oldest messages, in milliseconds.
const AGE_CHECK_MS: u64 = 30_000;

/// The results of calls. Each call appends; the caller carries the results out and empties the output.
#[derive(Debug, Default)]
pub struct StreamOutput {
    pub receipts: Receipts,
    pub effects: Vec<Effect>,
}

/// Work for the disk. Only one piece of work is in flight, and each is answered once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Opens the stream. Answered by [`Stream::handle_opened`].
    Open,
    /// Appends chunks. Answered by [`Stream::handle_appended`].
    Append(Vec<Chunk>),
    /// Applies the limits, because they have changed or time has passed. Answered by
    /// [`Stream::handle_limited`].
    Limit,
}

/// Why a stream could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFailure {
    /// The disk has failed. Opening the stream later may work.
    Unavailable,
    /// Messages of the stream are lost.
    Damaged,
}

/// ```text
///   Closed ──first request──► Opening ──► Open ──Delete──► Deleted
///                              ▲   │        │ Close           ▲
///                   tried again└───┴──────► Damaged ──────────┘
/// ```
///
/// A damaged stream can be read up to [`Retained::closed_from`], if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Opening,
    Open,
    Damaged,
    Deleted,
}

/// The publishes of one publisher that wait to be written.
#[derive(Clone, Copy, Debug)]
struct Pending {
    publisher: PublisherId,
    /// The first of the publisher's numbers.
    first: u64,
    last: u64,
    /// The stream offset after the last of these messages.
    end: u64,
}

impl Range for Pending {
    #[inline]
    fn joins(&self, next: &Self) -> bool {
        (self.publisher, self.last + 1) == (next.publisher, next.first)
    }

    #[inline]
    fn lengthen(&mut self, next: &Self) {
        (self.last, self.end) = (next.last, next.end);
    }
}

/// The home machine of one stream.
#[derive(Debug)]
pub struct Stream {
    config: Config,
    state: State,
    work_in_flight: bool,
    /// What has been written and may be read.
    retained: Retained,
    /// The offset of the first message in `filling`.
    next: u64,
    filling: Filling,
    /// Closed chunks that are to be written.
    full: Vec<Chunk>,
    /// Chunks that are being written.
    writing: Vec<Chunk>,
    pending: VecDeque<Pending>,
    followers: Vec<(Follower, u32)>,
    /// Requests that wait until the stream is open. Bounded by the same limits as mail.
    waiting: Vec<Request>,
    /// True if the disk failed at the last attempt to open or to write. Then no new message is accepted.
    failed: bool,
    limits_changed: bool,
    /// The disk gets no work before this time.
    not_before_ms: u64,
    checked_ms: u64,
    published: u64,
}

impl Stream {
    /// Returns a stream that is opened at its first request.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            state: State::Closed,
            work_in_flight: false,
            retained: Retained::default(),
            next: 0,
            filling: Filling::default(),
            full: Vec::new(),
            writing: Vec::new(),
            pending: VecDeque::new(),
            followers: Vec::new(),
            waiting: Vec::new(),
            failed: false,
            limits_changed: false,
            not_before_ms: 0,
            checked_ms: 0,
            published: 0,
        }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Applies a request. `now_ms` counts from the epoch and never decreases.
    pub fn apply(&mut self, request: Request, now_ms: u64, out: &mut StreamOutput) {
        match self.state {
            State::Closed | State::Opening => {
                if self.state == State::Closed {
                    self.state = State::Opening;
                    self.checked_ms = now_ms;
                }
                self.wait(request, out);
            }
            State::Open => self.apply_open(request, out),
            State::Damaged | State::Deleted => self.apply_ended(request, out),
        }
    }

    /// Applies a publish like [`Stream::apply`], but borrows it.
    pub fn publish(&mut self, publish: &Publish, now_ms: u64, out: &mut StreamOutput) {
        match self.state {
            State::Open => self.take(publish, out),
            _ => self.apply(Request::Publish(publish.clone()), now_ms, out),
        }
    }

    /// Holds a request until the stream is open. Once opening has failed, only Follow requests are held, and others
    /// are refused.
    fn wait(&mut self, request: Request, out: &mut StreamOutput) {
        match request {
            Request::Configure(config) => self.config = (*config).clone(),
            // Nobody has read a stream that is not open.
            Request::Close { .. } => {}
            Request::Follow { follower, .. } => {
                // The new request replaces an earlier one of the same follower.
                self.waiting
                    .retain(|known| !matches!(known, Request::Follow { follower: f, .. } if *f == follower));
                self.waiting.push(request);
            }
            Request::Publish(Publish { publisher, seq, .. }) if self.failed => {
                let verdict = Verdict::Rejected(RejectReason::Unavailable);
                out.receipts.push(publisher, seq, verdict, false);
            }
            request if self.failed => refuse(request, Refusal::Unavailable, out),
            request => self.waiting.push(request),
        }
    }

    fn apply_open(&mut self, request: Request, out: &mut StreamOutput) {
        match request {
            Request::Publish(publish) => self.take(&publish, out),
            Request::Follow { follower, consumers } => self.follow(follower, consumers, out),
            Request::Close { from } => self.close(from, out),
            Request::Configure(config) => {
                self.limits_changed |= *config != self.config;
                self.config = (*config).clone();
            }
            Request::Delete { ticket, if_unused, if_empty } => {
                self.delete_if(ticket, (if_unused, if_empty), out);
            }
            Request::Report { ticket } => {
                out.effects.push(Effect::Report { ticket, report: Box::new(self.report()) });
            }
            other => refuse(other, Refusal::NotSupported, out),
        }
    }

    fn apply_ended(&mut self, request: Request, out: &mut StreamOutput) {
        let damaged = self.state == State::Damaged;
        let why = if damaged { Refusal::Damaged } else { Refusal::NotFound };
        match request {
            Request::Follow { follower, consumers } if self.retained.closed_from.is_some() => {
                self.follow(follower, consumers, out);
            }
            Request::Close { from } if self.retained.closed_from.is_some() => self.close(from, out),
            Request::Publish(Publish { publisher, seq, .. }) => {
                let verdict =
                    if damaged { Verdict::Rejected(RejectReason::Damaged) } else { Verdict::Released };
                out.receipts.push(publisher, seq, verdict, false);
            }
            Request::Follow { follower, .. } => {
                let end = Some(if damaged { GoneReason::Damaged } else { GoneReason::QueueDeleted });
                let update =
                    Box::new(StreamUpdate { retained: self.retained.clone(), chunks: Vec::new(), end });
                out.effects.push(Effect::StreamUpdate { follower, update });
            }
            Request::Delete { ticket, if_unused, if_empty } if self.retained.closed_from.is_some() => {
                self.delete_if(ticket, (if_unused, if_empty), out);
            }
            // Nothing of the stream can be read, so it has no consumers and no messages.
            Request::Delete { ticket, .. } if damaged => self.delete(ticket, out),
            Request::Report { ticket } => {
                out.effects.push(Effect::Report { ticket, report: Box::new(self.report()) });
            }
            other => refuse(other, why, out),
        }
    }

    fn take(&mut self, publish: &Publish, out: &mut StreamOutput) {
        let &Publish { publisher, seq, ref message, .. } = publish;
        if let Some(message) = message.converted_for_stream() {
            return self.take(&Publish { message, ..*publish }, out);
        }
        if self.failed {
            let verdict = Verdict::Rejected(RejectReason::Unavailable);
            out.receipts.push(publisher, seq, verdict, false);
            return;
        }
        if self.filling.is_full_for(message) {
            // The time of the closed chunk is set when it is handed to the disk, together with that of the
            // later chunks.
            self.close_chunk();
        }
        self.filling.push(message);
        self.published += 1;
        let end = self.next_offset();
        self.pending.push_joined(Pending { publisher, first: seq, last: seq, end });
    }

    fn close_chunk(&mut self) {
        if let Some(chunk) = self.filling.close(self.next, 0) {
            self.next = chunk.end();
            self.full.push(chunk);
        }
    }

    /// Returns the offset after all accepted messages, written or not.
    fn next_offset(&self) -> u64 {
        self.next + u64::from(self.filling.entries())
    }

    fn follow(&mut self, follower: Follower, consumers: Option<u32>, out: &mut StreamOutput) {
        let known = self.followers.iter().position(|(known, _)| *known == follower);
        match (known, consumers) {
            (Some(at), None) => drop(self.followers.swap_remove(at)),
            (Some(at), Some(consumers)) => self.followers[at].1 = consumers,
            (None, None) => {}
            (None, Some(consumers)) => {
                self.followers.push((follower, consumers));
                let update =
                    Box::new(StreamUpdate { retained: self.retained.clone(), chunks: Vec::new(), end: None });
                out.effects.push(Effect::StreamUpdate { follower, update });
            }
        }
    }

    fn consumers(&self) -> u32 {
        self.followers.iter().map(|(_, consumers)| consumers).sum()
    }

    /// Deletes the stream, unless it must be unused or empty and is not.
    fn delete_if(&mut self, ticket: Ticket, (if_unused, if_empty): (bool, bool), out: &mut StreamOutput) {
        let refused = |why| Effect::Refused { requester: Requester::Ticket(ticket), why };
        if if_unused && self.consumers() > 0 {
            out.effects.push(refused(Refusal::InUse));
        } else if if_empty && self.next_offset() > self.retained.first {
            out.effects.push(refused(Refusal::NotEmpty));
        } else {
            self.delete(ticket, out);
        }
    }

    fn delete(&mut self, ticket: Ticket, out: &mut StreamOutput) {
        self.end(State::Deleted, out);
        out.effects.push(Effect::Done { ticket, messages: self.retained.messages(), journaled: false });
        out.effects.push(Effect::Deleted { reason: DeletedReason::Requested });
    }

    fn end(&mut self, state: State, out: &mut StreamOutput) {
        let reason = match state {
            State::Damaged => GoneReason::Damaged,
            _ => GoneReason::QueueDeleted,
        };
        self.stop_writing(state, out);
        self.retained.closed_from = None;
        self.notify_followers(&[], Some(reason), out);
        self.followers.clear();
    }

    /// Writes nothing from now on, and answers the publishes that are not confirmed.
    fn stop_writing(&mut self, state: State, out: &mut StreamOutput) {
        self.state = state;
        let verdict = match state {
            State::Damaged => Verdict::Rejected(RejectReason::Damaged),
            _ => Verdict::Released,
        };
        self.receipts(u64::MAX, verdict, out);
        (self.filling, self.full, self.writing) = (Filling::default(), Vec::new(), Vec::new());
    }

    /// Closes the stream from this offset on, because a message there is damaged. If nothing can be read before it, the
    /// stream ends for its followers.
    fn close(&mut self, from: u64, out: &mut StreamOutput) {
        if self.retained.closed_from.is_some_and(|known| known <= from) {
            return;
        }
        if from <= self.retained.first {
            return self.end(State::Damaged, out);
        }
        self.stop_writing(State::Damaged, out);
        self.retained.closed_from = Some(from);
        self.notify_followers(&[], None, out);
    }

    /// Adds the receipts of all messages before this offset.
    fn receipts(&mut self, next: u64, verdict: Verdict, out: &mut StreamOutput) {
        while let Some(pending) = self.pending.front_mut() {
            let behind = pending.end.saturating_sub(next);
            let count = pending.last - pending.first + 1;
            if behind >= count {
                return;
            }
            let (publisher, first, last) = (pending.publisher, pending.first, pending.last - behind);
            out.receipts.push_all(Receipt { publisher, first, last, verdict, journaled: false });
            if behind > 0 {
                pending.first = last + 1;
                return;
            }
            self.pending.pop_front();
        }
    }

    fn notify_followers(&self, chunks: &[Chunk], end: Option<GoneReason>, out: &mut StreamOutput) {
        out.effects.extend(self.followers.iter().map(|(follower, _)| {
            let update =
                Box::new(StreamUpdate { retained: self.retained.clone(), chunks: chunks.to_vec(), end });
            Effect::StreamUpdate { follower: *follower, update }
        }));
    }

    /// Returns the next work for the disk, if any. Must be called after all other calls to the machine.
    pub fn poll_work(&mut self, now_ms: u64) -> Option<Work> {
        if self.work_in_flight || now_ms < self.not_before_ms {
            return None;
        }
        let work = match self.state {
            State::Opening => Work::Open,
            State::Open if !self.full.is_empty() || !self.filling.is_empty() => {
                self.close_chunk();
                let at_ms = now_ms.max(self.retained.times_ms.map_or(0, |(_, last)| last));
                self.full.iter_mut().for_each(|chunk| chunk.at_ms = at_ms);
                self.writing = std::mem::take(&mut self.full);
                Work::Append(self.writing.clone())
            }
            State::Open if self.limits_changed || self.age_check_ms().is_some_and(|at| at <= now_ms) => {
                self.limits_changed = false;
                self.checked_ms = now_ms;
                Work::Limit
            }
            _ => return None,
        };
        self.work_in_flight = true;
        Some(work)
    }

    /// Returns the size of the messages that [`Stream::poll_work`] has not returned yet, in bytes.
    pub fn bytes_to_write(&self) -> u64 {
        let full = self.full.iter().map(|chunk| chunk.data.len()).sum::<usize>();
        (full + self.filling.bytes()) as u64
    }

    fn age_check_ms(&self) -> Option<u64> {
        self.config.stream?.age_max_ms?;
        Some(self.checked_ms + AGE_CHECK_MS)
    }

    /// Returns when [`Stream::poll_work`] has work to do if no other call comes.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.work_in_flight {
            return None;
        }
        match self.state {
            State::Opening => Some(self.not_before_ms),
            State::Open if self.failed => Some(self.not_before_ms),
            State::Open => self.age_check_ms(),
            State::Closed | State::Damaged | State::Deleted => None,
        }
    }

    /// Handles the answer to [`Work::Open`]. A stream with [`Retained::closed_from`] is damaged, and can be read up to there.
    pub fn handle_opened(
        &mut self,
        result: Result<Retained, OpenFailure>,
        now_ms: u64,
        out: &mut StreamOutput,
    ) {
        self.work_in_flight = false;
        if self.state != State::Opening {
            return;
        }
        match result {
            Ok(retained) => {
                let is_damaged = retained.closed_from.is_some();
                self.state = if is_damaged { State::Damaged } else { State::Open };
                self.failed = false;
                self.next = retained.next;
                self.retained = retained;
            }
            Err(OpenFailure::Unavailable) => {
                (self.not_before_ms, self.failed) = (now_ms + RETRY_MS, true);
                for request in std::mem::take(&mut self.waiting) {
                    self.wait(request, out);
                }
                return;
            }
            Err(OpenFailure::Damaged) => self.end(State::Damaged, out),
        }
        for request in std::mem::take(&mut self.waiting) {
            self.apply(request, now_ms, out);
        }
    }

    /// Handles the answer to [`Work::Append`]. `retained` is what is retained now, or `None` if that is unknown.
    /// Chunks that were not written are written again later.
    pub fn handle_appended(&mut self, retained: Option<Retained>, now_ms: u64, out: &mut StreamOutput) {
        self.work_in_flight = false;
        if self.state != State::Open {
            return;
        }
        self.retained = retained.unwrap_or_else(|| self.retained.clone());
        let mut written = std::mem::take(&mut self.writing);
        let mut unwritten =
            written.split_off(written.partition_point(|chunk| chunk.end() <= self.retained.next));
        self.failed = !unwritten.is_empty();
        if self.failed {
            self.not_before_ms = now_ms + RETRY_MS;
            unwritten.append(&mut self.full);
            self.full = unwritten;
        }
        self.receipts(self.retained.next, Verdict::Accepted, out);
        self.notify_followers(&written, None, out);
    }

    /// Handles the answer to [`Work::Limit`]. `retained` is `None` if the limits could not be applied.
    pub fn handle_limited(&mut self, retained: Option<Retained>, out: &mut StreamOutput) {
        self.work_in_flight = false;
        if self.state == State::Open
            && let Some(retained) = retained
        {
            self.retained = retained;
            self.notify_followers(&[], None, out);
        }
    }

    /// Returns true if the stream is corrupt. It then writes nothing any more, and delivers only what comes before
    /// [`Retained::closed_from`].
    pub fn is_damaged(&self) -> bool {
        self.state == State::Damaged
    }

    /// See [`Retained::closed_from`].
    pub fn closed_from(&self) -> Option<u64> {
        self.retained.closed_from
    }

    /// Returns what is retained, if the stream is open and all of it may be read.
    pub fn open(&self) -> Option<&Retained> {
        (self.state == State::Open).then_some(&self.retained)
    }

    /// Returns true if the stream is still to be opened.
    pub fn is_opening(&self) -> bool {
        matches!(self.state, State::Closed | State::Opening)
    }

    /// Returns true if any publish still waits for its receipt.
    pub fn holds_receipts(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the number of retained messages. 0 before the stream is open.
    pub fn messages(&self) -> u64 {
        self.retained.messages()
    }

    /// Returns what the machine knows of itself.
    pub fn report(&self) -> Report {
        Report {
            ready: self.messages(),
            ready_bytes: self.retained.bytes,
            consumers: self.consumers(),
            damaged: self.is_damaged(),
            published: self.published,
            head_at_ms: self.retained.times_ms.filter(|_| self.messages() > 0).map(|(first, _)| first),
            stream: Some(self.retained.clone()),
            ..Report::default()
        }
    }
}

/// Refuses a request that a stream does not support, or no longer supports.
fn refuse(request: Request, why: Refusal, out: &mut StreamOutput) {
    let effect = match request {
        Request::Attach(Attach { consumer, .. }) => {
            Effect::Refused { requester: Requester::Consumer(consumer), why }
        }
        Request::Fetch { ticket, .. }
        | Request::Browse { ticket, .. }
        | Request::Purge { ticket }
        | Request::Delete { ticket, .. }
        | Request::Report { ticket } => Effect::Refused { requester: Requester::Ticket(ticket), why },
        Request::Cancel { consumer } | Request::Detach { consumer, .. } => {
            Effect::Gone { consumer, reason: GoneReason::Detached }
        }
        // The senders of these requests expect no answer.
        Request::Publish(_)
        | Request::Follow { .. }
        | Request::Close { .. }
        | Request::CancelBrowse { .. }
        | Request::Settle { .. }
        | Request::Grant { .. }
        | Request::Resume { .. }
        | Request::DeadLettered { .. }
        | Request::Use
        | Request::Configure(_) => return,
    };
    out.effects.push(effect);
}
