//! Mistakes on the way from a lock to its ticket that rustc reports in words of another kind.

use proc_macro2::{Ident, TokenStream, TokenTree};

use crate::attribute::LockArgs;
use crate::errors::Errors;
use crate::function::item::LockedFn;

/// The method that gives a lock away.
const INTO_TICKET: &str = "into_ticket";

/// Refuses `into_ticket` of a guard, which is only lent to the body.
pub(crate) fn refuse_of_a_guard(args: &LockArgs, function: &LockedFn, errors: &mut Errors) {
    let Some(guard) = &args.guard else { return };
    calls(&function.body, guard, &mut |call| {
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
    args.guard.iter().for_each(|guard| calls(&function.body, guard, &mut |_| found = true));
    found
}

/// Refuses `.into_ticket(…).await` in a function that is not `async`.
pub(crate) fn refuse_await(args: &LockArgs, function: &LockedFn, errors: &mut Errors) {
    let Some(ticket) = &args.ticket else { return };
    calls(&function.body, ticket, &mut |call| {
        if let Some(awaited) = call.awaited.as_ref().filter(|_| call.method == INTO_TICKET) {
            errors.at(
                awaited,
                format!("this function is not `async`: write `{ticket}.into_ticket_blocking(...)`, without `.await`"),
            );
        }
    });
}

/// `lock.into_ticket(…)`, perhaps with `.await` behind it.
struct MethodCall {
    method: Ident,
    awaited: Option<Ident>,
}

/// Reports each such call on `name`, at any depth.
fn calls(tokens: &TokenStream, name: &Ident, report: &mut dyn FnMut(&MethodCall)) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let ident = |at: usize| match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => Some(ident),
        _ => None,
    };
    let is_dot = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(mark)) if mark.as_char() == '.');
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            calls(&group.stream(), name, report);
        }
        let is_field = at.checked_sub(1).is_some_and(is_dot);
        if is_field || ident(at).is_none_or(|found| found != name) || !is_dot(at + 1) {
            continue;
        }
        let method =
            ident(at + 2).filter(|method| *method == INTO_TICKET || *method == "into_ticket_blocking");
        if let Some(method) = method {
            let awaited = ident(at + 5).filter(|word| is_dot(at + 4) && *word == "await").cloned();
            report(&MethodCall { method: method.clone(), awaited });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Errors, LockArgs, LockedFn, refuse_await, refuse_of_a_guard};

    fn mistakes(args: &str, body: &str) -> Vec<String> {
        let mut errors = Errors::default();
        let args = LockArgs::parse(args.parse().unwrap_or_default(), &mut errors);
        let function: syn::Result<LockedFn> = syn::parse_str(&format!("fn f() {{ {body} }}"));
        assert!(function.is_ok(), "{body}: {:?}", function.err());
        let _ = function.map(|function| {
            refuse_of_a_guard(&args, &function, &mut errors);
            refuse_await(&args, &function, &mut errors);
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
    fn nothing_to_say() {
        for (args, body) in [
            (
                "key = \"a\", guard = lock",
                "other.into_ticket(lasts).await; lock.is_held(); self.lock.into_ticket(x)",
            ),
            ("key = \"a\", ticket = lock", "lock.into_ticket_blocking(lasts)?; lock.into_ticket(lasts)"),
            ("key = \"a\"", "lock.into_ticket(lasts).await"),
        ] {
            assert_eq!(mistakes(args, body), [""; 0], "{body}");
        }
    }
}
