#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| redlock_macros::invariants::of_template(text));
