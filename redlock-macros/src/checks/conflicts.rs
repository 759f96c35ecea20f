//! Options that contradict one another or the function, as far as literals prove it.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{
    Expr, GenericArgument, Ident, PathArguments, PathSegment, ReturnType, Signature, Type, TypeReference,
};

use crate::attribute::keys::KeyKind;
use crate::attribute::length::Length;
use crate::attribute::permits::Permits;
use crate::attribute::rate::Rate;
use crate::attribute::recovery::written;
use crate::attribute::value::{OnLost, WhenLost};
use crate::attribute::{LockArgs, Once};
use crate::errors::Errors;

/// Options that contradict one another, independent of the function.
pub(crate) fn between_options(args: &LockArgs, errors: &mut Errors) {
    if args.renew == Some(false) {
        without_renewal(args, errors);
    }
    if let (Some(Length::Millis(max, max_lit)), Some(Length::Millis(min, min_lit))) =
        (&args.max_hold, &args.min_hold)
        && min > max
    {
        let (min, max) = (min_lit.value(), max_lit.value());
        errors.at(min_lit, format!("`min_hold = \"{min}\"` is longer than `max_hold = \"{max}\"`: shorten it, or raise `max_hold`"));
    }
    if let Some(ticket) = &args.ticket {
        with_a_ticket(args, ticket, errors);
    }
    with_a_tick(args, errors);
    if args.is_released_in_background()
        && args.once.is_some()
        && let Some(release) = &args.release
    {
        errors.at(
            &release.name,
            "a body that runs once waits until its result is stored: remove `release_in_background`",
        );
    }
    if args.is_released_in_background()
        && let Some(OnLost { value: Some(WhenLost::Error), .. }) = &args.on_lost
        && let Some(release) = &args.release
    {
        errors.at(
            &release.name,
            "`on_lost = \"error\"` tells the caller of a loss that only the release finds: remove `release_in_background`, or `on_lost`",
        );
    }
    if let Some(rate) = &args.rate {
        with_a_rate(args, rate, errors);
    }
    if let (Some(_), Some(permits)) = (&args.shared, &args.permits) {
        errors.at(
            permits.value(),
            "`shared` lets in any number of callers, and `permits` a limited one: remove one of them",
        );
    }
    match (&args.take, &args.permits) {
        (Some(take), None) if args.rate.is_none() => {
            errors.at(
                take.value(),
                "`take` says how many of the `permits` a caller takes: write `permits = 10`, too, or remove `take`",
            );
        }
        (Some(take), Some(permits)) => more_than_there_are(take, permits, errors),
        _ => {}
    }
    for listed in args.keys.iter().flatten() {
        if let KeyKind::Permits { permits, take: Some(take) } = &listed.kind {
            more_than_there_are(take, permits, errors);
        }
    }
    if args.keys.is_some() {
        let subject = "each key of a list says by itself who may hold it";
        if let Some(shared) = &args.shared {
            errors
                .at(shared, format!("{subject}: write `keys = [shared \"...\", ...]`, and remove `shared`"));
        }
        if let Some(permits) = &args.permits {
            let advice = "write `keys = [permits(5) \"...\", ...]`, and remove `permits`";
            errors.at(permits.value(), format!("{subject}: {advice}"));
        }
    }
    if let Some(once) = &args.once {
        with_once(args, once, errors);
    }
    // A tick may be taken, however long its caller waits.
    if let (Some(Length::Forever), Some(on_busy), None) = (&args.wait, &args.on_busy, subject_of_a_tick(args))
    {
        errors.at(
            on_busy,
            "`on_busy` never applies: with `wait = \"forever\"` no caller finds the lock busy: give `wait` a limit, or \
             remove `on_busy`",
        );
    }
}

/// Refuses to take more permits than there are.
fn more_than_there_are(take: &Permits, permits: &Permits, errors: &mut Errors) {
    if let (Permits::Number(take, value), Permits::Number(permits, _)) = (take, permits)
        && take > permits
    {
        let most = format!("take {permits} at most, or raise `permits`");
        errors.at(value, format!("nobody can take {take} of {permits} permits: {most}"));
    }
}

/// Starts are limited, and nothing is held.
fn with_a_rate(args: &LockArgs, rate: &Rate, errors: &mut Errors) {
    let holds_nothing = "a `rate` limits starts, and nothing is held";
    let is_a_tick = args.tick.is_some() || args.tick_at.is_some();
    let refused = [
        (args.keys.is_some(), "a `rate` is that of one key", "keys"),
        (args.shared.is_some(), holds_nothing, "shared"),
        (args.permits.is_some(), holds_nothing, "permits"),
        (args.take.is_some(), "each call under a `rate` is one start", "take"),
        (args.ttl.is_some(), holds_nothing, "ttl"),
        (args.renew.is_some(), holds_nothing, "renew"),
        (args.max_hold.is_some(), holds_nothing, "max_hold"),
        (args.min_hold.is_some(), holds_nothing, "min_hold"),
        (is_a_tick, "one body runs for a tick", if args.tick.is_some() { "tick" } else { "tick_at" }),
        (args.on_lost.is_some(), holds_nothing, "on_lost"),
        (args.release.is_some(), holds_nothing, "release_in_background"),
        (args.reentrant == Some(true), "each call under a `rate` is a start of its own", "reentrant"),
        (args.guard.is_some(), holds_nothing, "guard"),
        (args.ticket.is_some(), holds_nothing, "ticket"),
        (args.once.is_some(), "a body that runs once starts once for its key", "once"),
    ];
    for (_, why, other) in refused.into_iter().filter(|(is_given, ..)| *is_given) {
        errors.at(rate.value(), format!("{why}: remove `{other}`, or `rate`"));
    }
}

/// A body whose result is kept.
fn with_once(args: &LockArgs, once: &Once, errors: &mut Errors) {
    let Some(word) = once.words.iter().find(|word| *word == "once").or(once.words.first()) else { return };
    if word != "once" {
        errors.at(
            word,
            format!("`{word}` is about a body that runs once: write `once = \"24h\"`, too, or remove it"),
        );
    }
    let refused = [
        (
            args.keys.is_some(),
            "has one key, which its result is for: lock one `key`, and the others inside it",
        ),
        (args.shared.is_some(), "has its lock alone: remove `once`, or `shared`"),
        (args.permits.is_some(), "has its lock alone: remove `once`, or `permits`"),
        (args.min_hold.is_some(), "does not run again while its result is kept: remove `min_hold`"),
        (
            args.ticket.is_some(),
            "stores its result when its holder releases the lock: remove `once`, or `ticket`",
        ),
        (
            args.tick.is_some() || args.tick_at.is_some(),
            "has one result for its key, and a tick runs it again each time: remove `once`, or the tick",
        ),
        (args.reentrant == Some(true), "cannot join the lock of its caller: remove `once`, or `reentrant`"),
    ];
    for (_, why) in refused.into_iter().filter(|(is_given, _)| *is_given) {
        errors.at(word, format!("a body that runs once {why}"));
    }
}

/// A body gives one lock of its own away.
fn with_a_ticket(args: &LockArgs, ticket: &Ident, errors: &mut Errors) {
    if args.guard.is_some() {
        errors.at(
            ticket,
            format!("`ticket = {ticket}` binds the guard, too, as in `{ticket}.is_held()`: remove `guard`"),
        );
    }
    if args.keys.is_some() {
        errors.at(ticket, "a ticket is for one lock: lock one `key`, or remove `ticket`");
    }
    if args.shared.is_some() || args.permits.is_some() {
        let option = if args.shared.is_some() { "shared" } else { "permits" };
        errors.at(
            ticket,
            format!("a ticket gives a lock from its one holder to the next: remove `ticket`, or `{option}`"),
        );
    }
    if args.reentrant == Some(true) {
        errors.at(
            ticket,
            "a `reentrant` call may have joined the lock of its caller, which alone can give it away: remove `ticket`, or \
             `reentrant`",
        );
    }
}

/// What says which tick it is.
fn subject_of_a_tick(args: &LockArgs) -> Option<TokenStream> {
    let length = args.tick.as_ref().map(|tick| match tick {
        Length::Millis(_, lit) => lit.to_token_stream(),
        Length::Expr(expr) => expr.to_token_stream(),
        Length::Forever => TokenStream::new(),
    });
    length.or_else(|| args.tick_at.as_ref().map(ToTokens::to_token_stream))
}

/// One body runs for a tick, for one key, and under a lock of its own.
fn with_a_tick(args: &LockArgs, errors: &mut Errors) {
    let Some(tick) = subject_of_a_tick(args) else {
        if let Some(missed) = &args.tick_missed {
            errors.at(
                &missed.name,
                "`tick_missed` says what becomes of a tick, and there is none: give `tick = \"1h\"` or `tick_at = fire_time`, too",
            );
        }
        return;
    };
    if let (Some(_), Some(at)) = (&args.tick, &args.tick_at) {
        errors.at(at, "`tick` has the server name the tick, and `tick_at` names it: remove one of them");
    }
    let option = if args.tick.is_some() { "tick" } else { "tick_at" };
    let refused = [
        (args.keys.is_some(), "keys", "a tick is that of one key"),
        (args.shared.is_some(), "shared", "one body runs for a tick"),
        (args.permits.is_some(), "permits", "one body runs for a tick"),
        (
            args.min_hold.is_some(),
            "min_hold",
            "a tick is taken until the next one, however short its body is",
        ),
        (
            args.reentrant == Some(true),
            "reentrant",
            "a call that joins the lock of its caller has no tick of its own",
        ),
        (args.ticket.is_some(), "ticket", "a ticket gives a lock away, and not the tick that it is for"),
    ];
    for (_, other, why) in refused.into_iter().filter(|(is_given, ..)| *is_given) {
        errors.at(&tick, format!("{why}: remove `{other}`, or `{option}`"));
    }
}

/// Without renewal the lock ends after its `ttl`, so no other limit can be longer.
fn without_renewal(args: &LockArgs, errors: &mut Errors) {
    if let Some(max_hold) = &args.max_hold {
        let reason = "`renew = false` already limits the lock to its `ttl`";
        match max_hold {
            Length::Millis(_, lit) => {
                let max = lit.value();
                errors.at(lit, format!("{reason}: write `ttl = \"{max}\"` instead of `max_hold`"));
            }
            Length::Expr(max) => errors.at(max, format!("{reason}: give this as `ttl`, not as `max_hold`")),
            Length::Forever => {}
        }
    }
    if let (Some(Length::Millis(ttl, ttl_lit)), Some(Length::Millis(min, min_lit))) =
        (&args.ttl, &args.min_hold)
        && min > ttl
    {
        let (ttl, min) = (ttl_lit.value(), min_lit.value());
        errors.at(
            min_lit,
            format!(
                "`min_hold = \"{min}\"` is longer than `ttl = \"{ttl}\"`, and with `renew = false` the key may \
                 be gone by then: write `ttl = \"{min}\"`"
            ),
        );
    }
}

/// Options that a sync function cannot have.
pub(crate) fn with_a_sync_body(args: &LockArgs, errors: &mut Errors) {
    if let Some(spawn) = args.spawn() {
        errors.at(spawn, "a sync body runs to its end, whether its caller waits or not: remove `spawn`");
    }
    let Some(OnLost { name, value: Some(WhenLost::Cancel | WhenLost::Finish) }) = &args.on_lost else {
        return;
    };
    let ask = match args.binding() {
        Some(guard) => format!("remove it and ask `{guard}.is_held()`"),
        None => "remove it, bind `guard = lock` and ask `lock.is_held()`".to_owned(),
    };
    errors.at(
        name,
        format!(
            "a sync body cannot be cancelled when its lock is lost: write `on_lost = \"error\"`, and its caller gets an error in \
             the end, or {ask}"
        ),
    );
}

/// A closure in the place of a value of the return type, and a body that runs once without a result to keep.
pub(crate) fn with_the_return_type(args: &LockArgs, sig: &Signature, errors: &mut Errors) {
    if let Some(word) = args.once.as_ref().and_then(|once| once.words.first())
        && sig.asyncness.is_some()
    {
        match &sig.output {
            ReturnType::Type(_, ty) if is_opaque(ty) => errors.at(
                ty,
                "a body that runs once stores its result, and `impl Trait` is no type that a later call could read it as: name the type",
            ),
            ReturnType::Type(_, ty) if matches!(&**ty, Type::Path(_) | Type::Macro(_)) => {}
            _ => errors.at(word, "a body that runs once returns a `Result`, whose `Ok` is stored"),
        }
    }
    if args.once.is_some()
        && let ReturnType::Type(_, ty) = &sig.output
        && let Some(borrowed) = borrowed_value(ty)
    {
        let advice = match &*borrowed.elem {
            Type::Path(ty) if ty.path.is_ident("str") => "return a `String`".to_owned(),
            Type::Slice(slice) => format!("return a `Vec<{}>`", written(&slice.elem.to_token_stream())),
            ty => format!("return the `{}` itself", written(&ty.to_token_stream())),
        };
        errors.at(
            borrowed,
            format!("a body that runs once stores its result, and a later call has nothing that it could borrow from: {advice}"),
        );
    }
    let is_result = matches!(&sig.output, ReturnType::Type(_, ty)
        if matches!(&**ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Result")));
    if let Some(Expr::Closure(closure)) = &args.on_busy
        && is_result
    {
        let value = written(&closure.body.to_token_stream());
        errors.at(
            closure,
            format!("`on_busy` is the value to return, and not a closure: write `on_busy = {value}`"),
        );
    }
}

/// The first reference in the type of an `Ok`: in the first argument of a `Result`, at any depth.
fn borrowed_value(ty: &Type) -> Option<&TypeReference> {
    fn first(ty: &Type) -> Option<&TypeReference> {
        match ty {
            Type::Reference(reference) => Some(reference),
            Type::Group(ty) => first(&ty.elem),
            Type::Paren(ty) => first(&ty.elem),
            Type::Array(ty) => first(&ty.elem),
            Type::Slice(ty) => first(&ty.elem),
            Type::Tuple(ty) => ty.elems.iter().find_map(first),
            Type::Path(ty) => arguments(ty.path.segments.last()?).find_map(first),
            _ => None,
        }
    }
    let Type::Path(ty) = ty else { return None };
    let last = ty.path.segments.last().filter(|last| last.ident.to_string().ends_with("Result"))?;
    first(arguments(last).next()?)
}

/// The types between the angle brackets.
fn arguments(segment: &PathSegment) -> impl Iterator<Item = &Type> {
    let given = match &segment.arguments {
        PathArguments::AngleBracketed(given) => Some(&given.args),
        _ => None,
    };
    given.into_iter().flatten().filter_map(|given| match given {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// True for `impl Trait`, and for a `Result` of it.
fn is_opaque(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return matches!(ty, Type::ImplTrait(_)) };
    path.path.segments.last().is_some_and(|last| match &last.arguments {
        PathArguments::AngleBracketed(given) => {
            given.args.iter().any(|given| matches!(given, GenericArgument::Type(Type::ImplTrait(_))))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::{Errors, LockArgs, between_options, with_a_sync_body, with_the_return_type};

    #[test]
    fn a_closure_is_no_result() {
        for (output, message) in [
            (
                "Result<u32, E>",
                "`on_busy` is the value to return, and not a closure: write `on_busy = Ok(1)`",
            ),
            (
                "std::io::Result<u32>",
                "`on_busy` is the value to return, and not a closure: write `on_busy = Ok(1)`",
            ),
            ("impl Fn(u32) -> Result<u32, E>", ""),
            ("Handler", ""),
        ] {
            let mut errors = Errors::default();
            let text = "key = \"a\", on_busy = |error| Ok(1)";
            let args = LockArgs::parse(text.parse().unwrap_or_default(), &mut errors);
            let sig = syn::parse_str(&format!("fn f() -> {output}"));
            assert!(
                sig.is_ok_and(|sig| {
                    with_the_return_type(&args, &sig, &mut errors);
                    errors.finish().map(|error| error.to_string()).unwrap_or_default() == message
                }),
                "{output}"
            );
        }
    }

    #[test]
    fn a_result_that_is_stored_borrows_nothing() {
        for (output, message) in [
            ("Result<&str, E>", "return a `String`"),
            ("anyhow::Result<Vec<&'a [u8]>>", "return a `Vec<u8>`"),
            ("Result<(u32, Option<&'static Order>), E>", "return the `Order` itself"),
            ("Result<u32, &'static str>", ""),
            ("Result<Cow<'a, str>, E>", ""),
            ("Vec<&str>", ""),
        ] {
            let mut errors = Errors::default();
            let args = LockArgs::parse("key = \"a\", once = \"1h\"".parse().unwrap_or_default(), &mut errors);
            let sig = syn::parse_str(&format!("async fn f() -> {output}"));
            assert!(sig.is_ok(), "{output}");
            let _ = sig.map(|sig| with_the_return_type(&args, &sig, &mut errors));
            let error = errors.finish().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.ends_with(message) && error.is_empty() == message.is_empty(), "{output}: {error}");
        }
    }

    fn mistakes(text: &str, sync: bool) -> Vec<String> {
        let mut errors = Errors::default();
        let args = LockArgs::parse(text.parse().unwrap_or_default(), &mut errors);
        between_options(&args, &mut errors);
        if sync {
            with_a_sync_body(&args, &mut errors);
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
            "min_hold = \"10s\", ttl = \"10s\", renew = false",
            "min_hold = min, ttl = \"10s\", renew = false",
            "min_hold = \"11s\", ttl = \"10s\"",
            "wait = \"0s\", on_busy = None",
            "max_hold = \"1m\", ttl = \"10s\"",
            "max_hold = \"1m\", ttl = \"10s\", renew = true",
            "max_hold = \"1s\", on_lost = \"finish\"",
            "on_lost = \"cancel\"",
            "shared, reentrant, wait = \"1s\"",
            "shared = false, permits = 5, min_hold = \"1m\"",
            "permits = { limit }, on_busy = None",
            "rate = \"5/1m\", wait = \"30s\"",
            "rate = (limit, per), on_busy = None",
            "permits = 5, take = 5",
            "permits = 5, take = { size }",
            "permits = { limit }, take = 6",
            "tick = \"1h\", on_busy = Ok(()), wait = \"forever\"",
            "tick_at = at, tick_missed = \"skip\", guard = lock, reentrant = false",
            "release_in_background, on_lost = \"finish\", min_hold = \"1m\"",
            "release_in_background = false, on_lost = \"error\"",
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
            ("renew = false, max_hold = \"10s\"", vec!["write `ttl = \"10s\"` instead of `max_hold`"]),
            ("renew = false, max_hold = a + b", vec!["give this as `ttl`, not as `max_hold`"]),
            ("ttl = \"10s\", renew = false, min_hold = \"11s\"", vec!["gone by then: write `ttl = \"11s\"`"]),
            ("wait = \"forever\", on_busy = Ok(())", vec!["`on_busy` never applies"]),
            ("ticket = lock, guard = held", vec!["binds the guard, too"]),
            ("ticket = lock, reentrant", vec!["which alone can give it away"]),
            ("ticket = lock, shared", vec!["remove `ticket`, or `shared`"]),
            ("ticket = lock, permits = n", vec!["remove `ticket`, or `permits`"]),
            ("shared, permits = 5", vec!["remove one of them"]),
            ("take = 2", vec!["write `permits = 10`, too, or remove `take`"]),
            ("shared, take = { n }", vec!["write `permits = 10`, too, or remove `take`"]),
            ("rate = \"5/1m\", permits = 5", vec!["nothing is held: remove `permits`, or `rate`"]),
            ("rate = \"5/1m\", shared", vec!["remove `shared`, or `rate`"]),
            ("rate = \"5/1m\", take = 2", vec!["is one start: remove `take`, or `rate`"]),
            ("rate = \"5/1m\", ttl = \"10s\"", vec!["remove `ttl`, or `rate`"]),
            ("rate = \"5/1m\", renew = true", vec!["remove `renew`, or `rate`"]),
            ("rate = \"5/1m\", max_hold = \"10s\"", vec!["remove `max_hold`, or `rate`"]),
            ("rate = \"5/1m\", min_hold = \"10s\"", vec!["remove `min_hold`, or `rate`"]),
            ("rate = \"5/1m\", tick = \"1h\"", vec!["remove `tick`, or `rate`"]),
            ("rate = \"5/1m\", tick_at = at", vec!["remove `tick_at`, or `rate`"]),
            ("rate = \"5/1m\", on_lost = \"cancel\"", vec!["remove `on_lost`, or `rate`"]),
            ("rate = \"5/1m\", release_in_background", vec!["remove `release_in_background`, or `rate`"]),
            ("rate = \"5/1m\", reentrant", vec!["a start of its own: remove `reentrant`, or `rate`"]),
            ("rate = \"5/1m\", guard = lock", vec!["remove `guard`, or `rate`"]),
            ("rate = \"5/1m\", ticket = lock", vec!["remove `ticket`, or `rate`"]),
            ("rate = \"5/1m\", once = \"1h\"", vec!["remove `once`, or `rate`"]),
            ("permits = 5, take = 6", vec!["nobody can take 6 of 5 permits: take 5 at most"]),
            ("tick_missed = \"retry\"", vec!["there is none"]),
            ("tick = \"1h\", tick_at = at", vec!["remove one of them"]),
            ("tick = \"1h\", shared", vec!["remove `shared`, or `tick`"]),
            ("tick_at = at, permits = 5", vec!["remove `permits`, or `tick_at`"]),
            ("tick = hour, min_hold = \"1m\"", vec!["remove `min_hold`, or `tick`"]),
            ("tick = \"1h\", reentrant", vec!["remove `reentrant`, or `tick`"]),
            ("tick = \"1h\", ticket = lock", vec!["remove `ticket`, or `tick`"]),
            (
                "release_in_background, once = \"1h\"",
                vec!["until its result is stored: remove `release_in_background`"],
            ),
            (
                "release_in_background, on_lost = \"error\"",
                vec!["that only the release finds: remove `release_in_background`"],
            ),
            ("permits = n, shared = true", vec!["remove one of them"]),
            (
                "max_hold = \"1m\", min_hold = \"2m\", renew = false, ttl = \"59s\", wait = 1",
                vec![
                    "found an integer",
                    "instead of `max_hold`",
                    "write `ttl = \"2m\"`",
                    "`max_hold = \"1m\"`",
                ],
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
            ("on_lost = \"finish\", guard = held", "remove it and ask `held.is_held()`"),
            ("on_lost = \"finish\"", "write `on_lost = \"error\"`"),
        ] {
            let errors = mistakes(&format!("key = \"a\", {text}"), true);
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(errors[0].contains(hint), "{text}: {errors:?}");
        }
        for text in ["max_hold = \"1m\", guard = lock", "on_lost = \"error\""] {
            assert!(mistakes(&format!("key = \"a\", {text}"), true).is_empty(), "{text}");
        }
    }
}
