//! The tests of groups from outside. One binary, because linking one for each file takes minutes.

mod memory;
mod messages;
mod progress;
mod retry;
mod support;
