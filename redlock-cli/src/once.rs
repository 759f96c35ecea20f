//! `redlocked once show` and `redlocked once clear`.

use std::io::{self, Write};

use redlocked::LockManager;
use redlocked::once::OnceRecord;
use serde_json::{Value, json};

use crate::args::{ConfirmedArgs, LeaderArgs};
use crate::elsewhere::{Record, missing};
use crate::exit::{CONFLICT, Failure, OK};
use crate::lock_text::{Ago, caller, epoch, printable, rfc3339};
use crate::release::{must_have_a_terminal, says_yes};

pub(crate) async fn show(locks: &LockManager, prefix: &str, args: &LeaderArgs) -> Result<u8, Failure> {
    let known = known(locks, &args.key).await?;
    let mut out = io::stdout().lock();
    match &known {
        Some(known) if args.json => writeln!(out, "{}", known.to_json(&args.key))?,
        None if args.json => writeln!(out, "{}", Value::Null)?,
        Some(known) => known.describe(&args.key, &mut out)?,
        None => writeln!(out, "{}", missing(locks, prefix, &args.key, Record::Once).await)?,
    }
    Ok(if known.is_some() { OK } else { CONFLICT })
}

pub(crate) async fn clear(locks: &LockManager, prefix: &str, args: &ConfirmedArgs) -> Result<u8, Failure> {
    let key = printable(&args.key);
    let Some(known) = known(locks, &args.key).await? else {
        writeln!(io::stderr(), "{}", missing(locks, prefix, &args.key, Record::Once).await)?;
        return Ok(CONFLICT);
    };
    if !args.yes {
        must_have_a_terminal()?;
        known.describe(&args.key, &mut io::stderr().lock())?;
        if !says_yes(&format!("Forget this, so that the next call of `{key}` runs?"))? {
            return Err(Failure::new(CONFLICT, format!("`{key}` was not cleared")));
        }
    }
    locks.clear_once(&args.key).await?;
    writeln!(io::stdout(), "cleared `{key}`")?;
    Ok(OK)
}

/// A record, and whether its body runs now.
pub(crate) struct Known {
    record: OnceRecord,
    is_held: bool,
}

/// A body was interrupted when its record is the same before and after a look at the lock, which is
/// free.
pub(crate) async fn known(locks: &LockManager, key: &str) -> Result<Option<Known>, Failure> {
    loop {
        let before = locks.once_record(key).await?;
        if before.is_none() {
            return Ok(None);
        }
        let is_held = locks.inspect(key).await?.is_some();
        let record = locks.once_record(key).await?;
        if record == before {
            return Ok(record.map(|record| Known { record, is_held }));
        }
    }
}

impl Known {
    fn state(&self) -> &'static str {
        match (self.record.is_done(), self.is_held) {
            (true, _) => "done",
            (false, true) => "running",
            (false, false) => "interrupted",
        }
    }

    /// `done 3 min 2 s ago by web-1:4711 in charge`
    pub(crate) fn in_short(&self) -> String {
        let record = &self.record;
        let by = record
            .name()
            .map_or_else(String::new, |name| format!(" by {}", caller(Some(name), record.function())));
        let since = match self.state() {
            "done" => format!("{} ago", Ago(record.since())),
            _ => format!("since {} ago", Ago(record.since())),
        };
        format!("{}, {since}{by}", self.state())
    }

    fn describe(&self, key: &str, out: &mut impl Write) -> io::Result<()> {
        let record = &self.record;
        writeln!(out, "key:        {}", printable(key))?;
        writeln!(out, "state:      {}", self.state())?;
        writeln!(out, "since:      {} ago, {}", Ago(record.since()), rfc3339(record.since()))?;
        writeln!(out, "by:         {}", record.name().unwrap_or("(unknown)"))?;
        if let Some(function) = record.function() {
            writeln!(out, "function:   {function}")?;
        }
        if let Some(result) = record.result() {
            writeln!(out, "result:     {} bytes", result.len())?;
        }
        Ok(())
    }

    pub(crate) fn to_json(&self, key: &str) -> Value {
        let record = &self.record;
        json!({
            "key": key,
            "state": self.state(),
            "since": rfc3339(record.since()),
            "since_epoch": epoch(record.since()),
            "by": record.name(),
            "function": record.function(),
            "result_bytes": record.result().map(<[u8]>::len),
        })
    }
}
