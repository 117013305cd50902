//! A naive model of a queue: one list of messages, which is searched from the start for everything.
//!
//! It has no bound on the number of dead letters. No test here reaches that bound.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use message::{Annotations, DeathReason, Message};

use crate::{Arrival, Config, Outcome, Overflow};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Ready,
    Held {
        consumer: u64,
        number: u64,
    },
    Leaving {
        token: u64,
    },
    /// A refused dead letter that will be sent again.
    Waits {
        due_ms: u64,
        reason: DeathReason,
    },
}

impl Stage {
    pub(super) fn is_dead(self) -> bool {
        matches!(self, Self::Leaving { .. } | Self::Waits { .. })
    }
}

/// Annotations, in the form that [`note`] makes.
pub(super) type Notes = BTreeMap<String, u32>;

/// The size of an encoded section before its pairs, in bytes.
const SECTION_HEAD: usize = 12;

/// Returns one annotation. `key` starts with `x-`.
pub(super) fn note(key: &str, value: u32) -> Annotations {
    let mut section = b"\x00\x53\x72\xd1\0\0\0".to_vec();
    section.push(4 + 2 + key.len() as u8 + 5);
    section.extend_from_slice(b"\0\0\0\x02\xa3");
    section.push(key.len() as u8);
    section.extend_from_slice(key.as_bytes());
    section.push(0x70);
    section.extend_from_slice(&value.to_be_bytes());
    Annotations::from_section(section.into()).unwrap()
}

/// Returns the annotations in an encoded section, which may be empty.
pub(super) fn notes(section: &[u8]) -> Notes {
    let mut pairs = section.get(SECTION_HEAD..).unwrap_or_default();
    let mut notes = Notes::new();
    while !pairs.is_empty() {
        let (key, rest) = pairs[2..].split_at(pairs[1].into());
        let (value, rest) = rest[1..].split_at(4);
        notes.insert(String::from_utf8(key.to_vec()).unwrap(), u32::from_be_bytes(value.try_into().unwrap()));
        pairs = rest;
    }
    notes
}

#[derive(Clone, Debug)]
pub(super) struct Item {
    /// 0 for a message that the queue did not accept.
    pub seq: u64,
    /// The publish of the message.
    pub publish: u64,
    message: Message,
    pub place: Stage,
    pub level: u8,
    pub len: u64,
    pub dies_ms: Option<u64>,
    pub count: u32,
    pub again: bool,
    /// The annotations that consumers have set.
    pub notes: Notes,
    reason: DeathReason,
}

#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub id: u64,
    pub priority: i32,
    pub settled: bool,
    /// The size of the largest delivery that it accepts, in bytes.
    pub bytes_max: Option<u64>,
    /// True for a consumer. False if it was cancelled, or only fetches.
    pub live: bool,
    pub serial: u64,
    pub credit: u64,
    pub numbers: u64,
}

/// An expected output of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    Receipt { publish: u64, taken: bool },
    Delivery { consumer: u64, number: u64, seq: u64, count: u32, again: bool, notes: Notes },
    Credit { consumer: u64, serial: u32, credit: u32, available: u32, drained: bool },
    Dead { token: u64, publish: u64, reason: DeathReason, notes: Notes },
    Done { messages: u64 },
}

pub(super) struct Model {
    config: Config,
    pub items: Vec<Item>,
    /// In order of attachment.
    pub readers: Vec<Reader>,
    /// The ids of the consumers that can be served. The one that has waited longest is first.
    turns: Vec<u64>,
    active: Option<u64>,
    next_seq: u64,
    tokens: u64,
    pub observed: Vec<Observed>,
    pub accepted: u64,
    pub dropped: u64,
    pub dead_lettered: u64,
    pub expired: u64,
    pub purged: u64,
}

impl Model {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            items: vec![],
            readers: vec![],
            turns: vec![],
            active: None,
            next_seq: 1,
            tokens: 0,
            observed: vec![],
            accepted: 0,
            dropped: 0,
            dead_lettered: 0,
            expired: 0,
            purged: 0,
        }
    }

    pub(super) fn published(&self) -> u64 {
        self.next_seq - 1
    }

    pub(super) fn reader(&mut self, id: u64) -> &mut Reader {
        self.readers.iter_mut().find(|reader| reader.id == id).unwrap()
    }

    pub(super) fn in_place(&self, test: impl Fn(Stage) -> bool) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(move |item| test(item.place))
    }

    pub(super) fn ready(&self) -> u64 {
        self.in_place(|place| place == Stage::Ready).count() as u64
    }

    pub(super) fn publish(&mut self, publish: u64, message: &Message, now_ms: u64) {
        let (message, len) = (message.clone(), message.len());
        let level = message.priority().unwrap_or(0).min(self.config.max_priority.unwrap_or(0));
        let ttl_ms = message.ttl_ms().into_iter().chain(self.config.message_ttl_ms).min();
        let dies_ms = ttl_ms.map(|ttl_ms| now_ms + ttl_ms);
        let reason = DeathReason::MaxLength;
        let (place, count, again, notes) = (Stage::Ready, 0, false, Notes::new());
        let mut item =
            Item { seq: 0, publish, message, place, level, len, dies_ms, count, again, notes, reason };
        let bytes: u64 = self.in_place(|place| place == Stage::Ready).map(|item| item.len).sum();
        let counts = self.insists() && self.config.overflow == Overflow::RejectPublish;
        let kept = if counts { self.in_place(Stage::is_dead).count() as u64 } else { 0 };
        let full = self.config.max_length.is_some_and(|max| self.ready() + kept + 1 > max)
            || self.config.max_length_bytes.is_some_and(|max| bytes + len > max);
        if full && self.config.overflow != Overflow::DropHead {
            self.observed.push(Observed::Receipt { publish, taken: false });
            if self.config.overflow == Overflow::RejectPublishDlx && self.config.dead_letter.is_some() {
                self.kill(item, reason);
            }
            return;
        }
        self.observed.push(Observed::Receipt { publish, taken: true });
        item.seq = self.next_seq;
        self.next_seq += 1;
        self.items.push(item);
        // A waiting consumer gets the message before a limit applies.
        if self.ready() == 1 {
            self.dispatch_one();
        }
        self.shed();
        self.dispatch(now_ms);
    }

    pub(super) fn attach(
        &mut self,
        id: u64,
        priority: i32,
        settled: bool,
        serial: u64,
        bytes_max: Option<u64>,
    ) {
        self.readers.push(Reader {
            id,
            priority,
            settled,
            bytes_max,
            live: true,
            serial,
            credit: 0,
            numbers: 0,
        });
        if self.config.single_active_consumer && self.active.is_none() {
            self.active = Some(id);
        }
    }

    pub(super) fn grant(&mut self, id: u64, serial: u64, credit: u64, drain: bool, echo: bool, now_ms: u64) {
        let reader = self.reader(id);
        reader.credit = (serial + credit).saturating_sub(reader.serial);
        if !reader.live && !drain {
            reader.credit = 0;
        }
        self.dispatch(now_ms);
        if drain {
            self.turns.retain(|turn| *turn != id);
            let reader = self.reader(id);
            reader.serial += reader.credit;
            reader.credit = 0;
        }
        if drain || echo {
            let reader = self.reader(id);
            let (serial, credit) = (reader.serial as u32, reader.credit as u32);
            let serves = reader.live && (!self.config.single_active_consumer || self.active == Some(id));
            let available = if serves { self.ready() as u32 } else { 0 };
            self.observed.push(Observed::Credit { consumer: id, serial, credit, available, drained: drain });
        }
    }

    pub(super) fn settle(&mut self, id: u64, first: u64, last: u64, outcome: &Outcome, now_ms: u64) {
        let range = |place| {
            matches!(place, Stage::Held { consumer, number } if consumer == id
            && first <= number && number <= last)
        };
        let mut taken = self.remove(range);
        taken.sort_by_key(|item| item.place_number());
        if let Outcome::Modified { annotations: Some(annotations), .. } = outcome {
            let notes = notes(annotations.as_section());
            for item in &mut taken {
                item.notes.extend(notes.clone());
                item.message = item.message.annotated(annotations);
            }
        }
        match *outcome {
            Outcome::Accepted => self.accepted += taken.len() as u64,
            Outcome::Released => self.requeue(marked(taken, false), now_ms),
            Outcome::Unsent => self.requeue(taken, now_ms),
            Outcome::Modified { failed, undeliverable_here: false, .. } => {
                self.requeue(marked(taken, failed), now_ms)
            }
            Outcome::Modified { failed, undeliverable_here: true, .. } => self.reject(taken, failed),
            Outcome::Rejected => self.reject(taken, true),
        }
    }

    pub(super) fn cancel(&mut self, id: u64, now_ms: u64) {
        self.retire(id);
        self.dispatch(now_ms);
    }

    pub(super) fn detach(&mut self, id: u64, failed: bool, now_ms: u64) {
        self.retire(id);
        let taken = self.remove(|place| matches!(place, Stage::Held { consumer, .. } if consumer == id));
        self.readers.retain(|reader| reader.id != id);
        self.requeue(marked(taken, failed), now_ms);
    }

    pub(super) fn fetch(&mut self, id: u64, n: u32, settled: bool, now_ms: u64) {
        if !self.readers.iter().any(|reader| reader.id == id) {
            self.attach_holder(id);
        }
        for _ in 0..n {
            self.expire(now_ms);
            let Some(at) = self.head() else { break };
            self.hand_over(at, id, settled);
        }
        self.expire(now_ms);
    }

    pub(super) fn dead_letter_answer(&mut self, token: u64, arrival: Arrival, now_ms: u64, retry_ms: u64) {
        let Some(at) = self.items.iter().position(|item| item.place == (Stage::Leaving { token })) else {
            return;
        };
        let insists = self.insists();
        if arrival == Arrival::Unavailable || arrival == Arrival::Refused && insists {
            // After those that were refused before.
            let mut item = self.items.remove(at);
            item.place = Stage::Waits { due_ms: now_ms + retry_ms, reason: item.reason };
            self.items.push(item);
        } else {
            self.items.remove(at);
            let taken = arrival == Arrival::Taken;
            let count = if taken { &mut self.dead_lettered } else { &mut self.dropped };
            *count += 1;
        }
    }

    pub(super) fn purge(&mut self) {
        let messages = self.remove(|place| place == Stage::Ready).len() as u64;
        self.purged += messages;
        if self.insists() {
            let dead = self.remove(Stage::is_dead);
            // The queue never accepted those without a number.
            self.purged += dead.iter().filter(|item| item.seq > 0).count() as u64;
        }
        self.observed.push(Observed::Done { messages });
    }

    pub(super) fn timeout(&mut self, now_ms: u64) {
        for item in self.remove(|place| matches!(place, Stage::Waits { due_ms, .. } if due_ms <= now_ms)) {
            let reason = item.reason;
            self.kill(item, reason);
        }
        self.expire(now_ms);
    }

    /// Expires the head of each level while it is too old.
    pub(super) fn expire(&mut self, now_ms: u64) {
        let ready = self.items.iter().filter(|item| item.place == Stage::Ready);
        let levels: BTreeSet<u8> = ready.map(|item| item.level).collect();
        for level in levels.into_iter().rev() {
            let head_of_level = |items: &[Item]| {
                (0..items.len())
                    .filter(|&i| items[i].place == Stage::Ready && items[i].level == level)
                    .min_by_key(|&i| items[i].seq)
            };
            while let Some(at) = head_of_level(&self.items)
                && self.items[at].dies_ms.is_some_and(|dies_ms| dies_ms <= now_ms)
            {
                self.expired += 1;
                let item = self.items.remove(at);
                self.kill(item, DeathReason::Expired);
            }
        }
    }

    fn insists(&self) -> bool {
        self.config.dead_letter.as_ref().is_some_and(|to| to.at_least_once)
    }

    fn attach_holder(&mut self, id: u64) {
        self.readers.push(Reader {
            id,
            priority: 0,
            settled: false,
            bytes_max: None,
            live: false,
            serial: 0,
            credit: 0,
            numbers: 0,
        });
    }

    fn head(&self) -> Option<usize> {
        (0..self.items.len())
            .filter(|&i| self.items[i].place == Stage::Ready)
            .min_by_key(|&i| (Reverse(self.items[i].level), self.items[i].seq))
    }

    pub(super) fn dispatch(&mut self, now_ms: u64) {
        loop {
            self.expire(now_ms);
            if !self.dispatch_one() {
                return;
            }
        }
    }

    fn dispatch_one(&mut self) -> bool {
        let single = self.config.single_active_consumer;
        let active = self.active;
        let can =
            |reader: &Reader| reader.live && reader.credit > 0 && (!single || active == Some(reader.id));
        let mut able: Vec<&Reader> = self.readers.iter().filter(|reader| can(reader)).collect();
        self.turns.retain(|id| able.iter().any(|reader| reader.id == *id));
        for reader in &able {
            if !self.turns.contains(&reader.id) {
                self.turns.push(reader.id);
            }
        }
        let Some(at) = self.head() else { return false };
        let item = &self.items[at];
        let bytes = item.message.delivery_bytes(item.count, item.again);
        able.retain(|reader| reader.bytes_max.is_none_or(|max| bytes <= max));
        let Some(highest) = able.iter().map(|reader| reader.priority).max() else { return false };
        let is_highest = |id: u64| able.iter().any(|r| r.id == id && r.priority == highest);
        let turn = self.turns.iter().position(|id| is_highest(*id)).unwrap();
        let id = self.turns.remove(turn);
        let reader = self.reader(id);
        reader.credit -= 1;
        reader.serial += 1;
        if reader.credit > 0 {
            self.turns.push(id);
        }
        let settled = self.reader(id).settled;
        self.hand_over(at, id, settled);
        true
    }

    fn hand_over(&mut self, at: usize, consumer: u64, settled: bool) {
        let reader = self.reader(consumer);
        reader.numbers += 1;
        let number = reader.numbers;
        let Item { seq, count, again, ref notes, .. } = self.items[at];
        self.observed.push(Observed::Delivery { consumer, number, seq, count, again, notes: notes.clone() });
        if settled {
            self.accepted += 1;
            self.items.remove(at);
        } else {
            self.items[at].place = Stage::Held { consumer, number };
        }
    }

    fn shed(&mut self) {
        while self.config.overflow == Overflow::DropHead {
            let bytes: u64 = self.in_place(|place| place == Stage::Ready).map(|item| item.len).sum();
            let over = self.config.max_length.is_some_and(|max| self.ready() > max)
                || self.config.max_length_bytes.is_some_and(|max| bytes > max);
            let Some(at) = self.head().filter(|_| over) else { return };
            let item = self.items.remove(at);
            self.kill(item, DeathReason::MaxLength);
        }
    }

    fn requeue(&mut self, taken: Vec<Item>, now_ms: u64) {
        for mut item in taken {
            item.place = Stage::Ready;
            self.items.push(item);
        }
        self.shed();
        self.dispatch(now_ms);
    }

    fn reject(&mut self, taken: Vec<Item>, failed: bool) {
        for item in marked(taken, failed) {
            self.kill(item, DeathReason::Rejected);
        }
    }

    fn kill(&mut self, mut item: Item, reason: DeathReason) {
        if self.config.dead_letter.is_none() {
            self.dropped += 1;
            return;
        }
        self.tokens += 1;
        let token = self.tokens;
        let notes = item.notes.clone();
        self.observed.push(Observed::Dead { token, publish: item.publish, reason, notes });
        (item.place, item.reason) = (Stage::Leaving { token }, reason);
        self.items.push(item);
    }

    fn retire(&mut self, id: u64) {
        self.turns.retain(|turn| *turn != id);
        let reader = self.reader(id);
        (reader.live, reader.credit) = (false, 0);
        if self.active == Some(id) {
            let live = self.readers.iter().filter(|reader| reader.live);
            self.active = live.min_by_key(|reader| Reverse(reader.priority)).map(|reader| reader.id);
        }
    }

    fn remove(&mut self, test: impl Fn(Stage) -> bool) -> Vec<Item> {
        let (taken, rest) = std::mem::take(&mut self.items).into_iter().partition(|item| test(item.place));
        self.items = rest;
        taken
    }
}

/// Marks messages whose delivery was not successful.
fn marked(mut taken: Vec<Item>, failed: bool) -> Vec<Item> {
    for item in &mut taken {
        item.again = true;
        item.count += u32::from(failed);
    }
    taken
}

impl Item {
    fn place_number(&self) -> u64 {
        match self.place {
            Stage::Held { number, .. } => number,
            _ => 0,
        }
    }
}
