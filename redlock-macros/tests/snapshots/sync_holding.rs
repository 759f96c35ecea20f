fn nightly(max: Duration) -> Result<(), Error> {
    let __lock = ::redlocked::__private::lock(::redlocked::__private::key("nightly"))
        .ttl(::core::time::Duration::from_millis(10000))
        .wait(::core::time::Duration::from_millis(1000))
        .max_hold(max)
        .min_hold(::core::time::Duration::from_millis(300000))
        .renew(true)
        .reentrant(false)
        .from_site(
            &::redlocked::__private::Site {
                function: ::core::concat!(::core::module_path!(), "::nightly"),
                template: "nightly",
            },
        );
    match ::redlocked::__private::run_blocking(
        __lock,
        move |_: &::redlocked::LockGuard| {
            let _ = &max;
            if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                Result<(), Error>,
            > {
                return __unreachable_output;
            }
            tidy()
        },
    ) {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
