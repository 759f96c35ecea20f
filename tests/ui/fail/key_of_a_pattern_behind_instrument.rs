use redlocked::{distributed_lock, LockError};

struct Bank;

#[async_trait::async_trait]
trait Account {
    async fn book(&self, amounts: (u64, u64)) -> Result<u64, LockError>;
}

#[async_trait::async_trait]
impl Account for Bank {
    #[tracing::instrument(skip_all)]
    #[distributed_lock(key = "book:{debit}")]
    async fn book(&self, (debit, credit): (u64, u64)) -> Result<u64, LockError> {
        Ok(debit + credit)
    }
}

fn main() {}
