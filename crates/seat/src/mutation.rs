//! Deliberate mistakes, which the tests must find.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A batch that has arrived before is handled again.
    TakeRepeated,
    /// A batch is handled although one before it is missing.
    TakeEarly,
    /// What was sent over a link that was lost is not sent again.
    ForgetSent,
    /// A publish that was sent is refused when the other node is away.
    RefuseSent,
    /// What is in doubt is not sent again after a restart of the other node.
    ForgetInDoubt,
    /// A session goes on although the other node has started again.
    KeepSession,
    /// Tickets wait for ever.
    ForgetTickets,
}

thread_local! {
    static MUTATION: Cell<Option<Mutation>> = const { Cell::new(None) };
}

pub(crate) fn has(mutation: Mutation) -> bool {
    MUTATION.get() == Some(mutation)
}

/// Makes this mistake, or none, on this thread.
pub(crate) fn set(mutation: Option<Mutation>) {
    MUTATION.set(mutation);
}
