fn walk(path: String) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(async move {
        match ::redlocked::__private::run(
                ::redlocked::__private::call(move || {
                    let __lock = {
                        let __key = ::redlocked::__private::KeyTemplate::new();
                        ::redlocked::__private::lock(
                            ::redlocked::__private::KeyTemplate::render(
                                &__key,
                                ::core::format_args!(
                                    "{path}", path =
                                    ::redlocked::__private::KeyTemplate::escape(& __key, & path)
                                ),
                                "",
                            ),
                            &::redlocked::__private::CallSite {
                                function: ::core::concat!(::core::module_path!(), "::walk"),
                                template: "{path}",
                                fenced: false,
                                options: &[],
                            },
                        )
                    };
                    let __body = async move { step(&path).await };
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
    })
}
