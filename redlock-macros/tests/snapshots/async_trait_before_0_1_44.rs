fn load<'life0, 'async_trait>(
    &'life0 self,
    id: u32,
) -> ::core::pin::Pin<
    Box<dyn ::core::future::Future<Output = Result<Row, Error>> + Send + 'async_trait>,
>
where
    'life0: 'async_trait,
    Self: Sync + 'async_trait,
{
    async fn load(_self: &Table, id: u32) -> Result<Row, Error> {
        _self.row(id).await
    }
    Box::pin(async move {
        match ::redlocked::__private::run(
                ::redlocked::__private::call(move || {
                    let __lock = {
                        let __key = ::redlocked::__private::KeyTemplate::new();
                        ::redlocked::__private::lock(
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
                                ::redlocked::__private::KeyTemplate::render(
                                    &__key,
                                    ::core::format_args!(
                                        "{self_tenant}:{id}", self_tenant =
                                        ::redlocked::__private::KeyTemplate::escape(& __key, & *
                                        __printed0(&& self.tenant)), id =
                                        ::redlocked::__private::KeyTemplate::escape(& __key, & id)
                                    ),
                                    "",
                                )
                            },
                            &::redlocked::__private::CallSite {
                                function: ::core::concat!(::core::module_path!(), "::load"),
                                template: "{self.tenant}:{id}",
                                fenced: false,
                                options: &[],
                            },
                        )
                    };
                    let __body = load(self, id);
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
