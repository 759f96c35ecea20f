fn post(entry: Entry) -> Result<(), Error> {
    let lock = ::redlocked::__private::lock(::redlocked::__private::key("ledger"));
    match ::redlocked::__private::run_blocking(
        lock,
        move |lock: &::redlocked::LockGuard| {
            if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
                Result<(), Error>,
            > {
                return unreachable_output;
            }
            { save(entry, lock.fencing_token()) }
        },
    ) {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
