//! `unsafe` is forbidden in the other packages, so these shapes run here: each body asserts that
//! its lock is held.

use redlocked::{LockError, LockManager, distributed_lock};

fn held(key: &str) -> Result<(), LockError> {
    let refused = LockManager::connect_blocking("memory://unsafe")?.lock(key).acquire_blocking();
    assert!(matches!(&refused, Err(error) if error.is_busy()), "{key}: {refused:?}");
    Ok(())
}

fn free(key: &str) -> Result<(), LockError> {
    LockManager::connect_blocking("memory://unsafe")?.lock(key).acquire_blocking()?.release_blocking()?;
    Ok(())
}

/// # Safety
///
/// `pointer` must be valid.
#[distributed_lock(key = "unsafe:{n}", ttl = "1m")]
unsafe fn blocking(pointer: *const u32, n: u32) -> Result<u32, LockError> {
    held("unsafe:1")?;
    // Safety: promised by the caller.
    Ok(unsafe { *pointer } + n)
}

/// # Safety
///
/// `pointer` must be valid.
#[distributed_lock(key = "unsafe:async:{n}", guard = lock)]
async unsafe fn asynchronous(pointer: *const u32, n: u32) -> Result<u32, LockError> {
    held("unsafe:async:1")?;
    assert!(lock.is_held());
    // Safety: promised by the caller.
    Ok(unsafe { *pointer } + n)
}

#[distributed_lock(key = "extern:{n}", on_error = |_| 0)]
extern "C" fn external(n: u32) -> u32 {
    u32::from(held("extern:6").is_ok()) + n
}

/// # Safety
///
/// `pointer` must be valid.
#[distributed_lock(key = "unsafe:extern:{n}", on_error = |_| 0)]
unsafe extern "C" fn unsafe_external(pointer: *const u32, n: u32) -> u32 {
    assert!(held("unsafe:extern:1").is_ok());
    // Safety: promised by the caller.
    unsafe { *pointer + n }
}

// The name may exist once only: the expansion must not double it.
#[unsafe(no_mangle)]
#[distributed_lock(key = "exported:{n}", on_error = |_| 0)]
pub extern "C" fn redlocked_test_exported(n: u32) -> u32 {
    u32::from(held("exported:6").is_ok()) + n
}

struct Shop(u32);

trait Count {
    /// # Safety
    ///
    /// `pointer` must be valid.
    unsafe fn count(&mut self, pointer: *const u32) -> Result<&mut u32, LockError>;
}

impl Count for Shop {
    #[distributed_lock(key = "unsafe:method:{self.0}")]
    unsafe fn count(&mut self, pointer: *const u32) -> Result<&mut u32, LockError> {
        held("unsafe:method:1")?;
        // Safety: promised by the caller.
        self.0 += unsafe { *pointer };
        Ok(&mut self.0)
    }
}

impl Shop {
    /// # Safety
    ///
    /// `pointer` must be valid.
    #[distributed_lock(key = "unsafe:async method:{self.0}")]
    #[tracing::instrument(skip_all, err)]
    async unsafe fn add(&mut self, pointer: *const u32) -> Result<&mut u32, LockError> {
        held("unsafe:async method:1")?;
        // Safety: promised by the caller.
        self.0 += unsafe { *pointer };
        Ok(&mut self.0)
    }
}

#[async_trait::async_trait(?Send)]
trait Store {
    /// # Safety
    ///
    /// `pointer` must be valid.
    async unsafe fn load(&self, pointer: *const u32) -> Result<u32, LockError>;
}

#[async_trait::async_trait(?Send)]
impl Store for Shop {
    #[distributed_lock(key = "unsafe:trait:{self.0}")]
    async unsafe fn load(&self, pointer: *const u32) -> Result<u32, LockError> {
        held("unsafe:trait:1")?;
        // Safety: promised by the caller.
        Ok(self.0 + unsafe { *pointer })
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn compiles() -> Result<(), LockError> {
    LockManager::connect_blocking("memory://unsafe")?.set_global();
    let number = 6;
    // Safety: `number` lives until the end.
    unsafe {
        assert_eq!(blocking(&number, 1)?, 7);
        assert_eq!(unsafe_external(&number, 1), 7);
        assert_eq!(*Shop(1).count(&number)?, 7);
        assert_eq!(block_on(asynchronous(&number, 1))?, 7);
        assert_eq!(*block_on(Shop(1).add(&number))?, 7);
        assert_eq!(block_on(Shop(1).load(&number))?, 7);
    }
    assert_eq!(external(6), 7);
    assert_eq!(redlocked_test_exported(6), 7);
    for key in ["unsafe:1", "unsafe:async:1", "extern:6", "unsafe:extern:1", "exported:6", "unsafe:method:1"]
    {
        free(key)?;
    }
    free("unsafe:async method:1")?;
    free("unsafe:trait:1")
}
