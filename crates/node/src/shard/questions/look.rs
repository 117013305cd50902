//! Questions about what a shard alone knows. `shard::looks` has all of them.

use std::any::Any;
use std::fmt::Debug;

use super::AnswerTo;
use crate::shard::Shard;

/// A question about what a shard alone knows. The question and its answer are plain data. The bounds keep boxed closures and channels out:
/// those cannot be cloned.
pub trait Look: Clone + Debug + Send + 'static {
    type Answer: Clone + Debug + Send + 'static;

    /// Returns the number of rows that answering visits. It is at most [`PLACES_PER_PART`](super::PLACES_PER_PART) if the
    /// question has no more ids than this.
    fn rows(&self, shard: &Shard) -> usize;

    fn answer(self, shard: &mut Shard) -> Self::Answer;
}

/// A look, and where its answer goes.
#[derive(Debug)]
pub struct Asked<L: Look> {
    pub look: L,
    pub to: AnswerTo<L::Answer>,
}

/// An [`Asked`] of any type of look.
pub trait AnyLook: Any + Debug + Send {
    fn rows(&self, shard: &Shard) -> usize;

    /// Looks, and sends the answer.
    fn answer(self: Box<Self>, shard: &mut Shard);

    fn is_awaited(&self) -> bool;
}

impl<L: Look> AnyLook for Asked<L> {
    fn rows(&self, shard: &Shard) -> usize {
        self.look.rows(shard)
    }

    fn answer(self: Box<Self>, shard: &mut Shard) {
        let Self { look, to } = *self;
        to.send(look.answer(shard));
    }

    fn is_awaited(&self) -> bool {
        self.to.is_awaited()
    }
}
