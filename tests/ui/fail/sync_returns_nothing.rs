use redlocked::distributed_lock;

fn work() {}

#[distributed_lock(key = "nightly")]
fn nightly() {
    work();
}

fn main() {}
