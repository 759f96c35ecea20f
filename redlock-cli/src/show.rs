//! `redlocked show`.

use std::io::{self, Write};

use redlocked::{LockInfo, LockManager};
use serde_json::Value;

use crate::alive::watch;
use crate::args::{Format, ShowArgs};
use crate::exit::{CONFLICT, Failure, OK};
use crate::lock_text::{self, Ago, holder, lease_left, printable, rfc3339, waiter};
use crate::output::Printer;

pub(crate) async fn show(locks: &LockManager, args: &ShowArgs) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    let found = locks.inspect(&args.key).await?;
    let is_json = args.output.output == Some(Format::Json);
    let Some(lock) = found else {
        match args.output.output {
            Some(Format::Json) => writeln!(out, "{}", Value::Null)?,
            Some(_) => writeln!(io::stderr(), "`{}` is free", printable(&args.key))?,
            None => writeln!(out, "`{}` is free", printable(&args.key))?,
        }
        return Ok(CONFLICT);
    };
    if is_json {
        let mut json = lock_text::json(&lock);
        if !args.quick {
            json["renewed"] = watch(locks, &lock).await?.is_renewed().into();
        }
        writeln!(out, "{json}")?;
    } else if args.output.output.is_some() {
        drop(out);
        Printer::new(&args.output).all(std::slice::from_ref(&lock))?;
    } else {
        describe(&lock, &mut out)?;
        if !args.quick {
            write!(out, "alive:       ")?;
            // Who reads sees the rest meanwhile.
            out.flush()?;
            writeln!(out, "{}", watch(locks, &lock).await?)?;
        }
    }
    Ok(OK)
}

fn describe(lock: &LockInfo, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "key:         {}", printable(lock.key()))?;
    writeln!(out, "holder:      {}", holder(lock))?;
    if let Some(since) = lock.holder().since() {
        writeln!(out, "asked:       {} ago, {}", Ago(since), rfc3339(since))?;
    }
    writeln!(out, "lease left:  {}", lease_left(lock))?;
    writeln!(out, "waiters:     {}", lock.waiters())?;
    for (place, next) in (1..).zip(lock.queue()) {
        writeln!(out, "{place:11}  {}", waiter(next))?;
    }
    Ok(())
}
