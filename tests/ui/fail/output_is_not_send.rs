//! The output of an async body is kept while its lock is released, so it must be `Send` where the future must be.

use redlocked::{LockError, distributed_lock};

use std::rc::Rc;

trait FromRequest: Sized {
    type Rejection: From<LockError>;

    fn from_request(id: u32) -> impl Future<Output = Result<Self, Self::Rejection>> + Send;
}

struct Cached<T>(T);

impl<T: FromRequest + Send> FromRequest for Cached<T> {
    type Rejection = T::Rejection;

    #[distributed_lock(key = "request:{id}")]
    async fn from_request(id: u32) -> Result<Self, T::Rejection> {
        T::from_request(id).await.map(Cached)
    }
}

#[distributed_lock(key = "name:{id}")]
async fn name(id: u32) -> Result<Rc<str>, LockError> {
    Ok(Rc::from(id.to_string()))
}

fn require_send(_: impl Send) {}

fn main() {
    require_send(name(7));
}
