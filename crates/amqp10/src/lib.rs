//! AMQP 1.0 for both roles: the type codec, frames, SASL and the sans-IO endpoints.
//!
//! Everything here is pure: bytes go in, values come out, and the reverse. The crate has no sockets, clocks,
//! tasks or random numbers, and knows nothing about brokers and queues. Bracketed numbers such as [2.7.5] are
//! sections of the OASIS standard.
//!
//! Absent: transactions (only their descriptors and the coordinator target exist), TLS, and every SASL
//! mechanism that needs cryptography.
#![forbid(unsafe_code)]

pub mod composites;
pub mod connection;
pub mod credit;
pub mod decimal;
pub mod decode;
mod display;
mod disposition;
pub mod encode;
pub mod frame;
pub mod link;
mod parts;
pub mod performative;
pub mod sasl;
pub mod sections;
pub mod serial;
pub mod session;
pub mod types;
pub mod unsettled;
pub mod violation;

// They are part of this interface.
pub use buffers::{Chunk, Output, PayloadOf};
pub use composites::*;
pub use connection::{Connection, ConnectionState, Event, Fault};
pub use decode::{DecodeError, Reader};
pub use disposition::DispositionRange;
pub use encode::Encode;
pub use link::{Delivery, Link};
pub use performative::{
    Performative, SaslFrame, Transfer, TransferHead, put_disposition_frame, put_flow_frame, put_frame,
    put_frame_within, put_sasl_frame, put_transfer_frame, transfer_frame_overhead_max,
};
pub use session::{Outgoing, Part, Session, SessionConfig, Tag};
pub use types::{Array, Constructor, Described, Map, Symbol, Value};
pub use unsettled::Run;
pub use violation::{Radius, Violation};
