mod vendor {
    pub mod lock {
        #[doc(hidden)]
        pub use redlocked::__private;
        pub use redlocked::*;
    }
}

macro_rules! locked {
    ($name:ident) => {
        #[vendor::lock::distributed_lock(key = "a", crate = $crate::renamed_crate::vendor::lock)]
        fn $name() -> Result<(), vendor::lock::LockError> {
            Ok(())
        }
    };
}

locked!(inside_a_macro);

#[vendor::lock::distributed_lock(key = "a", crate = crate::renamed_crate::vendor::lock)]
async fn outside() -> Result<(), vendor::lock::LockError> {
    Ok(())
}

#[test]
fn compiles() {
    let _ = (inside_a_macro, outside);
}
