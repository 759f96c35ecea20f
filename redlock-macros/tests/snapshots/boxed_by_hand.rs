fn walk(path: String) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(async move {
        let lock = {
            let key = ::redlocked::__private::KeyTemplate::new();
            ::redlocked::__private::lock(
                key.render(::core::format_args!("{path}", path = key.escape(& path))),
            )
        };
        let body = async move { { step(&path).await } };
        match ::redlocked::__private::run(lock, body).await {
            ::core::result::Result::Ok(output) => output,
            ::core::result::Result::Err(error) => {
                ::redlocked::FromLockError::from_lock_error(error)
            }
        }
    })
}
