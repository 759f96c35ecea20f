fn merge(&self, left: &str, right: &str) -> Result<(), Error> {
    let lock = ::redlocked::LockManager::lock_all(
        &self.locks,
        [::redlocked::__private::key(&left), ::redlocked::__private::key(&right)],
    );
    match ::redlocked::__private::run_blocking(
        lock,
        move |_: &::redlocked::LockGuard| {
            if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
                Result<(), Error>,
            > {
                return unreachable_output;
            }
            { self.join(left, right) }
        },
    ) {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
