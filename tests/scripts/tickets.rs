//! What the value of a lock says of a ticket.

use redis::Value;

use crate::by_hand::{CLAIM, CLOCK, LOCK, QUEUE, Scripts};

/// The keys of scripts that give a lock away.
const KEYS: [&str; 4] = [LOCK, QUEUE, CLOCK, CLAIM];

/// The value behind the token.
fn behind<'a>(value: &'a str, token: &str) -> &'a str {
    value.strip_prefix(token).unwrap_or_else(|| panic!("it is not the lock of {token}: {value}"))
}

#[test]
fn a_ticket_has_a_zero_in_front_of_its_time_until_it_is_redeemed() {
    for (is_passed_on, has_waiter) in [(false, false), (false, true), (true, false), (true, true)] {
        let what = format!("passed on: {is_passed_on}, a waiter: {has_waiter}");
        let mut scripts = Scripts::start();
        for inbox in ["one", "two"] {
            scripts.listen(inbox);
        }
        let (giver, _) = scripts.inside(1, 20_000, "one");
        let waiter = has_waiter.then(|| scripts.waiting(1, 20_000, "two").0);
        let (mark, grace) = if has_waiter { ("!", 100) } else { ("", 0) };
        let ticket = if is_passed_on { scripts.caller(1, 20_000, "one") } else { giver.clone() };
        let mut arguments = vec![&*giver.token, "60000", "ticket", "one"];
        if is_passed_on {
            arguments.extend(["", &*ticket.token]);
        }
        let before = scripts.state().at;
        let script = if is_passed_on { "pass_on" } else { "renew" };
        assert_eq!(scripts.call_with(script, &KEYS, &arguments), Value::Int(1), "{what}");
        let state = scripts.state();
        let time =
            behind(&state.value, &ticket.token).strip_prefix("=0").and_then(|time| time.strip_suffix(mark));
        assert!(time.is_some_and(|time| time.parse::<u64>().is_ok()), "{what}: {}", state.value);
        // In whole ms.
        let lasts = state.at + state.px - before;
        let longest = 60_000 + grace + (state.at - before);
        assert!((60_000 + grace - 1..=longest + 1).contains(&lasts), "{what}: {lasts}");

        let redeemer = scripts.caller(1, 20_000, "two");
        assert!(scripts.redeem(&redeemer, &ticket.token) > 0, "{what}");
        let value = scripts.state().value;
        assert!(!behind(&value, &redeemer.token).starts_with("=0"), "{what}: {value}");
        assert!(scripts.leave(&redeemer));
        if let Some(waiter) = waiter {
            scripts.only_inside(&[&waiter]);
        }
    }
}

#[test]
fn a_lock_that_is_kept_for_a_while_is_no_ticket() {
    let mut scripts = Scripts::start();
    let (holder, _) = scripts.inside(1, 20_000, "one");
    let arguments = [&*holder.token, "60000", "exactly", "one"];
    assert_eq!(scripts.call_with("renew", &KEYS, &arguments), Value::Int(1));
    assert_eq!(scripts.state().value, holder.token);
}
