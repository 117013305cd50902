//! Confirms: the answers to the messages of a channel that has selected them, each in as few methods as its numbers allow.

use std::collections::BTreeMap;

use amqp091::{BasicAck, BasicNack, Connection, Method};
use queue::Verdict;
use ranges::{Range, Ranges};

use crate::intake::{Publication, Run};

/// What is stored of a message until its receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Published {
    /// The client does not want to know what becomes of the message.
    Unconfirmed,
    /// The number of the message, which the client counts, too.
    Confirmed(u64),
    /// The message is part of a transaction, whose commit waits for the receipt.
    Committed,
}

impl Publication for Published {
    fn wants_receipt(&self) -> bool {
        *self != Self::Unconfirmed
    }

    fn is_followed_by(&self, next: &Self) -> bool {
        match (self, next) {
            (Self::Confirmed(one), Self::Confirmed(next)) => one + 1 == *next,
            _ => false,
        }
    }
}

/// The messages from `first` to `last` are all confirmed, or all rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    first: u64,
    last: u64,
    is_ack: bool,
}

impl Range for Answer {
    fn joins(&self, next: &Self) -> bool {
        self.is_ack == next.is_ack && self.last + 1 == next.first
    }

    fn lengthen(&mut self, next: &Self) {
        self.last = next.last;
    }
}

/// The confirms of a channel.
#[derive(Debug, Default)]
pub(super) struct Confirms {
    /// The number of the last message.
    published: u64,
    /// All messages up to this one are answered.
    answered: u64,
    /// Messages after `answered` that are answered already: the last one of each range, by its first.
    ahead: BTreeMap<u64, u64>,
    ahead_len: u64,
    /// The number of messages that were confirmed, not rejected.
    confirmed: u64,
    /// The answers of this turn.
    due: Vec<Answer>,
}

impl Confirms {
    /// Counts a message. Returns its number.
    pub(super) fn publish(&mut self) -> u64 {
        self.published += 1;
        self.published
    }

    /// Forgets the last message, which will be counted again.
    pub(super) fn take_back(&mut self) {
        self.published -= 1;
    }

    /// Returns the number of messages that are not answered.
    pub(super) fn unanswered(&self) -> u64 {
        self.published - self.answered - self.ahead_len
    }

    /// Returns the number of messages that were confirmed, not rejected.
    pub(super) fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Notes that a message reached all its queues, or that it has none.
    pub(super) fn note_ack(&mut self, number: u64) {
        self.confirmed += 1;
        self.due.push_joined(Answer { first: number, last: number, is_ack: true });
    }

    /// Notes the receipts for messages. A message whose queue was deleted is confirmed, as in RabbitMQ. The channel must end if nobody knows an
    /// outcome.
    pub(super) fn note(&mut self, run: Run<Published>) {
        if let (Published::Confirmed(first), Published::Confirmed(last)) = (run.first, run.last) {
            let is_ack = !matches!(run.verdict, Verdict::Rejected(_));
            self.confirmed += if is_ack { last - first + 1 } else { 0 };
            self.due.push_joined(Answer { first, last, is_ack });
        }
    }

    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Sends the answers of this turn. One method answers several messages if all before them are answered, because
    /// `multiple` means all messages up to this one.
    pub(super) fn flush(&mut self, channel: u16, conn: &mut Connection) {
        self.due.sort_unstable_by_key(|answer| answer.first);
        self.due.dedup_by(|next, last| last.join(next));
        for Answer { first, last, is_ack } in self.due.drain(..) {
            let mut send = |delivery_tag: u64, multiple: bool| {
                let method = match is_ack {
                    true => Method::BasicAck(BasicAck { delivery_tag, multiple }),
                    false => Method::BasicNack(BasicNack { delivery_tag, multiple, requeue: false }),
                };
                conn.send(channel, &method);
            };
            if first == self.answered + 1 {
                send(last, last > first);
                self.answered = last;
                while let Some(last) = self.ahead.remove(&(self.answered + 1)) {
                    self.ahead_len -= last - self.answered;
                    self.answered = last;
                }
            } else {
                (first..=last).for_each(|number| send(number, false));
                self.ahead.insert(first, last);
                self.ahead_len += last - first + 1;
            }
        }
    }
}
