//! What a sentinel is asked for.

use super::super::resp::Reply;
use super::super::version::Version;
use super::{Answer, Call};

/// `SENTINEL GET-MASTER-ADDR-BY-NAME name`
pub(super) fn sentinel(call: &mut Call<'_>) -> Answer {
    match (&*call.keyword(1), &call.words[2..]) {
        ("GET-MASTER-ADDR-BY-NAME", [name]) => {
            let name = String::from_utf8_lossy(name);
            Ok(match call.state.primaries.get(&*name) {
                Some((host, port)) => Reply::Array(vec![Reply::text(host), Reply::text(&port.to_string())]),
                None => Reply::NilArray,
            })
        }
        ("GET-MASTER-ADDR-BY-NAME", _) if call.version().is_7_or_later() => {
            Err(call.wrong_number_of_arguments("SENTINEL"))
        }
        ("GET-MASTER-ADDR-BY-NAME", _) => {
            let name = String::from_utf8_lossy(call.word(1));
            Err(format!("ERR Wrong number of arguments for 'sentinel {name}'").into())
        }
        _ if call.version() == Version::Redis5 => {
            Err(format!("ERR Unknown sentinel subcommand '{}'", String::from_utf8_lossy(call.word(1))).into())
        }
        _ => Err(call.unknown_subcommand("SENTINEL")),
    }
}
