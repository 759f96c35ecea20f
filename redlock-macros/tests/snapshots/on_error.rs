async fn count(n: u32) {
    match ::redlocked::__private::run(
            ::redlocked::__private::call(move || {
                let __lock = {
                    let __key = ::redlocked::__private::KeyTemplate::new();
                    ::redlocked::__private::lock(
                        ::redlocked::__private::KeyTemplate::render(
                            &__key,
                            ::core::format_args!(
                                "n:{n:04}", n =
                                ::redlocked::__private::KeyTemplate::escape(& __key, & n)
                            ),
                            "",
                        ),
                        &::redlocked::__private::CallSite {
                            function: ::core::concat!(::core::module_path!(), "::count"),
                            template: "n:{n:04}",
                            fenced: false,
                            options: &[],
                        },
                    )
                };
                let __body = async move {
                    if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                        ::redlocked::__private::NoOutput<()>,
                    > {
                        return __unreachable_output.output();
                    }
                    {
                        tick(n).await;
                    }
                };
                (__lock, __body)
            }),
        )
        .await
    {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::__private::on_error::<()>(__error, |error| log(&error));
        }
    }
}
