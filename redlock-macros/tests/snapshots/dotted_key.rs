async fn send(&self, req: &Request, pair: (u8, u8), plain: &str) -> Result<(), Error> {
    let __lock = {
        let __key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(
            __key
                .render(
                    ::core::format_args!(
                        "{TENANT}:{{{self_kind}}}:{req_user_id:04}:{pair_0}:{plain}:{req_user_id}",
                        self_kind = __key.escape(& self.kind), req_user_id = __key
                        .escape(& req.user.id), pair_0 = __key.escape(& pair.0), plain =
                        __key.escape(& plain)
                    ),
                ),
        )
    };
    let __body = async move {
        if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
            Result<(), Error>,
        > {
            return __unreachable_output;
        }
        self.client.send(req).await
    };
    return match ::redlocked::__private::run(__lock, __body).await {
        ::core::result::Result::Ok(__output) => __output,
        ::core::result::Result::Err(__error) => {
            ::redlocked::FromLockError::from_lock_error(__error)
        }
    };
}
