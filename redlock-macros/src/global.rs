//! One lock for every call, although the calls have arguments: the classic slip of a key, unless it was said.

use proc_macro2::Span;
use syn::LitStr;

use crate::args::LockArgs;
use crate::errors::Errors;
use crate::key::is_constant;
use crate::scope::Scope;
use crate::template::{self, Piece, Placeholder};
use crate::value::Key;

/// Wants `global` where the key is the same for every call, and nowhere else. Of several keys, one that differs is enough.
pub(crate) fn check(args: &LockArgs, scope: &Scope, errors: &mut Errors) {
    let keys = args.key.as_slice().iter().chain(args.keys.iter().flatten());
    let mut constant = None;
    for key in keys {
        let Key::Template(lit) = key else {
            if let Some(global) = &args.global {
                errors.at(
                    global,
                    "`global` is for a template, and this `key` is an expression: remove `global`",
                );
            }
            return;
        };
        let text = lit.value();
        // Its own mistakes have been told.
        let Ok(pieces) = template::parse(&text) else {
            return;
        };
        if let Some(value) = pieces.iter().filter_map(Piece::value).find(|value| varies(value, scope)) {
            if let Some(global) = &args.global {
                let name = value.name();
                let problem =
                    format!("`global` is for one lock for all, and the key has `{{{name}}}`: remove one");
                errors.at(global, problem);
            }
            return;
        }
        constant = constant.or(Some(lit));
    }
    if let (Some(lit), None) = (constant, &args.global) {
        same_for_all(lit, args.keys.is_some(), scope, errors);
    }
}

/// True if calls may differ in it; rustc has something to say about a name that does not exist.
fn varies(value: &Placeholder<'_>, scope: &Scope) -> bool {
    scope.get(value.root(), Span::call_site()).is_some() || !is_constant(value.root())
}

fn same_for_all(lit: &LitStr, several: bool, scope: &Scope, errors: &mut Errors) {
    let arguments: Vec<String> = scope.arguments().collect();
    if let Some(first) = arguments.first() {
        let key = suggestion(&lit.value(), &arguments, first);
        let (subject, example) = if several {
            ("these keys are", format!("keys = [{key:?}, ...]"))
        } else {
            ("this key is", format!("key = {key:?}"))
        };
        errors.at(
            lit,
            format!(
                "{subject} the same for every call: name an argument, as in `{example}`, or add `global` if one lock \
                 for all is meant"
            ),
        );
    }
}

/// The key with an argument in it: braces around the name of one, else one more part.
fn suggestion(key: &str, arguments: &[String], first: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    for word in key.split(|c| !is_part(c)) {
        if arguments.iter().any(|argument| argument == word) {
            let (before, after) = (&key[..at], &key[at + word.len()..]);
            // `{{sku}}`, as other template languages have it, is `{sku}` in the text.
            let (before, after) = match (before.strip_suffix("{{"), after.strip_prefix("}}")) {
                (Some(before), Some(after)) => (before, after),
                _ => (before, after),
            };
            return format!("{before}{{{word}}}{after}");
        }
        // The word, and whatever separates it from the next one.
        at += word.len();
        at += key[at..].chars().next().map_or(0, char::len_utf8);
    }
    let colon = if key.ends_with(|c: char| c.is_alphanumeric() || c == '}') { ":" } else { "" };
    format!("{key}{colon}{{{first}}}")
}

#[cfg(test)]
mod tests {
    use syn::{Signature, parse_str};

    use super::{Errors, LockArgs, Scope, check};

    fn mistakes(args: &str, sig: &str) -> String {
        let mut errors = Errors::default();
        let args = LockArgs::parse(args.parse().unwrap_or_default(), &mut errors);
        let sig: syn::Result<Signature> = parse_str(sig);
        assert!(sig.is_ok(), "{:?}", sig.err());
        let scope = sig.map(|sig| Scope::of(&sig)).unwrap_or_default();
        check(&args, &scope, &mut errors);
        let errors =
            errors.finish().map(|errors| errors.into_iter().map(|error| error.to_string()).collect());
        errors.unwrap_or_else(Vec::new).join("\n")
    }

    #[test]
    fn a_key_that_is_the_same_for_every_call_says_so() {
        for (key, sig, suggested) in [
            ("stock", "fn f(sku: &str, quantity: u32)", "stock:{sku}"),
            ("stock:", "fn f(&self, sku: &str)", "stock:{sku}"),
            ("stock/sku/all", "fn f(quantity: u32, sku: &str)", "stock/{sku}/all"),
            ("sku", "fn f(sku: &str)", "{sku}"),
            ("für größe é", "fn f(é: u8, größe: u8)", "für {größe} é"),
            ("skus", "fn f(Path(sku): Path<String>)", "skus:{sku}"),
            ("{TENANT}", "fn f(_: u8, _b: u8, r#type: u8)", "{TENANT}:{type}"),
            ("stock:{{sku}}", "fn f(sku: &str)", "stock:{sku}"),
            ("stock_", "fn f(sku: &str)", "stock_{sku}"),
        ] {
            let found = mistakes(&format!("key = \"{key}\""), sig);
            assert!(found.contains(&format!("as in `key = \"{suggested}\"`, or")), "{key}: {found}");
            assert_eq!(mistakes(&format!("key = \"{key}\", global"), sig), "", "{key}");
        }
    }

    #[test]
    fn nothing_to_say() {
        for (args, sig) in [
            ("key = \"stock:{sku}\"", "fn f(sku: &str, quantity: u32)"),
            ("key = \"{self.tenant}\"", "fn f(&self, quantity: u32)"),
            ("key = \"stock:{skuu}\"", "fn f(sku: &str)"),
            ("key = \"nightly\"", "fn f()"),
            ("key = \"nightly\", global", "fn f()"),
            ("key = \"nightly\"", "fn f(&self)"),
            ("key = \"nightly\"", "fn f(_: u8, _job: u8)"),
            ("key = KEY", "fn f(sku: &str)"),
            ("keys = [\"config\", \"account:{id}\"]", "fn f(id: u32)"),
            ("keys = [\"config\", KEY]", "fn f(id: u32)"),
            ("keys = [\"a\", \"b\"], global", "fn f(id: u32)"),
            ("keys = [\"a\", \"b\"]", "fn f()"),
        ] {
            assert_eq!(mistakes(args, sig), "", "{args}");
        }
    }

    #[test]
    fn global_that_is_not_true() {
        for (args, hint) in [
            ("key = \"stock:{sku}\", global", "the key has `{sku}`: remove one"),
            ("key = \"{self.tenant.id:04}\", global", "the key has `{self.tenant.id}`: remove one"),
            ("key = KEY, global", "this `key` is an expression: remove `global`"),
        ] {
            let found = mistakes(args, "fn f(&self, sku: &str)");
            assert!(found.ends_with(hint), "{args}: {found}");
        }
        let found = mistakes("keys = [\"a\", \"b\"]", "fn f(sku: &str)");
        assert!(
            found.contains("these keys are the same for every call") && found.contains("[\"a:{sku}\", ...]"),
            "{found}"
        );
        let found = mistakes("keys = [\"a\", \"b:{sku}\"], global", "fn f(sku: &str)");
        assert!(found.ends_with("the key has `{sku}`: remove one"), "{found}");
        for slip in ["globl", "global = \"yes\"", "global(true)", "global ="] {
            let found = mistakes(&format!("key = \"stock\", {slip}"), "fn f(sku: &str)");
            assert!(!found.is_empty() && !found.contains("the same for every call"), "{slip}: {found}");
        }
        let found = mistakes("key = \"stock\", global = false", "fn f(sku: &str)");
        assert!(found.contains("the same for every call"), "{found}");
        assert!(mistakes("key = \"a:{b\"", "fn f(b: u8)").ends_with("write `{b}`"));
    }
}
