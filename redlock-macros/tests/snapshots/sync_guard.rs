fn post(entry: Entry) -> Result<(), Error> {
    let __lock = ::redlocked::__private::call(|| {
        let __lock = ::redlocked::__private::lock(
            ::redlocked::__private::key("ledger"),
            &::redlocked::__private::CallSite {
                function: ::core::concat!(::core::module_path!(), "::post"),
                template: "ledger",
                fenced: true,
                options: &[],
            },
        );
        __lock
    });
    match ::redlocked::__private::run_blocking(
        __lock,
        move |lock: &::redlocked::LockGuard| {
            let _ = &entry;
            if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                ::redlocked::__private::NoOutput<Result<(), Error>>,
            > {
                return __unreachable_output.output();
            }
            save(entry, lock.fencing_token())
        },
    ) {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
