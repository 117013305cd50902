#![no_main]

#[path = "../checks/peer_messages.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
