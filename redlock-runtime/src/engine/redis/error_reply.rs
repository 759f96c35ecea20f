//! What a server says when it refuses a command: the code, wherever it stands, and the line of the script.
//!
//! Redis up to 6.2 reports an error in the middle of a script as
//! `ERR Error running script (call to f_…): @user_script:5: @user_script: 5: -READONLY You can't write against a replica.`,
//! and later servers as `READONLY You can't write against a replica. script: …, on @user_script:5.`

use std::fmt;

use redis::ServerError;

/// Read from the words of the server.
#[derive(PartialEq, Debug)]
pub(super) struct ErrorReply<'a> {
    pub(super) code: &'a str,
    details: &'a str,
    /// Of the script, counted from 1.
    line: Option<usize>,
}

impl<'a> ErrorReply<'a> {
    pub(super) fn of(error: &'a ServerError) -> Self {
        Self::read(error.code(), error.details().unwrap_or_default())
    }

    fn read(code: &'a str, details: &'a str) -> Self {
        if let Some((line, inner)) = inside_a_script(details) {
            let inner = inner.strip_prefix('-').unwrap_or(inner).trim_end();
            let (first, rest) = inner.split_once(' ').unwrap_or((inner, ""));
            let (code, details) = if is_code(first) { (first, rest) } else { (code, inner) };
            return Self { code, details, line };
        }
        match details.rsplit_once(" script: ") {
            Some((details, place)) => {
                Self { code, details, line: place.rsplit_once("user_script:").and_then(|(_, at)| number(at)) }
            }
            None => Self { code, details, line: None },
        }
    }

    /// The words of the server, and the command of `source` that it refused, unless the words name it.
    pub(super) fn with_the_command(&self, source: &str) -> String {
        let line = self.line.and_then(|line| source.lines().nth(line.checked_sub(1)?));
        let commands = line.map(commands).unwrap_or_default();
        // Other codes tell the reason.
        let is_named = |command: &&str| self.details.contains(&format!("'{}", command.to_lowercase()));
        if !matches!(self.code, "ERR" | "NOPERM") || commands.is_empty() || commands.iter().any(is_named) {
            return self.to_string();
        }
        format!("{self}: {}", commands.join(" or "))
    }
}

impl fmt::Display for ErrorReply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, details, .. } = self;
        if details.is_empty() { f.write_str(code) } else { write!(f, "{code} {details}") }
    }
}

/// The line, and what the server says of it, up to Redis 6.2. The line stands there once or twice.
fn inside_a_script(details: &str) -> Option<(Option<usize>, &str)> {
    let (_, said) =
        details.strip_prefix("Error running script (call to f_")?.split_once("): @user_script:")?;
    let (line, said) = said.split_once(": ")?;
    let again = said.strip_prefix("@user_script: ").and_then(|said| said.split_once(": "));
    Some((number(line), again.map_or(said, |(_, said)| said)))
}

/// Sentences begin with a capital letter, codes have nothing else.
fn is_code(word: &str) -> bool {
    word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn number(text: &str) -> Option<usize> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn commands(line: &str) -> Vec<&str> {
    let quoted = line.split("redis.call('").skip(1);
    quoted.filter_map(|rest| rest.split_once('\'').map(|(command, _)| command)).collect()
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::ErrorReply;

    /// Two commands on the second line.
    const SOURCE: &str =
        "local now = redis.call('TIME')\nreturn {redis.call('GET', a), redis.call('PTTL', a)}\n";

    /// As each server says it, word for word.
    #[track_caller]
    fn assert_says(said: &str, code: &str, words: &str) {
        let Ok(Value::ServerError(error)) = redis::parse_redis_value(format!("-{said}\r\n").as_bytes())
        else {
            unreachable!("{said}")
        };
        let reply = ErrorReply::of(&error);
        assert_eq!((reply.code, &*reply.with_the_command(SOURCE)), (code, words), "{said}");
    }

    #[test]
    fn the_code_is_found_in_the_middle_of_a_script_on_redis_6() {
        let says = |inner: &str, code, words| {
            let sha = "f_400a2ac8ce17dc8a9b52413ae340c27fd3893fab";
            assert_says(
                &format!("ERR Error running script (call to {sha}): @user_script:2: {inner}"),
                code,
                words,
            );
        };
        says(
            "@user_script: 2: -READONLY You can't write against a read only replica. ",
            "READONLY",
            "READONLY You can't write against a read only replica.",
        );
        says(
            "@user_script: 2: -OOM command not allowed when used memory > 'maxmemory'. ",
            "OOM",
            "OOM command not allowed when used memory > 'maxmemory'.",
        );
        says(
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "WRONGTYPE",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        );
        says(
            "@user_script: 2: The user executing the script can't run this command or subcommand",
            "ERR",
            "ERR The user executing the script can't run this command or subcommand: GET or PTTL",
        );
        says(
            "Script killed by user with SCRIPT KILL...",
            "ERR",
            "ERR Script killed by user with SCRIPT KILL...: GET or PTTL",
        );
        says(
            "ERR value is not an integer or out of range",
            "ERR",
            "ERR value is not an integer or out of range: GET or PTTL",
        );
    }

    #[test]
    fn the_code_comes_first_on_later_servers() {
        let shas = ["400a2ac8ce17dc8a9b52413ae340c27fd3893fab, ", ""];
        let says = |words: &str, line: u32, code: &str, expected: &str| {
            // Valkey 9 leaves out the digest.
            for sha in shas {
                assert_says(&format!("{words} script: {sha}on @user_script:{line}."), code, expected);
            }
        };
        let readonly = "READONLY You can't write against a read only replica.";
        says(readonly, 1, "READONLY", readonly);
        let forbidden = "ERR The user executing the script can't run this command or subcommand";
        says(forbidden, 1, "ERR", &format!("{forbidden}: TIME"));
        says(forbidden, 2, "ERR", &format!("{forbidden}: GET or PTTL"));
        says(forbidden, 3, "ERR", forbidden);
        says(forbidden, 0, "ERR", forbidden);
        // From Redis 7.2 on.
        let named = "ERR ACL failure in script: User shop has no permissions to run the 'get' command";
        says(named, 2, "ERR", named);
        let key = "ERR ACL failure in script: No permissions to access a key";
        says(key, 1, "ERR", &format!("{key}: TIME"));
    }

    #[test]
    fn an_error_outside_of_scripts_is_left_as_it_is() {
        for said in
            ["NOSCRIPT No matching script. Please use EVAL.", "BUSY Valkey is busy running a script.", "CODE"]
        {
            let code = said.split(' ').next().unwrap_or_default();
            assert_says(said, code, said);
        }
    }
}
