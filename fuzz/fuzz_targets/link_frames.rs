#![no_main]

#[path = "../checks/link_frames.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
