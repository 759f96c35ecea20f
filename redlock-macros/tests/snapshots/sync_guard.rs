fn post(entry: Entry) -> Result<(), Error> {
    let lock = {
        let key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(key.render(::core::format_args!("ledger")))
    };
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
