//! Values that are cut off or lack their quotes, and where the next option starts.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::parse::discouraged::Speculative as _;
use syn::{Error, Expr, Ident, Lit, LitStr, Result, Token};

use super::duration;
use super::options::{DURATIONS, OPTIONS};

/// The error where two keys of a list have no comma between them.
pub(super) const MISSING_COMMA: &str = "a comma is missing before this key";

/// The error for a value of `option` that is cut off, lacks its quotes or has more than belongs to
/// it.
pub(super) fn mistake(option: &str, input: ParseStream) -> Option<Error> {
    let is_typed = input.peek(Ident) && input.peek2(Token![:]) && !input.peek2(Token![::]);
    match option {
        "guard" if input.peek(Token![mut]) => {
            Some(input.error("a guard is a reference, and not mutable: write `guard = lock`"))
        }
        "guard" if is_typed => Some(typed_guard(input)),
        "key" if is_typed => Some(unquoted_template(input)),
        "key" => cut_in_two(input).or_else(|| with_arguments(input)),
        "keys" => missing_comma(input),
        _ if DURATIONS.contains(&option) => unquoted_duration(input),
        _ => None,
    }
}

/// The error for `key = stock:{sku}`.
fn unquoted_template(input: ParseStream) -> Error {
    let tokens: TokenStream = tokens(input).into_iter().collect();
    let text = tokens.to_string().replace(' ', "");
    Error::new_spanned(tokens, format!("a template goes in quotes: `key = \"{text}\"`"))
}

/// The error for `ttl = 1m 30s`. A single word, `10s`, is a literal, and `length` refuses it.
fn unquoted_duration(input: ParseStream) -> Option<Error> {
    let words = tokens(&input.fork());
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

/// The error for `key = "stock:{}", sku`.
fn with_arguments(input: ParseStream) -> Option<Error> {
    let ahead = input.fork();
    let lit: LitStr = ahead.parse().ok()?;
    let text = lit.value();
    let is_position = |inside: &str| {
        inside.split([':', '}']).next().is_some_and(|it| it.bytes().all(|c| c.is_ascii_digit()))
    };
    let names = |name: &Ident| text.contains(&format!("{{{name}}}")) || text.contains(&format!("{{{name}:"));
    let has_positions = text.replace("{{", "").split('{').skip(1).any(is_position);
    let mut arguments: Vec<Expr> = Vec::new();
    let mut end = ahead.fork();
    while ahead.parse::<Token![,]>().is_ok() {
        let argument = match ahead.parse() {
            // `name = value`.
            Ok(Expr::Assign(assign)) => match &*assign.left {
                Expr::Path(path) if path.path.get_ident().is_some_and(|it| names(it) && !is_option(it)) => {
                    Expr::Assign(assign)
                }
                _ => break,
            },
            Ok(Expr::Path(path)) if path.path.get_ident().is_some_and(is_option) => break,
            Ok(argument) if has_positions => argument,
            _ => break,
        };
        arguments.push(argument);
        end = ahead.fork();
    }
    if arguments.is_empty() {
        return None;
    }
    while !input.is_empty() && input.cursor() != end.cursor() {
        input.parse::<TokenTree>().ok()?;
    }
    let key = filled(text, &arguments);
    let arguments = quote!(#(#arguments),*);
    Some(Error::new_spanned(arguments, format!("a template takes no arguments: write `key = {key}`")))
}

/// The key with these arguments for its placeholders: a template if they can stand in one.
pub(crate) fn filled<'a>(text: String, arguments: impl IntoIterator<Item = &'a Expr>) -> String {
    let shown: Vec<String> =
        arguments.into_iter().map(|argument| written(&argument.to_token_stream())).collect();
    let is_path = |argument: &String| argument.chars().all(|c| c.is_alphanumeric() || "_.".contains(c));
    if text.matches("{}").count() == shown.len() && shown.iter().all(is_path) && !text.contains("{{") {
        let text =
            shown.iter().fold(text, |text, argument| text.replacen("{}", &format!("{{{argument}}}"), 1));
        format!("{text:?}")
    } else {
        format!("redlocked::key!({text:?}, {})", shown.join(", "))
    }
}

/// The error for `key = "user:{user["id"]}"`, which Rust reads as several strings:
/// `"user:{user["id` and `"]}"`.
fn cut_in_two(input: ParseStream) -> Option<Error> {
    let parts = tokens(&input.fork());
    let [TokenTree::Literal(first), .., TokenTree::Literal(last)] = parts.as_slice() else { return None };
    let (start, end) = (first.to_string(), last.to_string());
    let (opened, _) = start.strip_prefix('"')?.rsplit_once('"')?;
    if !end.ends_with('"') || opened.rsplit_once('{').is_none_or(|(_, inside)| inside.contains('}')) {
        return None;
    }
    let text = spaced(&parts);
    let mut rest = text.strip_prefix('"')?.strip_suffix('"')?;
    let (mut template, mut arguments) = (String::new(), String::new());
    while let Some((before, behind)) = rest.split_once('{') {
        let (inside, behind) = behind.split_once('}')?;
        template.push_str(before);
        if inside.contains('"') {
            template.push_str("{}");
            arguments.extend([", ", inside]);
        } else {
            template.extend(["{", inside, "}"]);
        }
        rest = behind;
    }
    tokens(input);
    let key = format!("redlocked::key!(\"{template}{rest}\"{arguments})");
    Some(Error::new(
        first.span(),
        format!("the string ends at the `\"` in its placeholder: write `key = {key}`"),
    ))
}

/// The tokens with the spaces between them, which only the compiler knows.
#[cfg(proc_macro)]
fn spaced(tokens: &[TokenTree]) -> String {
    let mut text = String::new();
    let mut last: Option<proc_macro::Span> = None;
    for token in tokens {
        let span = token.span().unwrap();
        if let Some(end) = last.map(|last| last.end()) {
            let start = span.start();
            let is_near = end.line() == start.line();
            let spaces = start.column().checked_sub(end.column()).filter(|_| is_near).unwrap_or(1);
            text.push_str(&" ".repeat(spaces.min(8)));
        }
        text.push_str(&token.to_string());
        last = Some(span);
    }
    text
}

#[cfg(not(proc_macro))]
fn spaced(tokens: &[TokenTree]) -> String {
    written(&tokens.iter().map(ToString::to_string).collect::<String>())
}

/// The error for `keys = ["a" "b"]`.
fn missing_comma(input: ParseStream) -> Option<Error> {
    let Ok(TokenTree::Group(list)) = input.fork().parse() else { return None };
    if list.delimiter() != Delimiter::Bracket
        || syn::parse2::<Expr>(TokenTree::from(list.clone()).into()).is_ok()
    {
        return None;
    }
    let tokens: Vec<TokenTree> = list.stream().into_iter().collect();
    let ends = |token: &TokenTree| !matches!(token, TokenTree::Punct(_));
    let starts = |token: &TokenTree| matches!(token, TokenTree::Literal(_) | TokenTree::Ident(_));
    let second =
        tokens.windows(2).find(|pair| ends(&pair[0]) && starts(&pair[1])).map(|pair| pair[1].clone())?;
    input.parse::<TokenTree>().ok()?;
    Some(Error::new_spanned(second, MISSING_COMMA))
}

/// The error for `guard = lock: LockGuard`.
fn typed_guard(input: ParseStream) -> Error {
    let tokens = tokens(input);
    let name = tokens.first().map(ToString::to_string).unwrap_or_default();
    let ty: TokenStream = tokens.into_iter().skip(1).collect();
    Error::new_spanned(ty, format!("a guard is a `&LockGuard`, leave its type out: write `guard = {name}`"))
}

/// The error for `key => "a"`, `key: "a"`, `key("a")` and `key "a"`; `None` if there is no value.
pub(super) fn without_equals(name: &Ident, input: ParseStream) -> Option<Error> {
    if input.is_empty() || input.peek(Token![,]) || starts_option(input) {
        return None;
    }
    let mut value = tokens(input);
    let joint = value.first()?.clone();
    let is_joint =
        |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if "=:>".contains(mark.as_char()));
    value.drain(..value.iter().take_while(|token| is_joint(token)).count());
    let value = match value.as_slice() {
        [] => "...".to_owned(),
        [TokenTree::Group(group)] if name == "keys" => format!("[{}]", written(&group.stream())),
        [TokenTree::Group(group)] => written(&group.stream()),
        tokens => written(&tokens.iter().cloned().collect::<TokenStream>()),
    };
    Some(Error::new(
        joint.span(),
        format!("an option and its value are joined by `=`: write `{name} = {value}`"),
    ))
}

/// The error for what stands in the place of a comma.
pub(super) fn no_comma(input: ParseStream) -> Error {
    match input.fork().parse() {
        Ok(TokenTree::Group(_)) | Err(_) => input.error("expected `,` before the next option"),
        Ok(token) => input.error(format!("expected `,` before the next option, found `{token}`")),
    }
}

/// `on-busy`: the tokens of a name with hyphens in it, whose first word is `name`, and its text.
pub(super) fn hyphenated(name: &Ident, input: ParseStream) -> Result<(TokenStream, String)> {
    let mut words = name.to_token_stream();
    while input.peek(Token![-]) && input.peek2(Ident::peek_any) {
        words.extend(input.parse::<Token![-]>()?.to_token_stream());
        words.extend(input.call(Ident::parse_any)?.to_token_stream());
    }
    let text = words.to_string().replace(' ', "");
    Ok((words, text))
}

/// The value of an option, or an error that shows one.
pub(super) fn value(input: ParseStream, hint: &str) -> Result<Expr> {
    // A fork, because syn also reports what an error leaves over in a group.
    let ahead = input.fork();
    match ahead.parse() {
        Ok(value) => {
            input.advance_to(&ahead);
            Ok(value)
        }
        Err(error) => Err(match tokens(input).pop() {
            Some(TokenTree::Punct(last)) => {
                Error::new(last.span(), format!("the value is incomplete: expected one such as `{hint}`"))
            }
            _ => Error::new(error.span(), format!("expected a value such as `{hint}`")),
        }),
    }
}

/// Tokens as a user writes them.
pub(crate) fn written(tokens: &impl ToString) -> String {
    let text =
        tokens.to_string().replace(" . ", ".").replace(" (", "(").replace("& ", "&").replace(" [", "[");
    text.replace(" !(", "!(").replace(" :: ", "::").replace(" ,", ",")
}

/// The tokens up to the next option.
fn tokens(input: ParseStream) -> Vec<TokenTree> {
    let mut tokens = Vec::new();
    while !input.is_empty() && !input.peek(Token![,]) && (tokens.is_empty() || !starts_option(input)) {
        let Ok(token) = input.parse() else { break };
        tokens.push(token);
    }
    tokens
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
    input.peek(Ident::peek_any)
        && (input.peek2(Token![=]) || input.fork().call(Ident::parse_any).is_ok_and(|name| is_option(&name)))
}

fn is_option(name: &Ident) -> bool {
    OPTIONS.iter().any(|option| name == option)
}
