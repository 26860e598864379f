//! Any bytes as feeds and templates.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tare_load::fuzz::script(bytes));
