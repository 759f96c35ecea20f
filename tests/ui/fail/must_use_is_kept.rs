#![deny(unused_must_use)]

use redlocked::distributed_lock;

#[must_use = "count it"]
#[distributed_lock(key = "a", on_error = |_| 0)]
fn above() -> u32 {
    7
}

#[distributed_lock(key = "a", on_error = |_| 0)]
#[must_use = "count it"]
fn below() -> u32 {
    7
}

fn main() {
    above();
    below();
}
