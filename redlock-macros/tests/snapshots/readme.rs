async fn purchase(sku: &str, quantity: u32) -> Result<Receipt, ShopError> {
    match ::redlocked::__private::run(
            ::redlocked::__private::call(move || {
                let __lock = {
                    let __key = ::redlocked::__private::KeyTemplate::new();
                    ::redlocked::__private::lock(
                        ::redlocked::__private::KeyTemplate::render(
                            &__key,
                            ::core::format_args!(
                                "stock:{sku}", sku =
                                ::redlocked::__private::KeyTemplate::escape(& __key, & sku)
                            ),
                            "",
                        ),
                        &::redlocked::__private::CallSite {
                            function: ::core::concat!(
                                ::core::module_path!(), "::purchase"
                            ),
                            template: "stock:{sku}",
                            fenced: false,
                            options: &[
                                ::redlocked::__private::ConstOption::Ttl(10000),
                                ::redlocked::__private::ConstOption::Wait(5000),
                            ],
                        },
                    )
                };
                let __body = async move {
                    if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                        ::redlocked::__private::NoOutput<Result<Receipt, ShopError>>,
                    > {
                        return __unreachable_output.output();
                    }
                    shop::buy(sku, quantity).await
                };
                (__lock, __body)
            }),
        )
        .await
    {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
