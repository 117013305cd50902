#![no_main]

#[path = "../checks/seat_items.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
