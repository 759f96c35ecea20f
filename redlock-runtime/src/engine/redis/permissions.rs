//! Which commands access rules forbid, or the server does not know, because an operator has renamed them. Each is sent once as
//! it is, because there the server refuses it with the code `NOPERM`; in the middle of a script the answer has no such code, and
//! each version has its own words.

use super::error_reply::shown;

/// Required: every lock needs these.
const NEEDED: [&str; 10] =
    ["EVAL", "EVALSHA", "GET", "SET", "DEL", "EXISTS", "PEXPIRE", "PTTL", "INCR", "TIME"];

/// No script has this digest.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// What to do when a server does not know a command.
pub(super) const RENAMED: &str = "remove its `rename-command`, or connect past the proxy that leaves it out";

/// Why a command cannot be used.
#[derive(Clone, Copy)]
pub(super) enum Refused<'a> {
    /// In the words of the server.
    Forbidden(&'a str),
    Unknown,
}

/// Each command of the scripts, with arguments that change nothing. No lock uses the `key`, and it does not exist
/// afterwards: each of the three commands behind `INCR` removes it.
pub(super) fn commands<'a>(key: &'a str, inbox: &'a str) -> [(&'static str, Vec<&'a str>); 19] {
    [
        ("EVAL", vec!["return 0", "1", key]),
        ("EVALSHA", vec![NO_SCRIPT, "1", key]),
        ("GET", vec![key]),
        ("EXISTS", vec![key]),
        ("PTTL", vec![key]),
        ("TIME", vec![]),
        ("ZPOPMIN", vec![key]),
        ("ZREM", vec![key, ""]),
        ("ZSCORE", vec![key, ""]),
        ("ZRANK", vec![key, ""]),
        ("ZRANGE", vec![key, "0", "0"]),
        ("ZCARD", vec![key]),
        ("ZADD", vec![key, "XX", "0", ""]),
        ("PUBLISH", vec![inbox, ""]),
        ("PUBSUB", vec!["NUMSUB", inbox]),
        ("INCR", vec![key]),
        ("PEXPIRE", vec![key, "1"]),
        ("SET", vec![key, "", "XX", "PX", "1"]),
        ("DEL", vec![key]),
    ]
}

/// The commands that cannot be used, or what of them every lock needs.
pub(super) fn optional(
    missing: &[(&'static str, Refused<'_>)],
    key: &str,
) -> Result<Vec<&'static str>, String> {
    let needed = || missing.iter().filter(|(command, _)| NEEDED.contains(command));
    let names = |is_unknown| {
        let of_this_kind = needed().filter(|(_, refused)| matches!(refused, Refused::Unknown) == is_unknown);
        of_this_kind.map(|(command, _)| *command).collect::<Vec<_>>().join(", ")
    };
    let forbidden = needed().find_map(|(_, refused)| match refused {
        Refused::Forbidden(words) => Some(*words),
        Refused::Unknown => None,
    });
    match (forbidden, names(true)) {
        (Some(words), _) => Err(format!(
            "forbids what every lock needs: {}, tried on a key like `{key}` (NOPERM {})",
            names(false),
            shown(words)
        )),
        (None, unknown) if !unknown.is_empty() => {
            Err(format!("does not know what every lock needs: {unknown}: {RENAMED}"))
        }
        (None, _) => Ok(missing.iter().map(|(command, _)| *command).collect()),
    }
}
