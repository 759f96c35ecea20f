//! What stands after the `=`: each kind of value, or the error that says how to write it.

use quote::ToTokens as _;
use syn::parse::ParseStream;
use syn::{Block, Error, Expr, ExprUnary, Ident, Lit, LitStr, Path, Result, Stmt, UnOp};

use crate::duration;
use crate::errors::{Errors, nearest};
use crate::options::hint;
use crate::template;

/// What is locked.
pub(crate) enum Key {
    Template(LitStr),
    Expr(Box<Expr>),
}

/// A duration.
pub(crate) enum Length {
    Millis(u64, LitStr),
    Forever,
    Expr(Box<Expr>),
}

/// `on_lost`, and what it says.
pub(crate) struct OnLost {
    pub(crate) name: Ident,
    pub(crate) finish: bool,
}

/// The shortest lease that the runtime takes.
const MIN_MILLIS: u64 = 10;

/// How others say what happens to a body that has lost its lock.
const ON_LOST: [(&str, &[&str]); 2] = [
    ("cancel", &["abort", "drop", "error", "fail", "interrupt", "kill", "stop"]),
    ("finish", &["complete", "continue", "go_on", "ignore", "keep", "nothing", "proceed", "run"]),
];

pub(crate) fn key(value: Expr, errors: &mut Errors) -> Option<Key> {
    if let Some(found) = bracketed(&value) {
        errors.at(&value, format!("expected one key, found {found}: write `{}` for several", hint("keys")));
        return None;
    }
    one_key(value, &format!("`{}`", hint("key")), errors)
}

/// A list that the compiler sees: what is in it can be checked.
pub(crate) fn keys(value: Expr, errors: &mut Errors) -> Option<Vec<Key>> {
    let list = match value {
        Expr::Array(list) => list,
        Expr::Group(group) => return keys(*group.expr, errors),
        Expr::Paren(paren) => return keys(*paren.expr, errors),
        other => {
            let expected = format!("expected a list such as `{}`", hint("keys"));
            let found = literal(&other);
            let message = match errors.keep(found)? {
                Some(Lit::Str(_)) => format!("{expected}, found a string: one key is `{}`", hint("key")),
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
        if let Key::Template(lit) = &key
            && keys.iter().any(|other| matches!(other, Key::Template(other) if other.value() == lit.value()))
        {
            errors.at(lit, format!("`{}` is in the list twice, and would be locked once", lit.value()));
        }
        keys.push(key);
    }
    Some(keys)
}

fn one_key(value: Expr, example: &str, errors: &mut Errors) -> Option<Key> {
    match errors.keep(literal(&value))? {
        Some(Lit::Str(lit)) => {
            if let Err(mistakes) = template::parse(&lit.value()) {
                for mistake in mistakes {
                    errors.at(lit, mistake);
                }
            }
            Some(Key::Template(lit.clone()))
        }
        Some(lit) => {
            errors.at(lit, format!("expected a string such as {example}, found {}", describe(lit)));
            None
        }
        None => Some(Key::Expr(value.into())),
    }
}

/// What holds several values, and is no key.
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

pub(crate) fn length(value: Expr, option: &str) -> Result<Length> {
    let Some(lit) = literal(&value)? else {
        if option == "wait" && matches!(&value, Expr::Path(path) if path.path.is_ident("forever")) {
            return Err(Error::new_spanned(&value, "this word goes in quotes: `wait = \"forever\"`"));
        }
        return Ok(Length::Expr(value.into()));
    };
    let Lit::Str(lit) = lit else {
        let message = match unquoted(lit).map(|text| (duration::parse(&text), text)) {
            Some((Ok(_), text)) => format!("a duration goes in quotes: `\"{text}\"`"),
            Some((Err(message), _)) => message,
            None => format!("expected a duration such as `{}`, found {}", hint(option), describe(lit)),
        };
        return Err(Error::new_spanned(&value, message));
    };
    let text = lit.value();
    if text == "forever" && option == "wait" {
        return Ok(Length::Forever);
    }
    let message = match duration::parse(&text) {
        Err(_) if text == "forever" => format!("`{option}` cannot be forever: {}", why_not_forever(option)),
        Err(_) if option == "wait" && ENDLESS.contains(&text.to_lowercase().as_str()) => {
            format!("`{text}` is not a duration: write `\"forever\"` to wait without limit")
        }
        Err(_) if option == "wait" && NOTHING.contains(&text.to_lowercase().as_str()) => {
            format!(
                "`{text}` is not a duration: leave `wait` out for one try, or write `\"forever\"` for no limit"
            )
        }
        Err(message) => message,
        Ok(millis) if millis < MIN_MILLIS && ["ttl", "max_hold"].contains(&option) => {
            let no_limit =
                if option == "max_hold" && millis == 0 { "; leave it out for no limit" } else { "" };
            format!("`{option} = \"{text}\"` is too short: the minimum is `{MIN_MILLIS}ms`{no_limit}")
        }
        Ok(millis) => return Ok(Length::Millis(millis, lit.clone())),
    };
    Err(Error::new_spanned(lit, message))
}

/// How others say that a caller waits without limit.
const ENDLESS: [&str; 8] =
    ["always", "endless", "eternity", "forever", "inf", "infinite", "infinity", "unlimited"];

/// What could be no time or no limit.
const NOTHING: [&str; 5] = ["never", "no", "none", "null", "off"];

/// `10s` as a number with a suffix, which the quotes were forgotten around.
fn unquoted(lit: &Lit) -> Option<String> {
    match lit {
        Lit::Int(lit) if !lit.suffix().is_empty() => Some(lit.to_string()),
        Lit::Float(lit) if !lit.suffix().is_empty() => Some(lit.to_string()),
        _ => None,
    }
}

fn why_not_forever(option: &str) -> &'static str {
    match option {
        "max_hold" => "leave it out, and nothing limits how long the lock is held",
        "min_hold" => "nobody would ever get the lock again",
        _ => "it frees the lock of a process that has crashed; a living one renews it",
    }
}

/// `true`, `false`, or one of them behind `!`, as a macro may have it: what it says is known here, or it is refused.
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

/// What `on_lost` says: false for `"cancel"`, true for `"finish"`.
pub(crate) fn finish_when_lost(value: &Expr) -> Result<bool> {
    let expected = "expected `on_lost = \"cancel\"` or `on_lost = \"finish\"`";
    let message = match literal(value)? {
        Some(Lit::Str(lit)) => match lit.value().as_str() {
            "cancel" => return Ok(false),
            "finish" => return Ok(true),
            text => match meant(text) {
                Some(word) => format!("unknown `on_lost = \"{text}\"`, did you mean `\"{word}\"`?"),
                None => format!("unknown `on_lost = \"{text}\"`, expected `\"cancel\"` or `\"finish\"`"),
            },
        },
        Some(lit) => format!("{expected}, found {}", describe(lit)),
        None => {
            let name = match value {
                Expr::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
                _ => None,
            };
            match name.as_deref().and_then(meant) {
                Some(word) => format!("expected a string: write `on_lost = \"{word}\"`"),
                None => expected.to_owned(),
            }
        }
    };
    Err(Error::new_spanned(value, message))
}

/// Our word for somebody's.
fn meant(text: &str) -> Option<&'static str> {
    let text = text.trim().to_lowercase();
    ON_LOST
        .iter()
        .find(|(ours, others)| *ours == text || others.contains(&text.as_str()))
        .map(|(ours, _)| *ours)
        .or_else(|| nearest(&text, ON_LOST.map(|(ours, _)| ours)))
}

pub(crate) fn binding(value: &Expr) -> Result<Ident> {
    let ident = match value {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Group(group) => return binding(&group.expr),
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
            Error::new_spanned(value, format!("expected a name for the guard, such as `guard = lock`{found}"))
        })
}

/// Any expression but a literal, which can be neither a manager nor a handler.
pub(crate) fn expression(value: Expr, hint: &str) -> Result<Expr> {
    match literal(&value)? {
        Some(lit) => Err(Error::new_spanned(lit, format!("expected `{hint}`, found {}", describe(lit)))),
        None => Ok(value),
    }
}

pub(crate) fn crate_path(input: ParseStream) -> Result<Path> {
    if input.peek(LitStr) {
        return Err(input.error("expected a path such as `crate = some_crate::redlocked`, found a string"));
    }
    input.call(Path::parse_mod_style)
}

/// The literal, if the value is one. An operator in front of it would be lost: it is an error.
fn literal(value: &Expr) -> Result<Option<&Lit>> {
    match bare(value) {
        Expr::Lit(lit) => Ok(Some(&lit.lit)),
        Expr::Unary(unary) => match (literal(&unary.expr)?, &unary.op) {
            // A number with its sign, which no option takes.
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

/// The expression inside what does not change its value: parentheses, references, the braces of a block that is nothing
/// else, and the invisible delimiters that a macro leaves.
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
fn whole(block: &Block) -> Option<&Expr> {
    match block.stmts.as_slice() {
        [Stmt::Expr(expr, None)] => Some(expr),
        _ => None,
    }
}

fn describe(lit: &Lit) -> &'static str {
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

    use super::{
        Errors, Key, Length, ON_LOST, boolean, expression, finish_when_lost, key, keys, length, meant,
    };

    #[test]
    fn what_is_not_a_list_of_keys() {
        for (text, hints) in [
            ("[]", vec!["the list is empty"]),
            ("\"a\"", vec!["found a string: one key is `key = "]),
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

    #[test]
    fn a_literal_is_known_inside_what_does_not_change_it() {
        for text in ["\"a\"", "(\"a\")", "&\"a\"", "{ \"a\" }", "&({ &\"a\" })", "const { \"a\" }"] {
            let mut errors = Errors::default();
            let found = syn::parse_str(text).ok().and_then(|value| key(value, &mut errors));
            assert!(matches!(found, Some(Key::Template(lit)) if lit.value() == "a"), "{text}");
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
                parse().and_then(|value| finish_when_lost(&value).map(drop)),
                parse().and_then(|value| expression(value, "manager = self.locks").map(drop)),
            ] {
                let error = error.map_err(|error| error.to_string());
                assert!(matches!(&error, Err(error) if error.ends_with(message)), "{text}: {error:?}");
            }
        }
    }

    fn on_lost(text: &str) -> Result<bool, String> {
        syn::parse_str(text).and_then(|value| finish_when_lost(&value)).map_err(|error| error.to_string())
    }

    #[test]
    fn on_lost_is_one_of_two_words() {
        assert_eq!(on_lost("\"cancel\""), Ok(false));
        assert_eq!(on_lost("\"finish\""), Ok(true));
        for (text, hint) in [
            ("\"Finish\"", "did you mean `\"finish\"`?"),
            ("\" cancel\"", "did you mean `\"cancel\"`?"),
            ("\"cancle\"", "did you mean `\"cancel\"`?"),
            ("\"cancelled\"", "expected `\"cancel\"` or `\"finish\"`"),
            ("\"abort\"", "did you mean `\"cancel\"`?"),
            ("\"continue\"", "did you mean `\"finish\"`?"),
            ("\"\"", "expected `\"cancel\"` or `\"finish\"`"),
            ("finish", "write `on_lost = \"finish\"`"),
            ("redlocked::OnLost::Cancel", "write `on_lost = \"cancel\"`"),
            ("handler", "expected `on_lost = \"cancel\"` or"),
            ("|error| ()", "expected `on_lost = \"cancel\"` or"),
            ("true", "found a boolean"),
            ("b\"finish\"", "found a byte string"),
        ] {
            let error = on_lost(text).err().unwrap_or_default();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn words_of_others_are_not_ours() {
        for (ours, others) in ON_LOST {
            for other in others {
                assert!(
                    meant(other) == Some(ours) && ON_LOST.iter().all(|(ours, _)| ours != other),
                    "{other}"
                );
            }
        }
    }
}
