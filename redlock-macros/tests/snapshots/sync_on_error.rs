fn count(n: u32) -> Option<impl Iterator<Item = u32>> {
    let __lock = ::redlocked::__private::call(|| {
        let __lock = {
            let __key = ::redlocked::__private::KeyTemplate::new();
            ::redlocked::__private::lock(
                ::redlocked::__private::KeyTemplate::render(
                    &__key,
                    ::core::format_args!(
                        "n:{n:04}", n = ::redlocked::__private::KeyTemplate::escape(&
                        __key, & n)
                    ),
                    "",
                ),
                &::redlocked::__private::CallSite {
                    function: ::core::concat!(::core::module_path!(), "::count"),
                    template: "n:{n:04}",
                    fenced: false,
                    options: &[::redlocked::__private::ConstOption::Wait(0)],
                },
            )
        };
        __lock
    });
    match ::redlocked::__private::run_blocking(
        __lock,
        move |_: &::redlocked::LockGuard| {
            if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                ::redlocked::__private::NoOutput<Option<_>>,
            > {
                return __unreachable_output.output();
            }
            Some(0..n)
        },
    ) {
        ::core::result::Result::Ok(__output) => {
            use ::redlocked::__private::{ReturnsFuture as _, ReturnsValue as _};
            ::redlocked::__private::SyncReturn::of(&__output).__redlock_probe();
            return __output;
        }
        ::core::result::Result::Err(
            __error,
        ) if ::redlocked::LockError::is_busy(&__error) => return None,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::__private::on_error::<Option<_>>(__error, report);
        }
    }
}
