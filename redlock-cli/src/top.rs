//! `redlocked top`.

use std::time::{Duration, SystemTime};

use redlocked::inspect::LockInfo;
use redlocked::{LockError, LockManager};

use crate::args::TopArgs;
use crate::elsewhere::none;
use crate::exit::{Failure, OK};
use crate::lock_text::{printable, rfc3339};
use crate::output::{sort, table};
use crate::screen::{Screen, Wish};
use crate::table::{folded, start};

/// Shorter looks would only keep the server busy.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn top(locks: &LockManager, prefix: &str, args: &TopArgs) -> Result<u8, Failure> {
    let mut screen = Screen::enter("top", "`list --watch`")?;
    let mut tick = tokio::time::interval(args.interval.max(SHORTEST_INTERVAL));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut seen = None;
    loop {
        tokio::select! {
            _ = tick.tick() => {
                let held = locks.list(&args.pattern).await.map(|mut held| {
                    sort(&mut held, args.sort);
                    held
                });
                seen = Some((SystemTime::now(), held));
            }
            wish = screen.wish() => match wish {
                Wish::Redraw => {}
                Wish::End => return Ok(OK),
            },
        }
        if let Some((at, held)) = &seen {
            screen.draw(&lines(*at, held, prefix, args))?;
        }
    }
}

/// A summary, and the table of the locks; or why there is none.
fn lines(
    at: SystemTime,
    held: &Result<Vec<LockInfo>, LockError>,
    prefix: &str,
    args: &TopArgs,
) -> Vec<String> {
    let (width, height) = Screen::size();
    let now = rfc3339(at);
    let (summary, rest) = match held {
        Ok(held) => {
            let waiters: u64 = held.iter().map(|lock| u64::from(lock.waiters())).sum();
            let rest = if held.is_empty() {
                folded(&none(prefix, &args.pattern), width)
            } else {
                // Below the summary and an empty line.
                table(held, width, height.saturating_sub(2))
            };
            (format!("{now}  locks: {}  waiting: {waiters}  (q: quit)", held.len()), rest)
        }
        // It may be back at the next look.
        Err(error) => (format!("{now}  (q: quit)"), folded(&printable(&error.to_string()), width)),
    };
    [start(&summary, width).to_owned(), String::new()].into_iter().chain(rest).collect()
}
