async fn nightly() -> Result<Outcome, Error> {
    let __lock = ::redlocked::__private::lock(::redlocked::__private::key("nightly"));
    let __body = async move {
        if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
            Result<Outcome, Error>,
        > {
            return __unreachable_output;
        }
        Ok(Done)
    };
    return match ::redlocked::__private::run(__lock, __body).await {
        ::core::result::Result::Ok(__output) => __output,
        ::core::result::Result::Err(__error) if __error.is_busy() => Ok(Skipped),
        ::core::result::Result::Err(__error) => {
            ::redlocked::FromLockError::from_lock_error(__error)
        }
    };
}
