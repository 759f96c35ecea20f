/// Writes it.
#[must_use]
pub(crate) fn report(&mut self, name: &str) -> Result<&mut Report, Error> {
    #![allow(unused)]
    let lock = {
        let key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(
                key
                    .render(
                        ::core::format_args!("report:{name}", name = key.escape(& name)),
                    ),
            )
            .wait_forever()
            .renew(false)
    };
    match ::redlocked::__private::run_blocking(
        lock,
        move |_: &::redlocked::LockGuard| {
            if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
                Result<&mut Report, Error>,
            > {
                return unreachable_output;
            }
            { self.write(name) }
        },
    ) {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
