mod vendor {
    pub mod lock {
        pub use redlocked::*;
        #[doc(hidden)]
        pub use redlocked::__private;
    }
}

macro_rules! locked {
    ($name:ident) => {
        #[vendor::lock::distributed_lock(key = "a", crate = $crate::vendor::lock)]
        fn $name() -> Result<(), vendor::lock::LockError> {
            Ok(())
        }
    };
}

locked!(inside_a_macro);

#[vendor::lock::distributed_lock(key = "a", crate = crate::vendor::lock)]
async fn outside() -> Result<(), vendor::lock::LockError> {
    Ok(())
}

fn main() {
    let _ = (inside_a_macro, outside);
}
