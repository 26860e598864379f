//! Any bytes as HTTP replies.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tare_load::fuzz::http(bytes));
