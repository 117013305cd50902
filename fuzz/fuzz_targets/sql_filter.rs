#![no_main]

#[path = "../checks/sql_filter.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
