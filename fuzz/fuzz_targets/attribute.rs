#![no_main]

use redlock_macros::invariants;

// The first line is what stands between the parentheses, the rest is what stands below.
libfuzzer_sys::fuzz_target!(|text: &str| {
    let (args, item) = text.split_once('\n').unwrap_or((text, "fn f() {}"));
    if let (Ok(args), Ok(item)) = (args.parse(), item.parse()) {
        invariants::of_attribute(args, item);
    }
});
