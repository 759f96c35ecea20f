fn nightly(max: Duration) -> Result<(), Error> {
    let __lock = ::redlocked::__private::call(|| {
        let __lock = ::redlocked::__private::lock(
                ::redlocked::__private::key("nightly"),
                &::redlocked::__private::CallSite {
                    function: ::core::concat!(::core::module_path!(), "::nightly"),
                    template: "nightly",
                    fenced: false,
                    options: &[
                        ::redlocked::__private::ConstOption::Ttl(10000),
                        ::redlocked::__private::ConstOption::Wait(1000),
                        ::redlocked::__private::ConstOption::MinHold(300000),
                        ::redlocked::__private::ConstOption::Renew(true),
                        ::redlocked::__private::ConstOption::Reentrant(false),
                    ],
                },
            )
            .with_options()
            .max_hold(max);
        __lock
    });
    match ::redlocked::__private::run_blocking(
        __lock,
        move |_: &::redlocked::LockGuard| {
            let _ = &max;
            if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                ::redlocked::__private::NoOutput<Result<(), Error>>,
            > {
                return __unreachable_output.output();
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
