#![no_main]

#[path = "../checks/amqp091_frames.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
