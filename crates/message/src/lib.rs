//! The envelope: what the broker keeps of a message, whatever protocol it came by.
//!
//! The bytes are the message: what arrived is what is stored and what is sent. Around it stand offsets, the
//! route it took, and the deaths it died. Absent here: who sends it, who stores it, when.

mod deaths;
mod envelope;

pub use deaths::{Death, DeathReason, Deaths};
pub use envelope::{Message, Parts, Route};
