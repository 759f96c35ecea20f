use redlocked::{LockError, distributed_lock};

trait Stream {
    type Item;
}

impl Stream for u32 {
    type Item = u32;
}

#[distributed_lock(key = "rows:{id}")]
async fn rows(id: u32) -> Result<impl Stream<Item = u32>, LockError> {
    Ok(id)
}

fn main() {}
