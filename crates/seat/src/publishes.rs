//! The publishes that are not answered yet.

use std::collections::VecDeque;
use std::sync::Arc;

use catalog::ids::QueueId;
use catalog::reply_to::ReplyTo;
use queue::{Publish, PublisherId};

use crate::codec::{put_publish, put_reply};

/// Where a message goes.
#[derive(Clone, Debug)]
pub enum To {
    Queue(QueueId),
    /// A link that takes replies.
    Reply(ReplyTo, Arc<str>),
}

/// A publish without an answer.
#[derive(Clone, Debug)]
pub struct Kept {
    pub to: To,
    pub publish: Publish,
}

impl Kept {
    /// Returns the queue that the message goes to. A link that takes replies is none.
    pub fn queue(&self) -> QueueId {
        match self.to {
            To::Queue(queue) => queue,
            To::Reply(..) => QueueId::NONE,
        }
    }

    /// Returns who has published it, and its number there.
    pub(crate) fn source(&self) -> (PublisherId, u64) {
        (self.publish.publisher, self.publish.seq)
    }

    /// Appends the item with which it is sent.
    pub(crate) fn put(&self, number: u64, out: &mut Vec<u8>) {
        let Publish { pipelines, ref message, .. } = self.publish;
        match &self.to {
            To::Queue(queue) => put_publish(*queue, number, pipelines, message, out),
            To::Reply(to, vhost) => put_reply((*to, vhost), number, message, out),
        }
    }
}

/// A publish without an answer, as the session has it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) kept: Kept,
    /// It was sent, in this session or in one that was lost when the other node started again. So it may be stored there.
    pub(crate) is_in_doubt: bool,
    /// It was sent again after the other node had started again. A refusal says nothing about the first copy.
    pub(crate) is_repeated: bool,
}

/// The publishes of a session, by their numbers, which count from 1.
#[derive(Debug, Default)]
pub(crate) struct Publishes {
    /// Those from the oldest on that has no answer.
    rows: VecDeque<Option<Row>>,
    /// How many are left of `rows`.
    before: u64,
}

impl Publishes {
    /// Adds a publish, and returns its number.
    pub(crate) fn add(&mut self, row: Row) -> u64 {
        self.rows.push_back(Some(row));
        self.before + self.rows.len() as u64
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.before + 1)?).ok()
    }

    /// Returns a publish that is not answered.
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Row> {
        let place = self.place(number)?;
        self.rows.get_mut(place)?.as_mut()
    }

    /// Takes a publish that is answered now.
    pub(crate) fn take(&mut self, number: u64) -> Option<Row> {
        let place = self.place(number)?;
        let row = self.rows.get_mut(place)?.take();
        while let Some(None) = self.rows.front() {
            self.rows.pop_front();
            self.before += 1;
        }
        row
    }

    /// Returns how many numbers were given.
    pub(crate) fn last(&self) -> u64 {
        self.before + self.rows.len() as u64
    }

    /// Returns true if all are answered.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes all that are left, in their order.
    pub(crate) fn into_rows(self) -> impl Iterator<Item = Row> {
        self.rows.into_iter().flatten()
    }
}
