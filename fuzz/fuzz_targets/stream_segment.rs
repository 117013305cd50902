#![no_main]

#[path = "../checks/stream_segment.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
