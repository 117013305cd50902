//! Deliberate mistakes, which the tests must find: those here, and the simulation of a cluster in the crate `node`.

use std::cell::Cell;

/// A mistake that a test activates. The program that is shipped has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
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

/// Makes this mistake, or none, on this thread from now on.
pub fn mutate(mutation: Option<Mutation>) {
    MUTATION.set(mutation);
}
