//! Links of clients on one node whose queues are on another, without sockets, clock, randomness or threads.

#![forbid(unsafe_code)]

mod codec;
mod far;
mod frame;
mod item;
#[cfg(debug_assertions)]
mod mutation;
mod near;
mod publishes;
mod session;
#[cfg(test)]
mod tests;

pub use codec::{get_answer, get_ask, get_report, put_answer, put_ask, put_report};
pub use far::{Far, Host, Meeting, meet};
pub use frame::{Frame, Said, SessionId, is_frame};
pub use item::{Answer, Ask};
#[cfg(debug_assertions)]
pub use mutation::{Mutation, mutate};
pub use near::{LOST_MS, Near, REFUSE_MS, Told};
pub use publishes::{Kept, To};
