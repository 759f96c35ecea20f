async fn nightly() -> Result<Outcome, Error> {
    match ::redlocked::__private::call(move || {
            let __lock = ::redlocked::__private::lock(
                    ::redlocked::__private::key("nightly"),
                )
                .wait(::core::time::Duration::ZERO)
                .from_site(
                    &::redlocked::__private::Site {
                        function: ::core::concat!(::core::module_path!(), "::nightly"),
                        template: "nightly",
                    },
                );
            let __body = async move {
                if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                    Result<Outcome, Error>,
                > {
                    return __unreachable_output;
                }
                Ok(Done)
            };
            ::redlocked::__private::run(__lock, __body)
        })
        .await
    {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(
            __error,
        ) if ::redlocked::LockError::is_busy(&__error) => return Ok(Skipped),
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
