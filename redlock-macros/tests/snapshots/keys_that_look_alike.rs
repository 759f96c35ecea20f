async fn alike(&self, a: A, a_b: B, a_b_c: u8) -> Result<(), Error> {
    let lock = {
        let key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(
            key
                .render(
                    ::core::format_args!(
                        "{a_b_c_}:{a_b_c__}:{a_b_c}:{self_}:{a_b_c_:04}", a_b_c_ = key
                        .escape(& a.b_c), a_b_c__ = key.escape(& a_b.c), a_b_c = key
                        .escape(& a_b_c), self_ = key.escape(& self)
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
        { Ok(()) }
    };
    match ::redlocked::__private::run(lock, body).await {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
