async fn lead() -> ! {
    match ::redlocked::__private::run({
            let __lock = ::redlocked::__private::lock(
                ::redlocked::__private::key("leader"),
                &::redlocked::__private::CallSite {
                    function: ::core::concat!(::core::module_path!(), "::lead"),
                    template: "leader",
                    fenced: false,
                    options: &[::redlocked::__private::ConstOption::WaitForever],
                },
            );
            let __body = async move {
                loop {
                    work().await;
                }
            };
            (__lock, __body)
        })
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
