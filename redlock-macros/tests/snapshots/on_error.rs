async fn count(n: u32) {
    match ::redlocked::__private::call(move || {
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
                    )
                    .from_site(
                        &::redlocked::__private::Site {
                            function: ::core::concat!(::core::module_path!(), "::count"),
                            template: "n:{n:04}",
                        },
                    )
            };
            let __body = async move {
                if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                    (),
                > {
                    return __unreachable_output;
                }
                {
                    tick(n).await;
                }
            };
            ::redlocked::__private::run(__lock, __body)
        })
        .await
    {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::__private::on_error::<()>(__error, |error| log(&error));
        }
    }
}
