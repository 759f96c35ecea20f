//! Mistakes on the way from a lock to its ticket, or from a writer to a reader, that rustc reports in words of another kind or not
//! at all.

use proc_macro2::{Ident, TokenStream, TokenTree};

use crate::attribute::LockArgs;
use crate::errors::Errors;
use crate::function::item::LockedFn;

/// The method that gives a lock away.
const INTO_TICKET: &str = "into_ticket";
const GIVES: [&str; 2] = [INTO_TICKET, "into_ticket_blocking"];

/// The method that lets readers in.
const DOWNGRADE: &str = "downgrade";
const SHARES: [&str; 2] = [DOWNGRADE, "downgrade_blocking"];

/// Refuses `into_ticket` of a guard, which is only lent to the body.
pub(crate) fn refuse_of_a_guard(args: &LockArgs, function: &LockedFn, errors: &mut Errors) {
    let Some(guard) = &args.guard else { return };
    calls(&function.body, guard, &GIVES, &mut |call| {
        errors.at(
            &call.method,
            format!(
                "`guard = {guard}` lends the lock to the body, and `{}` gives it away: write `ticket = {guard}` in place of \
                 `guard = {guard}`",
                call.method
            ),
        );
    });
}

/// True where that is refused: rustc then reads the body with the ticket that was meant.
pub(crate) fn gives_a_guard_away(args: &LockArgs, function: &LockedFn) -> bool {
    let mut found = false;
    args.guard.iter().for_each(|guard| calls(&function.body, guard, &GIVES, &mut |_| found = true));
    found
}

/// Refuses `.into_ticket(…).await` in a function that is not `async`.
pub(crate) fn refuse_await(args: &LockArgs, function: &LockedFn, errors: &mut Errors) {
    if let Some(guard) = &args.guard {
        calls(&function.body, guard, &SHARES, &mut |call| {
            if let Some(awaited) = call.awaited.as_ref().filter(|_| call.method == DOWNGRADE) {
                errors.at(
                    awaited,
                    format!(
                        "this function is not `async`: write `{guard}.downgrade_blocking()`, without `.await`"
                    ),
                );
            }
        });
    }
    let Some(ticket) = &args.ticket else { return };
    calls(&function.body, ticket, &GIVES, &mut |call| {
        if let Some(awaited) = call.awaited.as_ref().filter(|_| call.method == INTO_TICKET) {
            errors.at(
                awaited,
                format!("this function is not `async`: write `{ticket}.into_ticket_blocking(...)`, without `.await`"),
            );
        }
    });
}

/// Refuses `downgrade` of a lock that nobody may share.
pub(crate) fn refuse_downgrade(args: &LockArgs, function: &LockedFn, errors: &mut Errors) {
    let Some(guard) = args.binding() else { return };
    let Some((option, reason)) = alone_to_its_end(args) else { return };
    calls(&function.body, guard, &SHARES, &mut |call| {
        errors.at(&call.method, format!("`{}` does not go with `{option}`: {reason}", call.method));
    });
}

/// The option with which a lock cannot be downgraded, and why.
fn alone_to_its_end(args: &LockArgs) -> Option<(&'static str, &'static str)> {
    let is_run = "its body has the lock alone to its end";
    let found = [
        (args.keys.is_some(), "keys", "a downgrade is for one lock"),
        (args.permits.is_some(), "permits", "a permit does not become a shared lock"),
        (args.rate.is_some(), "rate", "a call under a rate holds nothing"),
        (args.tick.is_some(), "tick", is_run),
        (args.tick_at.is_some(), "tick_at", is_run),
        (args.once.is_some(), "once", is_run),
    ];
    found.into_iter().find(|(is_set, ..)| *is_set).map(|(_, option, reason)| (option, reason))
}

/// `lock.into_ticket(…)`, perhaps with `.await` behind it.
struct MethodCall {
    method: Ident,
    awaited: Option<Ident>,
}

/// Reports each such call on `name`, at any depth.
fn calls(tokens: &TokenStream, name: &Ident, methods: &[&str], report: &mut dyn FnMut(&MethodCall)) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let ident = |at: usize| match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => Some(ident),
        _ => None,
    };
    let is_dot = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(mark)) if mark.as_char() == '.');
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            calls(&group.stream(), name, methods, report);
        }
        let is_field = at.checked_sub(1).is_some_and(is_dot);
        if is_field || ident(at).is_none_or(|found| found != name) || !is_dot(at + 1) {
            continue;
        }
        let method = ident(at + 2).filter(|method| methods.iter().any(|name| *method == name));
        if let Some(method) = method {
            let awaited = ident(at + 5).filter(|word| is_dot(at + 4) && *word == "await").cloned();
            report(&MethodCall { method: method.clone(), awaited });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Errors, LockArgs, LockedFn, refuse_await, refuse_downgrade, refuse_of_a_guard};

    fn mistakes(args: &str, body: &str) -> Vec<String> {
        let mut errors = Errors::default();
        let args = LockArgs::parse(args.parse().unwrap_or_default(), &mut errors);
        let function: syn::Result<LockedFn> = syn::parse_str(&format!("fn f() {{ {body} }}"));
        assert!(function.is_ok(), "{body}: {:?}", function.err());
        let _ = function.map(|function| {
            refuse_of_a_guard(&args, &function, &mut errors);
            refuse_await(&args, &function, &mut errors);
            refuse_downgrade(&args, &function, &mut errors);
        });
        let errors =
            errors.finish().map(|errors| errors.into_iter().map(|error| error.to_string()).collect());
        errors.unwrap_or_default()
    }

    #[test]
    fn a_guard_is_lent() {
        for body in
            ["let t = lock.into_ticket(lasts).await?;", "if x { send(lock.into_ticket_blocking(lasts)?) }"]
        {
            let found = mistakes("key = \"a\", guard = lock", body);
            assert_eq!(found.len(), 1, "{body}: {found:?}");
            assert!(
                found[0].contains("write `ticket = lock` in place of `guard = lock`"),
                "{body}: {found:?}"
            );
        }
    }

    #[test]
    fn a_sync_function_awaits_nothing() {
        let found = mistakes("key = \"a\", ticket = held", "let t = { held.into_ticket(lasts).await }?;");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("write `held.into_ticket_blocking(...)`"), "{found:?}");
    }

    #[test]
    fn what_nobody_may_share_is_not_downgraded() {
        for option in ["permits = 3", "rate = \"5/1m\"", "tick = \"1h\"", "tick_at = at", "once = \"24h\""] {
            let args = format!("key = \"a\", {option}, guard = lock");
            let found = mistakes(&args, "if x { lock.downgrade_blocking()? }");
            assert_eq!(found.len(), 1, "{option}: {found:?}");
            assert!(found[0].starts_with("`downgrade_blocking` does not go with `"), "{option}: {found:?}");
        }
        let found = mistakes("keys = [\"a\", \"b\"], guard = lock", "lock.downgrade_blocking()");
        assert!(found.len() == 1 && found[0].contains("one lock"), "{found:?}");
        let found = mistakes("key = \"a\", guard = lock", "lock.downgrade().await?");
        assert!(found.len() == 1 && found[0].contains("`lock.downgrade_blocking()`"), "{found:?}");
    }

    #[test]
    fn nothing_to_say() {
        for (args, body) in [
            (
                "key = \"a\", guard = lock",
                "other.into_ticket(lasts).await; lock.is_held(); self.lock.into_ticket(x)",
            ),
            ("key = \"a\", ticket = lock", "lock.into_ticket_blocking(lasts)?; lock.into_ticket(lasts)"),
            ("key = \"a\"", "lock.into_ticket(lasts).await"),
            ("key = \"a\", guard = lock", "lock.downgrade_blocking()?; other.downgrade().await"),
            ("key = \"a\", permits = 3, guard = lock", "self.lock.downgrade_blocking(); lock.is_held()"),
        ] {
            assert_eq!(mistakes(args, body), [""; 0], "{body}");
        }
    }
}
