//! `redlocked watch`: the diary of a lock, live: who held it, and for how long.
//!
//! On a terminal it has one row for each process that held the lock, and time runs from left to
//! right; elsewhere two lines for each hold, when it begins and when it has ended.

use std::io::{IsTerminal, Write};
use std::time::{Duration, SystemTime};

use anstyle::{AnsiColor, Style};
use redlocked::{LockInfo, LockManager};
use tokio::time::MissedTickBehavior;
use unicode_width::UnicodeWidthStr;

use crate::args::WatchArgs;
use crate::exit::{Failure, OK};
use crate::lock_text::{Span, caller, holder, printable, rfc3339, together};
use crate::screen::{Screen, Wish};
use crate::table::{folded, start, styled};

/// Shorter looks would only keep the server busy.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// A person sees no more.
const REDRAW: Duration = Duration::from_millis(200);

/// A hold, as far as it was seen.
struct Hold {
    lock: LockInfo,
    from: SystemTime,
    to: SystemTime,
}

impl Hold {
    fn name(&self) -> String {
        together(&self.lock).unwrap_or_else(|| caller(self.lock.holder().name(), None))
    }

    fn lasted(&self) -> Duration {
        self.to.duration_since(self.from).unwrap_or_default()
    }

    /// How much of this time it had the lock.
    fn within(&self, from: SystemTime, to: SystemTime) -> Duration {
        self.to.min(to).duration_since(self.from.max(from)).unwrap_or_default()
    }
}

/// What was seen, the latest hold last.
#[derive(Default)]
struct Diary {
    holds: Vec<Hold>,
    /// The last hold goes on.
    is_held: bool,
    waiters: u32,
}

impl Diary {
    /// Returns the hold that has ended since the last look.
    fn look(&mut self, now: SystemTime, found: Option<LockInfo>) -> Option<&Hold> {
        let was_held = std::mem::replace(&mut self.is_held, found.is_some());
        self.waiters = found.as_ref().map_or(0, LockInfo::waiters);
        let count = self.holds.len();
        let last = self.holds.last_mut().filter(|_| was_held);
        let goes_on = match (last, found) {
            (Some(last), Some(lock)) if last.lock.has_same_holder(&lock) => {
                (last.lock, last.to) = (lock, now);
                true
            }
            (last, found) => {
                if let Some(last) = last {
                    // It ended between the two looks.
                    last.to = now;
                }
                self.holds.extend(found.map(|lock| Hold { lock, from: now, to: now }));
                false
            }
        };
        let ended = count.checked_sub(1).filter(|_| was_held && !goes_on)?;
        self.holds.get(ended)
    }

    /// Nothing is shown of what has ended before.
    fn forget(&mut self, before: SystemTime) {
        self.holds.retain(|hold| hold.to >= before);
    }
}

pub(crate) async fn watch(locks: &LockManager, args: &WatchArgs) -> Result<u8, Failure> {
    if args.lines || !std::io::stdout().is_terminal() {
        return lines(locks, args).await;
    }
    let mut screen = Screen::enter("watch", "`watch --lines`")?;
    let mut tick = tokio::time::interval(args.interval.max(SHORTEST_INTERVAL));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut redraw = tokio::time::interval(args.interval.max(REDRAW));
    redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let began = SystemTime::now();
    let (mut diary, mut trouble) = (Diary::default(), None);
    loop {
        tokio::select! {
            _ = tick.tick() => match locks.inspect(&args.key).await {
                Ok(found) => {
                    diary.look(SystemTime::now(), found);
                    trouble = None;
                    continue;
                }
                // What happens meanwhile is not seen.
                Err(error) => {
                    diary.is_held = false;
                    trouble = Some(printable(&error.to_string()));
                }
            },
            _ = redraw.tick() => {}
            wish = screen.wish() => if let Wish::End = wish { return Ok(OK) },
        }
        let now = SystemTime::now();
        let from = now.checked_sub(args.window).unwrap_or(began);
        diary.forget(from);
        let (width, height) = Screen::size();
        screen.draw(&picture(&diary, args, (from, now), trouble.as_deref(), (width, height)))?;
    }
}

async fn lines(locks: &LockManager, args: &WatchArgs) -> Result<u8, Failure> {
    let mut tick = tokio::time::interval(args.interval.max(SHORTEST_INTERVAL));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut diary = Diary::default();
    loop {
        tick.tick().await;
        let found = locks.inspect(&args.key).await?;
        let waiters = found.as_ref().map_or(0, LockInfo::waiters);
        let now = SystemTime::now();
        let seen = diary.holds.len();
        let mut told = Vec::new();
        if let Some(hold) = diary.look(now, found) {
            let lasted = Span(hold.lasted());
            told.push((hold.from, holder(&hold.lock), format!("held it for {lasted}")));
        }
        let begun = diary.holds.iter().skip(seen);
        told.extend(begun.map(|hold| (hold.from, holder(&hold.lock), "has it".to_owned())));
        let mut out = std::io::stdout().lock();
        for (from, who, what) in told {
            writeln!(out, "{}\t{who}\t{what}\t{waiters} waiting", rfc3339(from))?;
        }
        out.flush()?;
        drop(out);
        // The last one may go on.
        diary.forget(now);
    }
}

/// As `examples/flash_sale` draws it: the darker, the longer the lock was held there.
fn picture(
    diary: &Diary,
    args: &WatchArgs,
    (from, now): (SystemTime, SystemTime),
    trouble: Option<&str>,
    (width, height): (usize, usize),
) -> Vec<String> {
    let key = printable(&args.key);
    let state = match diary.holds.last().filter(|_| diary.is_held) {
        Some(hold) => format!("held by {} for {}", holder(&hold.lock), Span(hold.lasted())),
        None => "free".to_owned(),
    };
    let title = format!("`{key}`: {state}, {} waiting  (q: quit)", diary.waiters);
    let mut lines = folded(&title, width);
    lines.extend(trouble.into_iter().flat_map(|words| folded(words, width)));
    lines.push(String::new());
    lines.push(start(&format!("the last {}, from left to right:", Span(args.window)), width).to_owned());
    let mut names: Vec<String> = Vec::new();
    for name in diary.holds.iter().map(Hold::name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let label = names.iter().map(|name| name.width()).max().unwrap_or_default().min(width / 3);
    let columns = width.saturating_sub(label + 3).max(1);
    for name in names.iter().take(height.saturating_sub(lines.len() + 3)) {
        let shown = start(name, label);
        let blanks = label.saturating_sub(shown.width());
        let holds = diary.holds.iter().filter(|hold| hold.name() == *name);
        let lane = lane(&holds.collect::<Vec<_>>(), from, now, columns);
        lines.push(format!("{shown}{:blanks$} |{}|", "", styled(&lane, AnsiColor::Green.on_default())));
    }
    if names.is_empty() {
        lines.push("no caller held the lock".to_owned());
    }
    let room = height.saturating_sub(lines.len() + 2);
    if room > 0 && !names.is_empty() {
        lines.push(String::new());
        lines.push(styled("the last holds", Style::new().bold()));
        let ended = usize::from(diary.is_held);
        for hold in diary.holds.iter().rev().skip(ended).take(room.saturating_sub(1)) {
            let (from, lasted) = (rfc3339(hold.from), Span(hold.lasted()));
            let line = format!("{from}  held for {lasted} by {}", holder(&hold.lock));
            lines.push(start(&line, width).to_owned());
        }
    }
    lines
}

/// One row of the picture.
fn lane(holds: &[&Hold], from: SystemTime, to: SystemTime, columns: usize) -> String {
    let whole = to.duration_since(from).unwrap_or_default();
    let columns = u32::try_from(columns).unwrap_or(u32::MAX);
    let at = |column: u32| from + whole / columns * column;
    let shade = |column: u32| {
        let (start, end) = (at(column), at(column + 1));
        let touches = |hold: &&&Hold| hold.from < end && hold.to >= start;
        let mut these = holds.iter().filter(touches).map(|hold| hold.within(start, end)).peekable();
        if these.peek().is_none() {
            return ' ';
        }
        let held = these.sum::<Duration>().as_nanos() * 100 / (whole / columns).as_nanos().max(1);
        match held {
            0..15 => '░',
            15..40 => '▒',
            40..75 => '▓',
            _ => '█',
        }
    };
    (0..columns).map(shade).collect()
}
