async fn post(entry: Entry) -> Result<(), Error> {
    match ::redlocked::__private::run_with_guard(
            ::redlocked::__private::call(move || {
                let __lock = ::redlocked::__private::lock(
                    ::redlocked::__private::key("ledger"),
                    &::redlocked::__private::CallSite {
                        function: ::core::concat!(::core::module_path!(), "::post"),
                        template: "ledger",
                        fenced: true,
                        options: &[],
                    },
                );
                let __body = move |
                    lock: ::redlocked::__private::Arc<::redlocked::LockGuard>|
                async move {
                    let _ = &entry;
                    let lock: &::redlocked::LockGuard = &lock;
                    if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                        ::redlocked::__private::NoOutput<Result<(), Error>>,
                    > {
                        return __unreachable_output.output();
                    }
                    save(entry, lock.fencing_token()).await
                };
                (__lock, __body)
            }),
        )
        .await
    {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
