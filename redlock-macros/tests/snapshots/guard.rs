async fn post(entry: Entry) -> Result<(), Error> {
    let lock = ::redlocked::__private::lock(::redlocked::__private::key("ledger"));
    let body = move |guard: ::std::sync::Arc<::redlocked::LockGuard>| async move {
        let lock: &::redlocked::LockGuard = &guard;
        if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
            Result<(), Error>,
        > {
            return unreachable_output;
        }
        { save(entry, lock.fencing_token()).await }
    };
    match ::redlocked::__private::run_with_guard(lock, body).await {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
