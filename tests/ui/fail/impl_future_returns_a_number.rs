use redlocked::distributed_lock;

#[distributed_lock(key = "nightly")]
fn nightly() -> impl Future<Output = u32> + Send {
    async move { 7 }
}

fn main() {}
