//! Which commands access rules forbid. Each is sent once as it is, because there the server refuses it with the code
//! `NOPERM`; in the middle of a script the answer has no such code, and each version has its own words.

/// Required: every lock needs these.
const NEEDED: [&str; 10] =
    ["EVAL", "EVALSHA", "GET", "SET", "DEL", "EXISTS", "PEXPIRE", "PTTL", "INCR", "TIME"];

/// No script has this digest.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

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

/// The commands that the server forbids, or what it forbids that every lock needs. `forbidden`: each with the server's words.
pub(super) fn optional(forbidden: &[(&'static str, &str)], key: &str) -> Result<Vec<&'static str>, String> {
    let needed: Vec<_> = forbidden.iter().filter(|(command, _)| NEEDED.contains(command)).collect();
    let Some((_, words)) = needed.first() else {
        return Ok(forbidden.iter().map(|(command, _)| *command).collect());
    };
    let names: Vec<_> = needed.iter().map(|(command, _)| *command).collect();
    let names = names.join(", ");
    Err(format!("forbids what every lock needs: {names}, tried on a key like `{key}` (NOPERM {words})"))
}
