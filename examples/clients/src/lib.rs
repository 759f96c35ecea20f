//! What a program has before it has locks: clients and pools of other crates. A package of its own,
//! because these take long to compile.

/// The page of the docs, whose code needs them.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/your-redis.md")]
mod page {}
