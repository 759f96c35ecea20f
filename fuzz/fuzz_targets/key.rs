#![no_main]

use redlock_macros::invariants;

// The text between the parentheses of `key!`.
libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(tokens) = format!("::redlocked, {text}").parse() {
        invariants::of_key(tokens);
    }
});
