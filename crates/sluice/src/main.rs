//! The one program.
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "the verbs that read the configuration are not here yet")]
mod config;

fn main() {}
