async fn send(tenant: &str) -> Result<(), MailError> {
    match ::redlocked::__private::run(
            ::redlocked::__private::call(move || {
                let __lock = {
                    let __key = ::redlocked::__private::KeyTemplate::new();
                    ::redlocked::__private::lock(
                        ::redlocked::__private::KeyTemplate::render(
                            &__key,
                            ::core::format_args!(
                                "mail:{tenant}", tenant =
                                ::redlocked::__private::KeyTemplate::escape(& __key, &
                                tenant)
                            ),
                            "",
                        ),
                        &::redlocked::__private::CallSite {
                            function: ::core::concat!(::core::module_path!(), "::send"),
                            template: "mail:{tenant}",
                            fenced: false,
                            options: &[
                                ::redlocked::__private::ConstOption::Wait(30000),
                                ::redlocked::__private::ConstOption::Rate(5, 60000),
                            ],
                        },
                    )
                };
                let __body = async move {
                    if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                        ::redlocked::__private::NoOutput<Result<(), MailError>>,
                    > {
                        return __unreachable_output.output();
                    }
                    deliver(tenant).await
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
