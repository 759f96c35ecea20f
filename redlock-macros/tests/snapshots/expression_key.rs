async fn ship(order: Order) -> Result<(), Error> {
    match crate::vendor::redlocked::__private::call(move || {
            let __lock = crate::vendor::redlocked::LockManager::lock(
                    &config.locks,
                    crate::vendor::redlocked::__private::key(
                        &("order:".to_owned() + &order.id()),
                    ),
                )
                .ttl(config.ttl)
                .wait(Duration::from_secs(5))
                .from_site(
                    &crate::vendor::redlocked::__private::Site {
                        function: ::core::concat!(::core::module_path!(), "::ship"),
                        template: "",
                    },
                );
            let __body = async move {
                let _ = &order;
                if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                    Result<(), Error>,
                > {
                    return __unreachable_output;
                }
                Ok(())
            };
            crate::vendor::redlocked::__private::run(__lock, __body)
        })
        .await
    {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return crate::vendor::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
