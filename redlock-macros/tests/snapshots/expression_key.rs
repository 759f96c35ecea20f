async fn ship(order: Order) -> Result<(), Error> {
    match crate::vendor::redlocked::__private::run(
            crate::vendor::redlocked::__private::call(move || {
                let __lock = crate::vendor::redlocked::__private::lock_with(
                        &config.locks,
                        crate::vendor::redlocked::__private::key(
                            &("order:".to_owned() + &order.id()),
                        ),
                        &crate::vendor::redlocked::__private::CallSite {
                            function: ::core::concat!(::core::module_path!(), "::ship"),
                            template: "",
                            fenced: false,
                            options: &[],
                        },
                    )
                    .with_options()
                    .ttl(config.ttl)
                    .wait(Duration::from_secs(5));
                let __body = async move {
                    let _ = &order;
                    if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                        crate::vendor::redlocked::__private::NoOutput<Result<(), Error>>,
                    > {
                        return __unreachable_output.output();
                    }
                    Ok(())
                };
                (__lock, __body)
            }),
        )
        .await
    {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return crate::vendor::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
