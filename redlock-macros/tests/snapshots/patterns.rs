async fn patterns(
    Path(sku): Path<String>,
    Point { x, y: (y, _), .. }: Point,
    [first,
    ..,
    ]: [u8; 4],
    whole @ (_, _): (u8, u8),
    mut r#type: u8,
) -> Result<(), Error> {
    match ::redlocked::__private::run(
            ::redlocked::__private::call(move || {
                let __lock = {
                    let __key = ::redlocked::__private::KeyTemplate::new();
                    ::redlocked::__private::lock(
                        ::redlocked::__private::KeyTemplate::render(
                            &__key,
                            ::core::format_args!(
                                "{sku}:{x}:{y}:{first}:{whole:?}:{type}", sku =
                                ::redlocked::__private::KeyTemplate::escape(& __key, & sku),
                                x = ::redlocked::__private::KeyTemplate::escape(& __key, &
                                x), y = ::redlocked::__private::KeyTemplate::escape(& __key,
                                & y), first = ::redlocked::__private::KeyTemplate::escape(&
                                __key, & first), whole =
                                ::redlocked::__private::KeyTemplate::escape(& __key, &
                                whole), r#type =
                                ::redlocked::__private::KeyTemplate::escape(& __key, &
                                r#type)
                            ),
                            "",
                        ),
                        &::redlocked::__private::CallSite {
                            function: ::core::concat!(
                                ::core::module_path!(), "::patterns"
                            ),
                            template: "{sku}:{x}:{y}:{first}:{whole:?}:{type}",
                            fenced: false,
                            options: &[],
                        },
                    )
                };
                let __body = async move {
                    let _ = &y;
                    let _ = &x;
                    let _ = &sku;
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
