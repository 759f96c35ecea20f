async fn send(&self, req: &Request, pair: (u8, u8), plain: &str) -> Result<(), Error> {
    match ::redlocked::__private::run(
            ::redlocked::__private::call(move || {
                let __lock = {
                    let __key = ::redlocked::__private::KeyTemplate::new();
                    ::redlocked::__private::lock(
                        {
                            #[diagnostic::on_unimplemented(
                                message = "`{{self.kind}}` cannot be written into a key",
                                label = "`{Self}` has no `Display`",
                                note = "write `{{self.kind:?}}` for its `Debug`, as of an `Option`, or name what of it is meant, such as `{{self.kind.id}}`"
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
                                message = "`{{req.user.id}}` cannot be written into a key",
                                label = "`{Self}` has no `Display`",
                                note = "write `{{req.user.id:?}}` for its `Debug`, as of an `Option`, or name what of it is meant, such as `{{req.user.id.id}}`"
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
                                message = "`{{pair.0}}` cannot be written into a key",
                                label = "`{Self}` has no `Display`",
                                note = "write `{{pair.0:?}}` for its `Debug`, as of an `Option`, or name what of it is meant, such as `{{pair.0.id}}`"
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
                                    "{TENANT}:{{{self_kind}}}:{req_user_id:04}:{pair_0}:{plain}:{req_user_id}",
                                    self_kind = ::redlocked::__private::KeyTemplate::escape(&
                                    __key, & * __printed0(&& self.kind)), req_user_id =
                                    ::redlocked::__private::KeyTemplate::escape(& __key, & *
                                    __printed1(&& req.user.id)), pair_0 =
                                    ::redlocked::__private::KeyTemplate::escape(& __key, & *
                                    __printed2(&& pair.0)), plain =
                                    ::redlocked::__private::KeyTemplate::escape(& __key, &
                                    plain)
                                ),
                                "",
                            )
                        },
                        &::redlocked::__private::CallSite {
                            function: ::core::concat!(::core::module_path!(), "::send"),
                            template: "{TENANT}:{{{self.kind}}}:{req.user.id:04}:{pair.0}:{plain}:{req.user.id}",
                            fenced: false,
                            options: &[],
                        },
                    )
                };
                let __body = async move {
                    if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                        ::redlocked::__private::NoOutput<Result<(), Error>>,
                    > {
                        return __unreachable_output.output();
                    }
                    self.client.send(req).await
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
