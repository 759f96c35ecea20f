use redlocked::distributed_lock;

#[distributed_lock(key = "nightly")]
enum Job {}

fn main() {}
