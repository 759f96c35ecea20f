//! The scripts of locks that several may have at a time, of ticks, and of bodies that run once, called by
//! hand on a real server: what they do to the keys, whom they tell, and that a random mix of all kinds of
//! callers keeps the rule.
//!
//! `one_server` shows the same locks as callers see them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a test may panic"
)]

mod by_hand;
mod central;
mod counted;
mod failing;
mod full_server;
mod mistakes;
mod once;
mod random_kinds;
mod short_ways;
mod tickets;
mod ticks;
