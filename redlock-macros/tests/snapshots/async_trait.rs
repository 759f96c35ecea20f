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
        let mut __self = self;
        let (a, b) = {
            let __arg1 = __arg1;
            __arg1
        };
        let amount = amount;
        let lock = {
            let key = ::redlocked::__private::KeyTemplate::new();
            ::redlocked::LockManager::lock(
                &__self.locks,
                key
                    .render(
                        ::core::format_args!(
                            "{self_tenant}:{a}", self_tenant = key.escape(& __self
                            .tenant), a = key.escape(& a)
                        ),
                    ),
            )
        };
        let body = async move {
            if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
                Result<(), Error>,
            > {
                return unreachable_output;
            }
            {
                if let ::core::option::Option::Some(__ret) = ::core::option::Option::None::<
                    Result<(), Error>,
                > {
                    #[allow(unreachable_code)] return __ret;
                }
                let __ret: Result<(), Error> = { __self.book(a, b, amount).await };
                #[allow(unreachable_code)] __ret
            }
        };
        match ::redlocked::__private::run(lock, body).await {
            ::core::result::Result::Ok(output) => output,
            ::core::result::Result::Err(error) => {
                ::redlocked::FromLockError::from_lock_error(error)
            }
        }
    })
}
