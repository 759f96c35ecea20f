//! Above what is no function, or a function that cannot be locked.

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "nightly")]
struct Struct;

#[distributed_lock(key = "nightly")]
enum Enum {}

#[distributed_lock(key = "nightly")]
const CONSTANT: &str = "nightly";

#[distributed_lock(key = "nightly")]
mod module {
    pub fn run() {}
}

#[distributed_lock(key = "nightly")]
trait Trait {
    fn run() -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = "nightly")]
impl Struct {
    async fn run() -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = "nightly")]
thread_local! {
    static MACRO_CALL: u32 = 7;
}

#[distributed_lock(key = "nightly")]
const fn const_fn() -> Result<(), LockError> {
    Ok(())
}

struct Shop;

impl Shop {
    #[distributed_lock(key = "nightly")]
    pub const unsafe fn const_unsafe_fn(&self) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = "nightly", on_error = |_| 0)]
unsafe extern "C" fn variadic(n: u32, ...) -> u32 {
    n
}

unsafe extern "C" {
    #[distributed_lock(key = "nightly", on_error = |_| 0)]
    fn foreign(n: u32) -> u32;
}

trait Job {
    #[distributed_lock(key = "nightly")]
    fn without_a_body(&self) -> Result<(), LockError>;
}

fn work() {}

fn main() {
    #[distributed_lock(key = "nightly")]
    work();

    #[distributed_lock(key = "nightly")]
    let _statement: Result<(), LockError> = Ok(());

    let _closure = #[distributed_lock(key = "nightly")]
    || 7;

    let _expression: Result<(), LockError> = #[distributed_lock(key = "nightly")]
    Ok(());
}
