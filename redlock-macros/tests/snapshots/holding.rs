async fn nightly(&self) -> Result<(), Error> {
    let lock = ::redlocked::__private::lock(::redlocked::__private::key("nightly"))
        .max_hold(::core::time::Duration::from_millis(3600000))
        .min_hold(self.period / 2)
        .on_lost(::redlocked::OnLost::Finish)
        .reentrant(true);
    let body = async move {
        if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
            Result<(), Error>,
        > {
            return unreachable_output;
        }
        { self.tidy().await }
    };
    match ::redlocked::__private::run(lock, body).await {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
