//! `redlocked`, the built program, against real servers.
//!
//! | module | question |
//! | --- | --- |
//! | `looking` | what do `list`, `show`, `wait` and `release` print, and how do they end |
//! | `reaching` | what do `ping` and `doctor` say of a server, and how is one reached |
//! | `manual` | what do shells complete, and what do the manual pages say |
//! | `running` | does `run` hold the lock around its command, and end as `flock(1)` does |
//! | `ending` | has the whole group ended before another client can have the lock |
//! | `serving` | who may see the pages of `serve`, and how does it end |
//! | `starting` | is the watchdog told of the command before that does anything |
//! | `screen` | what does a person see in a terminal |
//! | `captures` | does it fit terminals of 60, 80 and 120 columns |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

#[cfg(unix)]
mod captures;
#[cfg(unix)]
mod ending;
mod looking;
mod manual;
#[cfg(unix)]
mod night;
mod reaching;
#[cfg(unix)]
mod running;
#[cfg(unix)]
mod screen;
#[cfg(all(unix, feature = "serve"))]
mod serving;
#[cfg(target_os = "linux")]
mod starting;
mod tool;
#[cfg(target_os = "linux")]
mod traced;
