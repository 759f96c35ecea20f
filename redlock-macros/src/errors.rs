//! Collects errors, so that all mistakes of one attribute are reported at once; and suggests names.

use std::fmt::Display;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::Error;

/// Every mistake found so far, each at its own token.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Underlines all of `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The value; an error is collected.
    pub(crate) fn keep<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn finish(self) -> Option<Error> {
        self.0
    }
}

/// A `compile_error!` for each of them, without the `::core::` that syn writes before it: a crate
/// of the 2015 edition looks for that in itself.
pub(crate) fn compile_errors(errors: &Error) -> TokenStream {
    let is_root = |token: &TokenTree| match token {
        TokenTree::Ident(name) => name == "core",
        TokenTree::Punct(mark) => mark.as_char() == ':',
        _ => false,
    };
    errors.to_compile_error().into_iter().filter(|token| !is_root(token)).collect()
}

/// The candidate that `word` was probably meant to be: at most two typos away, and one in a short
/// word.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| {
            let allowed = if candidate.chars().count() < 5 { 1 } else { 2 };
            (1..=allowed).contains(distance)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `` `a`, `b` and `c` ``, with the last word joined by `link`.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>, link: &str) -> String {
    let mut names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.pop() {
        Some(last) if names.is_empty() => last,
        Some(last) => format!("{} {link} {last}", names.join(", ")),
        None => String::new(),
    }
}

/// Edit distance in which two swapped letters count as one typo (optimal string alignment).
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (i, &a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in to.iter().enumerate() {
            let mut cost = (above[j] + usize::from(a != b)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == to[j - 1] && from[i - 1] == b {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, list, nearest};

    #[test]
    fn distances() {
        for (from, to, expected) in [
            ("", "", 0),
            ("ttl", "ttl", 0),
            ("tll", "ttl", 1),
            ("kye", "key", 1),
            ("wiat", "wait", 1),
            ("manger", "manager", 1),
            ("onbusy", "on_busy", 1),
            ("timeout", "wait", 6),
            ("", "key", 3),
        ] {
            assert_eq!(distance(from, to), expected, "{from} -> {to}");
            assert_eq!(distance(to, from), expected, "{to} -> {from}");
        }
    }

    #[test]
    fn suggestions_are_not_far_fetched() {
        let options = ["key", "ttl", "wait", "manager"];
        assert_eq!(nearest("kye", options), Some("key"));
        assert_eq!(nearest("managr", options), Some("manager"));
        assert_eq!(nearest("foo", options), None);
        assert_eq!(nearest("tag", options), None, "two typos in three letters are another word");
        assert_eq!(nearest("key", options), None, "the word itself is no suggestion");
    }

    #[test]
    fn lists() {
        assert_eq!(list([], "or"), "");
        assert_eq!(list(["a"], "or"), "`a`");
        assert_eq!(list(["a", "b", "c"], "or"), "`a`, `b` or `c`");
    }
}
