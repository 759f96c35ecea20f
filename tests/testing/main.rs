//! The feature `testing`: what it promises to the tests of a user.
//!
//! | module | question |
//! | --- | --- |
//! | `controls` | what does each control of `testing()` do, in async and in sync code
//! | `constant_key` | which manager does a function without `manager` use in a test
//! | `leader` | can a test take the lead away and return it, and does a candidate wait while another process leads |
//! | `paused` | do leases, waits, renewals and ttls of `memory://` follow a paused clock |
//! | `ticks` | does a fleet run each tick once, on a clock that the test moves |
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod controls;
mod global;
mod leader;
mod paused;
mod same_as_redis;
mod shop;
mod ticks;

#[test]
fn the_page_has_the_lines_of_the_example() {
    let example = include_str!("shop.rs").split_once("\n\n").map_or("", |(_, lines)| lines);
    assert!(!example.is_empty() && include_str!("../../docs/testing.md").contains(example));
}
