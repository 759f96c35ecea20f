async fn train(gpu: u32, job: &Job) -> Result<(), TrainError> {
    match ::redlocked::__private::run(
            ::redlocked::__private::call(move || {
                let __lock = {
                    let __key = ::redlocked::__private::KeyTemplate::new();
                    ::redlocked::__private::lock(
                            ::redlocked::__private::KeyTemplate::render(
                                &__key,
                                ::core::format_args!(
                                    "gpu:{gpu}", gpu =
                                    ::redlocked::__private::KeyTemplate::escape(& __key, & gpu)
                                ),
                                "",
                            ),
                            &::redlocked::__private::CallSite {
                                function: ::core::concat!(
                                    ::core::module_path!(), "::train"
                                ),
                                template: "gpu:{gpu}",
                                fenced: false,
                                options: &[
                                    ::redlocked::__private::ConstOption::Wait(3600000),
                                    ::redlocked::__private::ConstOption::Permits(16),
                                ],
                            },
                        )
                        .with_options()
                        .take(job.gigabytes)
                };
                let __body = async move {
                    if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                        ::redlocked::__private::NoOutput<Result<(), TrainError>>,
                    > {
                        return __unreachable_output.output();
                    }
                    job.train(gpu).await
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
