//! Scripts: `EVAL`, `EVALSHA` and `SCRIPT`.

use super::super::errors::{MASTER_DOWN, NOT_AN_INTEGER};
use super::super::numbers;
use super::super::resp::{OK, Reply};
use super::super::scripting::{self, Chunk};
use super::super::version::Version;
use super::{Answer, Call, ErrorReply};

pub(super) fn eval(call: &mut Call<'_>) -> Answer {
    let count = count_of_keys(call)?;
    let chunk =
        call.state.scripts.load(&call.words[1]).map_err(|error| uncompiled(call.version(), &error))?;
    run(call, &chunk, count)
}

pub(super) fn evalsha(call: &mut Call<'_>) -> Answer {
    let count = count_of_keys(call)?;
    let digest = String::from_utf8_lossy(&call.words[1]).to_ascii_lowercase();
    match call.state.scripts.get(&digest) {
        Some(chunk) => run(call, &chunk, count),
        None if call.version().is_valkey() => Err("NOSCRIPT No matching script.".into()),
        None => Err("NOSCRIPT No matching script. Please use EVAL.".into()),
    }
}

fn count_of_keys(call: &Call<'_>) -> Result<usize, ErrorReply> {
    let count = numbers::integer(&call.words[2]).ok_or(NOT_AN_INTEGER)?;
    match usize::try_from(count) {
        Err(_) => Err("ERR Number of keys can't be negative".into()),
        Ok(count) if count > call.words.len() - 3 => {
            Err("ERR Number of keys can't be greater than number of args".into())
        }
        Ok(count) => Ok(count),
    }
}

fn run(call: &mut Call<'_>, chunk: &Chunk, count: usize) -> Answer {
    let (keys, arguments) = call.words[3..].split_at(count);
    if call.state.is_cut_off() {
        return Err(MASTER_DOWN.into());
    }
    let needs_keys = !call.version().is_72_or_later();
    call.state.script = Some(if needs_keys { keys.to_vec() } else { Vec::new() });
    let answer = scripting::run(call.state, call.client, chunk, keys, arguments);
    call.state.script = None;
    answer
}

fn uncompiled(version: Version, error: &str) -> ErrorReply {
    let end = if version == Version::Redis5 { " " } else { "" };
    ErrorReply(format!("ERR Error compiling script (new function): {error}{end}"))
}

/// `SCRIPT LOAD | EXISTS | FLUSH`
pub(super) fn script(call: &mut Call<'_>) -> Answer {
    match (&*call.keyword(1), &call.words[2..]) {
        ("LOAD", [source]) => match call.state.scripts.load(source) {
            Ok(chunk) => Ok(Reply::text(&chunk.digest)),
            Err(error) => Err(uncompiled(call.version(), &error)),
        },
        ("EXISTS", digests @ [_, ..]) => {
            let is_known = |digest: &[u8]| {
                call.state.scripts.get(&String::from_utf8_lossy(digest).to_ascii_lowercase()).is_some()
            };
            Ok(Reply::Array(digests.iter().map(|digest| Reply::Integer(is_known(digest).into())).collect()))
        }
        ("FLUSH", [] | [_]) => {
            call.state.scripts.forget();
            Ok(OK)
        }
        ("LOAD" | "EXISTS" | "FLUSH", _) => Err(call.wrong_number_of_arguments("SCRIPT")),
        _ => Err(call.unknown_subcommand("SCRIPT")),
    }
}

/// `redis.call()`
pub(super) fn no_words(version: Version, line: usize) -> String {
    match version {
        Version::Redis5 | Version::Redis62 => {
            format!("@user_script: {line}: Please specify at least one argument for redis.call()")
        }
        _ if version.is_valkey() => "ERR Please specify at least one argument for this call".to_owned(),
        _ => "ERR Please specify at least one argument for this redis lib call".to_owned(),
    }
}

/// `redis.call({})`
pub(super) fn other_words(version: Version, line: usize) -> String {
    match version {
        Version::Redis5 | Version::Redis62 => {
            format!("@user_script: {line}: Lua redis() command arguments must be strings or integers")
        }
        _ if version.is_valkey() => "ERR Command arguments must be strings or integers".to_owned(),
        _ => "ERR Lua redis lib command arguments must be strings or integers".to_owned(),
    }
}
