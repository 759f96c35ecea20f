//! The names of the options, and what other libraries call them.

use crate::errors::nearest;

/// In the order of the reference.
pub(crate) const OPTIONS: [&str; 29] = [
    "key",
    "keys",
    "constant_key",
    "shared",
    "permits",
    "take",
    "rate",
    "ttl",
    "wait",
    "renew",
    "max_hold",
    "min_hold",
    "tick",
    "tick_at",
    "tick_missed",
    "on_lost",
    "release_in_background",
    "reentrant",
    "guard",
    "ticket",
    "once",
    "once_fingerprint",
    "on_interrupted",
    "on_undecodable",
    "spawn",
    "manager",
    "on_busy",
    "on_error",
    "crate",
];

/// The options that need no value.
pub(crate) const FLAGS: [&str; 5] = ["constant_key", "shared", "release_in_background", "reentrant", "spawn"];

/// The options that take a duration.
pub(super) const DURATIONS: [&str; 6] = ["ttl", "wait", "max_hold", "min_hold", "tick", "once"];

/// What other libraries, and other languages, call our options; in small letters, without `_`.
const SYNONYMS: [(&str, &[&str]); 25] = [
    ("key", &["name", "id", "resource", "lockkey", "lockname", "lockid", "on"]),
    ("keys", &["names", "ids", "resources"]),
    ("constant_key", &["global", "singleton", "oneforall", "samekey"]),
    ("shared", &["read", "reader", "readers", "readonly", "readlock", "rwlock", "share"]),
    (
        "permits",
        &[
            "permit",
            "semaphore",
            "concurrency",
            "concurrent",
            "maxconcurrency",
            "maxconcurrent",
            "maxparallel",
            "parallelism",
            "limit",
            "slots",
            "seats",
            "atmostinside",
        ],
    ),
    ("take", &["weight", "weights", "takes", "cost", "units"]),
    ("rate", &["ratelimit", "throttle", "throttled", "startsper", "quota", "tokenbucket", "slidingwindow"]),
    (
        "ttl",
        &[
            "lease",
            "leasetime",
            "expire",
            "expires",
            "expiry",
            "expiration",
            "expireafter",
            "expiresin",
            "duration",
            "timetolive",
            "lockatmostfor",
            "px",
            "ex",
        ],
    ),
    (
        "wait",
        &[
            "timeout",
            "waittime",
            "maxwait",
            "waitfor",
            "acquiretimeout",
            "locktimeout",
            "blocking",
            "retry",
            "retries",
            "retrycount",
            "retrydelay",
            "retryinterval",
            "maxretries",
            "waittimeout",
        ],
    ),
    (
        "renew",
        &[
            "watchdog",
            "autorenew",
            "autorenewal",
            "autoextend",
            "extend",
            "refresh",
            "autorefresh",
            "heartbeat",
            "keepalive",
        ],
    ),
    ("max_hold", &["atmost", "maxtime", "maxduration", "maxlease", "holdatmost"]),
    ("min_hold", &["lockatleastfor", "atleast", "mintime", "holdatleast", "cooldown"]),
    ("tick", &["every", "period", "interval", "schedule", "cron", "onceper", "oncepertick"]),
    (
        "tick_at",
        &[
            "firetime",
            "fireat",
            "scheduledat",
            "scheduledtime",
            "scheduledfor",
            "duetime",
            "dueat",
            "nominaltime",
        ],
    ),
    (
        "tick_missed",
        &["missed", "onmissed", "missedtick", "misfire", "misfirepolicy", "onmisfire", "catchup"],
    ),
    ("on_lost", &["onloss", "iflost", "lost"]),
    (
        "release_in_background",
        &["release", "releasemode", "unlock", "onrelease", "backgroundrelease", "asyncrelease", "background"],
    ),
    ("reentrant", &["recursive", "reentry", "allowreentry", "nested"]),
    ("guard", &["token", "fence", "fencingtoken", "handle", "bind", "binding", "as", "lock"]),
    (
        "once",
        &[
            "idempotent",
            "idempotency",
            "idempotencykey",
            "runonce",
            "dedup",
            "deduplicate",
            "remember",
            "memoize",
        ],
    ),
    ("spawn", &["spawned", "detached", "task", "owntask", "uncancellable"]),
    ("once_fingerprint", &["fingerprint", "payload", "requesthash"]),
    ("ticket", &["handover", "handoff", "detach", "giveaway", "transfer"]),
    (
        "manager",
        &[
            "client",
            "pool",
            "redis",
            "connection",
            "conn",
            "locks",
            "lockmanager",
            "url",
            "uri",
            "server",
            "host",
            "backend",
            "store",
        ],
    ),
    (
        "on_busy",
        &[
            "fallback",
            "skip",
            "skipiflocked",
            "skipifbusy",
            "skipifheld",
            "iflocked",
            "ifbusy",
            "onlocked",
            "onconflict",
            "ontimeout",
            "otherwise",
        ],
    ),
];

/// Words for what another part of the library does, in small letters and without `_`, and what to write for it.
const ELSEWHERE: [(&[&str], &str); 5] = [
    (
        &["prefix", "keyprefix", "namespace"],
        "the manager has it, `LockManager::builder(url).prefix(\"shop:\")`, or the template begins with it",
    ),
    (
        &["leader", "leaderelection", "election", "elect", "leadership"],
        "a process leads with `locks.election(\"...\").lead(...)`, and a function has a lock",
    ),
    (
        &["fenced", "fencing", "fenceddb", "fencedwrites"],
        "each lock has a fencing token: bind `guard = lock`, and give `lock.fencing_token()` to what the body writes to",
    ),
    (
        &["quorum", "nodes", "node", "redlock"],
        "the manager has it, `LockManager::builder(first_url).node(second_url).node(third_url)`",
    ),
    (
        &["replicas", "cohort", "maxwaiters", "iotimeout", "credentials"],
        "it is a setting of the manager, `LockManager::builder(url)`",
    ),
];

/// What to write for an option that no function has, because another part of the library does that.
pub(crate) fn elsewhere(text: &str) -> Option<&'static str> {
    let word = plain(text);
    ELSEWHERE.iter().find(|(words, _)| words.contains(&word.as_str())).map(|(_, advice)| *advice)
}

/// In small letters, without `_`.
fn plain(text: &str) -> String {
    text.to_lowercase().replace(['_', '-'], "")
}

/// Words behind an option that say the unit of its value.
const UNITS: [&str; 9] = ["milliseconds", "millis", "seconds", "secs", "sec", "minutes", "mins", "ms", "s"];

/// The option that `text` was probably meant to be, however it is spelled.
pub(crate) fn meant(text: &str) -> Option<&'static str> {
    let known = |word: &str| {
        let of = |synonyms: &[&str]| synonyms.contains(&word);
        let ours = OPTIONS.into_iter().find(|option| plain(option) == word);
        ours.or_else(|| SYNONYMS.iter().find(|(_, theirs)| of(theirs)).map(|(ours, _)| *ours))
    };
    let word = plain(text.strip_prefix("r#").unwrap_or(text));
    known(&word)
        .or_else(|| UNITS.iter().find_map(|unit| known(word.strip_suffix(unit)?)))
        .or_else(|| nearest(text, OPTIONS))
        .or_else(|| {
            let handlers = ["onerr", "onfailure", "onfail", "maperr", "orelse", "error", "errorhandler"];
            handlers.contains(&word.as_str()).then_some("on_error")
        })
}

/// An example of the option.
pub(crate) fn hint(option: &str) -> &'static str {
    match option {
        "key" => "key = \"order:{id}\"",
        "keys" => "keys = [\"account:{from}\", \"account:{to}\"]",
        "constant_key" => "constant_key = true",
        "shared" => "shared = true",
        "permits" => "permits = 5",
        "take" => "take = 2",
        "rate" => "rate = \"5/1m\"",
        "ttl" => "ttl = \"10s\"",
        "wait" => "wait = \"5s\"",
        "renew" => "renew = false",
        "max_hold" => "max_hold = \"1m\"",
        "min_hold" => "min_hold = \"5m\"",
        "tick" => "tick = \"1h\"",
        "tick_at" => "tick_at = fire_time",
        "tick_missed" => "tick_missed = \"retry\"",
        "on_lost" => "on_lost = \"finish\"",
        "release_in_background" => "release_in_background = true",
        "reentrant" => "reentrant = true",
        "guard" => "guard = lock",
        "ticket" => "ticket = lock",
        "once" => "once = \"24h\"",
        "once_fingerprint" => "once_fingerprint = \"{amount}\"",
        "on_interrupted" => "on_interrupted = \"error\"",
        "on_undecodable" => "on_undecodable = \"rerun\"",
        "spawn" => "spawn = true",
        "manager" => "manager = self.locks",
        "on_busy" => "on_busy = Ok(())",
        "on_error" => "on_error = |error| ...",
        _ => "crate = some_crate::redlocked",
    }
}

#[cfg(test)]
mod tests {
    use super::{ELSEWHERE, FLAGS, OPTIONS, SYNONYMS, elsewhere, hint, meant};

    #[test]
    fn synonyms_are_not_options() {
        for (ours, synonyms) in SYNONYMS {
            assert!(OPTIONS.contains(&ours), "{ours}");
            for theirs in synonyms {
                assert!(!OPTIONS.contains(theirs), "{theirs}");
                assert_eq!(meant(theirs), Some(ours), "{theirs}");
            }
        }
    }

    #[test]
    fn words_of_other_parts_of_the_library_are_not_options() {
        for word in ELSEWHERE.iter().flat_map(|(words, _)| *words) {
            let is_synonym = SYNONYMS.iter().any(|(_, theirs)| theirs.contains(word));
            assert!(elsewhere(word).is_some() && !is_synonym && !OPTIONS.contains(word), "{word}");
        }
    }

    #[test]
    fn the_spelling_does_not_matter() {
        for (text, ours) in [
            ("TTL", Some("ttl")),
            ("Key", Some("key")),
            ("r#ttl", Some("ttl")),
            ("ttl_ms", Some("ttl")),
            ("ttlSeconds", Some("ttl")),
            ("timeout_ms", Some("wait")),
            ("onBusy", Some("on_busy")),
            ("on-busy", Some("on_busy")),
            ("max-hold", Some("max_hold")),
            ("maxHold", Some("max_hold")),
            ("skip_if_locked", Some("on_busy")),
            ("lease", Some("ttl")),
            ("on_err", Some("on_error")),
            ("manger", Some("manager")),
            ("ms", None),
            ("colour", None),
        ] {
            assert_eq!(meant(text), ours, "{text}");
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
