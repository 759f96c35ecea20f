async fn alike(&self, a: A, a_b: B, a_b_c: u8) -> Result<(), Error> {
    match ::redlocked::__private::run(
            ::redlocked::__private::call(move || {
                let __lock = {
                    let __key = ::redlocked::__private::KeyTemplate::new();
                    ::redlocked::__private::lock(
                        {
                            #[diagnostic::on_unimplemented(
                                message = "`{{a.b_c}}` cannot be written into a key",
                                label = "`{Self}` has no `Display`",
                                note = "write `{{a.b_c:?}}` for its `Debug`, as of an `Option`, or name what of it is meant, such as `{{a.b_c.id}}`"
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
                            #[diagnostic::on_unimplemented(
                                message = "`{{a_b.c}}` cannot be written into a key",
                                label = "`{Self}` has no `Display`",
                                note = "write `{{a_b.c:?}}` for its `Debug`, as of an `Option`, or name what of it is meant, such as `{{a_b.c.id}}`"
                            )]
                            trait __Printed1: ::core::fmt::Display {}
                            #[diagnostic::do_not_recommend]
                            impl<
                                T: ::core::fmt::Display + ?::core::marker::Sized,
                            > __Printed1 for T {}
                            fn __printed1<'a, T: __Printed1 + ?::core::marker::Sized>(
                                value: &'a &'a T,
                            ) -> &'a dyn ::core::fmt::Display {
                                value
                            }
                            #[diagnostic::on_unimplemented(
                                message = "`{{self}}` cannot be written into a key",
                                label = "`{Self}` has no `Display`",
                                note = "write `{{self:?}}` for its `Debug`, as of an `Option`, or name what of it is meant, such as `{{self.id}}`"
                            )]
                            trait __Printed2: ::core::fmt::Display {}
                            #[diagnostic::do_not_recommend]
                            impl<
                                T: ::core::fmt::Display + ?::core::marker::Sized,
                            > __Printed2 for T {}
                            fn __printed2<'a, T: __Printed2 + ?::core::marker::Sized>(
                                value: &'a &'a T,
                            ) -> &'a dyn ::core::fmt::Display {
                                value
                            }
                            ::redlocked::__private::KeyTemplate::render(
                                &__key,
                                ::core::format_args!(
                                    "{a_b_c_}:{a_b_c__}:{a_b_c}:{self_}:{a_b_c_:04}", a_b_c_ =
                                    ::redlocked::__private::KeyTemplate::escape(& __key, & *
                                    __printed0(&& a.b_c)), a_b_c__ =
                                    ::redlocked::__private::KeyTemplate::escape(& __key, & *
                                    __printed1(&& a_b.c)), a_b_c =
                                    ::redlocked::__private::KeyTemplate::escape(& __key, &
                                    a_b_c), self_ =
                                    ::redlocked::__private::KeyTemplate::escape(& __key, & *
                                    __printed2(&& self))
                                ),
                                "",
                            )
                        },
                        &::redlocked::__private::CallSite {
                            function: ::core::concat!(::core::module_path!(), "::alike"),
                            template: "{a.b_c}:{a_b.c}:{a_b_c}:{self}:{a.b_c:04}",
                            fenced: false,
                            options: &[],
                        },
                    )
                };
                let __body = async move {
                    let _ = &a_b;
                    let _ = &a;
                    if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                        ::redlocked::__private::NoOutput<Result<(), Error>>,
                    > {
                        return __unreachable_output.output();
                    }
                    Ok(())
                };
                (__lock, __body)
            }),
        )
        .await
    {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
