use redlocked::distributed_lock;

struct ShopError;

#[distributed_lock(key = "nightly")]
async fn nightly() -> Result<u32, ShopError> {
    Ok(7)
}

fn main() {}
