//! Bodies of another type than the function.

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "nightly")]
async fn of_the_wrong_type() -> Result<u32, LockError> {
    "seven"
}

#[distributed_lock(key = "nightly")]
fn sync_of_the_wrong_type() -> Result<u32, LockError> {
    "seven"
}

#[distributed_lock(key = "nightly")]
fn impl_future_of_the_wrong_type() -> impl Future<Output = Result<u32, LockError>> {
    async move { Ok("seven") }
}

#[distributed_lock(key = "nightly")]
async fn without_a_value() -> Result<u32, LockError> {
    let _seven = 7;
}

#[distributed_lock(key = "nightly", constant_key)]
async fn early_return_of_the_wrong_type(early: bool) -> Result<u32, LockError> {
    if early {
        return "early";
    }
    Ok(7)
}

#[distributed_lock(key = "nightly", constant_key)]
async fn question_mark_of_the_wrong_type(text: &str) -> Result<u32, LockError> {
    Ok(text.parse::<u32>()?)
}

fn main() {}
