//! The list of all bindings, read in parts.

use std::sync::Arc;

use super::{Binding, Catalog, Destination};

/// A position in the list of all bindings, at which reading the list continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingCursor {
    /// The bindings of the exchange at this place, from this age on.
    Exchange { place: usize, age: u64 },
    /// The binding of the queue at this place with the default exchange.
    Queue { place: usize },
}

impl Default for BindingCursor {
    fn default() -> Self {
        Self::Exchange { place: 0, age: 0 }
    }
}

impl Catalog {
    /// Returns every binding: the declared ones, then the one of each queue with the default exchange.
    pub fn bindings(&self) -> Vec<Arc<Binding>> {
        self.bindings_from(BindingCursor::default(), usize::MAX).0
    }

    /// Returns bindings from the position `from` on, and the position of the rest if there is a rest. Visits
    /// `rows_max` exchanges, queues and bindings together, or one more.
    pub fn bindings_from(
        &self,
        mut from: BindingCursor,
        rows_max: usize,
    ) -> (Vec<Arc<Binding>>, Option<BindingCursor>) {
        let (mut found, mut rows) = (Vec::new(), 0);
        while rows < rows_max {
            rows += 1;
            from = match from {
                BindingCursor::Exchange { place, .. } if place >= self.exchange_places() => {
                    BindingCursor::Queue { place: 0 }
                }
                BindingCursor::Exchange { place, age } => {
                    let mut next = BindingCursor::Exchange { place: place + 1, age: 0 };
                    let table = self.table_at(place);
                    for (age, binding) in table.iter().flat_map(|table| table.bindings.since_age(age)) {
                        found.push(binding.clone());
                        rows += 1;
                        if rows >= rows_max {
                            next = BindingCursor::Exchange { place, age: age + 1 };
                            break;
                        }
                    }
                    next
                }
                BindingCursor::Queue { place } if place >= self.queue_places() => return (found, None),
                BindingCursor::Queue { place } => {
                    found.extend(self.queues.at(place).map(|row| Arc::new(row.record.implied_binding())));
                    BindingCursor::Queue { place: place + 1 }
                }
            };
        }
        (found, Some(from))
    }

    /// Returns the bindings from this exchange to this destination.
    pub fn bindings_between(&self, vhost: &str, source: &str, to: &Destination) -> Vec<Arc<Binding>> {
        let table = self.vhosts.get(vhost).and_then(|v| v.exchanges.get(source));
        table.map(|t| t.bindings.to(to).cloned().collect()).unwrap_or_default()
    }
}
