use redlocked::distributed_lock;

struct ShopError;

#[distributed_lock(key = "nightly")]
fn nightly() -> Result<u32, ShopError> {
    Ok(7)
}

fn main() {}
