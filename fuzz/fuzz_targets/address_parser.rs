#![no_main]

#[path = "../checks/address_parser.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
