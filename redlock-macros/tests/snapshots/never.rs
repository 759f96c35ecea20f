async fn lead() -> ! {
    let lock = {
        let key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(key.render(::core::format_args!("leader")))
            .wait_forever()
    };
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
