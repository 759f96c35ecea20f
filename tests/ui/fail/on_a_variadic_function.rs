use redlocked::distributed_lock;

#[distributed_lock(key = "nightly", on_error = |_| 0)]
unsafe extern "C" fn nightly(n: u32, ...) -> u32 {
    n
}

fn main() {}
