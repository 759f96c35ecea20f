//! `redlocked wait`.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use redlocked::LockManager;
use tokio::time::Instant;

use crate::args::WaitArgs;
use crate::elsewhere::free;
use crate::exit::{CONFLICT, Failure, OK};
use crate::lock_text::{Span, holder, printable};
use crate::stderr::tell;
use crate::waiting::{Stands, told};

const PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn wait(locks: &LockManager, prefix: &str, args: &WaitArgs) -> Result<u8, Failure> {
    // A person may have forgotten the prefix. A script is not to walk over all keys of a server.
    if !args.quiet && stderr().is_terminal() && locks.inspect(&args.key).await?.is_none() {
        tell(&free(locks, prefix, &args.key).await);
        return Ok(OK);
    }
    let free = until_free(locks, args);
    if args.quiet { free.await } else { told(locks, &args.key, Stands::Beside, free).await }
}

async fn until_free(locks: &LockManager, args: &WaitArgs) -> Result<u8, Failure> {
    let start = Instant::now();
    while let Some(lock) = locks.inspect(&args.key).await? {
        let waited = start.elapsed();
        let left = args.timeout.map_or(PAUSE, |timeout| timeout.saturating_sub(waited));
        if left.is_zero() {
            let (key, holder) = (printable(&args.key), holder(&lock));
            let message = format!("timed out after {} waiting for `{key}`: held by {holder}", Span(waited));
            return Err(Failure::new(CONFLICT, message));
        }
        tokio::time::sleep(left.min(PAUSE)).await;
    }
    Ok(OK)
}
