//! What the admin API asks of the shards of this node. There are three kinds of questions:
//!
//! | kind | asks | goes to |
//! |---|---|---|
//! | [`Read`] | for what the catalog and the placements contain | the node shard, and never to another node, because each node has a copy |
//! | [`Look`] | for what a shard alone knows, for example the statistics of its queues | each shard. For those of other nodes there is [`Act::LookAt`] |
//! | [`Act`] | for a change of the catalog, a request to a queue, or something else that changes what there is | the shard that begins it |
//!
//! A read is a closure. A look and its answer are plain data, so they can get a form for the wire. Each question has the
//! channel for its answer, whose type says which answer it gets ([`AnswerTo`]).

mod acts;
mod look;
mod read;

use tokio::sync::oneshot;

pub use self::acts::Act;
pub use self::look::{AnyLook, Asked, Look};
pub use self::read::Read;

/// A question to a shard.
#[derive(Debug)]
pub enum Question {
    Read(Read),
    Look(Box<dyn AnyLook>),
    Act(Act),
}

impl Question {
    /// Returns the question for a look.
    pub fn look<L: Look>(look: L, to: AnswerTo<L::Answer>) -> Self {
        Self::Look(Box::new(Asked { look, to }))
    }

    /// Returns false if the asker has given up.
    pub fn is_awaited(&self) -> bool {
        match self {
            Self::Read(read) => read.is_awaited(),
            Self::Look(look) => look.is_awaited(),
            Self::Act(act) => act.is_awaited(),
        }
    }
}

/// Where the answer to a question goes. If it is dropped, the asker learns at once that there will be no answer.
#[derive(Debug)]
pub struct AnswerTo<T> {
    /// The number of the question. A shard is told this number when nobody waits for the answer any more.
    pub number: u64,
    channel: oneshot::Sender<T>,
}

impl<T> AnswerTo<T> {
    /// Returns the way of the answer to the question of this number, and its receiver. Open questions of a shard have different
    /// numbers.
    pub fn new(number: u64) -> (Self, oneshot::Receiver<T>) {
        let (channel, answer) = oneshot::channel();
        (Self { number, channel }, answer)
    }

    /// Returns false if the asker has given up.
    pub fn is_awaited(&self) -> bool {
        !self.channel.is_closed()
    }

    /// Passes the answer to the asker, if it has not given up.
    pub fn send(self, answer: T) {
        drop(self.channel.send(answer));
    }
}

/// A part of a list that is read in parts. A part covers at most [`PLACES_PER_PART`] places.
///
/// An entry that stays in its place while all parts are read is in the list once. An entry that is added or
/// removed meanwhile may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<T, P = usize> {
    pub rows: Vec<T>,
    /// The place where the next part begins; `None` after the last part.
    pub next: Option<P>,
}

/// The most places that a shard visits for one question, and the most ids in one question. In each turn a
/// shard answers at least one question of this size. Further questions may wait for the next turn. All policies, all parameters and all
/// virtual hosts are read at once: there are few.
pub const PLACES_PER_PART: usize = 500;

impl<T> Part<T> {
    /// Returns the rows from place `from` on, of a table with `places` places.
    pub fn of(from: usize, places: usize, row: impl FnMut(usize) -> Option<T>) -> Self {
        let end = places.min(from.saturating_add(PLACES_PER_PART));
        Self { rows: (from..end).filter_map(row).collect(), next: (end < places).then_some(end) }
    }

    /// Returns the number of places that the part from place `from` on covers, of a table with `places` places.
    pub fn len_of(from: usize, places: usize) -> usize {
        places.saturating_sub(from).min(PLACES_PER_PART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_up_the_table() {
        let (places, mut from, mut rows, mut parts) = (2 * PLACES_PER_PART + 1, 0, Vec::new(), 0);
        loop {
            let part = Part::of(from, places, |place| (place % 2 == 0).then_some(place));
            (parts, rows) = (parts + 1, [rows, part.rows].concat());
            let Some(next) = part.next else { break };
            from = next;
        }
        assert_eq!((parts, rows), (3, (0..places).step_by(2).collect::<Vec<_>>()));
        assert_eq!(Part::of(5, 3, Some), Part { rows: Vec::new(), next: None });
        let covered =
            [0, PLACES_PER_PART, places - 1, places, places + 9].map(|from| Part::<()>::len_of(from, places));
        assert_eq!(covered, [PLACES_PER_PART, PLACES_PER_PART, 1, 0, 0]);
    }

    #[test]
    fn an_answer_reaches_its_asker() {
        let ((first, of_first), (second, mut of_second)) = (AnswerTo::new(1), AnswerTo::new(2));
        second.send(2);
        assert_eq!(of_second.try_recv(), Ok(2));
        assert!(first.is_awaited());
        drop(of_first);
        assert!(!first.is_awaited());
        first.send(1);
    }
}
