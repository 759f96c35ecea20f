use std::future::Future;
use std::pin::Pin;

use redlocked::{LockError, distributed_lock};

struct Table {
    name: String,
}

impl Table {
    #[distributed_lock(key = "{self.name}:{id}")]
    fn load<'a>(&'a self, id: u32) -> Pin<Box<dyn Future<Output = Result<u32, LockError>> + Send + 'a>> {
        async fn load(table: &Table, id: u32) -> Result<u32, LockError> {
            Ok(id + u32::try_from(table.name.len()).unwrap_or(0))
        }
        Box::pin(load(self, id))
    }
}

#[test]
fn compiles() {
    let _ = Table::load;
    let _ = Table { name: String::new() };
}
