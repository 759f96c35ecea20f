fn transfer<'life0, 'async_trait>(
    &'life0 mut self,
    __arg1: (u32, u32),
    amount: u64,
) -> ::core::pin::Pin<
    Box<
        dyn ::core::future::Future<
            Output = Result<(), Error>,
        > + ::core::marker::Send + 'async_trait,
    >,
>
where
    'life0: 'async_trait,
    Self: 'async_trait,
{
    Box::pin(async move {
        let (a, b) = {
            let __arg1 = __arg1;
            __arg1
        };
        let amount = amount;
        match ::redlocked::__private::run(
                ::redlocked::__private::call(move || {
                    let __lock = {
                        let __key = ::redlocked::__private::KeyTemplate::new();
                        ::redlocked::__private::lock_with(
                            &self.locks,
                            {
                                #[diagnostic::on_unimplemented(
                                    message = "`{{self.tenant}}` cannot be written into a key",
                                    label = "`{Self}` has no `Display`",
                                    note = "write `{{self.tenant:?}}` for its `Debug`, as of an `Option`, or name what of it is meant, such as `{{self.tenant.id}}`"
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
                                    message = "`{{a}}` cannot be written into a key",
                                    label = "`{Self}` has no `Display`",
                                    note = "write `{{a:?}}` for its `Debug`, as of an `Option`, or name what of it is meant, such as `{{a.id}}`"
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
                                ::redlocked::__private::KeyTemplate::render(
                                    &__key,
                                    ::core::format_args!(
                                        "{self_tenant}:{a}", self_tenant =
                                        ::redlocked::__private::KeyTemplate::escape(& __key, & *
                                        __printed0(&& self.tenant)), a =
                                        ::redlocked::__private::KeyTemplate::escape(& __key, & *
                                        __printed1(&& a))
                                    ),
                                    "",
                                )
                            },
                            &::redlocked::__private::CallSite {
                                function: ::core::concat!(
                                    ::core::module_path!(), "::transfer"
                                ),
                                template: "{self.tenant}:{a}",
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
                        {
                            if let ::core::option::Option::Some(__ret) = ::core::option::Option::None::<
                                Result<(), Error>,
                            > {
                                #[allow(unreachable_code)] return __ret;
                            }
                            let mut __self = self;
                            let __ret: Result<(), Error> = {
                                __self.book(a, b, amount).await
                            };
                            #[allow(unreachable_code)] __ret
                        }
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
    })
}
