async fn nightly(&self) -> Result<(), Error> {
    match ::redlocked::__private::call(move || {
            let __lock = ::redlocked::__private::lock(
                    ::redlocked::__private::key("nightly"),
                )
                .max_hold(::core::time::Duration::from_millis(3600000))
                .min_hold(self.period / 2)
                .on_lost(::redlocked::OnLost::Finish)
                .reentrant(true)
                .from_site(
                    &::redlocked::__private::Site {
                        function: ::core::concat!(::core::module_path!(), "::nightly"),
                        template: "nightly",
                    },
                );
            let __body = async move {
                if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                    Result<(), Error>,
                > {
                    return __unreachable_output;
                }
                self.tidy().await
            };
            ::redlocked::__private::run(__lock, __body)
        })
        .await
    {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
