async fn post(entry: Entry) -> Result<(), Error> {
    let __lock = ::redlocked::__private::lock(::redlocked::__private::key("ledger"));
    let __body = move |__guard: ::std::sync::Arc<::redlocked::LockGuard>| async move {
        let _ = &entry;
        let lock: &::redlocked::LockGuard = &__guard;
        if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
            Result<(), Error>,
        > {
            return __unreachable_output;
        }
        save(entry, lock.fencing_token()).await
    };
    return match ::redlocked::__private::run_with_guard(__lock, __body).await {
        ::core::result::Result::Ok(__output) => __output,
        ::core::result::Result::Err(__error) => {
            ::redlocked::FromLockError::from_lock_error(__error)
        }
    };
}
