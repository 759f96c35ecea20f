use redlocked::distributed_lock;

#[distributed_lock(key = "nightly")]
async fn nightly<E>() -> Result<u32, E> {
    Ok(7)
}

fn main() {}
