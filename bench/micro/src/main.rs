//! `micro CASE OPERATIONS` runs the operations and prints their cost as JSON. `micro` alone lists the cases.

use std::io::{self, Write as _};
use std::process::ExitCode;

use micro::{CASES, Counts, measure};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (name, operations) = (arguments.next(), arguments.next().and_then(|n| n.parse().ok()));
    let written = match (name, operations) {
        (None, _) => CASES.iter().try_for_each(|case| writeln!(io::stdout(), "{}", case.name)),
        (Some(name), Some(operations)) => match CASES.iter().find(|case| case.name == name) {
            Some(case) => {
                let Counts { allocations, bytes, in_parts } = measure(case, operations);
                writeln!(
                    io::stdout(),
                    "{{\"allocations\": {allocations}, \"bytes\": {bytes}, \"in_parts\": {in_parts}}}"
                )
            }
            None => return ExitCode::from(2),
        },
        _ => return ExitCode::from(2),
    };
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
