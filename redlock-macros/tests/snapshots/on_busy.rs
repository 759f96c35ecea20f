async fn nightly() -> Result<Outcome, Error> {
    match ::redlocked::__private::run(
            ::redlocked::__private::call(move || {
                let __lock = ::redlocked::__private::lock(
                    ::redlocked::__private::key("nightly"),
                    &::redlocked::__private::CallSite {
                        function: ::core::concat!(::core::module_path!(), "::nightly"),
                        template: "nightly",
                        fenced: false,
                        options: &[::redlocked::__private::ConstOption::Wait(0)],
                    },
                );
                let __body = async move {
                    if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                        ::redlocked::__private::NoOutput<Result<Outcome, Error>>,
                    > {
                        return __unreachable_output.output();
                    }
                    Ok(Done)
                };
                (__lock, __body)
            }),
        )
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
