//! Browsers: consumers that look at the ready messages and take none.
//!
//! A browser passes the ready messages in the order of their delivery, each once, up to the last one that the queue had when
//! it attached. It remembers the place of the message that it passed last, and nothing else. So it does not matter what is taken
//! or requeued meanwhile: a message is shown if it is ready when the browser comes to its place. The browser also passes the
//! places of messages that have expired or are too large for it, without showing them.
//!
//! A browser is served when it grants credit, and when a block was read for it. It gets at most [`PEEK_BYTES_MAX`] for one grant,
//! apart from the last message. Then its remaining credit is used up, so that it grants again when its peer has room.

use std::borrow::Cow;
use std::collections::BTreeMap;

use message::{DeliveryMax, Message};

use super::Fifo;
use super::entry::{Entry, Reference, Spot};
use super::level::{Head, Level, Rest};
use super::peek::{PEEK_BYTES_MAX, PEEK_STEPS_MAX, PeekBlock};
use super::{Output, offer};
use crate::grant::Grant;
use crate::{
    Attach, Block, ConsumerId, CreditState, Deliver, DeliveryRef, Effect, GoneReason, Load, Loaded, Refusal,
    Requester,
};

/// The most browsers of one queue. Each may keep some [`PEEK_BYTES_MAX`] of messages in memory that the queue has lost.
pub(super) const BROWSERS_MAX: usize = 64;

/// A block that must be read for a browser, and passed to [`Fifo::handle_browsed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrowserLoad {
    pub consumer: ConsumerId,
    pub block: PeekBlock,
}

pub(super) struct Browser {
    id: ConsumerId,
    grant: Grant,
    /// The place of the message that it passed last. Before the first one, it is above all levels.
    level: usize,
    seq: u64,
    /// The messages from this sequence number on were published after its attach.
    end: u64,
    next_number: u64,
    message_bytes_max: Option<DeliveryMax>,
    /// The block in which the last message was found. It saves reading those before it.
    hint: Option<PeekBlock>,
    /// Unread parts of runs that were looked into and had nothing to show then, by run and first block: the sequence number of
    /// the first message of each that the browser has not passed, or `u64::MAX`. Without it, two places that need different
    /// blocks could be looked at for ever in turn.
    ahead: BTreeMap<(u32, u32), u64>,
    /// The block that it waits for.
    waits: Option<PeekBlock>,
    drain: bool,
    /// True if the last grant is to be answered.
    asks: bool,
}

impl Browser {
    pub(super) fn id(&self) -> ConsumerId {
        self.id
    }
}

/// Why a browser gets no more for now.
#[derive(Clone, Copy)]
enum Stop {
    /// It has passed everything that it gets.
    End,
    NoCredit,
    /// It has got enough bytes for one grant.
    Enough,
    Disk(PeekBlock),
}

/// What comes next for a browser.
enum Next<'a> {
    Found(Found<'a>),
    Disk(PeekBlock),
}

/// A message with the counts of its delivery.
struct Found<'a> {
    entry: Cow<'a, Entry>,
    /// The message with the annotations that consumers have set, if there are any.
    shown: Option<Message>,
    acquired_count: u32,
}

/// The block that was read for a browser.
type Read<'a> = Option<(PeekBlock, &'a Block)>;

impl Fifo {
    /// Adds a browser. It is no consumer for anything that counts consumers, and its attach is no use of the queue.
    pub(super) fn attach_browser(&mut self, attach: &Attach, out: &mut Output) {
        let consumer = attach.consumer;
        let end = self.next_seq;
        let browsers = &mut self.seldom.make().browsers;
        let why = if browsers.iter().any(|browser| browser.id == consumer) {
            Refusal::InUse
        } else if browsers.len() >= BROWSERS_MAX {
            Refusal::TooManyBrowsers
        } else {
            browsers.push(Browser {
                id: consumer,
                grant: Grant::new(attach.delivery_count),
                level: usize::MAX,
                seq: 0,
                end,
                next_number: 1,
                message_bytes_max: attach.message_bytes_max,
                hint: None,
                ahead: BTreeMap::new(),
                waits: None,
                drain: false,
                asks: false,
            });
            return out.effects.push(Effect::Attached { consumer });
        };
        out.effects.push(Effect::Refused { requester: Requester::Consumer(consumer), why });
    }

    /// Removes a browser. Returns false if there is none of this id.
    pub(super) fn remove_browser(&mut self, id: ConsumerId, reason: GoneReason, out: &mut Output) -> bool {
        if self.take_browser(id).is_none() {
            return false;
        }
        out.effects.push(Effect::Gone { consumer: id, reason });
        true
    }

    /// Sets the credit of a browser and serves it. Does nothing if there is none of this id.
    pub(super) fn grant_browser(
        &mut self,
        id: ConsumerId,
        (delivery_count, credit): (u32, u32),
        (drain, echo): (bool, bool),
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        let Some(mut browser) = self.take_browser(id) else { return };
        browser.grant.replace(delivery_count, credit);
        browser.drain = drain;
        browser.asks |= drain || echo;
        if browser.waits.is_none() {
            self.serve_browser(&mut browser, None, now_ms, out, deliver);
        }
        self.seldom.make().browsers.push(browser);
    }

    /// Called when a block was read for a browser. `block` is `None` if it is not there any more: its run is gone, or was
    /// moved. Then the browser looks again.
    pub fn handle_browsed(
        &mut self,
        load: BrowserLoad,
        block: Option<&Block>,
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        let Some(mut browser) = self.take_browser(load.consumer) else { return };
        if browser.waits == Some(load.block) {
            browser.waits = None;
            let read = block.map(|block| (load.block, block));
            self.serve_browser(&mut browser, read, now_ms, out, deliver);
        }
        self.seldom.make().browsers.push(browser);
    }

    fn take_browser(&mut self, id: ConsumerId) -> Option<Browser> {
        let browsers = &mut self.seldom.made()?.browsers;
        let at = browsers.iter().position(|browser| browser.id == id)?;
        Some(browsers.swap_remove(at))
    }

    fn serve_browser(
        &self,
        browser: &mut Browser,
        read: Read<'_>,
        now_ms: u64,
        out: &mut Output,
        deliver: &mut dyn Deliver,
    ) {
        browser.hint = read.map(|(at, _)| at).or(browser.hint);
        browser.ahead.retain(|(run, _), _| self.journal.runs.get(*run).is_some());
        let (mut bytes, mut steps) = (0, 0);
        let stop = loop {
            let (level, found) = match self.next_of(browser, read) {
                None => break Stop::End,
                Some(_) if browser.grant.credit == 0 => break Stop::NoCredit,
                Some(_) if bytes >= PEEK_BYTES_MAX || steps >= PEEK_STEPS_MAX => break Stop::Enough,
                Some((_, Next::Disk(block))) => break Stop::Disk(block),
                Some((level, Next::Found(found))) => (level, found),
            };
            steps += 1;
            (browser.level, browser.seq) = (level, found.entry.seq);
            if let Some(lent) = self.lend_to_browser(browser, &found, now_ms) {
                bytes += lent.message.bytes_in_memory();
                offer(lent, out, deliver);
                browser.grant.spend();
                browser.next_number += 1;
            }
        };
        self.answer_browser(browser, stop, out);
    }

    /// Returns the delivery of a message, unless it has expired or is larger than the browser accepts.
    fn lend_to_browser<'a>(
        &self,
        browser: &Browser,
        found: &'a Found<'_>,
        now_ms: u64,
    ) -> Option<DeliveryRef<'a>> {
        let Found { entry, shown, acquired_count } = found;
        let is_expired = entry.expires_ms(self.config.message_ttl_ms).is_some_and(|at_ms| at_ms <= now_ms);
        let message = shown.as_ref().or(entry.message()).filter(|_| !is_expired)?;
        let fits = |max| message.fits(max, entry.delivery_count, entry.redelivered);
        browser.message_bytes_max.is_none_or(fits).then_some(DeliveryRef {
            consumer: browser.id,
            number: browser.next_number,
            seq: entry.seq,
            message,
            delivery_count: entry.delivery_count,
            acquired_count: *acquired_count,
        })
    }

    fn answer_browser(&self, browser: &mut Browser, stop: Stop, out: &mut Output) {
        let available = u32::try_from(self.ready.len()).unwrap_or(u32::MAX).max(1);
        let (available, drained) = match stop {
            Stop::Disk(block) => {
                browser.waits = Some(block);
                out.browser_loads.push(BrowserLoad { consumer: browser.id, block });
                return;
            }
            Stop::End => (0, browser.drain),
            Stop::NoCredit => (available, browser.drain),
            // The answer is sent whether it was asked for or not: it takes credit back.
            Stop::Enough => (available, false),
        };
        let takes_back = matches!(stop, Stop::Enough);
        if drained || takes_back {
            browser.grant.drain();
        }
        if std::mem::take(&mut browser.asks) || takes_back {
            let Grant { delivery_count, credit } = browser.grant;
            let state = CreditState { delivery_count, credit, available, drained };
            out.effects.push(Effect::CreditState { consumer: browser.id, state });
        }
    }

    /// Returns the next message for a browser and its level, or the block that must be read to find it.
    fn next_of<'a>(&'a self, browser: &mut Browser, read: Read<'a>) -> Option<(usize, Next<'a>)> {
        let highest = browser.level;
        self.ready.occupied().filter(|level| *level <= highest).find_map(|at| {
            let level = self.ready.level(at)??;
            Some((at, self.next_in((at, level), browser, read)?))
        })
    }

    /// As [`Fifo::next_of`], for the messages of one level.
    fn next_in<'a>(
        &'a self,
        (at, level): (usize, &'a Level),
        browser: &mut Browser,
        read: Read<'a>,
    ) -> Option<Next<'a>> {
        let after = if at == browser.level { browser.seq } else { 0 };
        let returned = level.returned_after(after);
        let returned_seq = returned.as_ref().map_or(u64::MAX, Head::seq);
        for head in level.line_after(after).take_while(|head| head.seq() < returned_seq) {
            let Head::Rest(rest) = head else {
                return (head.seq() < browser.end).then(|| self.look_at(head, read)).flatten();
            };
            if self.journal.runs.get(rest.load.run).is_none_or(|run| run.last <= after) {
                continue;
            }
            let part = (rest.load.run, rest.load.block);
            let mut next_seq = browser.ahead.get(&part).copied().unwrap_or(rest.seq);
            if next_seq < returned_seq && next_seq < browser.end {
                match self.look_in(rest, after, browser, read) {
                    Some(Next::Found(found)) if found.entry.seq > returned_seq => next_seq = found.entry.seq,
                    Some(Next::Found(found)) if found.entry.seq >= browser.end => next_seq = found.entry.seq,
                    None => next_seq = u64::MAX,
                    next => return next,
                }
                browser.ahead.insert(part, next_seq);
            }
            if next_seq != u64::MAX {
                break;
            }
        }
        returned.filter(|head| head.seq() < browser.end).and_then(|head| self.look_at(head, read))
    }

    /// Returns a message that has its own entry in the queue.
    fn look_at<'a>(&'a self, head: Head<'a>, read: Read<'a>) -> Option<Next<'a>> {
        let reference = match head {
            Head::Entry(entry) if entry.is_in_memory() => {
                return Some(Next::Found(self.found(Cow::Borrowed(entry))));
            }
            Head::Entry(entry) => entry.reference()?,
            Head::Reference(reference) => reference,
            Head::Rest(_) => return None,
        };
        let Reference { seq, spot, .. } = reference;
        let load = spot.load();
        let body = read.filter(|(at, _)| at.load == load).and_then(|(_, block)| {
            let at = block.messages.binary_search_by_key(&seq, |loaded| loaded.seq).ok()?;
            block.messages.get(at)
        });
        Some(match body {
            Some(Loaded { message, at_ms, .. }) => {
                let entry = reference.filled(message.clone(), *at_ms);
                Next::Found(self.found(Cow::Owned(entry)))
            }
            None => Next::Disk(PeekBlock::new(load, load, 0)),
        })
    }

    fn found<'a>(&self, entry: Cow<'a, Entry>) -> Found<'a> {
        let (shown, acquired_count) = (self.journal.shown(&entry), self.journal.acquired.count(&entry));
        Found { entry, shown, acquired_count }
    }

    /// Returns the next unread message of a run. `None` if there is none after this sequence number.
    fn look_in<'a>(&'a self, rest: &Rest, after: u64, browser: &Browser, read: Read<'a>) -> Option<Next<'a>> {
        let is_of_rest = |at: &PeekBlock| at.begin == rest.load;
        let Some((at, block)) = read.filter(|(at, _)| is_of_rest(at)) else {
            let begin = PeekBlock::new(rest.load, rest.load, rest.index);
            return Some(Next::Disk(browser.hint.filter(is_of_rest).unwrap_or(begin)));
        };
        for (index, Loaded { seq, at_ms, message }) in (at.index..).zip(&block.messages) {
            if *seq <= after {
                continue;
            }
            let spot = Spot { run: at.load.run, block: at.load.block, index };
            let journaled = self.journal.policy.needs_fact(message);
            let entry = Entry { journaled, ..Entry::new(message.clone(), *seq, *at_ms) };
            let Some((entry, marks)) = self.journal.runs.would_take_in(spot, entry) else { continue };
            let shown = marks.annotations.map(|annotations| message.annotated(&annotations));
            // Only the counts above 1 of a quorum queue are among the marks.
            let acquired_count = marks.acquired_count.max(u32::from(entry.redelivered));
            return Some(Next::Found(Found { entry: Cow::Owned(entry), shown, acquired_count }));
        }
        let load = Load { run: at.load.run, block: block.next? };
        Some(Next::Disk(PeekBlock::new(load, at.begin, at.index + block.messages.len() as u32)))
    }
}
