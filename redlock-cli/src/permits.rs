//! `redlocked permits`.

use std::io::{self, Write};

use redlocked::LockManager;

use crate::args::PermitsArgs;
use crate::exit::{CONFLICT, Failure, OK};
use crate::lock_text::printable;

pub(crate) async fn show(locks: &LockManager, key: &str) -> Result<u8, Failure> {
    let set = locks.permits(key).await?;
    let key = printable(key);
    let said = set.map_or_else(
        || format!("no number of permits is set for `{key}`: those of its callers count"),
        |permits| format!("`{key}` has {}, set centrally", of(permits)),
    );
    writeln!(io::stdout(), "{said}")?;
    Ok(if set.is_some() { OK } else { CONFLICT })
}

pub(crate) async fn set(locks: &LockManager, args: &PermitsArgs) -> Result<u8, Failure> {
    let key = printable(&args.key);
    let Some(permits) = args.permits else {
        return clear(locks, args).await;
    };
    let before = locks.set_permits(&args.key, permits).await?;
    let before = before.map_or_else(|| "none was set".to_owned(), |before| format!("it had {before}"));
    writeln!(io::stdout(), "`{key}` has {} from now on; {before}", of(permits))?;
    Ok(OK)
}

async fn clear(locks: &LockManager, args: &PermitsArgs) -> Result<u8, Failure> {
    let key = printable(&args.key);
    let Some(before) = locks.clear_permits(&args.key).await? else {
        writeln!(io::stderr(), "no number of permits is set for `{key}`")?;
        return Ok(CONFLICT);
    };
    let had = of(before);
    writeln!(io::stdout(), "cleared `{key}`: it had {had}, and the numbers of its callers count again")?;
    Ok(OK)
}

fn of(permits: u32) -> String {
    if permits == 1 { "1 permit".to_owned() } else { format!("{permits} permits") }
}
