//! The cost of each step of a message's way through the broker. The cost is counted, not timed.
//!
//! Allocations and bytes are counted here, in the process. Instructions are counted by `bench/micro/check`,
//! which runs the program under callgrind with two numbers of operations and divides the difference.
//! `table.toml` holds the results.

mod amqp091;
mod cases;
mod changes;
mod counting;
mod quorum;
mod walk;

pub use cases::{CASES, Case};
pub use counting::Counts;

/// The number of operations before counting starts. After them, buffers have reached their final size.
const WARM: u64 = 2_000;

/// The figures of one row of the table, per operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    pub name: &'a str,
    pub allocations: f64,
    pub bytes: f64,
}

/// Returns the rows of `table.toml`: sections of `key = number`. Other keys are ignored.
pub fn rows(table: &str) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for line in table.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            rows.push(Row { name, allocations: f64::NAN, bytes: f64::NAN });
        }
        let (Some(row), Some((key, value))) = (rows.last_mut(), line.split_once(" = ")) else { continue };
        match (key, value.parse()) {
            ("allocations", Ok(n)) => row.allocations = n,
            ("bytes", Ok(n)) => row.bytes = n,
            _ => {}
        }
    }
    rows
}

/// Runs a case with this many operations. Returns their total cost.
pub fn measure(case: &Case, operations: u64) -> Counts {
    let mut step = (case.prepare)();
    let mut run = |operations: u64| (0..operations).map(|_| step()).sum::<u64>();
    run(WARM);
    let before = counting::allocations();
    let bytes = run(operations);
    let allocations = counting::allocations() - before;
    Counts { allocations, bytes, in_parts: counting::take_has_parts() }
}
