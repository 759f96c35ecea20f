//! The values of `key` and `keys`.

use syn::{Expr, Lit};

use super::options::hint;
use super::value::{describe, literal};
use crate::errors::Errors;
use crate::key::template::Template;

/// One key.
pub(crate) enum Key {
    Template(Template),
    Expr(Box<Expr>),
    /// With mistakes, which are reported.
    Broken,
}

/// The request that the key of a body that runs once stands for.
pub(crate) fn request(value: Expr, errors: &mut Errors) -> Option<Key> {
    if let Some(found) = bracketed(&value) {
        errors
            .at(&value, format!("expected a template such as `{}`, found {found}", hint("once_fingerprint")));
        return None;
    }
    one_key(value, &format!("`{}`", hint("once_fingerprint")), errors)
}

pub(crate) fn key(value: Expr, errors: &mut Errors) -> Option<Key> {
    if let Some(found) = bracketed(&value) {
        errors.at(&value, format!("expected one key, found {found}: write `{}` for several", hint("keys")));
        return None;
    }
    one_key(value, &format!("`{}`", hint("key")), errors)
}

/// Only a list that is written out: its keys can be checked here.
pub(crate) fn keys(value: Expr, errors: &mut Errors) -> Option<Vec<Key>> {
    let list = match value {
        Expr::Array(list) => list,
        Expr::Group(group) => return keys(*group.expr, errors),
        Expr::Paren(paren) => return keys(*paren.expr, errors),
        other => {
            let expected = format!("expected a list such as `{}`", hint("keys"));
            let found = literal(&other);
            let message = match errors.keep(found)? {
                Some(Lit::Str(lit)) => {
                    let lit = lit.token();
                    format!(
                        "expected a list, found a string: write `keys = [{lit}, ...]`, or `key = {lit}` for one key"
                    )
                }
                Some(lit) => format!("{expected}, found {}", describe(lit)),
                None => match bracketed(&other) {
                    Some(found) => format!("{expected}, found {found}"),
                    None => format!(
                        "{expected}: for keys that are known only at run time, call `LockManager::lock_all`"
                    ),
                },
            };
            errors.at(&other, message);
            return None;
        }
    };
    if list.elems.is_empty() {
        errors.at(&list, format!("the list is empty: say what is locked, such as `{}`", hint("keys")));
        return None;
    }
    let mut keys: Vec<Key> = Vec::new();
    for value in list.elems {
        if let Some(found) = bracketed(&value) {
            errors.at(&value, format!("expected a key, found {found}: there is one list of keys"));
            continue;
        }
        let Some(key) = one_key(value, "`\"order:{id}\"`", errors) else {
            continue;
        };
        if let Key::Template(template) = &key
            && let text = template.text()
            && keys.iter().any(|other| matches!(other, Key::Template(other) if other.text() == text))
        {
            errors.at(&template.lit, format!("`{text}` is in the list twice, and would be locked once"));
        }
        keys.push(key);
    }
    Some(keys)
}

fn one_key(value: Expr, example: &str, errors: &mut Errors) -> Option<Key> {
    match errors.keep(literal(&value))? {
        Some(Lit::Str(lit)) => Some(Template::of(lit, errors).map_or(Key::Broken, Key::Template)),
        Some(lit) => {
            errors.at(lit, format!("expected a string such as {example}, found {}", describe(lit)));
            None
        }
        None => Some(Key::Expr(value.into())),
    }
}

/// The name of an expression that holds several values, which is no key.
fn bracketed(value: &Expr) -> Option<&'static str> {
    match value {
        Expr::Array(_) => Some("a list"),
        Expr::Repeat(_) => Some("a repetition"),
        Expr::Tuple(_) => Some("a tuple"),
        Expr::Group(group) => bracketed(&group.expr),
        Expr::Paren(paren) => bracketed(&paren.expr),
        Expr::Reference(reference) => bracketed(&reference.expr).map(|_| "a reference"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Errors, keys};

    #[test]
    fn what_is_not_a_list_of_keys() {
        for (text, hints) in [
            ("[]", vec!["the list is empty"]),
            ("\"a\"", vec!["found a string: write `keys = [\"a\", ...]`, or `key = \"a\"` for one key"]),
            ("5", vec!["expected a list such as `keys = [", "found an integer"]),
            ("(\"a\", \"b\")", vec!["found a tuple"]),
            ("[\"a\"; 2]", vec!["found a repetition"]),
            ("&[\"a\"]", vec!["found a reference"]),
            ("names", vec!["call `LockManager::lock_all`"]),
            ("vec![\"a\"]", vec!["call `LockManager::lock_all`"]),
            ("[[\"a\"]]", vec!["expected a key, found a list"]),
            ("[(a, b)]", vec!["expected a key, found a tuple"]),
            ("[true]", vec!["expected a string such as `\"order:{id}\"`, found a boolean"]),
            ("[\"a:{b}\", x, \"a:{b}\"]", vec!["`a:{b}` is in the list twice"]),
        ] {
            let mut errors = Errors::default();
            let parsed = syn::parse_str(text).map(|value| keys(value, &mut errors));
            assert!(parsed.is_ok(), "{text}");
            let found = errors.finish().map(|error| error.to_string()).unwrap_or_default();
            for hint in hints {
                assert!(found.contains(hint), "{text}: {found}");
            }
        }
    }
}
