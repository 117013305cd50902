//! Which messages of a channel wait for their confirm.

use std::collections::VecDeque;

use ranges::{Ranges as _, Span};

/// The unconfirmed messages of a channel in confirm mode. They are kept as ranges of delivery tags, so their memory
/// depends on the gaps that confirms leave and not on the number of messages.
#[derive(Debug, Default)]
pub struct Confirms {
    /// The number of messages that were published. It is also the delivery tag of the newest one.
    published: u64,
    /// In ascending order.
    waiting: VecDeque<Span>,
    waiting_count: u64,
}

/// A confirm for messages that were never published, or that were confirmed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownTag(pub u64);

impl Confirms {
    /// Called for each message that is published. Returns its delivery tag.
    #[inline]
    pub fn publish(&mut self) -> u64 {
        self.published += 1;
        self.waiting_count += 1;
        self.waiting.push_joined(Span { first: self.published, last: self.published });
        self.published
    }

    /// Returns the number of messages that wait for their confirm.
    #[inline]
    pub fn waiting(&self) -> u64 {
        self.waiting_count
    }

    /// Called for `basic.ack` and `basic.nack`, with their fields. Passes each range of tags that is confirmed to `each`.
    /// With `multiple`, the tag 0 stands for all messages.
    ///
    /// # Errors
    /// No message with this tag waits. Nothing is confirmed then.
    pub fn confirm(
        &mut self,
        tag: u64,
        multiple: bool,
        mut each: impl FnMut(Span),
    ) -> Result<(), UnknownTag> {
        let all = multiple && tag == 0;
        let until = if all { self.published } else { tag };
        let at = self.waiting.partition_point(|span| span.last < until);
        let known = self.waiting.get(at).is_some_and(|span| span.first <= until);
        if !known && !all {
            return Err(UnknownTag(tag));
        }
        let whole = if multiple { at } else { 0 };
        let ended = self.waiting.drain(..whole).collect::<Vec<_>>();
        for span in ended {
            self.end(span, &mut each);
        }
        // The range that holds the tag is now the first one with `multiple`, and still at its place without.
        let at = at - whole;
        let Some(span) = self.waiting.get_mut(at).filter(|_| known) else { return Ok(()) };
        let Span { first, last } = *span;
        let ended = Span { first: if multiple { first } else { until }, last: until };
        match (first < ended.first, until < last) {
            (false, false) => _ = self.waiting.remove(at),
            (false, true) => span.first = until + 1,
            (true, false) => span.last = ended.first - 1,
            (true, true) => {
                span.last = ended.first - 1;
                self.waiting.insert(at + 1, Span { first: until + 1, last });
            }
        }
        self.end(ended, &mut each);
        Ok(())
    }

    fn end(&mut self, span: Span, each: &mut impl FnMut(Span)) {
        self.waiting_count -= span.last - span.first + 1;
        each(span);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Publish,
        Confirm { tag: u64, multiple: bool },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            2 => Just(Step::Publish),
            1 => (0..40_u64, any::<bool>()).prop_map(|(tag, multiple)| Step::Confirm { tag, multiple }),
        ]
    }

    proptest! {
        /// Compares the ranges with a set of tags.
        #[test]
        fn every_message_is_confirmed_once(steps in proptest::collection::vec(step(), 0..80)) {
            let (mut confirms, mut model, mut published) = (Confirms::default(), BTreeSet::new(), 0);
            for step in steps {
                match step {
                    Step::Publish => {
                        published += 1;
                        model.insert(published);
                        prop_assert_eq!(confirms.publish(), published);
                    }
                    Step::Confirm { tag, multiple } => {
                        let mut ended = BTreeSet::new();
                        let result = confirms.confirm(tag, multiple, |span| ended.extend(span.first..=span.last));
                        let all = multiple && tag == 0;
                        let expected: BTreeSet<u64> = match () {
                            () if all => std::mem::take(&mut model),
                            () if !model.contains(&tag) => {
                                prop_assert_eq!(result, Err(UnknownTag(tag)));
                                BTreeSet::new()
                            }
                            () if multiple => model.iter().copied().filter(|waiting| *waiting <= tag).collect(),
                            () => [tag].into(),
                        };
                        prop_assert_eq!(&ended, &expected);
                        model.retain(|waiting| !expected.contains(waiting));
                    }
                }
                prop_assert_eq!(confirms.waiting(), model.len() as u64);
            }
        }
    }
}
