//! `redlocked show`.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use redlocked::inspect::{LastTick, LockInfo};
use redlocked::{LockError, LockManager};
use serde_json::{Value, json};
use terminal_size::{Height, Width, terminal_size_of};

use crate::alive::{longest_watch, watch};
use crate::args::{Format, ShowArgs};
use crate::elsewhere::free;
use crate::exit::{CONFLICT, Failure, OK, USAGE};
use crate::lock_text::{
    self, Ago, Span, holder, lease_left, one_of_them, printable, rfc3339, together, waiter,
};
use crate::once::{Known, known};
use crate::output::Printer;
use crate::stderr::note;
use crate::table::folded;

pub(crate) async fn show(locks: &LockManager, prefix: &str, args: &ShowArgs) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    let found = locks.inspect(&args.key).await?;
    let is_json = args.output.output == Some(Format::Json);
    let tick =
        if is_json || args.output.output.is_none() { last_tick(locks, &args.key).await? } else { None };
    let once = if is_json || args.output.output.is_none() { once(locks, &args.key).await? } else { None };
    let Some(lock) = found else {
        let free = if is_json { String::new() } else { free(locks, prefix, &args.key).await };
        match args.output.output {
            Some(Format::Json) => writeln!(out, "{}", Value::Null)?,
            Some(_) => note(&free),
            None => {
                writeln!(out, "{}", as_wide(&free))?;
                write_tick(tick.as_ref(), &mut out)?;
                write_once(once.as_ref(), &mut out)?;
            }
        }
        return Ok(CONFLICT);
    };
    if is_json {
        let mut json = lock_text::json(&lock)?;
        json["ticket"] = lock.holder().is_ticket().into();
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
        if let Some(once) = once {
            json["once"] = once.to_json(&args.key);
        }
        writeln!(out, "{json}")?;
    } else if args.output.output.is_some() {
        drop(out);
        Printer::new(&args.output).all(std::slice::from_ref(&lock))?;
    } else {
        // What the last lines say has up to three of them.
        let below = usize::from(tick.is_some()) * 2
            + usize::from(once.is_some()) * 2
            + if args.quick { 0 } else { 4 };
        describe(&lock, below, args, &mut out)?;
        write_tick(tick.as_ref(), &mut out)?;
        write_once(once.as_ref(), &mut out)?;
        if !args.quick {
            write!(out, "alive:       ")?;
            if io::stdout().is_terminal()
                && let Some(limit) = longest_watch(&lock)
            {
                write!(out, "watching for up to {} (--quick does not) …\n{:LABEL$}  ", Span(limit), "")?;
            }
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

/// `None` where no body runs once: over a quorum.
async fn once(locks: &LockManager, key: &str) -> Result<Option<Known>, Failure> {
    match known(locks, key).await {
        Err(Failure { code: USAGE, .. }) => Ok(None),
        known => known,
    }
}

fn write_tick(tick: Option<&LastTick>, out: &mut impl Write) -> io::Result<()> {
    let Some(tick) = tick else { return Ok(()) };
    let by = tick.by().name().map_or_else(String::new, |name| format!(", run by {name}"));
    let function = tick.by().function().map_or_else(String::new, |function| format!(" in {function}"));
    let words = format!("{}{by}{function}", rfc3339(tick.time()));
    writeln!(out, "{:LABEL$}  {}", "last tick:", beside(&words))
}

fn write_once(once: Option<&Known>, out: &mut impl Write) -> io::Result<()> {
    let Some(once) = once else { return Ok(()) };
    writeln!(out, "{:LABEL$}  {}", "runs once:", beside(&once.in_short()))
}

fn describe(lock: &LockInfo, lines_below: usize, args: &ShowArgs, out: &mut impl Write) -> io::Result<()> {
    let line = |label: &str, words: &str| format!("{label:LABEL$}  {}", beside(words));
    let mut head = vec![line("key:", &printable(lock.key())), line("holder:", &holder(lock))];
    let holders: Vec<_> = if together(lock).is_some() {
        let holders = (1..).zip(lock.holders());
        holders.map(|(place, holder)| line(&format!("{place:LABEL$}"), &one_of_them(holder))).collect()
    } else {
        Vec::new()
    };
    let (granted, asked) = (lock.holder().granted(), lock.holder().asked());
    let mut times = Vec::new();
    let is_ticket = lock.holder().is_ticket();
    if is_ticket {
        times.push(line("ticket:", "the holder has left the lock to a ticket, which nobody has redeemed"));
    }
    let since = if is_ticket { "given away:" } else { "granted:" };
    // One that had to wait has asked earlier.
    for (what, time) in [(since, granted), ("asked:", asked.filter(|_| asked != granted))] {
        times.extend(time.map(|time| line(what, &format!("{} ago, {}", Ago(time), rfc3339(time)))));
    }
    let claim =
        if is_claim(lock) { ", a claim until its first renewal: it has just been granted" } else { "" };
    times.push(line("lease left:", &format!("{}{claim}", lease_left(lock))));
    times.push(line("waiters:", &lock.waiters().to_string()));
    let queue = (1..).zip(lock.queue());
    let queue: Vec<_> = queue.map(|(place, next)| line(&format!("{place:LABEL$}"), &waiter(next))).collect();
    let room = terminal_size_of(io::stdout()).filter(|_| !args.all).map(|(_, Height(height))| {
        // And the line in which the shell asks.
        let taken = height_of(&head) + height_of(&times) + lines_below + 1;
        usize::from(height).saturating_sub(taken)
    });
    let of_queue = room.map(|room| room - (room / 2).min(height_of(&holders)));
    let of_holders = room.zip(of_queue).map(|(room, of_queue)| room - of_queue.min(height_of(&queue)));
    head.extend(as_many(holders, of_holders));
    head.extend(times);
    head.extend(as_many(queue, of_queue));
    for line in head {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// A holder that had to wait has a second to renew its lease: as long as its process may take.
fn is_claim(lock: &LockInfo) -> bool {
    const CLAIM: Duration = Duration::from_secs(1);
    let is_short = lock.holder().expires_in().is_some_and(|left| left <= CLAIM);
    // In whole seconds.
    let is_new = !lock.holder().is_ticket()
        && lock.holder().granted().is_some_and(|granted| granted.elapsed().is_ok_and(|age| age < 2 * CLAIM));
    is_short && is_new
}

/// As many of these as have room, and how many have none.
fn as_many(mut lines: Vec<String>, room: Option<usize>) -> Vec<String> {
    let Some(room) = room.filter(|room| height_of(&lines) > *room) else { return lines };
    let count = lines.len();
    while height_of(&lines) >= room && !lines.is_empty() {
        lines.pop();
    }
    let more = format!("and {} more: --all shows them", count - lines.len());
    lines.push(format!("{:LABEL$}  {}", "", beside(&more)));
    lines
}

fn height_of(lines: &[String]) -> usize {
    lines.iter().map(|line| line.lines().count()).sum()
}

const LABEL: usize = 11;

/// In as many lines as a terminal needs.
fn as_wide(words: &str) -> String {
    match terminal_size_of(io::stdout()) {
        Some((Width(width), _)) => folded(words, width.into()).join("\n"),
        None => words.to_owned(),
    }
}

/// Beside a label, in as many lines as a terminal needs.
fn beside(words: &str) -> String {
    let Some((Width(width), _)) = terminal_size_of(io::stdout()) else { return words.to_owned() };
    let room = usize::from(width).saturating_sub(LABEL + 2).max(LABEL);
    folded(words, room).join(&format!("\n{:LABEL$}  ", ""))
}
