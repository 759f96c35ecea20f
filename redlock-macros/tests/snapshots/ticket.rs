async fn begin(id: u64) -> Result<Ticket, Error> {
    match ::redlocked::__private::run_with_guard(
            ::redlocked::__private::call(move || {
                let __lock = {
                    let __key = ::redlocked::__private::KeyTemplate::new();
                    ::redlocked::__private::lock(
                        ::redlocked::__private::KeyTemplate::render(
                            &__key,
                            ::core::format_args!(
                                "export:{id}", id =
                                ::redlocked::__private::KeyTemplate::escape(& __key, & id)
                            ),
                            "",
                        ),
                        &::redlocked::__private::CallSite {
                            function: ::core::concat!(::core::module_path!(), "::begin"),
                            template: "export:{id}",
                            fenced: true,
                            options: &[],
                        },
                    )
                };
                let __body = move |
                    lock: ::redlocked::__private::Arc<::redlocked::LockGuard>|
                async move {
                    let lock: ::redlocked::HandOver<'_> = ::redlocked::HandOver::of(
                        &lock,
                    );
                    if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                        ::redlocked::__private::NoOutput<Result<Ticket, Error>>,
                    > {
                        return __unreachable_output.output();
                    }
                    lock.into_ticket(MINUTE).await
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
