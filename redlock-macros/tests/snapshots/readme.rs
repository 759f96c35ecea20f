async fn purchase(sku: &str, quantity: u32) -> Result<Receipt, ShopError> {
    let lock = {
        let key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(
                key.render(::core::format_args!("stock:{sku}", sku = key.escape(& sku))),
            )
            .ttl(::core::time::Duration::from_millis(10000))
            .wait(::core::time::Duration::from_millis(5000))
    };
    let body = async move {
        if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
            Result<Receipt, ShopError>,
        > {
            return unreachable_output;
        }
        { shop::buy(sku, quantity).await }
    };
    match ::redlocked::__private::run(lock, body).await {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
