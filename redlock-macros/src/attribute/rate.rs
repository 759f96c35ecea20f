//! The value of `rate`.

use syn::{Error, Expr, Lit, LitStr, Result};

use super::duration;
use super::options::hint;
use super::permits::{MOST, placeholder, without_braces};
use super::value::{describe, literal};

/// How many bodies may start in which time: known here, or an expression.
pub(crate) enum Rate {
    Starts(u32, u64, Box<Expr>),
    Expr(Box<Expr>),
}

/// The shortest time that the runtime takes.
const MIN_MILLIS: u64 = 10;

impl Rate {
    pub(crate) fn expression(&self) -> Option<&Expr> {
        match self {
            Self::Starts(..) => None,
            Self::Expr(expr) => Some(expr),
        }
    }

    /// For its span.
    pub(crate) fn value(&self) -> &Expr {
        match self {
            Self::Starts(.., value) | Self::Expr(value) => value,
        }
    }
}

pub(crate) fn rate(value: Expr) -> Result<Rate> {
    let Some(lit) = literal(&value)? else { return Ok(Rate::Expr(without_braces(value).into())) };
    let Lit::Str(text) = lit else {
        let message = format!("expected a rate such as `{}`, found {}", hint("rate"), describe(lit));
        return Err(Error::new_spanned(&value, message));
    };
    match read(text) {
        Ok((starts, millis)) => Ok(Rate::Starts(starts, millis, value.into())),
        Err(message) => Err(Error::new_spanned(text, message)),
    }
}

/// The starts, and the milliseconds of their time.
fn read(lit: &LitStr) -> std::result::Result<(u32, u64), String> {
    let text = lit.value();
    let Some((starts, per)) = text.split_once('/') else {
        return Err(format!("a rate is a number of starts, `/` and a time: write `{}`", hint("rate")));
    };
    let (starts, per) = (starts.trim(), per.trim());
    if placeholder(starts).is_some() || placeholder(per).is_some() {
        return Err("a rate is no template: give the number and the time as values, such as `rate = (limit, Duration::from_secs(60))`"
            .to_owned());
    }
    let number = match starts.parse::<u64>() {
        Ok(0) => return Err(format!("`rate = \"{text}\"` lets nobody start: give at least 1")),
        Ok(number) => u32::try_from(number).ok().filter(|number| *number <= MOST),
        Err(_) if starts.bytes().all(|byte| byte.is_ascii_digit()) && !starts.is_empty() => None,
        Err(_) => {
            return Err(format!("`{starts}` is no number of starts: write `{}`", hint("rate")));
        }
    };
    let Some(number) = number else {
        return Err(format!("`rate = \"{text}\"` is too many: the most is {MOST} starts"));
    };
    let millis = match duration::parse(per) {
        Ok(millis) => millis,
        Err(_) if duration::parse(&format!("1{per}")).is_ok() => {
            return Err(format!("the time has a number, too: write `rate = \"{number}/1{per}\"`"));
        }
        Err(message) => return Err(message),
    };
    if millis < MIN_MILLIS {
        return Err(format!("the time of `rate = \"{text}\"` is too short: the minimum is `{MIN_MILLIS}ms`"));
    }
    Ok((number, millis))
}
