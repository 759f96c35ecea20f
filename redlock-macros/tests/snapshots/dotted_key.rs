async fn send(&self, req: &Request, pair: (u8, u8), plain: &str) -> Result<(), Error> {
    let lock = {
        let key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(
            key
                .render(
                    ::core::format_args!(
                        "{TENANT}:{{{self_kind}}}:{req_user_id:04}:{pair_0}:{plain}:{req_user_id}",
                        self_kind = key.escape(& self.kind), req_user_id = key.escape(&
                        req.user.id), pair_0 = key.escape(& pair.0), plain = key.escape(&
                        plain)
                    ),
                ),
        )
    };
    let body = async move {
        if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
            Result<(), Error>,
        > {
            return unreachable_output;
        }
        { self.client.send(req).await }
    };
    match ::redlocked::__private::run(lock, body).await {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
