//! What attempts have met, in which states of the lock table (`engine/lock_table/lock/simulation_hooks.rs` tells
//! it), and what they never have.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

/// A state, an event, and what of it.
type Pair = (&'static str, &'static str, &'static str);

thread_local! {
    static HERE: RefCell<BTreeMap<Pair, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// An attempt in this state has met this event.
pub(crate) fn count(state: &'static str, event: &'static str, what: &'static str) {
    // A thread that ends drops what is left of a world.
    let pair = if what.is_empty() { (state, "", event) } else { (state, event, what) };
    let _ = HERE.try_with(|here| *here.borrow_mut().entry(pair).or_default() += 1);
}

/// What was counted in this thread since the last call.
pub(crate) fn take() -> Coverage {
    Coverage(HERE.with_borrow_mut(std::mem::take))
}

/// How often each pair was seen.
#[derive(Clone, Debug, Default)]
pub struct Coverage(BTreeMap<Pair, u64>);

impl Coverage {
    /// What another run has seen.
    pub fn add(&mut self, other: &Self) {
        for (pair, count) in &other.0 {
            *self.0.entry(*pair).or_default() += count;
        }
    }
}

/// A pair in words.
fn words((state, event, what): Pair) -> String {
    let (event, what) = if event.is_empty() { (what, "") } else { (event, what) };
    format!("{state}: {event} {what}").trim_end().to_owned()
}

fn list(pairs: impl Iterator<Item = String>) -> String {
    let pairs: Vec<_> = pairs.collect();
    if pairs.is_empty() { "none".to_owned() } else { pairs.join("; ") }
}

impl Display for Coverage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let possible: BTreeSet<Pair> = POSSIBLE
            .iter()
            .flat_map(|(state, event, whats)| whats.iter().map(move |what| (*state, *event, *what)))
            .collect();
        let never = || possible.iter().filter(|pair| !self.0.contains_key(*pair));
        let unlisted = self.0.keys().filter(|pair| !possible.contains(*pair));
        let mut seen: Vec<_> = self.0.iter().map(|(pair, count)| (*count, *pair)).collect();
        seen.sort_unstable();
        let seen = seen.into_iter().map(|(count, pair)| format!("{} {count}", words(pair)));
        let (all, missing) = (possible.len(), never().count());
        writeln!(f, "{} of {all} pairs of a state of an attempt and an event seen", all - missing)?;
        writeln!(f, "never: {}", list(never().map(|pair| words(*pair))))?;
        writeln!(f, "seen, but not in the list: {}", list(unlisted.map(|pair| words(*pair))))?;
        write!(f, "how often, the rarest first: {}", list(seen))
    }
}

/// What can happen to an attempt on servers: its state, the event, and what of it. From what long
/// runs have seen and what the table has an arm for; what else is seen is printed, too. An attempt
/// is gone when a late answer or message for it arrives.
#[rustfmt::skip]
const POSSIBLE: &[(&str, &str, &[&str])] = &[
    ("asking", "", &["abandon", "changed", "disconnected", "other abilities", "shutdown", "slots returned"]),
    ("asking", "acquire", &["not run", "busy for a tick", "claimed for a tick", "granted for a tick", "tick taken", "busy", "busy, queued", "claimed", "contended", "granted", "no fence", "no script", "outcome unknown", "queue full", "refused", "refused for now", "skipped", "unfinished"]),
    ("asking", "push", &["done", "granted", "left free", "next", "place lost", "revoked"]),
    ("asking", "redeem", &["granted", "no script", "no ticket", "outcome unknown", "refused", "refused for now"]),
    ("asking", "renew", &["done", "no script", "not held", "outcome unknown", "refused", "refused for now"]),
    ("asking", "timer", &["long wait", "wait over"]),
    ("asking", "watch", &["free", "held", "not held", "refused", "refused for now"]),
    ("behind another", "", &["abandon", "changed", "connected", "disconnected", "other abilities", "passed on", "shutdown", "slots returned", "unreachable"]),
    ("behind another", "acquire", &["outcome unknown"]),
    ("behind another", "push", &["granted", "left free", "next", "place lost"]),
    ("behind another", "timer", &["long wait", "wait over"]),
    ("gone", "", &["abandon", "downgrade", "extend", "hand over", "release"]),
    ("gone", "acquire", &["busy", "busy, queued", "claimed", "contended", "granted", "no fence", "no script", "outcome unknown", "refused", "refused for now", "skipped", "unfinished", "not run"]),
    ("gone", "announce", &["done", "not held"]),
    ("gone", "downgrade", &["no script", "not held", "outcome unknown", "refused", "refused for now", "reserved", "unfinished"]),
    ("gone", "draw", &["not held"]),
    ("gone", "push", &["done", "granted", "left free", "next", "place lost", "revoked"]),
    ("gone", "redeem", &["granted", "no ticket"]),
    ("gone", "release", &["contended", "done", "no script", "not held", "outcome unknown", "refused", "refused for now", "unfinished"]),
    ("gone", "renew", &["done", "no script", "not held", "outcome unknown", "refused", "refused for now"]),
    ("gone", "reserve", &["no script", "not held", "refused", "reserved"]),
    ("gone", "watch", &["done", "free", "held", "no script", "not held", "outcome unknown", "refused", "refused for now"]),
    ("handing over", "", &["abandon", "changed", "connected", "disconnected", "shutdown", "slots returned", "unreachable"]),
    ("handing over", "acquire", &["busy, queued", "claimed"]),
    ("handing over", "announce", &["done"]),
    ("handing over", "renew", &["done", "not held", "refused"]),
    ("handing over", "reserve", &["no script", "not held", "refused", "refused for now", "reserved"]),
    ("handing over", "timer", &["expired", "no reservation", "renew"]),
    ("handing over", "watch", &["done", "free", "held", "not held", "refused"]),
    ("held", "", &["abandon", "changed", "connected", "disconnected", "downgrade", "extend", "hand over", "other abilities", "release", "shutdown", "slots returned", "unreachable"]),
    ("held", "acquire", &["claimed for a tick", "busy, queued", "claimed", "granted", "outcome unknown", "refused", "refused for now", "unfinished", "no script"]),
    ("held", "announce", &["done", "not held", "outcome unknown"]),
    ("held", "downgrade", &["no script", "not held", "outcome unknown", "refused", "refused for now", "reserved", "unfinished"]),
    ("held", "draw", &["no script", "not held", "outcome unknown", "refused", "refused for now", "reserved", "no fence"]),
    ("held", "renew", &["done", "no script", "not held", "outcome unknown", "refused", "refused for now"]),
    ("held", "reserve", &["no script", "not held", "refused", "refused for now", "reserved"]),
    ("held", "timer", &["closed", "downgrade", "expired", "renew"]),
    ("held", "watch", &["done", "free", "held", "no script", "not held", "outcome unknown", "refused", "refused for now"]),
    ("pausing", "", &["abandon", "changed", "connected", "disconnected", "other abilities", "passed on", "shutdown", "slots returned", "unreachable"]),
    ("pausing", "acquire", &["not run", "claimed for a tick", "tick taken", "busy", "busy, queued", "claimed", "granted", "outcome unknown", "refused", "refused for now", "unreachable"]),
    ("pausing", "push", &["done", "granted", "left free", "next", "place lost"]),
    ("pausing", "renew", &["done", "not held", "outcome unknown", "refused"]),
    ("pausing", "timer", &["ask", "long wait", "wait over"]),
    ("pausing", "watch", &["free", "held", "not held", "outcome unknown", "refused", "refused for now"]),
    ("queued", "", &["abandon", "changed", "disconnected", "other abilities", "passed on", "shutdown", "slots returned"]),
    ("queued", "acquire", &["busy, queued", "claimed"]),
    ("queued", "push", &["done", "granted", "left free", "next", "place lost"]),
    ("queued", "renew", &["done"]),
    ("queued", "timer", &["long wait", "wait over"]),
    ("releasing", "", &["abandon", "changed", "connected", "disconnected", "downgrade", "extend", "hand over", "other abilities", "release", "shutdown", "slots returned", "unreachable"]),
    ("releasing", "acquire", &["not run", "busy for a tick", "claimed for a tick", "granted for a tick", "tick taken", "busy", "busy, queued", "claimed", "contended", "granted", "no fence", "no script", "outcome unknown", "queue full", "refused", "refused for now", "skipped", "unfinished"]),
    ("releasing", "announce", &["done", "not held", "refused for now"]),
    ("releasing", "downgrade", &["no script", "not held", "outcome unknown", "refused", "refused for now", "reserved", "unfinished"]),
    ("releasing", "draw", &["not held", "refused", "reserved"]),
    ("releasing", "push", &["done", "granted", "left free", "next", "place lost"]),
    ("releasing", "redeem", &["granted", "no ticket", "outcome unknown", "refused", "refused for now"]),
    ("releasing", "release", &["contended", "done", "no script", "not held", "outcome unknown", "refused", "refused for now", "unfinished"]),
    ("releasing", "renew", &["done", "no script", "not held", "outcome unknown", "refused", "refused for now"]),
    ("releasing", "reserve", &["no script", "not held", "refused", "refused for now", "reserved"]),
    ("releasing", "timer", &["again"]),
    ("releasing", "watch", &["done", "free", "held", "no script", "not held", "outcome unknown", "refused", "refused for now"]),
    ("unconnected", "", &["abandon", "changed", "connected", "shutdown", "unreachable"]),
    ("unconnected", "acquire", &["busy", "refused for now"]),
    ("unconnected", "timer", &["long wait", "wait over"]),
    ("unconnected", "watch", &["free", "not held", "refused for now"]),
];
