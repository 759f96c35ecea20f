//! Options that contradict one another, or the function: only what literals prove.

use crate::args::LockArgs;
use crate::errors::Errors;
use crate::value::Length;

/// What cannot hold together, whatever the function is.
pub(crate) fn combinations(args: &LockArgs, errors: &mut Errors) {
    let Some(Length::Millis(max, max_lit)) = &args.max_hold else {
        return;
    };
    let max_text = max_lit.value();
    if let (Some(false), Some(Length::Millis(ttl, ttl_lit))) = (args.renew, &args.ttl)
        && max >= ttl
    {
        let ttl_text = ttl_lit.value();
        errors.at(
            max_lit,
            format!(
                "`max_hold = \"{max_text}\"` never applies: with `renew = false` the lock is lost when its \
                 `ttl = \"{ttl_text}\"` has passed"
            ),
        );
    }
    if let Some(Length::Millis(min, min_lit)) = &args.min_hold
        && min > max
    {
        let min_text = min_lit.value();
        errors.at(min_lit, format!("`min_hold = \"{min_text}\"` is longer than `max_hold = \"{max_text}\"`"));
    }
}

/// What makes no sense for a sync function.
pub(crate) fn blocking(args: &LockArgs, errors: &mut Errors) {
    let Some(on_lost) = &args.on_lost else {
        return;
    };
    let remedy = match &args.guard {
        Some(guard) => format!("remove `on_lost`, and ask `{guard}.is_held()`"),
        None => "remove `on_lost`, bind `guard = lock`, and ask `lock.is_held()`".to_owned(),
    };
    errors.at(&on_lost.name, format!("a sync body cannot be cancelled when its lock is lost: {remedy}"));
}

#[cfg(test)]
mod tests {
    use super::{Errors, LockArgs, blocking};

    fn mistakes(text: &str, sync: bool) -> Vec<String> {
        let mut errors = Errors::default();
        let args = LockArgs::parse(text.parse().unwrap_or_default(), &mut errors);
        if sync {
            blocking(&args, &mut errors);
        }
        let errors =
            errors.finish().map(|errors| errors.into_iter().map(|error| error.to_string()).collect());
        errors.unwrap_or_default()
    }

    #[test]
    fn what_makes_sense() {
        for text in [
            "min_hold = \"1m\", max_hold = \"1m\"",
            "min_hold = \"1m\", max_hold = max",
            "min_hold = min, max_hold = \"1m\"",
            "min_hold = \"0s\"",
            "min_hold = \"5m\", ttl = \"10s\", renew = false",
            "max_hold = \"1m\", ttl = \"10s\"",
            "max_hold = \"1m\", ttl = \"10s\", renew = true",
            "max_hold = \"9s\", ttl = \"10s\", renew = false",
            "max_hold = \"1m\", ttl = ttl, renew = false",
            "max_hold = \"1m\", renew = false",
            "max_hold = \"1s\", on_lost = \"finish\"",
            "on_lost = \"cancel\"",
        ] {
            let errors = mistakes(&format!("key = \"a\", {text}"), false);
            assert!(errors.is_empty(), "{text}: {errors:?}");
        }
    }

    #[test]
    fn what_does_not() {
        for (text, hints) in [
            (
                "max_hold = \"59s\", min_hold = \"1m\"",
                vec!["`min_hold = \"1m\"` is longer than `max_hold = \"59s\"`"],
            ),
            ("ttl = \"10s\", renew = false, max_hold = \"10s\"", vec!["`max_hold = \"10s\"` never applies"]),
            (
                "max_hold = \"1m\", min_hold = \"2m\", renew = false, ttl = \"59s\", wait = 1",
                vec!["found an integer", "never applies", "is longer"],
            ),
        ] {
            let errors = mistakes(&format!("key = \"a\", {text}"), false);
            assert_eq!(errors.len(), hints.len(), "{text}: {errors:?}");
            for (error, hint) in errors.iter().zip(hints) {
                assert!(error.contains(hint), "{text}: {error}");
            }
        }
    }

    #[test]
    fn a_sync_body_is_not_cancelled() {
        for (text, hint) in [
            ("on_lost = \"finish\"", "bind `guard = lock`"),
            ("on_lost = \"cancel\"", "ask `lock.is_held()`"),
            ("on_lost = \"finish\", guard = held", "remove `on_lost`, and ask `held.is_held()`"),
        ] {
            let errors = mistakes(&format!("key = \"a\", {text}"), true);
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(errors[0].contains(hint), "{text}: {errors:?}");
        }
        assert!(mistakes("key = \"a\", max_hold = \"1m\", guard = lock", true).is_empty());
    }
}
