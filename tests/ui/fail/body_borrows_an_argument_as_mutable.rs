use redlocked::{LockError, distributed_lock};

struct Shop {
    sold: Vec<u32>,
}

impl Shop {
    #[distributed_lock(key = "sold:{id}")]
    async fn sell(&self, id: u32) -> Result<(), LockError> {
        self.sold.push(id);
        Ok(())
    }
}

#[distributed_lock(key = "names:{name}", guard = _lock)]
async fn rename(name: String) -> Result<String, LockError> {
    name.push('!');
    Ok(name)
}

fn main() {}
