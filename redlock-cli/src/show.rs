//! `redlocked show`.

use std::io::{self, Write};

use redlocked::LockManager;
use serde_json::Value;

use crate::args::ShowArgs;
use crate::exit::{CONFLICT, Failure, OK};
use crate::lock_text::{LockText, printable};

pub(crate) async fn show(locks: &LockManager, args: &ShowArgs) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    let Some(info) = locks.inspect(&args.key).await? else {
        if args.json {
            writeln!(out, "{}", Value::Null)?;
        } else {
            writeln!(out, "`{}` is free", printable(&args.key))?;
        }
        return Ok(CONFLICT);
    };
    let lock = LockText { key: args.key.clone(), info };
    if args.json {
        writeln!(out, "{}", lock.json())?;
        return Ok(OK);
    }
    writeln!(out, "key:         {}", lock.key())?;
    writeln!(out, "holder:      {}", lock.holder())?;
    writeln!(out, "lease left:  {}", lock.lease_left())?;
    writeln!(out, "waiters:     {}", lock.info.waiters())?;
    Ok(OK)
}
