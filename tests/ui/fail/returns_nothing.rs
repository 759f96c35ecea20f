use redlocked::distributed_lock;

async fn work() {}

#[distributed_lock(key = "nightly")]
async fn nightly() {
    work().await;
}

fn main() {}
