//! The one program: the broker, and what its users and operators need from a shell.
//!
//! Exit codes: 0 done; 1 the broker or the peer refused, or something failed on the way; 2 wrong usage or
//! configuration; 3 nobody answers there.

mod config;
mod limits;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Done.
const OK: u8 = 0;
/// Refused, or failed on the way.
const FAILED: u8 = 1;
/// Wrong usage or configuration.
const USAGE: u8 = 2;

/// Sluice, a message broker: AMQP 1.0 with RabbitMQ 4's behaviour.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the broker in the foreground
    Serve(serve::Serve),
}

fn main() -> ExitCode {
    let code = match Cli::parse().verb {
        Verb::Serve(serve) => serve::run(&serve),
    };
    ExitCode::from(code)
}
