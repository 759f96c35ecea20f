//! Arguments that some builds lack, that the key takes, and that a destructor reads: no error, and
//! no warning.
#![deny(warnings)]

use redlocked::{LockError, distributed_lock};

#[derive(Default)]
struct Order {
    id: String,
    name: Name,
    lines: Vec<u32>,
}

#[derive(Default)]
struct Name(String);

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl Name {
    fn into_key(self) -> String {
        self.0
    }
}

#[distributed_lock(key = "order:{order.id}")]
async fn a_field_of_the_same_name(order: Order, #[cfg(any())] id: String) -> Result<usize, LockError> {
    Ok(order.id.len())
}

#[distributed_lock(key = "order:{n}")]
fn an_argument_that_this_build_lacks(n: u32, #[cfg(any())] recorder: String) -> Result<u32, LockError> {
    #[cfg(any())]
    println!("{recorder}");
    Ok(n)
}

#[distributed_lock(key = "order:{n}")]
fn without_its_use(
    n: u32,
    #[cfg(any())] _recorder: String,
    #[cfg_attr(all(), cfg(any()))] _other: String,
    #[cfg(all())] _there: String,
) -> Result<u32, LockError> {
    Ok(n)
}

struct Parts {
    id: String,
    #[cfg(any())]
    gone: String,
    #[cfg(all())]
    there: String,
}

#[distributed_lock(key = "order:{id}")]
async fn a_field_that_this_build_lacks(
    Parts {
        id,
        #[cfg(any())]
        gone,
        #[cfg(all())]
        there,
    }: Parts,
) -> Result<usize, LockError> {
    #[cfg(any())]
    println!("{gone}");
    Ok(id.len() + there.len())
}

#[distributed_lock(key = "order:{id}")]
fn a_field_that_this_build_lacks_and_nobody_uses(
    Parts {
        id,
        #[cfg(any())]
            gone: _,
        #[cfg(any())]
            gone: also,
        there: _there,
    }: Parts,
) -> Result<usize, LockError> {
    Ok(id.len())
}

#[distributed_lock(key = "order:{n}", guard = recorder)]
fn a_guard_in_the_place_of_an_argument(n: u32, #[cfg(any())] other: String) -> Result<u32, LockError> {
    assert!(recorder.is_held());
    Ok(n)
}

#[distributed_lock(key = name.into_key())]
async fn the_key_takes_the_argument(name: Name) -> Result<u32, LockError> {
    Ok(1)
}

#[distributed_lock(key = String::from(name))]
fn the_key_takes_the_argument_of_a_sync_function(name: Name) -> Result<u32, LockError> {
    Ok(1)
}

#[distributed_lock(key = code + ":all")]
async fn key_adds_to_an_argument(code: String, quantity: u32) -> Result<u32, LockError> {
    Ok(quantity)
}

#[distributed_lock(key = code + ":all")]
fn key_adds_to_an_argument_of_a_sync_function(code: String, quantity: u32) -> Result<u32, LockError> {
    Ok(quantity)
}

#[distributed_lock(key = String::from(order.name))]
async fn the_key_takes_a_field(order: Order) -> Result<Vec<u32>, LockError> {
    Ok(order.lines)
}

#[distributed_lock(keys = ["orders", order.name.into_key()])]
fn the_key_takes_a_field_of_a_sync_function(order: Order) -> Result<Vec<u32>, LockError> {
    Ok(order.lines)
}

/// This build has no way to pack.
enum Packing {}

struct Settings {
    packing: Packing,
    size: usize,
}

#[distributed_lock(key = "pack:{name}")]
#[allow(unused_variables, unreachable_code, reason = "other builds reach it")]
fn an_argument_that_this_build_does_not_reach(
    name: &str,
    settings: Settings,
    text: &mut Vec<u8>,
    to: usize,
) -> Result<usize, LockError> {
    let size = settings.size;
    match settings.packing {}
    text.truncate(to);
    Ok(size)
}

#[distributed_lock(key = "pack:{name}")]
#[allow(unused_variables, unreachable_code, reason = "other builds reach it")]
async fn an_async_one(
    name: &str,
    settings: Settings,
    text: &mut Vec<u8>,
    to: usize,
) -> Result<usize, LockError> {
    let size = settings.size;
    match settings.packing {}
    text.truncate(to);
    Ok(size)
}

struct Transaction {
    open: bool,
}

impl Drop for Transaction {
    fn drop(&mut self) {
        assert!(!self.open);
    }
}

impl Transaction {
    #[distributed_lock(key = "tx")]
    async fn commit(mut self) -> Result<(), LockError> {
        self.open = false;
        Ok(())
    }

    #[distributed_lock(key = "tx")]
    fn commit_blocking(mut self) -> Result<(), LockError> {
        self.open = false;
        Ok(())
    }
}

#[distributed_lock(key = "tx", constant_key)]
async fn commit(mut tx: Transaction) -> Result<(), LockError> {
    tx.open = false;
    Ok(())
}

#[distributed_lock(key = "tx", constant_key, guard = lock)]
fn commit_both((mut first, mut second): (Transaction, Transaction)) -> Result<(), LockError> {
    assert!(lock.is_held());
    first.open = false;
    second.open &= false;
    Ok(())
}

/// A transaction as sqlx has it, lent by a caller that commits.
mod lent {
    use redlocked::LockGuard;

    use super::*;

    pub(super) struct Transaction<'c, DB>(pub(super) &'c DB);

    pub(super) trait Fence {
        fn fence_in<DB: Sync>(
            &self,
            tx: &mut Transaction<'_, DB>,
        ) -> impl Future<Output = Result<(), LockError>> + Send;
    }

    impl Fence for LockGuard {
        async fn fence_in<DB: Sync>(&self, _: &mut Transaction<'_, DB>) -> Result<(), LockError> {
            Ok(())
        }
    }

    #[distributed_lock(key = "tx", constant_key, guard = lock)]
    pub(super) async fn fenced(tx: &mut Transaction<'_, u32>) -> Result<u32, LockError> {
        lock.fence_in(tx).await?;
        Ok(*tx.0)
    }

    #[distributed_lock(key = "tx", constant_key, reentrant)]
    pub(super) async fn below_its_caller(tx: &mut Transaction<'_, u32>) -> Result<u32, LockError> {
        Ok(*tx.0)
    }
}

/// Every function above is called.
pub async fn all() -> Result<(), LockError> {
    let order = Order::default;
    let _ = (an_argument_that_this_build_does_not_reach, |settings| async move {
        an_async_one("a", settings, &mut Vec::new(), 0).await
    });
    let tx = || Transaction { open: true };
    let parts = || Parts { id: "7".into(), there: "b".into() };
    let mut tx_of_the_caller = lent::Transaction(&7);
    assert_eq!(
        lent::fenced(&mut tx_of_the_caller).await? + lent::below_its_caller(&mut tx_of_the_caller).await?,
        14
    );
    a_field_that_this_build_lacks(parts()).await?;
    a_field_that_this_build_lacks_and_nobody_uses(parts())?;
    a_field_of_the_same_name(order()).await?;
    an_argument_that_this_build_lacks(1)?;
    without_its_use(1, String::new())?;
    a_guard_in_the_place_of_an_argument(1)?;
    the_key_takes_the_argument(order().name).await?;
    the_key_takes_the_argument_of_a_sync_function(order().name)?;
    key_adds_to_an_argument(String::from("a"), 1).await?;
    key_adds_to_an_argument_of_a_sync_function(String::from("a"), 1)?;
    the_key_takes_a_field(order()).await?;
    the_key_takes_a_field_of_a_sync_function(order())?;
    tx().commit().await?;
    tx().commit_blocking()?;
    commit(tx()).await?;
    commit_both((tx(), tx()))
}
