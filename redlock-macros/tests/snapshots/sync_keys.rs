fn merge(&self, left: &str, right: &str) -> Result<(), Error> {
    let __lock = ::redlocked::LockManager::lock_all(
            &self.locks,
            [::redlocked::__private::key(&left), ::redlocked::__private::key(&right)],
        )
        .from_site(
            &::redlocked::__private::Site {
                function: ::core::concat!(::core::module_path!(), "::merge"),
                template: "",
            },
        );
    match ::redlocked::__private::run_blocking(
        __lock,
        move |_: &::redlocked::LockGuard| {
            if let ::core::option::Option::Some(__unreachable_output) = ::core::option::Option::None::<
                Result<(), Error>,
            > {
                return __unreachable_output;
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
