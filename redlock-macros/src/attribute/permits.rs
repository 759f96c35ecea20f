//! The value of `permits`, and of `take`.

use proc_macro2::{Literal, TokenStream};
use quote::ToTokens as _;
use syn::{Error, Expr, Lit, Result};

use super::recovery::written;
use super::value::{describe, literal, whole};

/// How many may hold the lock at once, or for how many of these a caller counts: known here, or an
/// expression.
pub(crate) enum Permits {
    Number(u32, Box<Expr>),
    Expr(Box<Expr>),
}

/// A number for an error.
const EXAMPLE: &str = "5";

/// The most that the runtime takes.
pub(super) const MOST: u32 = 10_000;

impl Permits {
    pub(crate) fn expression(&self) -> Option<&Expr> {
        match self {
            Self::Number(..) => None,
            Self::Expr(expr) => Some(expr),
        }
    }

    /// As an argument of a call.
    pub(crate) fn tokens(&self) -> TokenStream {
        match self {
            Self::Number(number, _) => Literal::u32_unsuffixed(*number).to_token_stream(),
            Self::Expr(expr) => expr.to_token_stream(),
        }
    }

    /// For its span.
    pub(crate) fn value(&self) -> &Expr {
        match self {
            Self::Number(_, value) | Self::Expr(value) => value,
        }
    }
}

/// The value of the option.
pub(crate) fn permits(value: Expr, option: &str) -> Result<Permits> {
    number(value, option, &|text| format!("{option} = {text}"))
}

/// The number in `permits(10)` in front of a key, or in `permits(10, take = 3)`.
pub(crate) fn permits_of_a_key(value: Expr, option: &str) -> Result<Permits> {
    number(value, option, &|text| match option {
        "permits" => format!("permits({text})"),
        _ => format!("{option} = {text}"),
    })
}

/// `with`: how a user writes the option with this value.
fn number(value: Expr, option: &str, with: &dyn Fn(&str) -> String) -> Result<Permits> {
    let Some(lit) = literal(&value)? else { return Ok(Permits::Expr(without_braces(value).into())) };
    let text = written(&value.to_token_stream()).replace("- ", "-");
    // The sign is not part of the literal.
    let is_negative = text.contains('-');
    let message = match lit {
        Lit::Int(number) => match number.base10_parse() {
            _ if is_negative => nobody(&with(&text), option),
            Ok(0) => nobody(&with(&text), option),
            Ok(number @ 1..=MOST) => return Ok(Permits::Number(number, value.into())),
            _ if option == "take" => format!("`{}` is too many: the most is {MOST}", with(&text)),
            _ => format!(
                "`{}` is too many: the most is {MOST}; without a limit, that is `shared`",
                with(&text)
            ),
        },
        Lit::Str(text) if text.value().parse::<u32>().is_ok() => {
            format!("a number has no quotes: write `{}`", with(&text.value()))
        }
        Lit::Str(text) if placeholder(&text.value()).is_some() => {
            let name = placeholder(&text.value()).unwrap_or_default();
            format!("`{option}` is a number, and not a template: write `{}`", with(&name))
        }
        lit => format!("expected a number such as `{}`, found {}", with(EXAMPLE), describe(lit)),
    };
    Err(Error::new_spanned(&value, message))
}

/// `{ limit }` is the argument of a call in the output, where rustc would call the braces unnecessary.
pub(super) fn without_braces(value: Expr) -> Expr {
    match &value {
        Expr::Block(block) if block.attrs.is_empty() && block.label.is_none() => {
            whole(&block.block).cloned().unwrap_or(value)
        }
        _ => value,
    }
}

/// What stands between the braces of a template that is nothing else.
pub(super) fn placeholder(template: &str) -> Option<String> {
    let inside = template.strip_prefix('{')?.strip_suffix('}')?;
    let is_name = |text: &str| !text.is_empty() && !text.contains(['{', '}', ':', '?']);
    is_name(inside).then(|| inside.to_owned())
}

/// `written`: the option and its value.
fn nobody(written: &str, option: &str) -> String {
    let why = if option == "take" { "is no permit" } else { "lets nobody in" };
    format!("`{written}` {why}: give at least 1")
}
