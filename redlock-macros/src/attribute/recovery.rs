//! Values that are cut off or lack their quotes, and where the next option starts.

use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::{Error, Ident, Lit, Token};

use super::duration;
use super::options::OPTIONS;

/// The error for `key = stock:{sku}`.
pub(super) fn unquoted_template(input: ParseStream) -> Error {
    let tokens: TokenStream = value(input).into_iter().collect();
    let text = tokens.to_string().replace(' ', "");
    Error::new_spanned(tokens, format!("a template goes in quotes: `key = \"{text}\"`"))
}

/// The error for `ttl = 1m 30s`. A single word, `10s`, is a literal, and `length` refuses it.
pub(super) fn unquoted_duration(input: ParseStream) -> Option<Error> {
    let words = value(&input.fork());
    let is_number =
        |word: &TokenTree| matches!(syn::parse2(word.clone().into()), Ok(Lit::Int(_) | Lit::Float(_)));
    let is_word = |word: &TokenTree| matches!(word, TokenTree::Ident(_)) || is_number(word);
    if words.len() < 2 || !is_number(&words[0]) || !words.iter().all(is_word) {
        return None;
    }
    let text = words.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let message = match duration::parse(&text) {
        Ok(_) => duration::quoted(&text),
        Err(message) => message,
    };
    Some(Error::new_spanned(words.into_iter().collect::<TokenStream>(), message))
}

/// The tokens up to the next option.
fn value(input: ParseStream) -> Vec<TokenTree> {
    let mut tokens = Vec::new();
    while !input.is_empty() && !input.peek(Token![,]) && (tokens.is_empty() || !starts_option(input)) {
        let Ok(token) = input.parse() else { break };
        tokens.push(token);
    }
    tokens
}

/// The error for a value that ends too early, at its last token: syn would underline the whole attribute.
pub(super) fn cut_off(value: ParseStream, error: Error, hint: &str) -> Error {
    let mut last = None;
    while let Ok(token) = value.parse::<TokenTree>() {
        last = Some(token);
    }
    match last {
        Some(last) if error.to_string().starts_with("unexpected end of input") => {
            Error::new(last.span(), format!("the value is incomplete: expected one such as `{hint}`"))
        }
        _ => error,
    }
}

/// After a syntax error, parsing goes on at the next comma.
pub(super) fn skip_to_comma(input: ParseStream) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

/// True where an option starts although no comma precedes it.
pub(super) fn starts_option(input: ParseStream) -> bool {
    let known = |name: Ident| OPTIONS.contains(&name.to_string().as_str());
    input.peek(Ident::peek_any)
        && (input.peek2(Token![=]) || input.fork().call(Ident::parse_any).is_ok_and(known))
}
