//! `redlocked leader` and `redlocked resign`.

use std::io::{self, Write};

use redlocked::LockManager;
use redlocked::election::Leader;
use serde_json::{Value, json};

use crate::args::{ConfirmedArgs, LeaderArgs};
use crate::elsewhere::{Record, missing};
use crate::exit::{CONFLICT, Failure, OK};
use crate::lock_text::{Ago, Span, epoch, in_ms, printable, rfc3339};
use crate::release::take_from_all;

pub(crate) async fn leader(locks: &LockManager, prefix: &str, args: &LeaderArgs) -> Result<u8, Failure> {
    let found = locks.election(args.key.as_str()).leader().await?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", found.as_ref().map_or(Value::Null, |leader| to_json(&args.key, leader)))?;
    } else {
        match &found {
            Some(leader) => describe(&args.key, leader, &mut out)?,
            None => writeln!(out, "{}", missing(locks, prefix, &args.key, Record::Leader).await)?,
        }
    }
    Ok(if found.is_some() { OK } else { CONFLICT })
}

/// Takes the lead away, as `release` does a lock, but from a leader alone.
pub(crate) async fn resign(locks: &LockManager, prefix: &str, args: &ConfirmedArgs) -> Result<u8, Failure> {
    let key = printable(&args.key);
    match locks.election(args.key.as_str()).leader().await? {
        Some(leader) if leader.fencing_token().is_some() => take_from_all(locks, prefix, args).await,
        Some(_) => {
            writeln!(
                io::stderr(),
                "`{key}` is locked, but by no leader: `redlocked release` takes a lock away"
            )?;
            Ok(CONFLICT)
        }
        None => {
            writeln!(io::stderr(), "{}", missing(locks, prefix, &args.key, Record::Leader).await)?;
            Ok(CONFLICT)
        }
    }
}

fn describe(key: &str, leader: &Leader, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "key:        {}", printable(key))?;
    writeln!(out, "leader:     {}", leader.name().unwrap_or("(foreign)"))?;
    match (leader.fencing_token(), leader.since()) {
        (Some(term), Some(since)) => {
            writeln!(out, "term:       {term}")?;
            writeln!(out, "since:      {} ago, {}", Ago(since), rfc3339(since))?;
        }
        _ => writeln!(out, "term:       not known: a lock, or a leader of another kind")?,
    }
    if let Some(text) = leader.announced() {
        writeln!(out, "announced:  {}", printable(text))?;
    }
    match leader.expires_in() {
        Some(left) => writeln!(out, "lease left: {}", Span(left)),
        None => writeln!(out, "lease left: no end"),
    }
}

fn to_json(key: &str, leader: &Leader) -> Value {
    json!({
        "key": key,
        "leader": leader.name(),
        "term": leader.fencing_token(),
        "since": leader.since().map(rfc3339),
        "since_epoch": leader.since().map(epoch),
        "announced": leader.announced(),
        "lease_left_ms": leader.expires_in().map(in_ms),
    })
}
