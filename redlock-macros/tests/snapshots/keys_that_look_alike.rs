async fn alike(&self, a: A, a_b: B, a_b_c: u8) -> Result<(), Error> {
    let __lock = {
        let __key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(
                ::redlocked::__private::KeyTemplate::render(
                    &__key,
                    ::core::format_args!(
                        "{a_b_c_}:{a_b_c__}:{a_b_c}:{self_}:{a_b_c_:04}", a_b_c_ =
                        ::redlocked::__private::KeyTemplate::escape(& __key, & a.b_c),
                        a_b_c__ = ::redlocked::__private::KeyTemplate::escape(& __key, &
                        a_b.c), a_b_c = ::redlocked::__private::KeyTemplate::escape(&
                        __key, & a_b_c), self_ =
                        ::redlocked::__private::KeyTemplate::escape(& __key, & self)
                    ),
                    "",
                ),
            )
            .from_site(
                &::redlocked::__private::Site {
                    function: ::core::concat!(::core::module_path!(), "::alike"),
                    template: "{a.b_c}:{a_b.c}:{a_b_c}:{self}:{a.b_c:04}",
                },
            )
    };
    let __body = async move {
        let _ = &a_b;
        let _ = &a;
        if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
            Result<(), Error>,
        > {
            return __unreachable_output;
        }
        Ok(())
    };
    match ::redlocked::__private::run(__lock, __body).await {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
