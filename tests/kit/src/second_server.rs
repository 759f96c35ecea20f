//! A second server, for the benches that compare two of them: other versions have other commands.

use std::env;
use std::path::PathBuf;

use crate::RedisServer;

/// Names the program where there is no `--server PATH`.
const VARIABLE: &str = "REDLOCKED_SECOND_SERVER";

/// The server of `--server PATH`, or of the environment variable `REDLOCKED_SECOND_SERVER`. Says so
/// when there is none.
pub fn second_server(named: Option<PathBuf>) -> Option<RedisServer> {
    let program = named.or_else(|| env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from));
    if program.is_none() {
        println!("No `--server PATH` and no {VARIABLE}: the rows of a second server are left out.");
    }
    program.map(|program| RedisServer::start_program(&program))
}
