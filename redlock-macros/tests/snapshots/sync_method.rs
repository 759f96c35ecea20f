/// Writes it.
#[must_use]
pub(crate) fn report(&mut self, name: &str) -> Result<&mut Report, Error> {
    #![allow(unused)]
    let __lock = ::redlocked::__private::call(|| {
        let __lock = {
            let __key = ::redlocked::__private::KeyTemplate::new();
            ::redlocked::__private::lock(
                ::redlocked::__private::KeyTemplate::render(
                    &__key,
                    ::core::format_args!(
                        "report:{name}", name =
                        ::redlocked::__private::KeyTemplate::escape(& __key, & name)
                    ),
                    "",
                ),
                &::redlocked::__private::CallSite {
                    function: ::core::concat!(::core::module_path!(), "::report"),
                    template: "report:{name}",
                    fenced: false,
                    options: &[
                        ::redlocked::__private::ConstOption::WaitForever,
                        ::redlocked::__private::ConstOption::Renew(false),
                    ],
                },
            )
        };
        __lock
    });
    match ::redlocked::__private::run_blocking(
        __lock,
        move |_: &::redlocked::LockGuard| {
            if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                ::redlocked::__private::NoOutput<Result<&mut Report, Error>>,
            > {
                return __unreachable_output.output();
            }
            self.write(name)
        },
    ) {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
