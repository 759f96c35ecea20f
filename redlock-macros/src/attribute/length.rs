//! The value of an option that is a duration.

use quote::ToTokens as _;
use syn::{Error, Expr, Lit, LitStr, Path, Result};

use super::duration;
use super::options::hint;
use super::recovery::written;
use super::value::{describe, literal};

/// A duration: known here, or an expression.
pub(crate) enum Length {
    Millis(u64, LitStr),
    Forever,
    Expr(Box<Expr>),
}

/// The shortest lease that the runtime takes.
const MIN_MILLIS: u64 = 10;

/// The lengths of a tick that the runtime takes.
const TICK_MILLIS: std::ops::RangeInclusive<u64> = 1_000..=366 * 86_400_000;

pub(crate) fn length(value: Expr, option: &str) -> Result<Length> {
    let Some(lit) = literal(&value)? else {
        if option == "wait" && matches!(&value, Expr::Path(path) if path.path.is_ident("forever")) {
            return Err(Error::new_spanned(&value, "this word goes in quotes: `wait = \"forever\"`"));
        }
        return match optional(&value, option) {
            Some(message) => Err(Error::new_spanned(&value, message)),
            None => Ok(Length::Expr(value.into())),
        };
    };
    let Lit::Str(lit) = lit else {
        let message = match unquoted(lit).map(|text| (duration::parse(&text), text)) {
            Some((Ok(_), text)) => duration::quoted(&text),
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
        Ok(millis) if millis < MIN_MILLIS && ["ttl", "max_hold", "once"].contains(&option) => {
            let no_limit =
                if option == "max_hold" && millis == 0 { "; leave it out for no limit" } else { "" };
            format!("`{option} = \"{text}\"` is too short: the minimum is `{MIN_MILLIS}ms`{no_limit}")
        }
        Ok(millis) if option == "tick" && !TICK_MILLIS.contains(&millis) => {
            let (limit, what) = if millis < *TICK_MILLIS.start() {
                ("too short: the minimum is `1s`", "shorter than the clocks of a fleet are apart")
            } else {
                ("too long: the maximum is `366d`", "better named by `tick_at`")
            };
            format!("`tick = \"{text}\"` is {limit}, because such a tick is {what}")
        }
        Ok(millis) => return Ok(Length::Millis(millis, lit.clone())),
    };
    Err(Error::new_spanned(lit, message))
}

/// What to write for an `Option`, which is no duration.
fn optional(value: &Expr, option: &str) -> Option<String> {
    let last = |path: &Path| path.segments.last().map(|segment| segment.ident.to_string());
    match value {
        Expr::Path(path) if last(&path.path)? == "None" => {
            let otherwise = if option == "wait" {
                "for one try, or write `\"forever\"` for no limit"
            } else {
                "for its default"
            };
            Some(format!("`None` is no duration: leave `{option}` out {otherwise}"))
        }
        Expr::Call(call) => match (&*call.func, call.args.first()) {
            (Expr::Path(path), Some(inner)) if last(&path.path)? == "Some" => Some(format!(
                "a duration is given without `Some`: write `{option} = {}`",
                written(&inner.to_token_stream())
            )),
            _ => None,
        },
        _ => None,
    }
}

/// Other words for waiting without limit, for suggestions.
const ENDLESS: [&str; 8] =
    ["always", "endless", "eternity", "forever", "inf", "infinite", "infinity", "unlimited"];

/// Words that could mean "no time" as well as "no limit".
const NOTHING: [&str; 5] = ["never", "no", "none", "null", "off"];

/// `10s` without quotes: Rust reads it as a number with a suffix.
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
        "min_hold" => "the lock would never be free again",
        "tick" => "the function would run once and never again",
        "once" => "the server keeps each result for so long: write how long a repeated call may come",
        _ => "it frees the lock of a process that has crashed; a living one renews it",
    }
}
