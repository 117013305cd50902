//! The envelope: what the broker keeps of a message, whatever protocol it came by.
//!
//! The bytes are the message: what arrived is what is stored and what is sent. Around it stand offsets, the
//! route it took, and the deaths it died. Filters look at it and say yes or no. Absent here: who sends it, who stores it, when.

#![forbid(unsafe_code)]

mod annotations;
mod deaths;
mod delivery;
mod envelope;
mod filter;
mod intake;
mod stored;
mod stream;

pub use annotations::{Annotations, AnnotationsError};
pub use deaths::{Death, DeathReason, Deaths};
pub use delivery::DeliveryHeads;
pub use envelope::{Message, Parts, Route};
pub use filter::{
    Dialect, FIELDS_MAX, FieldError, FieldFilter, Filter, Position, SQL_CHARS_MAX, SQL_TOKENS_MAX, Scope,
    ScopeValues, SqlError, SqlFilter, SqlProblem,
};
pub use intake::{Trimmed, trim};
pub use stored::{LastRoute, StoredError};
pub use stream::{Entries, EntryWriter, FILTER_VALUE};
