async fn read_catalogue(shop: &str) -> Result<Catalogue, ShopError> {
    match ::redlocked::__private::run(
            ::redlocked::__private::call(move || {
                let __lock = {
                    let __key = ::redlocked::__private::KeyTemplate::new();
                    ::redlocked::__private::lock(
                        ::redlocked::__private::KeyTemplate::render(
                            &__key,
                            ::core::format_args!(
                                "catalogue:{shop}", shop =
                                ::redlocked::__private::KeyTemplate::escape(& __key, & shop)
                            ),
                            "",
                        ),
                        &::redlocked::__private::CallSite {
                            function: ::core::concat!(
                                ::core::module_path!(), "::read_catalogue"
                            ),
                            template: "catalogue:{shop}",
                            fenced: false,
                            options: &[::redlocked::__private::ConstOption::Shared],
                        },
                    )
                };
                let __body = async move {
                    if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                        ::redlocked::__private::NoOutput<Result<Catalogue, ShopError>>,
                    > {
                        return __unreachable_output.output();
                    }
                    shop::catalogue(shop).await
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
