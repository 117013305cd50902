//! Development tasks: `cargo xtask <task>`.
//!
//! - `codegen` generates code from the specification.
//! - `same-tokens BASE` checks that the work tree has the same code as a commit, apart from comments.

use std::io::Write;
use std::process::ExitCode;

mod codegen;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod imports;
mod same_tokens;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod units;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["codegen"] => codegen::write()
            .and_then(|()| codegen::amqp091::write())
            .and_then(|()| codegen::amqp091::table::write()),
        ["same-tokens", base] => same_tokens::run(base),
        _ => Err("usage: cargo xtask codegen | same-tokens BASE".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If the error cannot be written either, nothing is left to do.
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}
