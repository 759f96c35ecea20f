//! Options that need a feature of the library.

use crate::attribute::LockArgs;
use crate::errors::Errors;

/// Without its feature, the runtime has nothing that the expansion of `once` could call.
pub(crate) const HAS_ONCE: bool = cfg!(any(feature = "once", not(proc_macro)));

/// Refuses `once` and the options that go with it if the feature is off.
pub(crate) fn refuse_once(args: &LockArgs, has_once: bool, errors: &mut Errors) {
    if let Some(word) = args.once.as_ref().and_then(|once| once.words.first())
        && !has_once
    {
        errors.at(
            word,
            format!("`{word}` needs the feature `once` of redlocked, which is off by default: run `cargo add redlocked --features once`"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{Errors, LockArgs, refuse_once};

    #[test]
    fn an_option_of_a_feature_that_is_off_names_it() {
        for (args, has_once, is_refused) in [
            ("key = \"a\", once = \"1h\"", false, true),
            ("key = \"a\", once_fingerprint = \"{b}\"", false, true),
            ("key = \"a\", once = \"1h\"", true, false),
            ("key = \"a\"", false, false),
        ] {
            let mut errors = Errors::default();
            let parsed = LockArgs::parse(args.parse().unwrap_or_default(), &mut errors);
            refuse_once(&parsed, has_once, &mut errors);
            let error = errors.finish().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(error.contains("cargo add redlocked --features once"), is_refused, "{args}: {error}");
        }
    }
}
