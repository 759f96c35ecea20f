//! The pages of the documentation: what to choose, what to do, and what is promised. They are here
//! for `cargo doc` alone; a program cannot name this module.
//!
//! - **Tutorials**, whole programs to start from: [recipes][recipes], [a web framework][web],
//!   [testing][testing].
//! - **How-to**, what to choose: [which tool][which-tool], [options][options], [how many at
//!   once][how-many], [ticks][ticks], [once][once], [a leader][leader], [tickets][tickets].
//! - **How-to**, what to do: [the manager][manager], [your Redis client][your-redis],
//!   [migrating][migrating], [operating][operating], [dashboard][dashboard], [troubleshooting][troubleshooting],
//!   [tuning][tuning].
//! - **Reference**: [the attribute][attribute], [errors][errors], [addresses][addresses],
//!   [access rules][access-rules], [servers][servers], [the command line][command-line],
//!   [limits][limits], [glossary][glossary].
//! - **Explanation**: [topologies][topologies], [comparison][comparison], [stability][stability],
//!   [design][design].
#![doc = ""]
#![doc = include_str!("links.md")]

/// Makes a module for each page, whose code is a doctest. The list of modules shows the sentence with
/// which the page opens; on the page it is hidden, because it would stand there twice.
macro_rules! pages {
    ($($(#[$when:meta])* $page:ident: $path:literal => $opening:literal),* $(,)?) => {
        $(
            $(#[$when])*
            // A failed doctest is named by the first file.
            #[cfg_attr(not(doctest), doc = concat!("<span hidden>", $opening, "</span>"))]
            #[cfg_attr(not(doctest), doc = "")]
            #[cfg_attr(not(doctest), doc = include_str!("links.md"))]
            #[cfg_attr(not(doctest), doc = "")]
            #[doc = include_str!(concat!("../docs/", $path))]
            pub mod $page {}
        )*
    };
}

pages! {
    access_rules: "access-rules.md" => "Give redlocked its own Redis user with the smallest rights (`ACL`, Redis 6 and later).",
    #[cfg(any(not(doctest), feature = "tls"))]
    addresses: "addresses.md" => "Write the address of your Redis: each form that a manager, `REDLOCK_URL` and `REDIS_URL` accept.",
    command_line: "command-line.md" => "Show the locks on a server, take them away, and run any program under a lock.",
    comparison: "comparison.md" => "Compare redlocked with other crates that lock with Redis.",
    // Its pictures: a page of the rustdoc has no file beside it.
    #[cfg_attr(not(doctest), doc = include_str!("pictures.md"))]
    dashboard: "dashboard.md" => "See your locks live in a browser: who holds each, who waits, and who held it in the last minutes.",
    design: "design.md" => "Understand the protocol that redlocked speaks with Redis, and the engine that speaks it.",
    errors: "errors.md" => "Look up what each `LockError` says, what it means, and what to do.",
    glossary: "glossary.md" => "Look up the words of these pages.",
    how_many: "how-many.md" => "Let several callers in at once: readers, a number of permits, or so many starts a minute.",
    leader: "leader.md" => "Run a loop in one process of many, while the others wait to take it over.",
    limits: "limits.md" => "Look up each limit, and what happens beyond it.",
    manager: "manager.md" => "Use a `LockManager` to lock without the attribute, inspect locks, check the server, and shut down without leaving locks behind.",
    migrating: "migrating.md" => "Move a service from another lock to redlocked, one instance at a time.",
    #[cfg(any(not(doctest), feature = "once"))]
    once: "once.md" => "Run a body once for a key, and give its result to every caller, now and later.",
    operating: "operating.md" => "Run a service with locks: what to alert on, what to do then, and each metric, span and log line.",
    options: "options.md" => "Choose the options that a situation needs.",
    recipes: "recipes.md" => "Start from a whole program.",
    servers: "servers.md" => "Check what your version of Redis or Valkey can do.",
    stability: "stability.md" => "Look up what stays compatible when you update redlocked, and what may change.",
    #[cfg(any(not(doctest), feature = "testing"))]
    testing: "testing.md" => "Test your functions without a server: with busy, lost and unavailable locks, and with a clock that the test controls.",
    tickets: "tickets.md" => "Take a lock in one process and release it in another.",
    ticks: "ticks.md" => "Run a job once for each tick of a timer that fires in every replica.",
    topologies: "topologies.md" => "Choose the servers for the locks, by what each choice guarantees.",
    troubleshooting: "troubleshooting.md" => "Find the message that you see, what it means, and what to do.",
    tuning: "tuning.md" => "Estimate what a lock costs, and change the settings that lower the cost.",
    // `examples/web` compiles it: it has the frameworks.
    #[cfg(not(doctest))]
    web: "web.md" => "Lock in a handler of axum, actix-web or tonic, and answer with the right status code.",
    which_tool: "which-tool.md" => "Choose between a lock, a tick, a body that runs once, a leader, permits, and no lock at all.",
    // `examples/clients` compiles it: it has the pools.
    #[cfg(not(doctest))]
    your_redis: "your-redis.md" => "Give a manager the Redis client that your program already has, also from a pool.",
}

/// The reference of the attribute. Its examples need the runtime, on which `redlock-macros` does not
/// depend.
#[cfg(doctest)]
#[doc = include_str!("../redlock-macros/src/docs/distributed_lock.md")]
pub mod distributed_lock {}
