#![deny(warnings)]

use redlocked::{LockError, distributed_lock};

#[distributed_lock(key = "a")]
#[expect(dead_code)]
async fn expected() -> Result<(), LockError> {
    Ok(())
}

#[cfg(any())]
#[distributed_lock(kye = "this function does not exist")]
fn configured_away() {}

#[distributed_lock(key = "a:{n}")]
#[inline]
#[cfg_attr(all(), allow(unused_variables))]
fn inlined(#[allow(unused)] n: u32) -> Result<(), LockError> {
    #![allow(unused_mut)]
    let mut unused = 1;
    Ok(())
}

#[test]
fn compiles() {
    let _ = inlined;
}
