//! Buffers between a socket and the code of a protocol: output that waits to be written, and pieces of input. They know
//! no protocol.

#![forbid(unsafe_code)]

mod chunk;
mod output;
mod put;

pub use chunk::Chunk;
pub use output::{FrameLen, HIGH_WATER, Output, PayloadOf};
pub use put::Put;
