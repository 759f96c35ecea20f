async fn count(n: u32) {
    let lock = {
        let key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(
            key.render(::core::format_args!("n:{n:04}", n = key.escape(& n))),
        )
    };
    let body = async move {
        if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
            (),
        > {
            return unreachable_output;
        }
        {
            tick(n).await;
        }
    };
    match ::redlocked::__private::run(lock, body).await {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::__private::on_error(error, |error| log(&error))
        }
    }
}
