async fn nightly() -> Result<Outcome, Error> {
    let lock = ::redlocked::__private::lock(::redlocked::__private::key("nightly"));
    let body = async move {
        if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
            Result<Outcome, Error>,
        > {
            return unreachable_output;
        }
        { Ok(Done) }
    };
    match ::redlocked::__private::run(lock, body).await {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) if error.is_busy() => Ok(Skipped),
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
