async fn patterns(
    Path(sku): Path<String>,
    Point { x, y: (y, _), .. }: Point,
    [first,
    ..,
    ]: [u8; 4],
    whole @ (_, _): (u8, u8),
    mut r#type: u8,
) -> Result<(), Error> {
    let lock = {
        let key = ::redlocked::__private::KeyTemplate::new();
        ::redlocked::__private::lock(
            key
                .render(
                    ::core::format_args!(
                        "{sku}:{x}:{y}:{first}:{whole:?}:{type}", sku = key.escape(&
                        sku), x = key.escape(& x), y = key.escape(& y), first = key
                        .escape(& first), whole = key.escape(& whole), r#type = key
                        .escape(& r#type)
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
        { Ok(()) }
    };
    match ::redlocked::__private::run(lock, body).await {
        ::core::result::Result::Ok(output) => output,
        ::core::result::Result::Err(error) => {
            ::redlocked::FromLockError::from_lock_error(error)
        }
    }
}
