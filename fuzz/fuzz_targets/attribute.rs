#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| redlock_fuzz::attribute(text));
