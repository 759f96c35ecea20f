//! The values after `=`: each is parsed, or refused with an error that shows how to write it.

use quote::ToTokens as _;
use syn::parse::ParseStream;
use syn::{Block, Error, Expr, ExprUnary, Ident, Lit, LitStr, Path, Result, Stmt, UnOp};

use super::recovery::written;
use crate::errors::nearest;

/// `on_lost` and its value.
pub(crate) struct OnLost {
    pub(crate) name: Ident,
    /// `None` after an error.
    pub(crate) value: Option<WhenLost>,
}

/// `release_in_background` and its value.
pub(crate) struct Release {
    pub(crate) name: Ident,
    pub(crate) in_background: bool,
}

/// What happens to a body whose lock is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WhenLost {
    Cancel,
    Finish,
    Error,
}

/// The values of `on_lost`, each with other words for it, for suggestions.
const ON_LOST: [(&str, WhenLost, &[&str]); 3] = [
    ("cancel", WhenLost::Cancel, &["abort", "drop", "interrupt", "kill", "stop"]),
    (
        "finish",
        WhenLost::Finish,
        &["complete", "continue", "go_on", "ignore", "keep", "nothing", "proceed", "run"],
    ),
    ("error", WhenLost::Error, &["err", "fail", "failure", "report", "return"]),
];

const EXPECTED: &str = "`\"cancel\"`, `\"finish\"` or `\"error\"`";

/// `true` or `false`, perhaps behind `!`, as a `macro_rules!` may write it. Other expressions are
/// not known here.
pub(crate) fn boolean(value: &Expr, option: &str) -> Result<bool> {
    fn known(value: &Expr) -> Option<bool> {
        match bare(value) {
            Expr::Lit(lit) => {
                if let Lit::Bool(lit) = &lit.lit {
                    Some(lit.value)
                } else {
                    None
                }
            }
            Expr::Unary(ExprUnary { op: UnOp::Not(_), expr, .. }) => known(expr).map(|value| !value),
            _ => None,
        }
    }
    let expected = || Error::new_spanned(value, format!("expected `{option} = true` or `{option} = false`"));
    known(value).ok_or_else(expected)
}

pub(crate) fn when_lost(value: &Expr) -> Result<WhenLost> {
    word(value, "on_lost", &ON_LOST, EXPECTED)
}

/// A word of an option, with what others call it.
type Word<T> = (&'static str, T, &'static [&'static str]);

/// One of the words of an option.
fn word<T: Copy>(value: &Expr, option: &str, words: &[Word<T>], all: &str) -> Result<T> {
    let expected = format!("expected `{option}` to be {all}");
    let message = match literal(value)? {
        Some(Lit::Str(lit)) => {
            let text = lit.value();
            if let Some((_, value, _)) = words.iter().find(|(name, ..)| *name == text) {
                return Ok(*value);
            }
            match meant(&text, words) {
                Some(word) => format!("unknown `{option} = \"{text}\"`, did you mean `\"{word}\"`?"),
                None => format!("unknown `{option} = \"{text}\"`, expected {all}"),
            }
        }
        Some(lit) => format!("{expected}, found {}", describe(lit)),
        None => {
            let name = match value {
                Expr::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
                _ => None,
            };
            match name.as_deref().and_then(|name| meant(name, words)) {
                Some(word) => format!("expected a string: write `{option} = \"{word}\"`"),
                None => expected,
            }
        }
    };
    Err(Error::new_spanned(value, message))
}

/// What happens to a body that runs once: it runs again, or its caller gets an error.
pub(crate) fn reruns(value: &Expr, option: &str) -> Result<bool> {
    let text = match literal(value)? {
        Some(Lit::Str(lit)) => lit.value(),
        _ => String::new(),
    };
    match text.as_str() {
        "rerun" => Ok(true),
        "error" => Ok(false),
        _ => Err(Error::new_spanned(
            value,
            format!("expected `{option} = \"rerun\"` or `{option} = \"error\"`"),
        )),
    }
}

/// The word that `text` was probably meant to be.
fn meant<T>(text: &str, words: &[Word<T>]) -> Option<&'static str> {
    let text = text.trim().to_lowercase();
    words
        .iter()
        .find(|(ours, _, others)| *ours == text || others.contains(&text.as_str()))
        .map(|(ours, ..)| *ours)
        .or_else(|| nearest(&text, words.iter().map(|(ours, ..)| *ours)))
}

/// `tick_missed` and its value.
pub(crate) struct TickMissed {
    pub(crate) name: Ident,
    /// `None` after an error.
    pub(crate) value: Option<WhenMissed>,
}

/// What becomes of a tick whose run has not ended well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WhenMissed {
    Skip,
    Retry,
}

pub(crate) fn when_missed(value: &Expr) -> Result<WhenMissed> {
    const EXPECTED: &str = "`\"skip\"` or `\"retry\"`";
    let message = match literal(value)? {
        Some(Lit::Str(lit)) => match lit.value().as_str() {
            "skip" => return Ok(WhenMissed::Skip),
            "retry" => return Ok(WhenMissed::Retry),
            text => format!("unknown `tick_missed = \"{text}\"`, expected {EXPECTED}"),
        },
        Some(lit) => format!("expected `tick_missed` to be {EXPECTED}, found {}", describe(lit)),
        None => format!("expected `tick_missed` to be {EXPECTED}"),
    };
    Err(Error::new_spanned(value, message))
}

/// The nominal time of a tick: any expression but a literal.
pub(crate) fn time(value: Expr, hint: &str) -> Result<Expr> {
    match literal(&value)? {
        Some(lit @ Lit::Str(_)) => Err(Error::new_spanned(
            lit,
            format!(
                "expected a time, as in `{hint}`, found a string: the length of a tick is `tick = \"1h\"`"
            ),
        )),
        _ => expression(value, hint),
    }
}

/// The name that `option` binds.
pub(crate) fn binding(value: &Expr, option: &str) -> Result<Ident> {
    let ident = match value {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Group(group) => return binding(&group.expr, option),
        _ => None,
    };
    ident
        .filter(|ident| !["self", "Self", "super", "crate"].contains(&ident.to_string().as_str()))
        .cloned()
        .ok_or_else(|| {
            let found = literal(value)
                .ok()
                .flatten()
                .map(|lit| format!(", found {}", describe(lit)))
                .unwrap_or_default();
            Error::new_spanned(
                value,
                format!("expected a name for the {option}, such as `{option} = lock`{found}"),
            )
        })
}

/// Any expression but a literal: no literal is a manager or a handler.
pub(crate) fn expression(value: Expr, hint: &str) -> Result<Expr> {
    match literal(&value)? {
        Some(lit) => Err(Error::new_spanned(lit, format!("expected `{hint}`, found {}", describe(lit)))),
        None => Ok(value),
    }
}

/// The manager; `connect` without `.await` is none.
pub(crate) fn manager(value: Expr, hint: &str) -> Result<Expr> {
    let mut called = bare(&value);
    while let Expr::Try(tried) = called {
        called = bare(&tried.expr);
    }
    let connect = match called {
        Expr::MethodCall(call) => Some(&call.method),
        Expr::Call(call) => match &*call.func {
            Expr::Path(func) if func.path.segments.iter().any(|it| it.ident == "LockManager") => {
                func.path.segments.last().map(|it| &it.ident)
            }
            _ => None,
        },
        _ => None,
    };
    match connect.filter(|name| *name == "connect") {
        Some(connect) => Err(Error::new_spanned(
            connect,
            "`connect` is `async`: write `.await` behind it, or connect once, and name the manager here",
        )),
        None => expression(value, hint),
    }
}

/// What makes a value of the error; a value by itself does not.
pub(crate) fn handler(value: Expr, hint: &str) -> Result<Expr> {
    let given = match &value {
        Expr::Return(given) => given.expr.as_deref().unwrap_or(&value),
        _ => &value,
    };
    let is_value = match bare(&value) {
        Expr::Call(call) => {
            matches!(&*call.func, Expr::Path(path) if ["Ok", "Err", "Some"].iter().any(|name| path.path.is_ident(name)))
        }
        Expr::Path(path) => path.path.is_ident("None"),
        Expr::Return(_) | Expr::Tuple(_) => true,
        Expr::Macro(called) => ["panic", "todo", "unimplemented", "unreachable"]
            .iter()
            .any(|name| called.mac.path.is_ident(name)),
        _ => false,
    };
    if is_value {
        let written = written(&given.to_token_stream());
        let message = format!("`on_error` is called with the error: write `on_error = |_| {written}`");
        return Err(Error::new_spanned(value, message));
    }
    expression(value, hint)
}

pub(crate) fn crate_path(input: ParseStream) -> Result<Path> {
    if input.peek(LitStr) {
        return Err(input.error("expected a path such as `crate = some_crate::redlocked`, found a string"));
    }
    input.call(Path::parse_mod_style)
}

/// The literal, if the value is one. An operator before it is an error, because it would be
/// ignored.
pub(super) fn literal(value: &Expr) -> Result<Option<&Lit>> {
    match bare(value) {
        Expr::Lit(lit) => Ok(Some(&lit.lit)),
        Expr::Unary(unary) => match (literal(&unary.expr)?, &unary.op) {
            // The caller refuses it, with its sign.
            (Some(lit @ (Lit::Int(_) | Lit::Float(_))), UnOp::Neg(_)) => Ok(Some(lit)),
            (Some(lit), op) => {
                let (found, op_text) = (describe(lit), op.to_token_stream());
                Err(Error::new_spanned(op, format!("`{op_text}` before {found}: remove the `{op_text}`")))
            }
            (None, _) => Ok(None),
        },
        _ => Ok(None),
    }
}

/// The string, if the value is one.
pub(crate) fn string(value: &Expr) -> Result<Option<&LitStr>> {
    Ok(literal(value)?.and_then(|lit| if let Lit::Str(lit) = lit { Some(lit) } else { None }))
}

/// The expression inside what does not change its value: parentheses, references, the braces of a
/// block that is nothing else, and the invisible delimiters that a macro leaves.
fn bare(value: &Expr) -> &Expr {
    let inside = match value {
        Expr::Group(group) => Some(&*group.expr),
        Expr::Paren(paren) => Some(&*paren.expr),
        Expr::Reference(reference) => Some(&*reference.expr),
        Expr::Block(block) => whole(&block.block),
        Expr::Unsafe(block) => whole(&block.block),
        Expr::Const(block) => whole(&block.block),
        _ => None,
    };
    inside.map_or(value, bare)
}

/// The expression that is the whole block.
pub(super) fn whole(block: &Block) -> Option<&Expr> {
    match block.stmts.as_slice() {
        [Stmt::Expr(expr, None)] => Some(expr),
        _ => None,
    }
}

pub(super) fn describe(lit: &Lit) -> &'static str {
    match lit {
        Lit::Str(_) => "a string",
        Lit::ByteStr(_) => "a byte string",
        Lit::CStr(_) => "a C string",
        Lit::Byte(_) => "a byte",
        Lit::Char(_) => "a character",
        Lit::Int(_) => "an integer",
        Lit::Float(_) => "a float",
        Lit::Bool(_) => "a boolean",
        _ => "a literal",
    }
}

#[cfg(test)]
mod tests {
    use syn::Expr;

    use super::{ON_LOST, WhenLost, Word, boolean, expression, meant, when_lost};
    use crate::attribute::keys::{Key, key};
    use crate::attribute::length::{Length, length};
    use crate::errors::Errors;

    #[test]
    fn a_literal_is_known_inside_what_does_not_change_it() {
        for text in ["\"a\"", "(\"a\")", "&\"a\"", "{ \"a\" }", "&({ &\"a\" })", "const { \"a\" }"] {
            let mut errors = Errors::default();
            let found = syn::parse_str(text).ok().and_then(|value| key(value, &mut errors));
            assert!(matches!(found, Some(Key::Template(template)) if template.text() == "a"), "{text}");
            assert!(errors.finish().is_none(), "{text}");
            let found = syn::parse_str(&text.replace('a', "10s")).and_then(|value| length(value, "ttl"));
            assert!(matches!(found, Ok(Length::Millis(10_000, _))), "{text}");
        }
        for text in ["{ use_it(); \"a\" }", "'a: { \"a\" }.b", "a(\"a\")", "\"a\".b()"] {
            let found = syn::parse_str(text).ok().and_then(|value| key(value, &mut Errors::default()));
            assert!(matches!(found, Some(Key::Expr(_))), "{text}");
        }
    }

    #[test]
    fn an_operator_before_a_literal_is_not_lost() {
        for (text, expected) in [
            ("true", Ok(true)),
            ("!true", Ok(false)),
            ("!!true", Ok(true)),
            ("!(false)", Ok(true)),
            ("-true", Err("expected `renew = true` or `renew = false`")),
            ("!once", Err("expected `renew = true` or `renew = false`")),
        ] {
            let found = syn::parse_str(text).and_then(|value| boolean(&value, "renew"));
            assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{text}");
        }
        for (text, message) in [
            ("-\"a\"", "`-` before a string: remove the `-`"),
            ("(!(\"a\"))", "`!` before a string: remove the `!`"),
            ("*\"a\"", "`*` before a string: remove the `*`"),
            ("-1", "found an integer"),
            ("- -1.5", "found a float"),
        ] {
            let parse = || syn::parse_str::<Expr>(text);
            let mut errors = Errors::default();
            assert!(parse().is_ok_and(|value| key(value, &mut errors).is_none()), "{text}");
            assert!(errors.finish().is_some_and(|error| error.to_string().ends_with(message)), "{text}");
            for error in [
                parse().and_then(|value| length(value, "ttl").map(drop)),
                parse().and_then(|value| when_lost(&value).map(drop)),
                parse().and_then(|value| expression(value, "manager = self.locks").map(drop)),
            ] {
                let error = error.map_err(|error| error.to_string());
                assert!(matches!(&error, Err(error) if error.ends_with(message)), "{text}: {error:?}");
            }
        }
    }

    fn on_lost(text: &str) -> Result<WhenLost, String> {
        syn::parse_str(text).and_then(|value| when_lost(&value)).map_err(|error| error.to_string())
    }

    #[test]
    fn on_lost_is_one_of_three_words() {
        for (name, value, _) in ON_LOST {
            assert_eq!(on_lost(&format!("\"{name}\"")), Ok(value));
        }
        for (text, hint) in [
            ("\"Finish\"", "did you mean `\"finish\"`?"),
            ("\" cancel\"", "did you mean `\"cancel\"`?"),
            ("\"cancle\"", "did you mean `\"cancel\"`?"),
            ("\"cancelled\"", "expected `\"cancel\"`, `\"finish\"` or `\"error\"`"),
            ("\"fail\"", "did you mean `\"error\"`?"),
            ("\"abort\"", "did you mean `\"cancel\"`?"),
            ("\"continue\"", "did you mean `\"finish\"`?"),
            ("\"\"", "expected `\"cancel\"`, `\"finish\"` or `\"error\"`"),
            ("finish", "write `on_lost = \"finish\"`"),
            ("redlocked::OnLost::Cancel", "write `on_lost = \"cancel\"`"),
            ("handler", "expected `on_lost` to be `\"cancel\"`,"),
            ("|error| ()", "expected `on_lost` to be `\"cancel\"`,"),
            ("true", "found a boolean"),
            ("b\"finish\"", "found a byte string"),
        ] {
            let error = on_lost(text).err().unwrap_or_default();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn words_of_others_are_not_ours() {
        fn are_not_ours<T>(words: &[Word<T>]) {
            for (ours, _, others) in words {
                for other in *others {
                    let is_ours = words.iter().any(|(ours, ..)| ours == other);
                    assert!(meant(other, words) == Some(*ours) && !is_ours, "{other}");
                }
            }
        }
        are_not_ours(&ON_LOST);
    }
}
