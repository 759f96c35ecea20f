use redlocked::distributed_lock;

#[distributed_lock(key = "nightly")]
struct Job;

fn main() {}
