//! `redlocked release`.

use std::io::{self, IsTerminal, Write};

use redlocked::inspect::LockInfo;
use redlocked::{Holder, LockManager};

use crate::args::{ConfirmedArgs, ReleaseArgs};
use crate::elsewhere::free;
use crate::exit::{CONFLICT, Failure, OK, USAGE};
use crate::lock_text::{caller, holder, lease_left, one_of_them, printable};

pub(crate) async fn release(locks: &LockManager, prefix: &str, args: &ReleaseArgs) -> Result<u8, Failure> {
    match &args.holder {
        Some(name) => take_from_one(locks, prefix, &args.confirmed, name).await,
        None => take_from_all(locks, prefix, &args.confirmed).await,
    }
}

/// Takes the lock from those of its holders that have this name.
async fn take_from_one(
    locks: &LockManager,
    prefix: &str,
    args: &ConfirmedArgs,
    name: &str,
) -> Result<u8, Failure> {
    let key = printable(&args.key);
    if !args.yes {
        must_have_a_terminal()?;
    }
    let Some(lock) = locks.inspect(&args.key).await? else {
        return Err(Failure::new(CONFLICT, free(locks, prefix, &args.key).await));
    };
    let named: Vec<_> = lock.holders().iter().filter(|holder| has_name(holder, name)).collect();
    if named.is_empty() {
        return Err(Failure::new(CONFLICT, held_by_others(&lock, name)));
    }
    if !args.yes {
        let shown: Vec<_> = named.iter().map(|holder| one_of_them(holder)).collect();
        let question = format!("`{key}` is held by {}: {}. Take it away?", holder(&lock), shown.join("; "));
        if !says_yes(&question)? {
            return Err(Failure::new(CONFLICT, format!("`{key}` was not released")));
        }
    }
    let mut out = io::stdout();
    let mut is_released = false;
    for one in named {
        if locks.force_release_from(&args.key, one).await? {
            is_released = true;
            writeln!(out, "released `{key}`, which was held by {}", taker(one))?;
        }
    }
    if is_released {
        return Ok(OK);
    }
    let message = format!("`{key}` was not released: `{}` holds it no longer", printable(name));
    Err(Failure::new(CONFLICT, message))
}

fn has_name(holder: &Holder, name: &str) -> bool {
    holder.name().is_some_and(|its| its == name || caller(Some(its), holder.function()) == name)
}

/// Why none of the holders loses the lock.
fn held_by_others(lock: &LockInfo, name: &str) -> String {
    let (key, name) = (printable(lock.key()), printable(name));
    let shown = lock.holders().len();
    if usize::try_from(lock.inside()).is_ok_and(|inside| inside > shown) {
        return format!(
            "`{key}` is not held by `{name}`, as far as is shown: the first {shown} of {} holders, by the end of their leases",
            lock.inside()
        );
    }
    format!("`{key}` is not held by `{name}`, but by {}: `redlocked show` names each", holder(lock))
}

/// One of several, with its permits.
fn taker(holder: &Holder) -> String {
    let caller = caller(holder.name(), holder.function());
    if holder.taken() > 1 { format!("{caller} with {} permits", holder.taken()) } else { caller }
}

/// Takes the lock from its holder, or from all that hold it together.
pub(crate) async fn take_from_all(
    locks: &LockManager,
    prefix: &str,
    args: &ConfirmedArgs,
) -> Result<u8, Failure> {
    match take_away(locks, args).await? {
        Some(former) => {
            writeln!(io::stdout(), "released `{}`, which was held by {former}", printable(&args.key))?;
            Ok(OK)
        }
        None => Err(Failure::new(CONFLICT, free(locks, prefix, &args.key).await)),
    }
}

/// Returns who held it; `None` when it is free.
async fn take_away(locks: &LockManager, args: &ConfirmedArgs) -> Result<Option<String>, Failure> {
    let key = printable(&args.key);
    if !args.yes {
        must_have_a_terminal()?;
        let Some(asked) = locks.inspect(&args.key).await? else { return Ok(None) };
        if !is_confirmed(&asked)? {
            return Err(Failure::new(CONFLICT, format!("`{key}` was not released")));
        }
        // A person takes time to answer, and answered for this holder. One of another kind has no
        // token to take the lock from, and of many holders not all were shown.
        let all_were_shown =
            usize::try_from(asked.inside()).is_ok_and(|inside| inside == asked.holders().len());
        if all_were_shown && released_from(locks, &asked).await? {
            return Ok(Some(holder(&asked)));
        }
        let Some(lock) = locks.inspect(&args.key).await? else { return Ok(None) };
        if !lock.has_same_holder(&asked) {
            let message = format!("`{key}` was not released: by now {} holds it", holder(&lock));
            return Err(Failure::new(CONFLICT, message));
        }
    }
    let former = locks.force_release(&args.key).await?;
    Ok(former.map(|former| {
        let holders = former.inside().map(|inside| format!("{inside} callers at once"));
        holders.unwrap_or_else(|| caller(former.name(), former.function()))
    }))
}

/// True when one of the holders that were shown had the lock. None of them has it now.
async fn released_from(locks: &LockManager, shown: &LockInfo) -> Result<bool, Failure> {
    let mut was_held = false;
    for holder in shown.holders() {
        was_held |= locks.force_release_from(shown.key(), holder).await?;
    }
    Ok(was_held)
}

fn is_confirmed(lock: &LockInfo) -> io::Result<bool> {
    let (key, holder, left) = (printable(lock.key()), holder(lock), lease_left(lock));
    let waiters = lock.waiters();
    says_yes(&format!("`{key}` is held by {holder}, lease left {left}, {waiters} waiting. Take it away?"))
}

/// An error where nobody can be asked.
pub(crate) fn must_have_a_terminal() -> Result<(), Failure> {
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        return Ok(());
    }
    Err(Failure::new(USAGE, "there is no terminal to ask on: give --yes"))
}

/// Asks on the terminal.
pub(crate) fn says_yes(question: &str) -> io::Result<bool> {
    let mut err = io::stderr();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
