//! Intake: what every publisher needs, whatever its protocol.

pub(crate) mod adaptive;

pub use adaptive::Budget;
