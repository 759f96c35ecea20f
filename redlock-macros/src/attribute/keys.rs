//! The values of `key` and `keys`.

use proc_macro2::{Delimiter, Group, TokenTree};
use syn::ext::IdentExt as _;
use syn::parse::discouraged::Speculative as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Result, Token, token};

use super::options::hint;
use super::permits::{Permits, permits_of_a_key};
use super::recovery::{MISSING_COMMA, skip_to_comma};
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

/// One of several keys, and who may hold it together.
pub(crate) struct ListedKey {
    pub(crate) key: Key,
    pub(crate) kind: KeyKind,
}

pub(crate) enum KeyKind {
    Exclusive,
    Shared,
    Permits { permits: Permits, take: Option<Permits> },
}

impl KeyKind {
    /// The numbers of permits that are given.
    pub(crate) fn amounts(&self) -> impl Iterator<Item = &Permits> {
        let (permits, take) = match self {
            Self::Permits { permits, take } => (Some(permits), take.as_ref()),
            Self::Exclusive | Self::Shared => (None, None),
        };
        permits.into_iter().chain(take)
    }
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
pub(crate) fn keys(value: Expr, errors: &mut Errors) -> Option<Vec<ListedKey>> {
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
    Some(listed(list.elems.into_iter().map(|value| (KeyKind::Exclusive, value)), errors))
}

/// A list in which a word in front of a key says who may hold it together, as in
/// `[shared "account:{from}", "account:{to}"]`. `None` for a list without such a word, which is an
/// expression.
pub(crate) fn keys_of_kinds(input: ParseStream, errors: &mut Errors) -> Option<Vec<ListedKey>> {
    let ahead = input.fork();
    let Ok(TokenTree::Group(list)) = ahead.parse() else { return None };
    if list.delimiter() != Delimiter::Bracket || !has_words(&list) {
        return None;
    }
    input.advance_to(&ahead);
    let mut keys = Vec::new();
    let parser = |list: ParseStream| {
        while !list.is_empty() {
            match kind(list).and_then(|kind| Ok((kind, list.parse()?))) {
                Ok(key) => keys.push(key),
                Err(error) => {
                    errors.push(error);
                    skip_to_comma(list);
                }
            }
            if !list.is_empty() && list.parse::<Token![,]>().is_err() {
                errors.push(list.error(MISSING_COMMA));
                skip_to_comma(list);
                let _ = list.parse::<Token![,]>();
            }
        }
        Ok(())
    };
    let parsed = parser.parse2(list.stream());
    errors.keep(parsed);
    Some(listed(keys, errors))
}

/// True if a word that says who may hold a key together stands in front of one.
fn has_words(list: &Group) -> bool {
    let tokens: Vec<TokenTree> = list.stream().into_iter().collect();
    let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',');
    tokens.split(is_comma).any(|key| match key {
        [TokenTree::Ident(word), next, rest @ ..] if meant_kind(&word.to_string()).is_some() => {
            let is_amount = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis);
            is_start(next) || is_amount(next) && rest.first().is_some_and(is_start)
        }
        _ => false,
    })
}

/// True where a key begins, behind a word.
fn is_start(token: &TokenTree) -> bool {
    match token {
        TokenTree::Literal(_) | TokenTree::Ident(_) => true,
        // A fragment of a `macro_rules!`.
        TokenTree::Group(group) => group.delimiter() == Delimiter::None,
        TokenTree::Punct(_) => false,
    }
}

/// What a word in front of a key was probably meant to be.
fn meant_kind(word: &str) -> Option<&'static str> {
    match word {
        "shared" | "share" | "sharing" | "read" | "reads" | "reader" | "readonly" | "read_only" => {
            Some("shared")
        }
        "permits" | "permit" | "semaphore" => Some("permits"),
        "exclusive" | "write" | "writes" | "writer" | "alone" => Some("exclusive"),
        _ => None,
    }
}

/// The error for `key = shared "order:{id}"`.
pub(super) fn kind_of_one_key(input: ParseStream) -> Option<Error> {
    let ahead = input.fork();
    let word: Ident = ahead.parse().ok()?;
    let amounts: Option<Group> = ahead.peek(token::Paren).then(|| ahead.parse().ok()).flatten();
    let lit: LitStr = ahead.parse().ok()?;
    let option = match (meant_kind(&word.to_string())?, amounts) {
        ("shared", None) => ", shared".to_owned(),
        ("permits", Some(amounts)) => format!(", permits = {}", amounts.stream()),
        ("exclusive", None) => String::new(),
        _ => return None,
    };
    input.advance_to(&ahead);
    let message = format!("one key has its kind as an option: write `key = {}{option}`", lit.token());
    Some(Error::new_spanned(word, message))
}

/// The kind of the key in front of which `list` is.
fn kind(list: ParseStream) -> Result<KeyKind> {
    let ahead = list.fork();
    // Not a word of Rust, such as `if`, with which an expression begins.
    let Ok(word) = ahead.parse::<Ident>() else { return Ok(KeyKind::Exclusive) };
    let amounts = ahead.peek(token::Paren).then(|| ahead.parse::<Group>()).transpose()?;
    if !ahead.fork().parse().is_ok_and(|token| is_start(&token)) {
        return Ok(KeyKind::Exclusive);
    }
    let text = word.unraw().to_string();
    let message = match (text.as_str(), meant_kind(&text), &amounts) {
        ("shared", _, None) => {
            list.advance_to(&ahead);
            return Ok(KeyKind::Shared);
        }
        ("permits", _, Some(group)) => {
            list.advance_to(&ahead);
            return amounts_of(group);
        }
        ("shared", _, Some(_)) => {
            "`shared` has no number: write `shared \"...\"`, or `permits(5) \"...\"` for a limit".to_owned()
        }
        ("permits", _, None) => {
            "say how many may hold the key together: write `permits(5) \"...\"`".to_owned()
        }
        (_, Some("exclusive"), _) => format!("a key without a word is exclusive: remove `{text}`"),
        (_, Some("shared"), _) => format!("unknown kind of a key `{text}`, did you mean `shared`?"),
        (_, Some(_), _) => format!("unknown kind of a key `{text}`, did you mean `permits(5)`?"),
        (_, None, _) => return Err(ahead.error(MISSING_COMMA)),
    };
    Err(Error::new_spanned(word, message))
}

/// The numbers in `permits(10)` and `permits(10, take = 3)`.
fn amounts_of(group: &Group) -> Result<KeyKind> {
    let parser = |input: ParseStream| {
        let permits = permits_of_a_key(input.parse()?, "permits")?;
        if input.parse::<Token![,]>().is_err() || input.is_empty() {
            return Ok(KeyKind::Permits { permits, take: None });
        }
        let is_take = input.peek(Ident) && input.peek2(Token![=]);
        match is_take.then(|| input.parse::<Ident>()).transpose()? {
            Some(name) if name == "take" => {}
            _ => return Err(input.error("expected `take = 2`, how many of the permits a caller takes")),
        }
        input.parse::<Token![=]>()?;
        let take = permits_of_a_key(input.parse()?, "take")?;
        let _ = input.parse::<Token![,]>();
        Ok(KeyKind::Permits { permits, take: Some(take) })
    };
    if group.stream().is_empty() {
        return Err(Error::new_spanned(group, "say how many may hold the key together: write `permits(5)`"));
    }
    parser.parse2(group.stream())
}

/// The keys of a list, without those that are none, which are reported.
fn listed(list: impl IntoIterator<Item = (KeyKind, Expr)>, errors: &mut Errors) -> Vec<ListedKey> {
    let mut keys: Vec<ListedKey> = Vec::new();
    for (kind, value) in list {
        if let Some(found) = bracketed(&value) {
            errors.at(&value, format!("expected a key, found {found}: there is one list of keys"));
            continue;
        }
        if let Some((word, lit)) = as_a_call(&value) {
            errors.at(&value, format!("a kind stands in front of its key: write `{word} {}`", lit.token()));
            continue;
        }
        let Some(key) = one_key(value, "`\"order:{id}\"`", errors) else {
            continue;
        };
        if let Key::Template(template) = &key
            && let text = template.text()
            && keys.iter().any(|other| matches!(&other.key, Key::Template(other) if other.text() == text))
        {
            errors.at(&template.lit, format!("`{text}` is in the list twice, and would be locked once"));
        }
        keys.push(ListedKey { key, kind });
    }
    keys
}

/// The word and the key of `shared("order:{id}")`.
fn as_a_call(value: &Expr) -> Option<(&Ident, &LitStr)> {
    let Expr::Call(call) = value else { return None };
    let Expr::Path(path) = &*call.func else { return None };
    let word = path.path.get_ident().filter(|word| *word == "shared")?;
    match call.args.first() {
        Some(Expr::Lit(ExprLit { lit: Lit::Str(lit), .. })) if call.args.len() == 1 => Some((word, lit)),
        _ => None,
    }
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
