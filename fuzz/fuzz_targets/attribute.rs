#![no_main]

use redlock_macros::invariants;

// The first line is the text between the parentheses, the rest is the item below the attribute.
libfuzzer_sys::fuzz_target!(|text: &str| {
    let (args, item) = text.split_once('\n').unwrap_or((text, "fn f() {}"));
    if let (Ok(args), Ok(item)) = (args.parse(), item.parse()) {
        invariants::of_attribute(args, item);
    }
});
