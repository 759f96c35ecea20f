use redlocked::{LockError, LockManager, distributed_lock};

/// # Safety
///
/// `pointer` must be valid.
#[distributed_lock(key = "unsafe:{n}", ttl = "1s")]
unsafe fn blocking(pointer: *const u32, n: u32) -> Result<u32, LockError> {
    // Safety: promised by the caller.
    Ok(unsafe { *pointer } + n)
}

/// # Safety
///
/// `pointer` must be valid.
#[distributed_lock(key = "unsafe:{n}")]
async unsafe fn asynchronous(pointer: *const u32, n: u32) -> Result<u32, LockError> {
    // Safety: promised by the caller.
    Ok(unsafe { *pointer } + n)
}

#[distributed_lock(key = "extern:{n}", on_error = |_| 0)]
extern "C" fn external(n: u32) -> u32 {
    n + 1
}

fn main() -> Result<(), LockError> {
    LockManager::connect_blocking("memory://unsafe")?.set_global();
    let number = 6;
    // Safety: `number` lives until the end.
    assert_eq!(unsafe { blocking(&number, 1) }?, 7);
    assert_eq!(external(6), 7);
    // Safety: `number` lives until the end.
    let future = unsafe { asynchronous(&number, 1) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    assert!(runtime.is_ok_and(|runtime| runtime.block_on(future) == Ok(7)));
    Ok(())
}
