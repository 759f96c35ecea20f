//! `redlocked list`.

use std::collections::BTreeMap;

use redlocked::inspect::LockInfo;

use crate::args::{ListArgs, ServerArgs};
use crate::elsewhere::nothing_listed;
use crate::exit::{Failure, OK};
use crate::output::{Printer, Row, sort};
use crate::stderr::note;

pub(crate) async fn list(server: &ServerArgs, args: &ListArgs) -> Result<u8, Failure> {
    let (locks, prefix) = (server.connect_to_read().await?, server.prefix()?);
    let mut printer = Printer::new(&args.output);
    let mut held = locks.list(&args.pattern).await?;
    sort(&mut held, args.sort);
    if held.is_empty() && !printer.is_json() {
        note(&nothing_listed(server, &locks, &prefix, &args.pattern).await);
    }
    let Some(interval) = args.watch else {
        if !held.is_empty() || printer.is_json() {
            printer.all(&held)?;
        }
        return Ok(OK);
    };
    printer.rows(&held.iter().map(Row::from).collect::<Vec<_>>())?;
    let mut seen = by_key(held);
    loop {
        tokio::time::sleep(interval).await;
        let mut held = locks.list(&args.pattern).await?;
        sort(&mut held, args.sort);
        let is_new = |lock: &&LockInfo| !seen.get(lock.key()).is_some_and(|seen| is_unchanged(lock, seen));
        let mut changed: Vec<Row<'_>> = held.iter().filter(is_new).map(Row::from).collect();
        let is_held = |key: &str| held.iter().any(|lock| lock.key() == key);
        changed.extend(seen.keys().filter(|key| !is_held(key)).map(|key| Row { key, lock: None }));
        if !changed.is_empty() {
            printer.rows(&changed)?;
        }
        seen = by_key(held);
    }
}

fn by_key(locks: Vec<LockInfo>) -> BTreeMap<String, LockInfo> {
    locks.into_iter().map(|lock| (lock.key().to_owned(), lock)).collect()
}

fn is_unchanged(lock: &LockInfo, seen: &LockInfo) -> bool {
    lock.has_same_holder(seen) && lock.waiters() == seen.waiters()
}
