async fn transfer(from: u64, bank: &str, limit: u32) -> Result<(), BankError> {
    match ::redlocked::__private::run(
            ::redlocked::__private::call(move || {
                let __lock = {
                    let __key = ::redlocked::__private::KeyTemplate::new();
                    ::redlocked::__private::lock_all(
                        [
                            ::redlocked::LockKey::shared(
                                ::redlocked::__private::key("rate"),
                            ),
                            ::redlocked::LockKey::exclusive(
                                ::redlocked::__private::KeyTemplate::render(
                                    &__key,
                                    ::core::format_args!(
                                        "account:{from}", from =
                                        ::redlocked::__private::KeyTemplate::escape(& __key, & from)
                                    ),
                                    "",
                                ),
                            ),
                            ::redlocked::LockKey::permits(
                                    ::redlocked::__private::KeyTemplate::render(
                                        &__key,
                                        ::core::format_args!(
                                            "bank:{bank}", bank =
                                            ::redlocked::__private::KeyTemplate::escape(& __key, & bank)
                                        ),
                                        "",
                                    ),
                                    limit,
                                )
                                .take(2),
                        ],
                        &::redlocked::__private::CallSite {
                            function: ::core::concat!(
                                ::core::module_path!(), "::transfer"
                            ),
                            template: "rate, account:{from}, bank:{bank}",
                            fenced: false,
                            options: &[::redlocked::__private::ConstOption::Wait(5000)],
                        },
                    )
                };
                let __body = async move {
                    if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                        ::redlocked::__private::NoOutput<Result<(), BankError>>,
                    > {
                        return __unreachable_output.output();
                    }
                    bank::transfer(from, bank).await
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
