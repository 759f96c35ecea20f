//! What must hold for any input: the property tests and the fuzzer in `fuzz/` call these.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc, reason = "a test may panic")]

use proc_macro2::TokenStream;
use syn::Expr;

use crate::attribute::duration;
use crate::expand;
use crate::function::item::{self, LockedFn};
use crate::key::template;
use crate::key::template::Piece;
use crate::key_macro;

/// The pieces of a template make up the template again, or there is an error.
pub fn of_template(text: &str) {
    let pieces = match template::parse(text) {
        Ok(pieces) => pieces,
        Err(reasons) => return assert!(!reasons.is_empty(), "{text:?}"),
    };
    let mut again = String::new();
    for piece in &pieces {
        match piece {
            Piece::Text(part) => {
                let braces = part.replace("{{", "").replace("}}", "");
                assert!(!part.is_empty() && !braces.contains(['{', '}']), "{text:?}: {part:?}");
                again.push_str(part);
            }
            Piece::Value(value) => {
                let has_gaps = value.path.iter().any(String::is_empty);
                assert!(!value.path.is_empty() && !has_gaps, "{text:?}: {value:?}");
                again.extend(["{", &value.name(), &value.spec, "}"]);
            }
        }
    }
    assert_eq!(again, text);
}

/// A duration is the sum of its parts, or there is an error.
pub fn of_duration(text: &str) {
    match duration::parse(text) {
        Ok(millis) => {
            assert!(millis <= duration::MAX_MILLIS, "{text:?}");
            assert_eq!(millis, sum(text), "{text:?}");
            assert_eq!(duration::parse(&format!("{millis}ms")), Ok(millis));
        }
        Err(reason) => assert!(!reason.is_empty(), "{text:?}"),
    }
}

/// The milliseconds of a valid duration.
fn sum(text: &str) -> u64 {
    let mut sum = 0;
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap());
        let (unit, tail) = tail.split_at(tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len()));
        let millis = match unit {
            "d" => 24 * 60 * 60 * 1000,
            "h" => 60 * 60 * 1000,
            "m" => 60 * 1000,
            "s" => 1000,
            "ms" => 1,
            _ => panic!("no unit: {unit:?}"),
        };
        sum += number.parse::<u64>().unwrap() * millis;
        rest = tail.trim_start();
    }
    sum
}

/// The attribute writes a function, or the unchanged item with at least one error; in the place of
/// an expression, only the error.
pub fn of_attribute(args: TokenStream, item: TokenStream) {
    let is_function = syn::parse2::<LockedFn>(item.clone()).is_ok();
    let before = if is_function || item::is_expression(&item) { String::new() } else { item.to_string() };
    let output = expand::expand(args, item);
    if syn::parse2::<LockedFn>(output.clone()).is_ok() {
        return;
    }
    let output = output.to_string();
    assert!(output.starts_with(&before), "the item is another one: {output}");
    assert!(output.contains("compile_error"), "neither a function nor an error: {output}");
}

/// `key!` writes an expression, or at least one error.
pub fn of_key(tokens: TokenStream) {
    let output = key_macro::expand(tokens);
    let is_expression = syn::parse2::<Expr>(output.clone()).is_ok();
    let output = output.to_string();
    assert!(is_expression || output.contains("compile_error"), "neither a key nor an error: {output}");
}
