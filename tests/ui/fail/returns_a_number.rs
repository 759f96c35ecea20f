use redlocked::distributed_lock;

#[distributed_lock(key = "nightly")]
async fn nightly() -> u32 {
    7
}

fn main() {}
