//! Models of the protocol, explored to the end: every order of events that the bounds allow, not a
//! sample. And each model again with one mistake in it, which must be found: a model that finds
//! nothing proves nothing.
//!
//! The first lines of a model say what is in it, what is left out and why, and which mistakes are
//! found.
#![allow(clippy::panic, reason = "a test may panic")]

mod central_limit;
mod downgrade;
mod hand_off;
mod once;
mod plain_fence;
mod quorum;
mod rate;
mod several_keys;
mod stalled_front;
mod tickets;
mod ticks;

use std::fmt::Debug;
use std::hash::Hash;
use std::io::Write;
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Printed for the reader of a test run.
fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Each `always` property holds in every state, and each `sometimes` property in one.
fn holds<M>(name: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let begun = Instant::now();
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    report(&format!(
        "{name}: {} states, at most {} steps deep, {:.1?}",
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed()
    ));
    assert!(checker.is_done(), "{name}: not explored to the end");
    checker.assert_properties();
}

/// With this mistake, the `always` property of this name is violated.
fn finds<M>(mistake: &str, property: &'static str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    assert!(model.property(property).expectation == Expectation::Always);
    let checker = model.checker().finish_when(HasDiscoveries::AllOf([property].into())).spawn_bfs().join();
    let trace = checker.discovery(property).unwrap_or_else(|| panic!("not found: {mistake}"));
    let steps: Vec<String> = trace.into_actions().iter().map(|action| format!("{action:?}")).collect();
    report(&format!("{mistake}: found in {} states: {}", checker.unique_state_count(), steps.join(", ")));
}
