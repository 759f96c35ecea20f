async fn transfer(from: u64, to: &Account, amount: u64) -> Result<(), BankError> {
    let lock = {
        let key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock_all([
                key
                    .render(
                        ::core::format_args!("account:{from}", from = key.escape(& from)),
                    ),
                key
                    .render(
                        ::core::format_args!(
                            "account:{to_id}", to_id = key.escape(& to.id)
                        ),
                    ),
                ::redlocked::__private::key(&audit_key(from)),
            ])
            .wait(::core::time::Duration::from_millis(5000))
    };
    let body = async move {
        if let ::core::option::Option::Some(unreachable_output) = ::core::option::Option::None::<
            Result<(), BankError>,
        > {
            return unreachable_output;
        }
        { bank::transfer(from, to, amount).await }
    };
    match ::redlocked::__private::run(lock, body).await {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
