async fn lead() -> ! {
    let lock = ::redlocked::__private::lock(::redlocked::__private::key("leader"))
        .wait_forever();
    let body = async move {
        {
            loop {
                work().await;
            }
        }
    };
    match ::redlocked::__private::run(lock, body).await {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::__private::on_error(
                error,
                |error| std::process::exit(code(&error)),
            )
        }
    }
}
