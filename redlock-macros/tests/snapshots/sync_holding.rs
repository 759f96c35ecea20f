fn nightly(max: Duration) -> Result<(), Error> {
    let lock = ::redlocked::__private::lock(::redlocked::__private::key("nightly"))
        .ttl(::core::time::Duration::from_millis(10000))
        .wait(::core::time::Duration::from_millis(1000))
        .max_hold(max)
        .min_hold(::core::time::Duration::from_millis(300000))
        .renew(true)
        .reentrant(false);
    match ::redlocked::__private::run_blocking(
        lock,
        move |_: &::redlocked::LockGuard| {
            if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
                Result<(), Error>,
            > {
                return unreachable_output;
            }
            { tidy() }
        },
    ) {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
