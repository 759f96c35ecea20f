//! What the attribute puts on the stack below a body, and how deep annotated functions nest.

use std::cell::Cell;
use std::hint::black_box;
use std::pin::pin;

use super::{Outcome, distributed_lock, managers};

/// Where the stack is now.
#[inline(never)]
fn here() -> usize {
    let local = 0_u8;
    black_box(&raw const local).addr()
}

#[distributed_lock(key = "stack:{n}", ttl = "10s", wait = "5s")]
async fn asynchronous(n: u32) -> Outcome<usize> {
    Ok(here() + n as usize)
}

#[distributed_lock(key = "stack:sync:{n}", ttl = "10s", wait = "5s")]
fn blocking(n: u32) -> Outcome<usize> {
    Ok(here() + n as usize)
}

#[track_caller]
fn at_most(debug: usize, release: usize, taken: usize) {
    let limit = if cfg!(debug_assertions) { debug } else { release };
    assert!(taken <= limit, "{taken} bytes of stack, and not {limit}");
}

#[tokio::test]
async fn an_async_body_is_near_its_poll() -> Outcome {
    managers()?;
    // Each poll is called from the same depth.
    let below = Cell::new(0);
    let mut call = pin!(asynchronous(0));
    let inside = std::future::poll_fn(|cx| {
        below.set(here());
        call.as_mut().poll(cx)
    })
    .await?;
    at_most(2_000, 400, below.get() - inside);
    Ok(())
}

#[test]
fn a_sync_body_is_near_its_caller() -> Outcome {
    managers()?;
    let below = here();
    at_most(1_000, 250, below - blocking(0)?);
    Ok(())
}

macro_rules! nested {
    ($name:ident) => {
        #[distributed_lock(key = "nested:{n}", ttl = "10s", wait = "5s")]
        async fn $name(n: u32) -> Outcome<u32> {
            tokio::task::yield_now().await;
            Ok(n)
        }
    };
    ($name:ident $next:ident $($rest:ident)*) => {
        #[distributed_lock(key = "nested:{n}", ttl = "10s", wait = "5s")]
        async fn $name(n: u32) -> Outcome<u32> {
            $next(n + 1).await
        }

        nested!($next $($rest)*);
    };
}

nested!(n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11 n12 n13);

#[tokio::test]
async fn thirteen_functions_nest() -> Outcome {
    managers()?;
    assert_eq!(tokio::spawn(n1(1)).await.ok(), Some(Ok(13)));
    Ok(())
}
