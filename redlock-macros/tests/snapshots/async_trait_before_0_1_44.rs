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
        let lock = {
            let key = ::redlocked::__private::KeyTemplate::new();
            ::redlocked::__private::lock(
                key
                    .render(
                        ::core::format_args!(
                            "{self_tenant}:{id}", self_tenant = key.escape(& self
                            .tenant), id = key.escape(& id)
                        ),
                    ),
            )
        };
        match ::redlocked::__private::run(lock, load(self, id)).await {
            ::core::result::Result::Ok(output) => output,
            ::core::result::Result::Err(error) => {
                ::redlocked::FromLockError::from_lock_error(error)
            }
        }
    })
}
