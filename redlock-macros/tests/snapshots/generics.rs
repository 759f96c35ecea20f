pub unsafe fn generics<'a, T, const N: usize>(
    self: Arc<Self>,
    id: &'a T,
    tail: [impl Into<T>; N],
) -> Result<Vec<impl Iterator<Item = T> + 'a>, Error>
where
    T: Display + Clone,
{
    let lock = {
        let key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(
            key.render(::core::format_args!("{id}", id = key.escape(& id))),
        )
    };
    match ::redlocked::__private::run_blocking(
        lock,
        move |_: &::redlocked::LockGuard| {
            if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
                Result<Vec<_>, Error>,
            > {
                return unreachable_output;
            }
            { Ok(Vec::new()) }
        },
    ) {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
