//! What a server says when it refuses a command: the code, wherever it stands, and the line of the
//! script.
//!
//! Redis up to 6.2 reports an error in the middle of a script as
//! `ERR Error running script (call to f_…): @user_script:5: @user_script: 5: -READONLY You can't write against a replica.`,
//! and later servers as `READONLY You can't write against a replica. script: …, on @user_script:5.`

//!
//! A server repeats what it was asked (`unknown command 'EVALSHA', with args beginning with: …`),
//! and with it the token of a lock, or a password. All words of servers that a caller or a log gets
//! to see come through here, and leave that behind.

use std::fmt;

use super::value::ServerError;
use crate::base::token;
use crate::engine::protocol::IN_THE_MIDDLE;

/// The longest words that are shown, in bytes.
const LONGEST: usize = 400;

/// Pieces of a secret that are as long as this are not shown.
const PIECE: usize = 6;

/// Read from the words of the server.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ErrorReply {
    pub(crate) code: String,
    details: String,
    /// The line of the script, counted from 1.
    line: Option<usize>,
}

impl ErrorReply {
    pub(crate) fn of(error: &ServerError) -> Self {
        Self::read(error.code(), error.details().unwrap_or_default())
    }

    fn read(code: &str, details: &str) -> Self {
        let (code, details, line) = match inside_a_script(details) {
            Some((line, inner)) => {
                let inner = inner.strip_prefix('-').unwrap_or(inner).trim_end();
                let (first, rest) = inner.split_once(' ').unwrap_or((inner, ""));
                if is_code(first) { (first, rest, line) } else { (code, inner, line) }
            }
            None => match details.rsplit_once(" script: ") {
                Some((details, place)) => {
                    (code, details, place.rsplit_once("user_script:").and_then(|(_, at)| number(at)))
                }
                None => (code, details, None),
            },
        };
        let code = of_a_cluster(details).unwrap_or(code);
        Self { code: shown(code), details: shown(details), line }
    }

    /// Returns what is behind the code.
    pub(crate) fn details(&self) -> &str {
        &self.details
    }

    pub(crate) fn says(&self, words: &str) -> bool {
        self.details.contains(words)
    }

    /// The one error of a server that passes and has no code of its own.
    pub(crate) fn is_of_too_many_clients(&self) -> bool {
        self.code == "ERR" && self.says("max number of clients")
    }

    /// Says why the server closes a connection before it has read anything.
    pub(crate) fn is_a_farewell(&self) -> bool {
        self.code == "DENIED" || self.is_of_too_many_clients()
    }

    /// Without pieces of the secret, which the server may have cut off or repeated in words of its
    /// own.
    pub(crate) fn without(self, secret: &str) -> Self {
        Self { code: without(&self.code, secret), details: without(&self.details, secret), ..self }
    }

    /// The words of the server, and the command of `source` that it refused, unless the words name
    /// it.
    pub(crate) fn with_the_command(&self, source: &str) -> String {
        let line = self.line.and_then(|line| source.lines().nth(line.checked_sub(1)?));
        let commands = line.map(commands).unwrap_or_default();
        // Other codes tell the reason.
        let is_named = |command: &&str| self.says(&format!("'{}", command.to_lowercase()));
        if !matches!(&*self.code, "ERR" | "NOPERM") || commands.is_empty() || commands.iter().any(is_named) {
            return self.to_string();
        }
        format!("{self}: {}", commands.join(" or "))
    }
}

impl fmt::Display for ErrorReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, details, .. } = self;
        if details.is_empty() { f.write_str(code) } else { write!(f, "{code} {details}") }
    }
}

/// Without the arguments that the server repeats, and without anything that looks like the secret
/// of a token.
pub(crate) fn shown(words: &str) -> String {
    let words = words.split_once(", with args").map_or(words, |(words, _)| words);
    let mut shown = String::with_capacity(words.len());
    let mut rest = words;
    while let Some(start) = rest.find(may_be_secret) {
        let (before, from) = rest.split_at(start);
        let (run, behind) = from.split_at(from.find(|c| !may_be_secret(c)).unwrap_or(from.len()));
        shown.push_str(before);
        let is_secret = behind.starts_with('@') || (run.len() >= token::SECRET_LENGTH && !is_digest(run));
        shown.push_str(if is_secret { HIDDEN } else { run });
        rest = behind;
    }
    shown.push_str(rest);
    if shown.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0);
        shown.truncate(cut);
        shown.push_str(HIDDEN);
    }
    shown
}

const HIDDEN: &str = "…";

/// A character of a secret, or of how something in between has escaped one.
fn may_be_secret(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '%' | '\\')
}

/// True for the digest of a script.
fn is_digest(run: &str) -> bool {
    let digits = run.strip_prefix("f_").unwrap_or(run);
    digits.len() == 40 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// `words` without each piece of the secret.
pub(crate) fn without(words: &str, secret: &str) -> String {
    let length = PIECE.min(secret.len());
    let mut shown = String::with_capacity(words.len());
    let mut hidden_to = 0;
    for (at, c) in words.char_indices() {
        let piece = words.get(at..at + length).filter(|piece| !piece.is_empty() && secret.contains(piece));
        if piece.is_some() {
            if hidden_to < at || at == 0 {
                shown.push_str(HIDDEN);
            }
            hidden_to = hidden_to.max(at + length);
        }
        if at >= hidden_to {
            shown.push(c);
        }
    }
    shown
}

/// The line, and what the server says of it, up to Redis 6.2. The line stands there once or twice.
fn inside_a_script(details: &str) -> Option<(Option<usize>, &str)> {
    let (_, said) =
        details.strip_prefix("Error running script (call to f_")?.split_once("): @user_script:")?;
    let (line, said) = said.split_once(": ")?;
    let again = said.strip_prefix("@user_script: ").and_then(|said| said.split_once(": "));
    Some((number(line), again.map_or(said, |(_, said)| said)))
}

/// The code that says the same outside of a script. A node refuses a command in the middle of a
/// script where its slot is on the way to another node or where the Cluster is down, and says so in
/// words alone: in the same ones from Redis 6.0 to Valkey 9, up to 6.2 with `Lua` in front.
fn of_a_cluster(details: &str) -> Option<&'static str> {
    if details.contains(IN_THE_MIDDLE) {
        Some("TRYAGAIN")
    } else if details.contains("cript attempted to execute a")
        && details.contains("while the cluster is down")
    {
        Some("CLUSTERDOWN")
    } else {
        None
    }
}

/// Each server and each proxy has its own words for a command that it does not know, or that an
/// operator has renamed.
pub(crate) fn is_unknown(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    ["unknown command", "unknown subcommand", "unsupported command"]
        .iter()
        .any(|begin| words.starts_with(begin))
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

/// True for errors of a server that is starting, failing over, busy or cannot save: the request may
/// succeed later.
pub(crate) fn is_passing(code: &str) -> bool {
    matches!(
        code,
        "LOADING"
            | "BUSY"
            | "MASTERDOWN"
            | "READONLY"
            | "TRYAGAIN"
            | "CLUSTERDOWN"
            | "NOREPLICAS"
            | "MISCONF"
    )
}

/// The key holds a value that is not a string.
pub(crate) fn is_of_another_type(error: &ServerError) -> bool {
    ErrorReply::of(error).code == "WRONGTYPE"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ErrorReply;
    use crate::engine::redis::wire::value::ServerError;

    /// Two commands on the second line.
    const SOURCE: &str =
        "local now = redis.call('TIME')\nreturn {redis.call('GET', a), redis.call('PTTL', a)}\n";

    /// As each server says it, word for word.
    #[track_caller]
    fn assert_says(said: &str, code: &str, words: &str) {
        let reply = words_of(said);
        assert_eq!((&*reply.code, &*reply.with_the_command(SOURCE)), (code, words), "{said}");
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
    fn a_command_that_a_cluster_refuses_in_the_middle_of_a_script_has_the_code_that_says_so() {
        let sha = "f_400a2ac8ce17dc8a9b52413ae340c27fd3893fab";
        for (words, code) in [
            ("Script attempted to access a non local key in a cluster node", "TRYAGAIN"),
            ("Script attempted to execute a command while the cluster is down", "CLUSTERDOWN"),
            (
                "Script attempted to execute a write command while the cluster is down and readonly",
                "CLUSTERDOWN",
            ),
        ] {
            let expected = format!("{code} {words}");
            assert_says(&format!("ERR {words} script: {sha}, on @user_script:2."), code, &expected);
            assert_says(&format!("ERR {words}"), code, &expected);
            let words = format!("Lua s{}", &words[1..]);
            let said = format!(
                "ERR Error running script (call to {sha}): @user_script:2: @user_script: 2: {words} "
            );
            assert_says(&said, code, &format!("{code} {words}"));
        }
        let others = "Script attempted to access keys that do not hash to the same slot";
        assert_says(&format!("ERR {others}"), "ERR", &format!("ERR {others}"));
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

    fn words_of(said: &str) -> ErrorReply {
        ErrorReply::of(&ServerError::said(said.as_bytes()))
    }

    #[test]
    fn what_a_server_repeats_is_left_out() {
        let token = "AbCdEfGhIjKlMnOpQrStUv@host-1:7/1790000000/m::f";
        for (said, shown) in [
            (
                format!(
                    "ERR unknown command 'EVALSHA', with args beginning with: 'ab' '1' 'lock:k' '{token}' "
                ),
                "ERR unknown command 'EVALSHA'",
            ),
            (
                "ERR unknown command `AUTH`, with args beginning with: `hunter2`, ".to_owned(),
                "ERR unknown command `AUTH`",
            ),
            (
                format!("ERR user_script:3: bad value {token}!"),
                "ERR user_script:3: bad value …@host-1:7/1790000000/m::f!",
            ),
            (
                format!("ERR no such inbox: lock:%inbox:{token}"),
                "ERR no such inbox: lock:%inbox:…@host-1:7/1790000000/m::f",
            ),
            ("ERR ….".to_owned(), "ERR …."),
        ] {
            assert_eq!(words_of(&said).to_string(), shown);
        }
        assert!(words_of(&format!("ERR {}", "no ".repeat(1_000))).to_string().len() < 500);
    }

    const ALPHABET: &str = "[A-Za-z0-9_-]{22}";

    /// Returns how a server, a script or a proxy writes down what it was sent.
    fn repeated() -> impl Strategy<Value = fn(&str) -> String> {
        let as_it_is = |text: &str| text.to_owned();
        let with_mark = |text: &str| format!("{text}!");
        let in_percent = |text: &str| text.replace('-', "%2D").replace('_', "%5F").replace('@', "%40");
        let in_hex = |text: &str| text.replace('-', "\\x2d").replace('_', "\\x5f").replace('@', "\\x40");
        let with_slashes = |text: &str| text.replace('-', "\\-").replace('@', "\\@");
        let all: Vec<fn(&str) -> String> = vec![as_it_is, with_mark, in_percent, in_hex, with_slashes];
        prop::sample::select(all)
    }

    proptest! {
        #[test]
        fn no_piece_of_a_secret_is_shown(
            secret in ALPHABET,
            repeated in repeated(),
            (from, to) in (0_usize..22, 0_usize..60),
            around in prop::sample::select(&[
                "ERR unknown command 'GET', with args beginning with: '{}' ",
                "ERR wrong number of arguments for '{}'",
                "ERR Error running script (call to f_400a2ac8ce17dc8a9b52413ae340c27fd3893fab): @user_script:2: @user_script: 2: bad {}",
                "ERR user_script:3: attempt to compare {} with nil script: 400a2ac8ce17dc8a9b52413ae340c27fd3893fab, on @user_script:3.",
                "{} is no number",
                "NOPERM lock:{}",
            ][..]),
        ) {
            let token = format!("{secret}@host:7/1790000000/m::f");
            let repeat = |text: &str| around.replace("{}", &repeated(text));
            let pieces = |shown: String| (0..=16).find(|at| shown.contains(&secret[*at..at + 6])).map(|_| shown);
            // All of it is hidden wherever it comes from.
            prop_assert_eq!(pieces(words_of(&repeat(&token)).to_string()), None);
            // Only the owner of a token can distinguish a piece of it from other words.
            if let Some(piece) = token.get(from..to) {
                let shown = words_of(&repeat(piece)).without(&secret);
                prop_assert_eq!(pieces(shown.to_string()), None);
                prop_assert_eq!(pieces(shown.with_the_command(SOURCE)), None);
            }
        }
    }
}
