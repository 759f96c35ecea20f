use redlocked::distributed_lock;

fn work() {}

fn main() {
    #[distributed_lock(key = "nightly")]
    work();
}
