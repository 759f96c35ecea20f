//! `redlocked show`.

use std::io::{self, Write};

use redlocked::{LockInfo, LockManager};
use serde_json::Value;

use crate::alive::watch;
use crate::args::ShowArgs;
use crate::exit::{CONFLICT, Failure, OK};
use crate::lock_text::{self, Ago, holder, lease_left, printable, waiter};

pub(crate) async fn show(locks: &LockManager, args: &ShowArgs) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    let Some(lock) = locks.inspect(&args.key).await? else {
        if args.json {
            writeln!(out, "{}", Value::Null)?;
        } else {
            writeln!(out, "`{}` is free", printable(&args.key))?;
        }
        return Ok(CONFLICT);
    };
    if args.json {
        let mut json = lock_text::json(&lock);
        if !args.quick {
            json["renewed"] = watch(locks, &lock).await?.is_renewed().into();
        }
        writeln!(out, "{json}")?;
        return Ok(OK);
    }
    describe(&lock, &mut out)?;
    if !args.quick {
        write!(out, "alive:       ")?;
        // Who reads sees the rest meanwhile.
        out.flush()?;
        writeln!(out, "{}", watch(locks, &lock).await?)?;
    }
    Ok(OK)
}

fn describe(lock: &LockInfo, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "key:         {}", printable(lock.key()))?;
    writeln!(out, "holder:      {}", holder(lock))?;
    if let Some(since) = lock.holder().since() {
        writeln!(out, "asked:       {}, {}", Ago(since), humantime::format_rfc3339_seconds(since))?;
    }
    writeln!(out, "lease left:  {}", lease_left(lock))?;
    writeln!(out, "waiters:     {}", lock.waiters())?;
    for (place, next) in (1..).zip(lock.queue()) {
        writeln!(out, "{place:11}  {}", waiter(next))?;
    }
    Ok(())
}
