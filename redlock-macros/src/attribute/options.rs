//! The names of the options, and what other libraries call them.

use crate::errors::nearest;

/// In the order of the reference.
pub(crate) const OPTIONS: [&str; 15] = [
    "key",
    "keys",
    "global",
    "ttl",
    "wait",
    "renew",
    "max_hold",
    "min_hold",
    "on_lost",
    "reentrant",
    "guard",
    "manager",
    "on_busy",
    "on_error",
    "crate",
];

/// The options that need no value.
pub(crate) const FLAGS: [&str; 2] = ["global", "reentrant"];

/// The options that take a duration.
pub(super) const DURATIONS: [&str; 4] = ["ttl", "wait", "max_hold", "min_hold"];

/// What other libraries call our options.
const SYNONYMS: [(&str, &str); 27] = [
    ("name", "key"),
    ("id", "key"),
    ("resource", "key"),
    ("names", "keys"),
    ("ids", "keys"),
    ("resources", "keys"),
    ("lease", "ttl"),
    ("expire", "ttl"),
    ("expires", "ttl"),
    ("expiry", "ttl"),
    ("duration", "ttl"),
    ("timeout", "wait"),
    ("wait_time", "wait"),
    ("client", "manager"),
    ("pool", "manager"),
    ("fallback", "on_busy"),
    ("watchdog", "renew"),
    ("auto_renew", "renew"),
    ("lock_at_most_for", "ttl"),
    ("lock_at_least_for", "min_hold"),
    ("at_least", "min_hold"),
    ("at_most", "max_hold"),
    ("max_time", "max_hold"),
    ("max_duration", "max_hold"),
    ("on_loss", "on_lost"),
    ("if_lost", "on_lost"),
    ("recursive", "reentrant"),
];

/// The option that `text` was probably meant to be.
pub(crate) fn meant(text: &str) -> Option<&'static str> {
    let synonym = SYNONYMS.iter().find(|(theirs, _)| *theirs == text).map(|(_, ours)| *ours);
    synonym.or_else(|| nearest(text, OPTIONS))
}

/// An example of the option.
pub(crate) fn hint(option: &str) -> &'static str {
    match option {
        "key" => "key = \"order:{id}\"",
        "keys" => "keys = [\"account:{from}\", \"account:{to}\"]",
        "global" => "global = true",
        "ttl" => "ttl = \"10s\"",
        "wait" => "wait = \"5s\"",
        "renew" => "renew = false",
        "max_hold" => "max_hold = \"1m\"",
        "min_hold" => "min_hold = \"5m\"",
        "on_lost" => "on_lost = \"finish\"",
        "reentrant" => "reentrant = true",
        "guard" => "guard = lock",
        "manager" => "manager = self.locks",
        "on_busy" => "on_busy = Ok(())",
        "on_error" => "on_error = |error| ...",
        _ => "crate = some_crate::redlocked",
    }
}

#[cfg(test)]
mod tests {
    use super::{FLAGS, OPTIONS, SYNONYMS, hint, meant};

    #[test]
    fn synonyms_are_not_options() {
        for (theirs, ours) in SYNONYMS {
            assert!(!OPTIONS.contains(&theirs) && OPTIONS.contains(&ours), "{theirs} -> {ours}");
            assert_eq!(meant(theirs), Some(ours));
        }
    }

    #[test]
    fn each_option_shows_itself() {
        for option in OPTIONS {
            assert!(hint(option).starts_with(&format!("{option} = ")), "{option}");
        }
        assert!(FLAGS.iter().all(|flag| OPTIONS.contains(flag)));
    }
}
