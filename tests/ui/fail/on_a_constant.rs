use redlocked::distributed_lock;

#[distributed_lock(key = "nightly")]
const JOB: &str = "nightly";

fn main() {}
