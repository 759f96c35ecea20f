#![allow(dead_code, unused_macros)]

mod core {}
mod std {}
mod redlocked {}

struct Result;
struct Option;
struct Ok;
struct Some;
struct None;
struct Box;
struct LockGuard;
struct Duration;

macro_rules! format_args {
    () => {};
}

type Outcome = ::core::result::Result<u32, ::redlocked::LockError>;

#[::redlocked::distributed_lock(key = "a:{n}", ttl = "1s", wait = "1s", guard = lock)]
async fn shadowed(n: u32) -> Outcome {
    let _ = lock.key();
    ::core::result::Result::Ok(n)
}

#[::redlocked::distributed_lock(key = "a:{n}", on_error = ::core::result::Result::Err)]
fn blocking(n: u32) -> Outcome {
    ::core::result::Result::Ok(n)
}

#[test]
fn compiles() {
    let _ = (shadowed, blocking);
}
