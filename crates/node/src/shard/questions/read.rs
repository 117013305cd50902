//! Questions that the node shard answers from its copy of the catalog and from the placements.

use std::fmt;

use broker::placements::Placements;
use catalog::Catalog;

use super::AnswerTo;

/// A question that the catalog and the placements of the node shard answer. See the module above.
pub struct Read(Box<dyn AnyReading>);

impl Read {
    /// Creates a read. `rows` returns the number of rows that it visits; they are counted among those of its turn.
    pub fn new<R: Send + 'static>(
        rows: impl Fn(&Catalog) -> usize + Send + 'static,
        read: impl FnOnce(&Catalog, &Placements) -> R + Send + 'static,
        to: AnswerTo<R>,
    ) -> Self {
        Self(Box::new(Reading { rows, read, to }))
    }

    pub(crate) fn rows(&self, catalog: &Catalog) -> usize {
        self.0.rows(catalog)
    }

    /// Reads, and sends the answer.
    pub(crate) fn answer(self, catalog: &Catalog, placements: &Placements) {
        self.0.answer(catalog, placements);
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.0.is_awaited()
    }
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Read")
    }
}

/// What a read consists of.
struct Reading<N, F, R> {
    rows: N,
    read: F,
    to: AnswerTo<R>,
}

/// A [`Reading`] of any type.
trait AnyReading: Send {
    fn rows(&self, catalog: &Catalog) -> usize;
    fn answer(self: Box<Self>, catalog: &Catalog, placements: &Placements);
    fn is_awaited(&self) -> bool;
}

impl<N, F, R> AnyReading for Reading<N, F, R>
where
    N: Fn(&Catalog) -> usize + Send,
    F: FnOnce(&Catalog, &Placements) -> R + Send,
    R: Send,
{
    fn rows(&self, catalog: &Catalog) -> usize {
        (self.rows)(catalog)
    }

    fn answer(self: Box<Self>, catalog: &Catalog, placements: &Placements) {
        self.to.send((self.read)(catalog, placements));
    }

    fn is_awaited(&self) -> bool {
        self.to.is_awaited()
    }
}
