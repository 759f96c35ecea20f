async fn send(&self, req: &Request, pair: (u8, u8), plain: &str) -> Result<(), Error> {
    let __lock = {
        let __key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(
                ::redlocked::__private::KeyTemplate::render(
                    &__key,
                    ::core::format_args!(
                        "{TENANT}:{{{self_kind}}}:{req_user_id:04}:{pair_0}:{plain}:{req_user_id}",
                        self_kind = ::redlocked::__private::KeyTemplate::escape(& __key,
                        & self.kind), req_user_id =
                        ::redlocked::__private::KeyTemplate::escape(& __key, & req.user
                        .id), pair_0 = ::redlocked::__private::KeyTemplate::escape(&
                        __key, & pair.0), plain =
                        ::redlocked::__private::KeyTemplate::escape(& __key, & plain)
                    ),
                    "",
                ),
            )
            .from_site(
                &::redlocked::__private::Site {
                    function: ::core::concat!(::core::module_path!(), "::send"),
                    template: "{TENANT}:{{{self.kind}}}:{req.user.id:04}:{pair.0}:{plain}:{req.user.id}",
                },
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
    match ::redlocked::__private::run(__lock, __body).await {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
