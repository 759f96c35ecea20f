async fn lead() -> ! {
    match {
        let __lock = ::redlocked::__private::lock(::redlocked::__private::key("leader"))
            .wait_forever()
            .from_site(
                &::redlocked::__private::Site {
                    function: ::core::concat!(::core::module_path!(), "::lead"),
                    template: "leader",
                },
            );
        let __body = async move {
            loop {
                work().await;
            }
        };
        ::redlocked::__private::run(__lock, __body)
    }
        .await
    {
        ::core::result::Result::Ok(__output) => __output,
        ::core::result::Result::Err(__error) => {
            ::redlocked::__private::on_error(
                __error,
                |error| std::process::exit(code(&error)),
            )
        }
    }
}
