//! The backlog on the disk. Messages are paged out when memory is needed, and read when they are needed.

use std::collections::{BTreeMap, VecDeque};

use super::browse::Browser;
use super::consumers::{Slot, Standing};
use super::dead_letter::Leaving;
use super::entry::{Entry, Leave, Reference, Spot};
use super::level::Head;
use super::rare::Nothing;
use super::rounds::Rounds;
use super::sizes::TooLarge;
use super::unsettled::Unsettled;
use super::{Fifo, Output, lend};
use crate::{
    Ages, Block, ConsumerId, Deliver, Delivery, Effect, Fact, GoneFromRun, Lately, Living, Load, LocalFact,
    Marks, Moved, PageOut, Seqs, Stored, Ticket,
};

/// The minimum size of a run in memory, in bytes. A shorter run is not worth paging out.
pub(super) const RUN_BYTES_MIN: u64 = if cfg!(test) { 1 } else { 4 * 1024 };

/// The sequence numbers of a run that is being written, ascending, each with the offset of its block in the run.
pub(super) type BlockPlaces = Vec<(u64, u32)>;

/// A run that is being written.
pub(super) struct Writing {
    pub run: u32,
    pub level: usize,
    pub last: u64,
    pub messages: u32,
    pub ages: Ages,
    /// Only for a run of messages that have left their level; otherwise empty.
    pub places: BlockPlaces,
    /// See [`Stored::seqs`].
    pub seqs: Seqs,
}

/// What few queues have: requests that wait for messages to be read from the disk, counts of messages that were fetched, and
/// browsers.
#[derive(Default)]
pub(super) struct Seldom {
    pub fetches: VecDeque<Fetch>,
    /// Consumers that wait for a [`CreditState`](crate::CreditState), and whether it ends a drain.
    pub grants: Vec<(ConsumerId, bool)>,
    /// See [`Report`](crate::Report).
    pub fetched: u64,
    pub fetched_settled: u64,
    /// At most [`BROWSERS_MAX`](super::browse::BROWSERS_MAX).
    pub browsers: Vec<Browser>,
    pub too_large: Option<TooLarge>,
    /// The publishes that were refused because the queue is at a length limit.
    pub rejected: Lately,
    /// The number of messages that were removed because the queue was too long.
    pub over_length: u64,
    pub rounds: Rounds,
}

impl Nothing for Seldom {
    const NOTHING: &'static Self = &Self {
        fetches: VecDeque::new(),
        grants: Vec::new(),
        fetched: 0,
        fetched_settled: 0,
        browsers: Vec::new(),
        too_large: None,
        rejected: Lately::NONE,
        over_length: 0,
        rounds: Rounds::NONE,
    };
}

impl Seldom {
    /// Returns true if a request waits.
    pub(super) fn anyone_waits(&self) -> bool {
        !self.fetches.is_empty() || !self.grants.is_empty()
    }

    /// Forgets all requests that wait. Returns the fetches among them.
    pub(super) fn take_waiting(&mut self) -> VecDeque<Fetch> {
        self.grants.clear();
        std::mem::take(&mut self.fetches)
    }

    /// Counts messages that were fetched.
    pub(super) fn count_fetched(&mut self, messages: u64, settled: bool) {
        self.fetched += messages;
        self.fetched_settled += if settled { messages } else { 0 };
    }
}

/// A fetch and its deliveries so far.
pub(super) struct Fetch {
    pub ticket: Ticket,
    pub holder: ConsumerId,
    /// True if the holder existed before.
    pub known: bool,
    pub n: u32,
    pub settled: bool,
    pub deliveries: Vec<Delivery>,
}

impl Fifo {
    /// Returns the approximate memory that [`Fifo::page_out`] could free, in bytes.
    pub fn pageable_bytes(&self) -> u64 {
        self.ready.pageable_bytes() + self.pageable_held()
    }

    /// Returns the part of [`Fifo::pageable_bytes`] that unsettled, requeued and dead-lettered messages take. It is 0 where
    /// turns can be rolled back. There only messages that were never delivered are paged out, because a rollback may
    /// change the others. These are few, because the credit of consumers is bounded.
    #[inline]
    fn pageable_held(&self) -> u64 {
        if self.journal.can_roll_back() { 0 } else { self.held.pageable_bytes() }
    }

    /// Returns false if [`Fifo::page_out`] would certainly find nothing, because less than one run is in memory.
    #[inline]
    pub fn may_page_out(&self) -> bool {
        self.ready.pageable_bytes() >= RUN_BYTES_MIN || self.pageable_held() >= RUN_BYTES_MIN
    }

    /// Returns the approximate memory of ready messages that can be read again, in bytes.
    pub fn loaded_bytes(&self) -> u64 {
        self.ready.loaded_bytes()
    }

    /// Frees what was read from the disk if there are no consumers.
    pub fn forget_loaded(&mut self) {
        if self.consumers.count() == 0 && self.ready.loaded_bytes() > 0 {
            self.ready.forget_loaded(self.ages);
        }
    }

    /// Starts to page out messages. Passes the `Put`s of a run to `each`, which returns the offset in the run at which
    /// the block of each message begins. The run has about `bytes_max` bytes, and at least one message. The caller must
    /// write the messages in this order, then call [`Fifo::handle_stored`]. While there are consumers, `head` bytes of
    /// ready messages stay in memory, because they will be needed soon. Returns `None`
    /// if no run is worth it, or if one is being written already.
    pub fn page_out(
        &mut self,
        bytes_max: u64,
        head: u64,
        mut each: impl FnMut(&Fact) -> u32,
    ) -> Option<PageOut> {
        if self.ended().is_some() || self.writing.is_some() {
            return None;
        }
        // Tries the larger group first, then the other one.
        let held_first = self.pageable_held() > self.ready.pageable_bytes();
        let mut found = None;
        for held in [held_first, !held_first] {
            found = match held {
                true if self.journal.can_roll_back() => None,
                true => self.page_out_held(bytes_max, &mut each),
                false => self.page_out_ready(bytes_max, head, &mut each),
            };
            if found.is_some() {
                break;
            }
        }
        let (writing, messages) = found?;
        let run = writing.run;
        self.writing = Some(Box::new(writing));
        Some(PageOut { run, messages })
    }

    fn page_out_ready(
        &mut self,
        bytes_max: u64,
        head: u64,
        each: &mut dyn FnMut(&Fact) -> u32,
    ) -> Option<(Writing, u32)> {
        let keep = if self.consumers.count() > 0 { head } else { 0 };
        let (mut bytes, mut messages) = (0, 0);
        let (mut last, mut ages, mut seqs) = (0, None, Vec::new());
        let has_seqs = self.journal.can_roll_back();
        let level = self.ready.page_out(RUN_BYTES_MIN, keep, has_seqs, |entry| {
            let Some(put) = self.journal.put_of(entry) else { return false };
            if let Fact::Put { at_ms, .. } = put {
                ages = Some(Ages::add(ages, at_ms, entry.ttl_ms()));
            }
            each(&put);
            last = entry.seq;
            if has_seqs {
                seqs.push(entry.seq);
            }
            messages += 1;
            bytes += entry.stored_bytes();
            bytes < bytes_max
        })?;
        let (ages, run) = (ages?, self.journal.runs.next_number());
        let seqs = seqs.into_iter().collect();
        Some((Writing { run, level, last, messages, ages, places: BlockPlaces::new(), seqs }, messages))
    }

    /// Called when the run is stored safely. Its messages that are still ready leave memory. If there are none, the run
    /// is released at once.
    pub fn handle_stored(&mut self, out: &mut Output) {
        let Some(writing) = self.writing.take() else { return };
        if self.ended().is_some() {
            out.released.push(writing.run);
            return;
        }
        if !writing.places.is_empty() {
            return self.stored_held(*writing, out);
        }
        let Writing { run, level, last, messages, ages, seqs, .. } = *writing;
        let (mut first, mut living, mut durable, mut bytes, mut live_bytes) = (0, 0, 0, 0, 0);
        let (mut marks, mut came_back) = (BTreeMap::new(), Vec::new());
        self.ready.paged_out(level, Load { run, block: 0 }, |entry| {
            first = if living == 0 { entry.seq } else { first };
            living += 1;
            if !entry.is_fresh() {
                marks.insert(entry.seq, entry.marks());
                came_back.extend(entry.came_back.map(|leave| (entry.seq, leave)));
                // The run contains the message's annotations.
                self.journal.annotated.forget(entry.seq);
            }
            if entry.journaled {
                durable += 1;
                bytes += entry.len();
                live_bytes += entry.stored_bytes();
            }
        });
        if living == 0 {
            out.released.push(run);
            return;
        }
        self.journal.live_bytes -= live_bytes;
        let priorities = self.ready.priorities_of(level);
        let stored = Stored { run, first, last, priorities, messages, durable, bytes, ages, seqs };
        // Only messages at the start of the run can have left meanwhile.
        let passed = messages - living;
        if durable > 0 {
            let facts = &mut out.local;
            facts.push(LocalFact::Stored(stored.clone()));
            if let Some(last) = passed.checked_sub(1) {
                facts.push(LocalFact::GoneFromRun(GoneFromRun { run, first: 0, last, durable: 0, bytes: 0 }));
            }
            // Repeated, because the earlier facts may be discarded before the run is.
            let marked = |(&seq, marks): (&u64, &Marks)| LocalFact::Marked { seq, marks: marks.clone() };
            facts.extend(marks.iter().map(marked));
        }
        self.journal.runs.add(&stored, level, passed, living, marks);
        came_back.into_iter().for_each(|(seq, leave)| self.journal.runs.set_came_back(run, seq, leave));
    }

    /// Called when messages may leave the middle of the run that is being written. The run will be released unused.
    pub(super) fn give_up_writing(&mut self) {
        if let Some(writing) = self.writing.as_ref().filter(|writing| writing.places.is_empty()) {
            self.ready.page_out_failed(writing.level);
        }
    }

    /// Handles a block that was requested in [`Output::loads`].
    pub fn handle_loaded(
        &mut self,
        load: Load,
        block: Block,
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        if self.reading != Some(load) {
            return;
        }
        self.reading = None;
        if self.end.is_some() {
            return;
        }
        if let Some(run) = self.journal.runs.get(load.run) {
            let level = run.level;
            match self.ready.reading(level, load) {
                Some(rest) => self.read_on(level, load, rest.index, block, now_ms),
                None => self.fill(level, load, block),
            }
        }
        self.make_room(now_ms, out, deliver);
        self.journal.flush(out);
    }

    /// Appends the next block of a run to the head.
    fn read_on(&mut self, level: usize, load: Load, index: u32, block: Block, now_ms: u64) {
        let messages = block.messages.len() as u32;
        let mut entries = Vec::with_capacity(block.messages.len());
        let mut delayed = Vec::new();
        for (index, loaded) in (index..).zip(block.messages) {
            let journaled = self.journal.policy.needs_fact(&loaded.message);
            let entry = Entry { journaled, ..Entry::new(loaded.message, loaded.seq, loaded.at_ms) };
            let spot = Spot { run: load.run, block: load.block, index };
            let Some((entry, due_ms)) = self.journal.take_in(spot, entry) else { continue };
            delayed.extend(due_ms.filter(|due_ms| *due_ms > now_ms).map(|due_ms| (entry.seq, due_ms)));
            entries.push(entry);
        }
        let end = index + messages;
        let next = block.next.map(|next| (Load { run: load.run, block: next }, end));
        if !self.ready.loaded(level, entries, next) {
            // The remaining messages of the run are gone.
            self.journal.runs.take_rest(load.run, end);
        }
        // Until a run from before a restart is read, its delayed messages count as ready.
        for (seq, due_ms) in delayed {
            self.ready.take(seq).into_iter().for_each(|entry| self.delayed.add(entry, due_ms));
        }
    }

    /// Restores bodies that were freed and are needed again.
    fn fill(&mut self, level: usize, load: Load, mut block: Block) {
        if let Some(leaving) = self.leaving.made() {
            block.messages.retain(|loaded| !leaving.fill(load.run, loaded));
        }
        self.ready.fill(level, load, block.messages);
    }

    /// Requests a block, unless one is being read.
    pub(super) fn load(&mut self, load: Load, out: &mut Output) {
        if self.reading.is_none() {
            self.reading = Some(load);
            out.loads.push(load);
        }
    }

    /// Returns whether this consumer has unused credit only because a message must be read first.
    pub(super) fn waits(&mut self, slot: Slot) -> bool {
        let reading = self.reading.is_some() && !self.ready.is_empty();
        let consumer = self.consumers.get(slot);
        reading && consumer.standing == Standing::Serving && consumer.grant.credit > 0
    }

    /// Delivers up to the wanted number of messages. Waits if the next one must be read from the disk.
    pub(super) fn fetch(&mut self, mut fetch: Fetch, now_ms: u64, out: &mut Output) {
        let Fetch { ticket, holder, known, n, settled, .. } = fetch;
        let slot = self.consumers.hold(holder);
        let mut counted = 0;
        while fetch.deliveries.len() < n as usize
            && let Some(entry) = self.take_head(now_ms, out)
        {
            let delivery = lend(self.consumers.get(slot), &entry, &self.journal.acquired).to_delivery();
            let message = self.journal.shown(&entry).unwrap_or(delivery.message);
            fetch.deliveries.push(Delivery { message, ..delivery });
            counted += u64::from(self.hold(slot, entry, settled, Leave::Fetched));
        }
        if counted > 0 {
            self.seldom.make().count_fetched(counted, settled);
        }
        self.expire(now_ms, out);
        if fetch.deliveries.len() < n as usize && self.ready.missing().is_some() {
            self.seldom.make().fetches.push_back(fetch);
            return;
        }
        // A new holder without unsettled messages is removed at once, so that it need not detach.
        if !known && (settled || fetch.deliveries.is_empty()) {
            self.consumers.remove(slot);
        }
        let ready = self.ready.len();
        out.effects.push(Effect::Fetched { ticket, deliveries: fetch.deliveries, ready });
    }

    /// Answers the waiting fetches, as far as their messages are in memory.
    pub(super) fn serve_fetches(&mut self, now_ms: u64, out: &mut Output) {
        while let Some(fetch) = self.seldom.made().and_then(|seldom| seldom.fetches.pop_front()) {
            if let Some(load) = self.ready.missing() {
                self.load(load, out);
                self.seldom.make().fetches.push_front(fetch);
                break;
            }
            self.fetch(fetch, now_ms, out);
        }
    }

    /// Called when a holder leaves. Its fetches that wait would otherwise take messages for it later, and nobody would
    /// return these. Each is answered without deliveries, because those that it has are requeued with the others.
    pub(super) fn abandon_fetches(&mut self, holder: ConsumerId, out: &mut Output) {
        let Some(seldom) = self.seldom.made() else { return };
        let (abandoned, others) =
            std::mem::take(&mut seldom.fetches).into_iter().partition(|fetch| fetch.holder == holder);
        seldom.fetches = others;
        let ready = self.ready.len();
        for Fetch { ticket, .. } in VecDeque::into_iter(abandoned) {
            out.effects.push(Effect::Fetched { ticket, deliveries: Vec::new(), ready });
        }
    }

    /// Answers the waiting grants, if nothing must be read any more.
    pub(super) fn answer_waiting_grants(&mut self, out: &mut Output) {
        let grants = self.seldom.made().map(|seldom| std::mem::take(&mut seldom.grants));
        for (consumer, drain) in grants.into_iter().flatten() {
            if let Some(slot) = self.consumers.slot(consumer) {
                self.answer_grant(slot, drain, out);
            }
        }
    }

    /// Checks the age of the next message of a level that is not in memory. If the whole run has expired and there is
    /// no dead-letter exchange, its unread messages are dropped. If some of them may have expired, the block is read.
    /// Returns true if another message must be checked now.
    pub(super) fn expire_away(&mut self, level: usize, now_ms: u64, out: &mut Output) -> bool {
        let Some(head) = self.ready.head(level) else { return false };
        let Some(load) = head.load() else { return false };
        let unread = if let Head::Rest(rest) = head { Some(rest.messages) } else { None };
        let Some(run) = self.journal.runs.get(load.run) else { return false };
        let queue_ttl_ms = self.config.message_ttl_ms;
        let due = |end_ms: Option<u64>| end_ms.is_some_and(|end_ms| end_ms <= now_ms);
        if let Some(messages) = unread
            && self.config.dead_letter.is_none()
            && due(run.ages.latest_ms(queue_ttl_ms))
            && let Some(rest) = self.ready.pop_rest(level)
        {
            self.counts.expired += messages;
            self.counts.dropped += messages;
            self.journal.leave_rest(rest);
            return true;
        }
        if due(run.ages.earliest_ms(queue_ttl_ms)) {
            self.load(load, out);
        }
        false
    }

    /// Returns the runs that have live messages.
    pub fn runs(&self) -> impl Iterator<Item = u32> {
        self.journal.runs.numbers()
    }

    /// Returns the runs that were read to their end, with their share of live messages in thousandths. Their live
    /// messages keep the whole run on the disk.
    pub fn stuck(&self) -> impl Iterator<Item = (u32, u32)> {
        self.journal.runs.read().map(|(number, run)| {
            let share = u64::from(run.living) * 1000 / u64::from(run.messages.max(1));
            (number, share as u32)
        })
    }

    /// Returns the live messages of a run.
    pub fn living(&self, number: u32) -> Option<Living> {
        let run = self.journal.runs.get(number).filter(|_| !self.journal.has_parked_rest(number))?;
        let mut positions: Vec<u32> = self.positions(&[number]).into_iter().map(|(_, index)| index).collect();
        let unread = self.unread(number, run.messages);
        positions.extend((unread..run.messages).filter(|&index| run.is_alive(index)));
        Some(Living { positions, unread })
    }

    /// Called when the live messages of a run, as returned by [`Fifo::living`], were copied safely and in order.
    /// Releases the old run. Returns the number of the new run, or `None` if too much has changed and the copy is not
    /// needed.
    pub fn handle_moved(
        &mut self,
        old: u32,
        living: &Living,
        moved: &[Moved],
        out: &mut Output,
    ) -> Option<u32> {
        let is_whole = self.end.is_none() && !self.journal.has_parked_rest(old);
        let run = self.journal.runs.get(old).filter(|_| is_whole)?;
        let (level, messages) = (run.level, run.messages);
        // A learned fact may have removed messages that were not read.
        let unread = &living.positions[living.positions.partition_point(|at| *at < living.unread)..];
        if self.unread(old, messages) != living.unread || !unread.iter().all(|at| run.is_alive(*at)) {
            return None;
        }
        let new = self.journal.runs.next_number();
        let place = |index: u32| moved.binary_search_by_key(&index, |moved| moved.from).ok();
        let boundary = moved.partition_point(|moved| moved.from < living.unread);
        let mut alive = (moved.len() - boundary) as u32;
        let held = self.consumers.unsettled_mut().flat_map(Unsettled::spots_mut);
        let leaving = self
            .leaving
            .made()
            .into_iter()
            .flat_map(Leaving::iter_mut)
            .filter_map(|entry| entry.spot.as_mut());
        let parked = self.journal.uncommitted.iter_mut().flat_map(|all| all.parked_mut());
        let parked = parked.filter_map(|entry| entry.spot.as_mut());
        let delayed = self.delayed.entries_mut().filter_map(|entry| entry.spot.as_mut());
        let spots = self.ready.spots_mut().chain(held).chain(leaving).chain(parked).chain(delayed);
        for spot in spots.filter(|spot| spot.run == old) {
            let Some(at) = place(spot.index) else { continue };
            *spot = Spot { run: new, block: moved[at].block, index: at as u32 };
            alive += 1;
        }
        if let Some((rest, first)) = self.ready.rest_of(level, old).zip(moved.get(boundary)) {
            (rest.load, rest.index) = (Load { run: new, block: first.block }, boundary as u32);
        }
        let before = self.journal.runs.replace(old, new, moved, alive)?;
        let facts = &mut out.local;
        self.run_facts(&[new], |fact| facts.push(fact));
        if before.journaled {
            let (durable, bytes) = (before.durable, before.bytes);
            facts.push(LocalFact::GoneFromRun(GoneFromRun {
                run: old,
                first: 0,
                last: messages - 1,
                durable,
                bytes,
            }));
        }
        self.journal.flush(out);
        Some(new)
    }

    /// Returns the positions of live messages in these runs that have been read, ascending by run and position.
    fn positions(&self, runs: &[u32]) -> Vec<(u32, u32)> {
        let spots = self.references().map(|reference| reference.spot).filter(|spot| runs.contains(&spot.run));
        let mut positions: Vec<(u32, u32)> = spots.map(|spot| (spot.run, spot.index)).collect();
        positions.sort_unstable();
        positions
    }

    /// Returns the position in a run from which on nothing has been read.
    fn unread(&self, number: u32, messages: u32) -> u32 {
        let parked = self.journal.uncommitted.iter().flat_map(|all| all.parked_rests());
        let rest = self.ready.rests().chain(parked).find(|rest| rest.load.run == number);
        rest.map_or(messages, |rest| rest.index)
    }

    /// Repeats the facts of these runs. They restore the runs without earlier facts.
    pub fn run_facts(&self, runs: &[u32], mut each: impl FnMut(LocalFact)) {
        let here = self.positions(runs);
        for &number in runs {
            let Some(run) = self.journal.runs.get(number) else { continue };
            let first = here.partition_point(|(run, _)| *run < number);
            let of_run = here[first..].iter().take_while(|(run, _)| *run == number);
            let positions: Vec<u32> = of_run.map(|(_, index)| *index).collect();
            let unread = self.unread(number, run.messages);
            let priorities = self.ready.priorities_of(run.level);
            self.journal.runs.repeat(number, priorities, &positions, unread, &mut each);
        }
        let committed =
            self.journal.uncommitted.as_ref().map(|all| all.committed_marks()).unwrap_or_default();
        for reference in self.references().filter(|reference| runs.contains(&reference.spot.run)) {
            let seq = reference.seq;
            let marks = match committed.get(&seq) {
                Some(marks) => marks.clone(),
                None => {
                    let due_ms = self.delayed.due_ms(seq);
                    Marks { due_ms, ..self.journal.marks_of(&Entry::from(reference)) }
                }
            };
            if marks != Marks::default() && reference.journaled() {
                each(LocalFact::Marked { seq, marks });
            }
        }
    }

    /// Iterates over the messages that are in runs and have been read.
    pub(super) fn references(&self) -> impl Iterator<Item = Reference> {
        let leaving = self.leaving.iter().filter_map(Entry::reference);
        let parked =
            self.journal.uncommitted.iter().flat_map(|all| all.parked()).filter_map(Entry::reference);
        let delayed = self.delayed.range(0, u64::MAX).filter_map(|(entry, _)| entry.reference());
        self.ready.references().chain(self.consumers.references()).chain(leaving).chain(parked).chain(delayed)
    }
}
