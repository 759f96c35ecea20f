pub unsafe fn generics<'a, T, const N: usize>(
    self: Arc<Self>,
    id: &'a T,
    tail: [impl Into<T>; N],
) -> Result<Vec<impl Iterator<Item = T> + 'a>, Error>
where
    T: Display + Clone,
{
    let __lock = ::redlocked::__private::call(|| {
        let __lock = {
            let __key = ::redlocked::__private::KeyTemplate::new();
            ::redlocked::__private::lock(
                ::redlocked::__private::KeyTemplate::render(
                    &__key,
                    ::core::format_args!(
                        "{id}", id = ::redlocked::__private::KeyTemplate::escape(& __key,
                        & id)
                    ),
                    "",
                ),
                &::redlocked::__private::CallSite {
                    function: ::core::concat!(::core::module_path!(), "::generics"),
                    template: "{id}",
                    fenced: false,
                    options: &[],
                },
            )
        };
        __lock
    });
    match ::redlocked::__private::run_blocking(
        __lock,
        move |_: &::redlocked::LockGuard| {
            let _ = &tail;
            let _ = |tail: ()| ();
            let _ = &self;
            if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                ::redlocked::__private::NoOutput<Result<Vec<_>, Error>>,
            > {
                return __unreachable_output.output();
            }
            Ok(Vec::new())
        },
    ) {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
