//! The pages of the documentation: what to choose, what to do, and what is promised. They are here
//! for `cargo doc` alone; a program cannot name this module.
//!
//! [Choosing options][options] and the [recipes] come first, [errors] when something fails.
#![doc = ""]
#![doc = include_str!("links.md")]

/// A module for each page, whose code is a doctest.
macro_rules! pages {
    ($($(#[$when:meta])* $page:ident: $path:literal),* $(,)?) => {
        $(
            $(#[$when])*
            // A failed doctest is named by the first file.
            #[cfg_attr(not(doctest), doc = include_str!("links.md"))]
            #[cfg_attr(not(doctest), doc = "")]
            #[doc = include_str!(concat!("../docs/", $path))]
            pub mod $page {}
        )*
    };
}

pages! {
    access_rules: "access-rules.md",
    #[cfg(any(not(doctest), feature = "tls"))]
    addresses: "addresses.md",
    command_line: "command-line.md",
    comparison: "comparison.md",
    design: "design.md",
    errors: "errors.md",
    how_many: "how-many.md",
    leader: "leader.md",
    limits: "limits.md",
    manager: "manager.md",
    migrating: "migrating.md",
    #[cfg(any(not(doctest), feature = "once"))]
    once: "once.md",
    operating: "operating.md",
    options: "options.md",
    recipes: "recipes.md",
    servers: "servers.md",
    stability: "stability.md",
    #[cfg(any(not(doctest), feature = "testing"))]
    testing: "testing.md",
    tickets: "tickets.md",
    ticks: "ticks.md",
    topologies: "topologies.md",
    troubleshooting: "troubleshooting.md",
    tuning: "tuning.md",
    // `examples/web` compiles it: it has the frameworks.
    #[cfg(not(doctest))]
    web: "web.md",
    which_tool: "which-tool.md",
    // `examples/clients` compiles it: it has the pools.
    #[cfg(not(doctest))]
    your_redis: "your-redis.md",
}

/// The reference of the attribute. Its examples need the runtime, on which `redlock-macros` does not
/// depend.
#[cfg(doctest)]
#[doc = include_str!("../redlock-macros/src/docs/distributed_lock.md")]
pub mod distributed_lock {}
