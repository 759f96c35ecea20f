use redlocked::{LockError, LockGuard, LockManager, distributed_lock};

const AUDIT: &str = "audit";

struct Account {
    id: u64,
}

struct Bank {
    locks: LockManager,
    name: String,
}

impl Bank {
    #[distributed_lock(keys = ["{self.name}:{from.id}", "{self.name}:{to.id:04}"], wait = "5s", manager = self.locks)]
    async fn transfer(&self, from: &Account, to: &Account) -> Result<u64, LockError> {
        Ok(from.id + to.id)
    }

    #[distributed_lock(keys = [self.name, format!("{}:{key}", AUDIT)], manager = self.locks, guard = lock)]
    fn audit(&self, key: u64, lock_all: u64) -> Result<u64, LockError> {
        let lock: &LockGuard = lock;
        Ok(lock.fencing_token_of(AUDIT).unwrap_or(key + lock_all))
    }
}

#[distributed_lock(keys = ["account:{id}"])]
fn one_in_a_list(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = [AUDIT, "{AUDIT}:{key}", r"c", concat!("d", "e"),], reentrant, max_hold = "1m", min_hold = "1s")]
async fn all_kinds(key: String) -> Result<String, LockError> {
    Ok(key)
}

#[distributed_lock(keys = ["a:{keys}", "b:{lock}"], on_busy = None, on_error = |_| None)]
fn no_result(keys: u64, lock: u64) -> Option<u64> {
    Some(keys + lock)
}

#[distributed_lock(keys = [shared "rate:{day}", "account:{from}", permits(5) "bank", permits(limit, take = 2) AUDIT, shared r#name])]
async fn mixed(day: u32, from: u64, limit: u32, r#name: &str) -> Result<u64, LockError> {
    Ok(from + u64::from(day + limit))
}

macro_rules! of_kinds {
    ($name:ident, $key:literal, $other:expr, $limit:expr) => {
        #[distributed_lock(keys = [shared $key, permits($limit) $other], constant_key)]
        fn $name() -> Result<(), LockError> {
            Ok(())
        }
    };
}

of_kinds!(from_a_macro, "a", concat!("b", "c"), 3 + 4);

fn send<T: Send>(value: T) -> T {
    value
}

#[test]
fn compiles() {
    let _ = (Bank::audit, one_in_a_list, no_result, from_a_macro);
    drop(send(all_kinds(String::new())));
    drop(send(mixed(1, 2, 3, "")));
    let _ = |bank: &Bank, account: &Account| drop(send(bank.transfer(account, account)));
}
