//! `redlocked tick show` and `redlocked tick clear`.

use std::io::{self, Write};
use std::time::SystemTime;

use redlocked::LockManager;
use redlocked::inspect::LastTick;
use serde_json::{Value, json};

use crate::args::{ConfirmedArgs, LeaderArgs};
use crate::elsewhere::{Record, missing};
use crate::exit::{CONFLICT, Failure, OK};
use crate::lock_text::{epoch, printable, rfc3339, whole};
use crate::release::{must_have_a_terminal, says_yes};

pub(crate) async fn show(locks: &LockManager, prefix: &str, args: &LeaderArgs) -> Result<u8, Failure> {
    let last = locks.last_tick(&args.key).await?;
    let mut out = io::stdout().lock();
    match &last {
        Some(last) if args.json => writeln!(out, "{}", to_json(&args.key, last))?,
        None if args.json => writeln!(out, "{}", Value::Null)?,
        Some(last) => describe(&args.key, last, &mut out)?,
        None => writeln!(out, "{}", missing(locks, prefix, &args.key, Record::Tick).await)?,
    }
    Ok(if last.is_some() { OK } else { CONFLICT })
}

pub(crate) async fn clear(locks: &LockManager, prefix: &str, args: &ConfirmedArgs) -> Result<u8, Failure> {
    let key = printable(&args.key);
    if !args.yes {
        must_have_a_terminal()?;
        if let Some(last) = locks.last_tick(&args.key).await? {
            describe(&args.key, &last, &mut io::stderr().lock())?;
        }
        if !says_yes(&format!("Forget this, so that the next call of `{key}` runs?"))? {
            return Err(Failure::new(CONFLICT, format!("`{key}` was not cleared")));
        }
    }
    // Also one that was given back, which has no runner to show.
    if !locks.clear_tick(&args.key).await? {
        writeln!(io::stderr(), "{}", missing(locks, prefix, &args.key, Record::Tick).await)?;
        return Ok(CONFLICT);
    }
    writeln!(io::stdout(), "cleared `{key}`")?;
    Ok(OK)
}

fn describe(key: &str, last: &LastTick, out: &mut impl Write) -> io::Result<()> {
    let now = SystemTime::now();
    writeln!(out, "key:        {}", printable(key))?;
    write!(out, "last tick:  {}, ", rfc3339(last.time()))?;
    match last.time().duration_since(now) {
        Ok(ahead) => writeln!(out, "{} ahead: ticks until then count as taken", Whole(ahead.as_secs()))?,
        Err(past) => writeln!(out, "{} ago", Whole(past.duration().as_secs()))?,
    }
    writeln!(out, "run by:     {}", last.by().name().unwrap_or("(unknown)"))?;
    if let Some(function) = last.by().function() {
        writeln!(out, "function:   {function}")?;
    }
    Ok(())
}

/// Seconds, in the two largest units.
struct Whole(u64);

impl std::fmt::Display for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        whole(self.0, f)
    }
}

fn to_json(key: &str, last: &LastTick) -> Value {
    json!({
        "key": key,
        "last_tick": rfc3339(last.time()),
        "last_tick_epoch": epoch(last.time()),
        "by": last.by().name(),
        "function": last.by().function(),
    })
}
