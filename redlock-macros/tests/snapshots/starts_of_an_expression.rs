fn send(tenant: &Tenant) -> Result<(), MailError> {
    let __lock = {
        let __key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(
                {
                    #[diagnostic::on_unimplemented(
                        message = "`{{tenant.id}}` cannot be written into a key",
                        label = "`{Self}` has no `Display`",
                        note = "write `{{tenant.id:?}}` for its `Debug`, as of an `Option`, or name what of it is meant, such as `{{tenant.id.id}}`"
                    )]
                    trait __Printed0: ::core::fmt::Display {}
                    #[diagnostic::do_not_recommend]
                    impl<T: ::core::fmt::Display + ?::core::marker::Sized> __Printed0
                    for T {}
                    fn __printed0<'a, T: __Printed0 + ?::core::marker::Sized>(
                        value: &'a &'a T,
                    ) -> &'a dyn ::core::fmt::Display {
                        value
                    }
                    ::redlocked::__private::KeyTemplate::render(
                        &__key,
                        ::core::format_args!(
                            "mail:{tenant_id}", tenant_id =
                            ::redlocked::__private::KeyTemplate::escape(& __key, & *
                            __printed0(&& tenant.id))
                        ),
                        "",
                    )
                },
                &::redlocked::__private::CallSite {
                    function: ::core::concat!(::core::module_path!(), "::send"),
                    template: "mail:{tenant.id}",
                    fenced: false,
                    options: &[],
                },
            )
            .with_options()
            .rate_of((tenant.limit, MINUTE))
    };
    match ::redlocked::__private::run_blocking(
        __lock,
        move |_: &::redlocked::LockGuard| {
            if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                ::redlocked::__private::NoOutput<Result<(), MailError>>,
            > {
                return __unreachable_output.output();
            }
            deliver(tenant)
        },
    ) {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
