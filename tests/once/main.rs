//! Bodies that run once, on `memory://`, one server, one that hands over no locks, behind Sentinel, and in a Cluster.
//!
//! | module | question |
//! | --- | --- |
//! | `attribute` | does the attribute do that for async, sync and guarded functions |
//! | `everywhere` | does each backend run a body once, and hand its result to everybody |
//! | `moving` | what becomes of a record whose primary is lost, or whose slot moves |
//! | `results` | is a replayed result the same as that of the body |
//! | `spawned` | does a body in a task of its own run to its end when its caller goes away |
//! | `crowd` | what a thousand waiters for one result cost |
//! | `interrupted` | what a body leaves whose process is killed, whose lock is lost, or whose caller has gone |
//! | `by_hand` | what stands on the server, and what the library says of what others have written there |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test may panic"
)]

mod attribute;
mod by_hand;
mod crowd;
mod everywhere;
#[cfg(unix)]
mod interrupted;
mod moving;
mod results;
mod spawned;

use std::time::Duration;

use kit::{LIMIT, SECOND};

/// Waits for what tasks of this runtime bring about.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let so = async {
        while !is_so().await {
            tokio::time::sleep(SECOND / 100).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, so).await.is_ok(), "not in time: {what}");
}

const DAY: Duration = Duration::from_secs(86_400);
