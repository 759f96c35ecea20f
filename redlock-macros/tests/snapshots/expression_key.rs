async fn ship(order: Order) -> Result<(), Error> {
    let lock = crate::vendor::redlocked::LockManager::lock(
            &config.locks,
            crate::vendor::redlocked::__private::key(
                &("order:".to_owned() + &order.id()),
            ),
        )
        .ttl(config.ttl)
        .wait(Duration::from_secs(5));
    let body = async move {
        if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
            Result<(), Error>,
        > {
            return unreachable_output;
        }
        { Ok(()) }
    };
    match crate::vendor::redlocked::__private::run(lock, body).await {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            crate::vendor::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
