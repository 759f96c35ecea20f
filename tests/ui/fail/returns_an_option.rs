use redlocked::distributed_lock;

#[distributed_lock(key = "nightly")]
async fn nightly() -> Option<u32> {
    Some(7)
}

fn main() {}
