//! Direct, synced writes by Linux AIO.
//!
//! ```text
//!   Writes::submit(file, offset, Blocks, bell) ──▶ the kernel, past the page cache
//!                                                        │  the device has it: a block is synced when it is written
//!                     event loop ◀── bell (eventfd) ─────┘
//!   Writes::ended() ──▶ Ended { blocks, result }
//! ```
//!
//! One write is in flight at a time. No thread waits for it: when it ends, the kernel rings a *bell*, a descriptor that an event loop
//! watches. Beside it the kernel needs a worker of its own only if the device has a write cache to flush.
//!
//! This crate exists for its `unsafe` calls: four system calls that no well-kept crate wraps. Two things make them sound. The kernel reads
//! the memory of a write until it has ended, so [`Writes`] owns that memory, and waits for the write before it is dropped. And the file
//! stays open as long, because [`Writes`] has a share of it.
//!
//! When the process is killed, the kernel completes what was submitted before it releases the locks of the process.

#![cfg_attr(not(target_os = "linux"), forbid(unsafe_code))]

mod blocks;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

use std::io;

pub use blocks::{BLOCK, Blocks};
#[cfg(not(target_os = "linux"))]
pub use elsewhere::Writes;
#[cfg(target_os = "linux")]
pub use linux::Writes;

/// A write that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The memory of the write, to be used again.
    pub blocks: Blocks,
    /// Whether all of it is on the disk. After an error, any part of it may be there.
    pub result: io::Result<()>,
}
