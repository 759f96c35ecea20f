fn merge(&self, left: &str, right: &str) -> Result<(), Error> {
    let __lock = ::redlocked::__private::call(|| {
        let __lock = ::redlocked::__private::lock_all_with(
            &self.locks,
            [::redlocked::__private::key(&left), ::redlocked::__private::key(&right)],
            &::redlocked::__private::CallSite {
                function: ::core::concat!(::core::module_path!(), "::merge"),
                template: "",
                fenced: false,
                options: &[],
            },
        );
        __lock
    });
    match ::redlocked::__private::run_blocking(
        __lock,
        move |_: &::redlocked::LockGuard| {
            if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                ::redlocked::__private::NoOutput<Result<(), Error>>,
            > {
                return __unreachable_output.output();
            }
            self.join(left, right)
        },
    ) {
        ::core::result::Result::Ok(__output) => return __output,
        ::core::result::Result::Err(__error) => {
            return ::redlocked::FromLockError::from_lock_error(__error);
        }
    }
}
