//! Dead letters. They are kept until they have arrived at their target.

use std::collections::{BTreeMap, VecDeque};

use message::{Death, DeathReason};

use super::entry::{Body, Entry};
use super::rare::Nothing;
use super::uncommitted::Stage;
use super::{Fifo, Output};
use crate::{Arrival, Deliver, Effect, Loaded};

/// The maximum number of dead letters that are being sent or wait for a retry. Beyond it, expiry and drop-head
/// pause: their messages stay ready, and expired ones are not delivered. Rejected messages are queued.
pub const LEAVING_MAX: usize = 1000;

/// The maximum bytes of those dead letters. Each of them is in memory, twice if its route takes long to find. One of any size may
/// always be sent.
const LEAVING_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The time until a dead letter that its target did not accept is sent again.
pub const DEAD_LETTER_RETRY_MS: u64 = 5_000;

/// A dead message.
///
/// ```text
///   kill ──► on its way ──DeadLettered──► gone
///    │          ▲    ▲ │ refused (at-least-once), or unavailable
///    ▼          │    │ ▼
///   queued ─room┘   waits
/// ```
struct Dead {
    entry: Entry,
    reason: DeathReason,
    /// True if it was sent before.
    sent: bool,
    /// The targets that have taken it, while others have not.
    taken_by: Vec<u64>,
}

impl Dead {
    fn new(entry: Entry, reason: DeathReason) -> Self {
        Self { entry, reason, sent: false, taken_by: Vec::new() }
    }
}

#[derive(Default)]
pub(super) struct Leaving {
    /// By token. Each attempt has its own token, so a late answer cannot be taken for the answer to a later
    /// attempt.
    on_way: BTreeMap<u64, Dead>,
    /// With the time of the next attempt, ascending.
    waiting: VecDeque<(u64, Dead)>,
    /// Waiting for room to be sent, the oldest first. Bounded by what consumers hold, and by [`LEAVING_MAX`]
    /// for messages that the queue did not accept.
    queued: VecDeque<Dead>,
    /// The number of messages that have left `queued` so far.
    unqueued: u64,
    last_token: u64,
    /// The bytes of all dead messages, and of those in `queued`.
    bytes: u64,
    queued_bytes: u64,
}

impl Nothing for Leaving {
    const NOTHING: &'static Self = &Self {
        on_way: BTreeMap::new(),
        waiting: VecDeque::new(),
        queued: VecDeque::new(),
        unqueued: 0,
        last_token: 0,
        bytes: 0,
        queued_bytes: 0,
    };
}

impl Leaving {
    pub(super) fn len(&self) -> usize {
        self.on_way.len() + self.waiting.len() + self.queued.len()
    }

    /// Returns the bytes of all dead messages.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of the first queued message, counted over all messages that were ever queued.
    pub(super) fn first_queued(&self) -> u64 {
        self.unqueued
    }

    /// Iterates over the queued messages from this number on.
    pub(super) fn queued_from(&self, number: u64) -> impl Iterator<Item = &Entry> {
        let passed = number.saturating_sub(self.unqueued) as usize;
        self.queued.iter().skip(passed).map(|dead| &dead.entry)
    }

    /// Iterates over the dead messages that are not queued.
    pub(super) fn unqueued(&self) -> impl Iterator<Item = &Entry> {
        let waiting = self.waiting.iter().map(|(_, dead)| dead);
        self.on_way.values().chain(waiting).map(|dead| &dead.entry)
    }

    /// Returns when the next attempt is due.
    pub(super) fn next_retry_ms(&self) -> Option<u64> {
        self.waiting.front().map(|(due_ms, _)| *due_ms)
    }

    fn has_room(&self) -> bool {
        self.on_way.len() + self.waiting.len() < LEAVING_MAX
            && self.bytes - self.queued_bytes < LEAVING_BYTES_MAX
    }

    /// Restores the body of a queued message from a block, if the message will be sent soon. Returns true if it
    /// did.
    pub(super) fn fill(&mut self, run: u32, loaded: &Loaded) -> bool {
        let wants = |entry: &Entry| {
            !entry.is_in_memory() && entry.seq == loaded.seq && entry.spot.is_some_and(|spot| spot.run == run)
        };
        let found = self.queued.iter_mut().take(LEAVING_MAX).find(|dead| wants(&dead.entry));
        let Some(dead) = found else { return false };
        dead.entry.body = Body::InMemory { message: loaded.message.clone(), at_ms: loaded.at_ms };
        true
    }

    /// Frees the bodies of queued messages that can be read again.
    pub(super) fn free_bodies(&mut self) {
        self.queued.iter_mut().for_each(|dead| dead.entry.free_body());
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        let waiting = self.waiting.iter_mut().map(|(_, dead)| dead);
        let dead = self.on_way.values_mut().chain(waiting).chain(&mut self.queued);
        dead.map(|dead| &mut dead.entry)
    }

    /// Removes and returns the messages that `wants` selects, by sequence number.
    pub(super) fn take(&mut self, wants: impl Fn(&Entry) -> bool) -> BTreeMap<u64, Entry> {
        let on_way = self.on_way.extract_if(.., |_, dead| wants(&dead.entry)).map(|(_, dead)| dead);
        let mut taken: Vec<Dead> = on_way.collect();
        let (waiting, others) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(_, dead)| wants(&dead.entry));
        self.waiting = others;
        taken.extend(VecDeque::into_iter(waiting).map(|(_, dead)| dead));
        let (queued, others) =
            std::mem::take(&mut self.queued).into_iter().partition(|dead| wants(&dead.entry));
        self.queued = others;
        self.queued_bytes -= queued.iter().map(|dead: &Dead| dead.entry.len()).sum::<u64>();
        taken.extend(VecDeque::into_iter(queued));
        self.bytes -= taken.iter().map(|dead| dead.entry.len()).sum::<u64>();
        taken.into_iter().map(|dead| (dead.entry.seq, dead.entry)).collect()
    }

    /// Schedules a message to be sent again at `due_ms`.
    pub(super) fn wait(&mut self, entry: Entry, reason: DeathReason, due_ms: u64) {
        let at = self.waiting.partition_point(|(due, _)| *due <= due_ms);
        self.bytes += entry.len();
        self.waiting.insert(at, (due_ms, Dead::new(entry, reason)));
    }

    /// Adds a message that waits for room.
    fn queue(&mut self, dead: Dead) {
        self.bytes += dead.entry.len();
        self.queued_bytes += dead.entry.len();
        self.queued.push_back(dead);
    }

    /// Removes and returns the first message that waits for room.
    fn unqueue(&mut self) -> Option<Dead> {
        let dead = self.queued.pop_front()?;
        self.unqueued += 1;
        self.bytes -= dead.entry.len();
        self.queued_bytes -= dead.entry.len();
        Some(dead)
    }

    /// Removes and returns the first message that waits for a retry.
    fn take_waiting(&mut self) -> Option<Dead> {
        let (_, dead) = self.waiting.pop_front()?;
        self.bytes -= dead.entry.len();
        Some(dead)
    }

    /// Adds a message that was sent with this token.
    fn sent(&mut self, token: u64, dead: Dead) {
        self.bytes += dead.entry.len();
        self.on_way.insert(token, dead);
    }

    /// Removes and returns the message that was sent with this token.
    fn take_answered(&mut self, token: u64) -> Option<Dead> {
        let dead = self.on_way.remove(&token)?;
        self.bytes -= dead.entry.len();
        Some(dead)
    }

    /// Adds a message that is sent again at `due_ms`, after all others that wait for a retry.
    fn wait_again(&mut self, due_ms: u64, dead: Dead) {
        self.bytes += dead.entry.len();
        self.waiting.push_back((due_ms, dead));
    }

    #[cfg(test)]
    pub(super) fn token_of(&self, seq: u64) -> Option<u64> {
        self.on_way.iter().find(|(_, dead)| dead.entry.seq == seq).map(|(token, _)| *token)
    }

    /// Iterates over all dead messages.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.unqueued().chain(self.queued_from(0))
    }
}

impl Fifo {
    /// Returns whether dead letters are kept until all their targets have taken them.
    pub(super) fn keeps_dead_letters(&self) -> bool {
        self.config.dead_letter.as_ref().is_some_and(|to| to.at_least_once)
    }

    /// Returns true if the dead letter of this token was sent and waits for its answer.
    pub fn is_on_its_way(&self, token: u64) -> bool {
        self.leaving.on_way.contains_key(&token)
    }

    /// Removes all dead letters that have not arrived. Late answers for them are ignored.
    pub(super) fn purge_leaving(&mut self) {
        let Some(Leaving { on_way, waiting, queued, unqueued, bytes, queued_bytes, .. }) =
            self.leaving.made()
        else {
            return;
        };
        (*bytes, *queued_bytes) = (0, 0);
        let on_way = std::mem::take(on_way).into_values();
        let waiting = std::mem::take(waiting).into_iter().map(|(_, dead)| dead);
        *unqueued += queued.len() as u64;
        let queued = std::mem::take(queued);
        for Dead { entry, reason, .. } in on_way.chain(waiting).chain(queued) {
            self.journal.leave(entry, Stage::Leaving(reason));
        }
    }

    /// Returns whether a ready message may be killed now: there is room for a dead letter, or none is needed.
    pub(super) fn can_kill(&self) -> bool {
        self.config.dead_letter.is_none() || (self.leaving.queued.is_empty() && self.leaving.has_room())
    }

    /// Dead-letters or drops a message that is neither ready nor unsettled any more.
    pub(super) fn kill(&mut self, entry: Entry, reason: DeathReason, now_ms: u64, out: &mut Output) {
        self.journal.note(&entry, Stage::Ready);
        let dead = Dead::new(entry, reason);
        if self.can_kill() && (dead.entry.is_in_memory() || self.config.dead_letter.is_none()) {
            self.send(dead, now_ms, out);
        } else {
            self.leaving.make().queue(dead);
            self.load_queued(out);
        }
    }

    /// Dead-letters a message that the queue did not accept.
    pub(super) fn kill_refused(&mut self, entry: Entry, now_ms: u64, out: &mut Output) {
        if self.leaving.queued.len() < LEAVING_MAX {
            self.kill(entry, DeathReason::MaxLength, now_ms, out);
        } else {
            self.counts.dropped += 1;
        }
    }

    /// Handles the answer to [`Effect::DeadLetter`].
    pub(super) fn dead_lettered(
        &mut self,
        token: u64,
        (arrival, taken_by): (Arrival, Vec<u64>),
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        let answered = self.leaving.made().and_then(|leaving| leaving.take_answered(token));
        let Some(mut dead) = answered else { return };
        dead.taken_by.extend(taken_by);
        let again = match arrival {
            Arrival::Taken => false,
            Arrival::Refused => self.keeps_dead_letters(),
            // The target cannot store messages at the moment. A message that may be confirmed is not dropped for that.
            Arrival::Unavailable => true,
        };
        if again {
            self.leaving.make().wait_again(now_ms.saturating_add(DEAD_LETTER_RETRY_MS), dead);
            return;
        }
        match arrival {
            Arrival::Taken => self.counts.dead_lettered += 1,
            Arrival::Refused | Arrival::Unavailable => self.counts.dropped += 1,
        }
        let Dead { entry, reason, .. } = dead;
        self.journal.leave(entry, Stage::Leaving(reason));
        self.make_room(now_ms, out, deliver);
    }

    /// Sends the dead letters whose retry is due.
    pub(super) fn retry(&mut self, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        while self.leaving.next_retry_ms().is_some_and(|due_ms| due_ms <= now_ms) {
            if let Some(dead) = self.leaving.make().take_waiting() {
                self.send(dead, now_ms, out);
            }
        }
        self.make_room(now_ms, out, deliver);
    }

    /// Sends the dead letters that waited for room: first those in `queued`. Then expires and drops ready messages that
    /// had to stay until there was room.
    pub(super) fn make_room(&mut self, now_ms: u64, out: &mut Output, deliver: &mut dyn Deliver) {
        while (self.config.dead_letter.is_none() || self.leaving.has_room()) && !self.load_queued(out) {
            let Some(dead) = self.leaving.made().and_then(Leaving::unqueue) else { break };
            self.send(dead, now_ms, out);
        }
        self.expire(now_ms, out);
        self.shed(now_ms, out);
        self.dispatch(now_ms, out, deliver);
    }

    /// Requests the body of the first queued message, if the message can be sent but its body is not in memory.
    /// Returns true in this case.
    fn load_queued(&mut self, out: &mut Output) -> bool {
        let first = self.leaving.queued.front().filter(|dead| !dead.entry.is_in_memory());
        let Some(spot) = first.and_then(|dead| dead.entry.spot) else { return false };
        if self.config.dead_letter.is_none() || !self.leaving.has_room() {
            return false;
        }
        self.load(spot.load(), out);
        true
    }

    fn send(&mut self, mut dead: Dead, now_ms: u64, out: &mut Output) {
        let Some((to, message)) = self.config.dead_letter.as_ref().zip(dead.entry.message()) else {
            self.counts.dropped += 1;
            let Dead { entry, reason, .. } = dead;
            return self.journal.leave(entry, Stage::Leaving(reason));
        };
        self.journal.note(&dead.entry, Stage::Leaving(dead.reason));
        let leaving = self.leaving.make();
        leaving.last_token += 1;
        let token = leaving.last_token;
        let route = message.route();
        let death = Death {
            queue: self.config.name.clone(),
            reason: dead.reason,
            count: 1,
            first_ms: now_ms,
            last_ms: now_ms,
            exchange: route.exchange().clone(),
            keys: route.keys().to_vec(),
            ttl_ms: None,
        };
        out.effects.push(Effect::DeadLetter {
            token,
            message: self
                .journal
                .shown(&dead.entry)
                .unwrap_or_else(|| message.clone())
                .with_death(death, dead.entry.delivery_count),
            reason: dead.reason,
            exchange: to.exchange.clone(),
            key: to.key.clone(),
            taken_by: dead.taken_by.clone(),
            again: dead.sent,
            journaled: dead.entry.journaled,
        });
        dead.sent = true;
        self.leaving.make().sent(token, dead);
    }
}
