async fn transfer(from: u64, to: &Account, amount: u64) -> Result<(), BankError> {
    match ::redlocked::__private::run({
            let __lock = {
                let __key = ::redlocked::__private::KeyTemplate::new();
                ::redlocked::__private::lock_all(
                    [
                        ::redlocked::__private::KeyTemplate::render(
                            &__key,
                            ::core::format_args!(
                                "account:{from}", from =
                                ::redlocked::__private::KeyTemplate::escape(& __key, & from)
                            ),
                            "",
                        ),
                        {
                            #[diagnostic::on_unimplemented(
                                message = "`{{to.id}}` cannot be written into a key",
                                label = "`{Self}` has no `Display`",
                                note = "write `{{to.id:?}}` for its `Debug`, as of an `Option`, or name what of it is meant, such as `{{to.id.id}}`"
                            )]
                            trait __Printed0: ::core::fmt::Display {}
                            #[diagnostic::do_not_recommend]
                            impl<
                                T: ::core::fmt::Display + ?::core::marker::Sized,
                            > __Printed0 for T {}
                            fn __printed0<'a, T: __Printed0 + ?::core::marker::Sized>(
                                value: &'a &'a T,
                            ) -> &'a dyn ::core::fmt::Display {
                                value
                            }
                            ::redlocked::__private::KeyTemplate::render(
                                &__key,
                                ::core::format_args!(
                                    "account:{to_id}", to_id =
                                    ::redlocked::__private::KeyTemplate::escape(& __key, & *
                                    __printed0(&& to.id))
                                ),
                                "",
                            )
                        },
                        ::redlocked::__private::key(&audit_key(from)),
                    ],
                    &::redlocked::__private::CallSite {
                        function: ::core::concat!(::core::module_path!(), "::transfer"),
                        template: "account:{from}, account:{to.id}, *",
                        fenced: false,
                        options: &[::redlocked::__private::ConstOption::Wait(5000)],
                    },
                )
            };
            let __body = async move {
                if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                    ::redlocked::__private::NoOutput<Result<(), BankError>>,
                > {
                    return __unreachable_output.output();
                }
                bank::transfer(from, to, amount).await
            };
            (__lock, __body)
        })
        .await
    {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
