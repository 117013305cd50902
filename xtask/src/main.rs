//! Chores of the repository: `cargo run -p xtask -- <chore>`.

use std::io::Write;
use std::process::ExitCode;

mod codegen;
#[cfg(test)]
mod imports;
#[cfg(test)]
mod tidy;

fn main() -> ExitCode {
    let result = match std::env::args().nth(1).as_deref() {
        Some("codegen") => codegen::write(),
        _ => Err("usage: cargo run -p xtask -- codegen".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to do if even the complaint cannot be written.
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}
