use redlocked::distributed_lock;

fn main() {
    let _job = #[distributed_lock(key = "nightly")] || 7;
}
