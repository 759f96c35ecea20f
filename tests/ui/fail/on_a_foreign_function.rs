use redlocked::distributed_lock;

unsafe extern "C" {
    #[distributed_lock(key = "nightly", on_error = |_| 0)]
    fn nightly(n: u32) -> u32;
}

fn main() {}
