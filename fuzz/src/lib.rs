//! The targets of the fuzzer. What must hold is in `redlock-macros/src/invariants.rs`, with the property tests.
//!
//! Nothing can link to a crate of procedural macros but the compiler, so its modules are compiled again here. The way
//! without that would be one more published crate, for the sake of these targets alone.
#![allow(dead_code)]

#[path = "../../redlock-macros/src/args.rs"]
mod args;
#[path = "../../redlock-macros/src/boxed.rs"]
mod boxed;
#[path = "../../redlock-macros/src/captures.rs"]
mod captures;
#[path = "../../redlock-macros/src/checks.rs"]
mod checks;
#[path = "../../redlock-macros/src/duration.rs"]
mod duration;
#[path = "../../redlock-macros/src/errors.rs"]
mod errors;
#[path = "../../redlock-macros/src/expand.rs"]
mod expand;
#[path = "../../redlock-macros/src/global.rs"]
mod global;
#[path = "../../redlock-macros/src/invariants.rs"]
mod invariants;
#[path = "../../redlock-macros/src/item.rs"]
mod item;
#[path = "../../redlock-macros/src/key.rs"]
mod key;
#[path = "../../redlock-macros/src/named.rs"]
mod named;
#[path = "../../redlock-macros/src/options.rs"]
mod options;
#[path = "../../redlock-macros/src/output.rs"]
mod output;
#[path = "../../redlock-macros/src/scope.rs"]
mod scope;
#[path = "../../redlock-macros/src/template.rs"]
mod template;
#[path = "../../redlock-macros/src/value.rs"]
mod value;

/// A key, as it is written.
pub fn template(text: &str) {
    invariants::of_template(text);
}

/// A duration, as it is written.
pub fn duration(text: &str) {
    invariants::of_duration(text);
}

/// The first line is what stands between the parentheses, the rest is what stands below.
pub fn attribute(text: &str) {
    let (args, item) = text.split_once('\n').unwrap_or((text, "fn f() {}"));
    if let (Ok(args), Ok(item)) = (args.parse(), item.parse()) {
        invariants::of_attribute(args, item);
    }
}
