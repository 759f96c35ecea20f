fn count(n: u32) -> Option<impl Iterator<Item = u32>> {
    let lock = {
        let key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(
            key.render(::core::format_args!("n:{n:04}", n = key.escape(& n))),
        )
    };
    match ::redlocked::__private::run_blocking(
        lock,
        move |_: &::redlocked::LockGuard| {
            if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
                Option<_>,
            > {
                return unreachable_output;
            }
            { Some(0..n) }
        },
    ) {
        ::core::result::Result::Ok(output) => {
            use ::redlocked::__private::{ReturnsFuture as _, ReturnsValue as _};
            ::redlocked::__private::SyncReturn::of(&output).probe();
            output
        }
        ::core::result::Result::Err(error) if error.is_busy() => None,
        ::core::result::Result::Err(error) => {
            ::redlocked::__private::on_error(error, report)
        }
    }
}
