#![no_main]

#[path = "../checks/proxy_headers.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
