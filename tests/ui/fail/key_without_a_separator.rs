use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "cell:{x}x{y}{z:02}")]
async fn cell(x: u32, y: u32, z: u32) -> Result<u32, LockError> {
    Ok(x + y + z)
}

fn main() {}
