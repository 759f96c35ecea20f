//! `redlocked show`.

use std::io::{self, Write};

use redlocked::{LastTick, LockError, LockInfo, LockManager};
use serde_json::{Value, json};
use terminal_size::{Width, terminal_size_of};

use crate::alive::watch;
use crate::args::{Format, ShowArgs};
use crate::exit::{CONFLICT, Failure, OK};
use crate::lock_text::{self, Ago, holder, lease_left, one_of_them, printable, rfc3339, together, waiter};
use crate::output::Printer;
use crate::table::folded;

pub(crate) async fn show(locks: &LockManager, args: &ShowArgs) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    let found = locks.inspect(&args.key).await?;
    let is_json = args.output.output == Some(Format::Json);
    let tick =
        if is_json || args.output.output.is_none() { last_tick(locks, &args.key).await? } else { None };
    let Some(lock) = found else {
        match args.output.output {
            Some(Format::Json) => writeln!(out, "{}", Value::Null)?,
            Some(_) => writeln!(io::stderr(), "`{}` is free", printable(&args.key))?,
            None => {
                writeln!(out, "`{}` is free", printable(&args.key))?;
                write_tick(tick.as_ref(), &mut out)?;
            }
        }
        return Ok(CONFLICT);
    };
    if is_json {
        let mut json = lock_text::json(&lock);
        if !args.quick {
            let alive = watch(locks, &lock).await?;
            json["renewed"] = alive.is_renewed().into();
            for (place, one) in alive.one_by_one().iter().enumerate() {
                json["holders"][place]["renewed"] = one.is_renewed().into();
            }
        }
        if let Some(tick) = tick {
            let by = tick.by();
            json["last_tick"] =
                json!({ "time": rfc3339(tick.time()), "name": by.name(), "function": by.function() });
        }
        writeln!(out, "{json}")?;
    } else if args.output.output.is_some() {
        drop(out);
        Printer::new(&args.output).all(std::slice::from_ref(&lock))?;
    } else {
        describe(&lock, &mut out)?;
        write_tick(tick.as_ref(), &mut out)?;
        if !args.quick {
            write!(out, "alive:       ")?;
            // Who reads sees the rest meanwhile.
            out.flush()?;
            writeln!(out, "{}", beside(&watch(locks, &lock).await?.to_string()))?;
        }
    }
    Ok(OK)
}

/// `None` where there are no ticks: over a quorum.
async fn last_tick(locks: &LockManager, key: &str) -> Result<Option<LastTick>, LockError> {
    match locks.last_tick(key).await {
        Err(LockError::InvalidRequest { .. }) => Ok(None),
        last => last,
    }
}

fn write_tick(tick: Option<&LastTick>, out: &mut impl Write) -> io::Result<()> {
    let Some(tick) = tick else { return Ok(()) };
    let by = tick.by().name().map_or_else(String::new, |name| format!(", run by {name}"));
    let function = tick.by().function().map_or_else(String::new, |function| format!(" in {function}"));
    let words = format!("{}{by}{function}", rfc3339(tick.time()));
    writeln!(out, "{:LABEL$}  {}", "last tick:", beside(&words))
}

fn describe(lock: &LockInfo, out: &mut impl Write) -> io::Result<()> {
    let mut lines = vec![("key:".to_owned(), printable(lock.key())), ("holder:".to_owned(), holder(lock))];
    if together(lock).is_some() {
        let holders = (1..).zip(lock.holders());
        lines.extend(holders.map(|(place, holder)| (format!("{place:LABEL$}"), one_of_them(holder))));
    }
    let (granted, asked) = (lock.holder().granted(), lock.holder().asked());
    // One that had to wait has asked earlier.
    for (what, time) in [("granted:", granted), ("asked:", asked.filter(|_| asked != granted))] {
        lines.extend(time.map(|time| (what.to_owned(), format!("{} ago, {}", Ago(time), rfc3339(time)))));
    }
    lines.push(("lease left:".to_owned(), lease_left(lock)));
    lines.push(("waiters:".to_owned(), lock.waiters().to_string()));
    let queue = (1..).zip(lock.queue());
    lines.extend(queue.map(|(place, next)| (format!("{place:LABEL$}"), waiter(next))));
    for (label, words) in lines {
        writeln!(out, "{label:LABEL$}  {}", beside(&words))?;
    }
    Ok(())
}

const LABEL: usize = 11;

/// Beside a label, in as many lines as a terminal needs.
fn beside(words: &str) -> String {
    let Some((Width(width), _)) = terminal_size_of(io::stdout()) else { return words.to_owned() };
    let room = usize::from(width).saturating_sub(LABEL + 2).max(LABEL);
    folded(words, room).join(&format!("\n{:LABEL$}  ", ""))
}
