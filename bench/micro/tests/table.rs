//! Allocations and bytes per message must match the table. They are the same on every machine.

use micro::{CASES, measure, rows};

/// A figure may exceed the table by this factor.
const RISE: f64 = 1.05;

const OPERATIONS: u64 = 8_500;

#[test]
fn no_step_has_become_more_expensive() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("table.toml");
    let table = std::fs::read_to_string(path).unwrap();
    let rows = rows(&table);
    let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
    assert_eq!(rows.iter().map(|r| r.name).collect::<Vec<_>>(), names, "table.toml has every case");
    for (case, row) in CASES.iter().zip(rows) {
        let counts = measure(case, OPERATIONS);
        let per = |n: u64| n as f64 / OPERATIONS as f64;
        for (what, found, kept) in [
            ("allocations", per(counts.allocations), row.allocations),
            ("bytes", per(counts.bytes), row.bytes),
        ] {
            // The tolerance of 0.01 covers rounding.
            assert!(found <= kept * RISE + 0.01, "{}: {found:.3} {what}, {kept} in table.toml", case.name);
        }
    }
}
