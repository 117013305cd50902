//! The envelope: a message as the broker stores it, whichever protocol it arrived with.
//!
//! The bytes of the message stay unchanged: the broker stores and sends the bytes that arrived. The envelope
//! adds the positions of the sections, the route, and the deaths of the message. A consumer of another protocol gets a
//! converted copy. Filters decide whether a message matches. Absent here: sending, storage and time.

#![forbid(unsafe_code)]

mod annotations;
mod convert;
mod deaths;
mod delivery;
mod delivery_max;
mod envelope;
mod filter;
mod further_keys;
mod intake;
mod redrive;
mod route;
mod stored;
mod stream;

pub use annotations::{Annotations, AnnotationsError};
pub use convert::{
    ADDED_HEADERS_MAX, Additions, Basic, BasicError, ExpirationError, amqp10_argument, amqp10_value,
    put_amqp091_value,
};
pub use deaths::{Death, DeathReason, Deaths, Redrives};
pub use delivery::DeliveryHeads;
pub use delivery_max::DeliveryMax;
pub use envelope::{Format, Message, Parts};
pub use filter::{
    Dialect, FIELDS_MAX, FieldError, FieldFilter, Filter, Position, SQL_CHARS_MAX, SQL_TOKENS_MAX, Scope,
    ScopeValues, SqlError, SqlFilter, SqlProblem,
};
pub use further_keys::{FurtherKeys, TooManyKeys};
pub use intake::{Trimmed, trim};
pub use redrive::REDRIVEN;
pub use route::Route;
pub use stored::{LastRoute, StoredError};
pub use stream::{Entries, EntryWriter, FILTER_VALUE};
