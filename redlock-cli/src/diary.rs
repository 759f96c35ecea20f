//! `redlocked watch`: the diary of a lock, live: who held it, and for how long.
//!
//! Each call that holds the lock is a hold of its own, also where several hold it together. On a
//! terminal there is one row for each process, and time runs from left to right; elsewhere two lines
//! for each hold, when it begins and when it has ended. While Redis does not answer, nobody knows who
//! holds the lock: that time is a gap, in the rows as well.

use std::io::{IsTerminal, Write};
use std::time::{Duration, SystemTime};

use anstyle::{AnsiColor, Style};
use redlocked::inspect::LockInfo;
use redlocked::{Holder, LockError, LockManager};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use unicode_width::UnicodeWidthStr;

use crate::args::WatchArgs;
use crate::exit::{Failure, OK};
use crate::lock_text::{Span, caller, printable, rfc3339, together, waiter};
use crate::screen::{Screen, Wish};
use crate::table::{folded, start, styled};

/// Shorter looks would only keep the server busy.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// A person sees no more.
const REDRAW: Duration = Duration::from_millis(200);

/// Without an answer for longer than this, and than two intervals, the state is unknown.
const SILENCE: Duration = Duration::from_millis(500);

/// So many of the last holds are kept, also when they are older than the picture.
const KEPT: usize = 100;

/// So many of the last holds have room on each screen, and so many of the waiters.
const LAST_HOLDS: usize = 5;
const NEXT_WAITERS: usize = 3;

/// The hold of one call, as far as it was seen.
struct Hold {
    holder: Holder,
    from: SystemTime,
    to: SystemTime,
    is_open: bool,
    /// It may have begun earlier than `from`, or ended later than `to`.
    is_part: bool,
}

impl Hold {
    fn name(&self) -> String {
        caller(self.holder.name(), None)
    }

    fn who(&self) -> String {
        caller(self.holder.name(), self.holder.function())
    }

    /// `2.9 s`, or `at least 2.9 s`
    fn lasted(&self) -> String {
        let lasted = Span(self.to.duration_since(self.from).unwrap_or_default());
        if self.is_part { format!("at least {lasted}") } else { lasted.to_string() }
    }

    /// Until when it had the lock: if it has it, until now, which no look has seen yet.
    fn until(&self, now: SystemTime) -> SystemTime {
        if self.is_open { now } else { self.to }
    }
}

/// What was seen.
struct Diary {
    /// In the order in which they have begun.
    holds: Vec<Hold>,
    /// When Redis did not answer.
    gaps: Vec<(SystemTime, SystemTime)>,
    /// The last answer, and when it came.
    last: Option<(SystemTime, Option<LockInfo>)>,
    began: SystemTime,
    longest_silence: Duration,
}

impl Diary {
    fn new(now: SystemTime, interval: Duration) -> Self {
        let longest_silence = SILENCE.max(interval.saturating_mul(2));
        Self { holds: Vec::new(), gaps: Vec::new(), last: None, began: now, longest_silence }
    }

    /// Since when there has been no answer, if that is too long.
    fn silent_since(&self, now: SystemTime) -> Option<SystemTime> {
        let since = self.last.as_ref().map_or(self.began, |(at, _)| *at);
        now.duration_since(since).is_ok_and(|silence| silence > self.longest_silence).then_some(since)
    }

    /// Returns the places of the holds that have ended since the last look.
    fn look(&mut self, now: SystemTime, found: Option<LockInfo>) -> Vec<usize> {
        let gap = self.silent_since(now);
        self.gaps.extend(gap.map(|since| (since, now)));
        let lock = found.as_ref();
        let holders = lock.map_or(&[][..], LockInfo::holders);
        // An answer lists only some of very many holders.
        let are_all = lock
            .is_none_or(|lock| usize::try_from(lock.inside()).is_ok_and(|inside| inside <= holders.len()));
        let mut ended = Vec::new();
        for (place, hold) in self.holds.iter_mut().enumerate().filter(|(_, hold)| hold.is_open) {
            if let Some(holder) = holders.iter().find(|holder| holder.is_same_call(&hold.holder)) {
                (hold.holder, hold.to) = (holder.clone(), now);
                continue;
            }
            hold.is_open = false;
            hold.is_part |= gap.is_some() || !are_all;
            if gap.is_none() {
                // It ended between the two looks.
                hold.to = now;
            }
            ended.push(place);
        }
        let is_first = self.last.is_none();
        let is_alone = lock.is_some_and(|lock| lock.holder().inside().is_none());
        for holder in holders {
            if self.holds.iter().any(|hold| hold.is_open && hold.holder.is_same_call(holder)) {
                continue;
            }
            let mut hold =
                Hold { holder: holder.clone(), from: now, to: now, is_open: true, is_part: !are_all };
            if is_first || gap.is_some() {
                // The server keeps no grant time for one of several holders.
                match holder.granted().filter(|_| is_alone) {
                    Some(granted) => hold.from = gap.map_or(granted, |since| granted.max(since)).min(now),
                    None => hold.is_part = true,
                }
            }
            self.holds.push(hold);
        }
        self.last = Some((now, found));
        ended
    }

    /// Forgets what has ended before, except the last holds.
    fn forget(&mut self, before: SystemTime) {
        let mut older = self.holds.len().saturating_sub(KEPT);
        self.holds.retain(|hold| {
            let is_older = older > 0;
            older = older.saturating_sub(1);
            hold.is_open || hold.to >= before || !is_older
        });
        self.gaps.retain(|(_, to)| *to >= before);
    }

    fn held_now(&self) -> impl Iterator<Item = &Hold> {
        self.holds.iter().filter(|hold| hold.is_open)
    }

    /// Who has the lock, by the last answer.
    fn state(&self) -> String {
        let Some((_, found)) = &self.last else { return "not seen yet".to_owned() };
        let Some(lock) = found else { return "free, 0 waiting".to_owned() };
        let held = match (together(lock), self.held_now().next()) {
            (Some(together), _) => format!("held by {together}"),
            (None, Some(hold)) => format!("held by {} for {}", hold.who(), hold.lasted()),
            (None, None) => "held".to_owned(),
        };
        format!("{held}, {} waiting", lock.waiters())
    }
}

/// What the server says of the lock at each interval. A look that takes long keeps nobody from
/// drawing and from typing.
fn answers(locks: &LockManager, args: &WatchArgs) -> mpsc::Receiver<Result<Option<LockInfo>, LockError>> {
    let (sender, answers) = mpsc::channel(1);
    let (locks, key) = (locks.clone(), args.key.clone());
    let mut tick = tokio::time::interval(args.interval.max(SHORTEST_INTERVAL));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::spawn(async move {
        loop {
            tick.tick().await;
            if sender.send(locks.inspect(&key).await).await.is_err() {
                break;
            }
        }
    });
    answers
}

pub(crate) async fn watch(locks: &LockManager, args: &WatchArgs) -> Result<u8, Failure> {
    let mut answers = answers(locks, args);
    if args.lines || !std::io::stdout().is_terminal() {
        return lines(&mut answers, args).await;
    }
    let mut screen = Screen::enter("watch", "`watch --lines`")?;
    let mut redraw = tokio::time::interval(args.interval.max(REDRAW));
    redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut diary, mut trouble) = (Diary::new(SystemTime::now(), args.interval), None);
    loop {
        tokio::select! {
            Some(look) = answers.recv() => {
                match look {
                    Ok(found) => {
                        diary.look(SystemTime::now(), found);
                        trouble = None;
                    }
                    Err(error) => trouble = Some(printable(&error.to_string())),
                }
                continue;
            }
            _ = redraw.tick() => {}
            wish = screen.wish() => if let Wish::End = wish { return Ok(OK) },
        }
        let now = SystemTime::now();
        diary.forget(now.checked_sub(args.window).unwrap_or(now));
        screen.draw(&picture(&diary, args, now, trouble.as_deref(), Screen::size()))?;
    }
}

async fn lines(
    answers: &mut mpsc::Receiver<Result<Option<LockInfo>, LockError>>,
    args: &WatchArgs,
) -> Result<u8, Failure> {
    let mut diary = Diary::new(SystemTime::now(), args.interval);
    let mut is_silent = false;
    while let Some(look) = answers.recv().await {
        let now = SystemTime::now();
        let mut out = std::io::stdout().lock();
        let found = match look {
            Ok(found) => found,
            Err(error @ LockError::Unavailable { .. }) => {
                if !std::mem::replace(&mut is_silent, true) {
                    writeln!(out, "{}\t(unknown)\t{}\t", rfc3339(now), printable(&error.to_string()))?;
                    out.flush()?;
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        is_silent = false;
        let waiters = found.as_ref().map_or(0, LockInfo::waiters);
        let seen = diary.holds.len();
        let ended = diary.look(now, found);
        let ended = ended.into_iter().filter_map(|place| diary.holds.get(place));
        let ended = ended.map(|hold| (hold, format!("held it for {}", hold.lasted())));
        let begun = diary.holds.iter().skip(seen).map(|hold| (hold, "has it".to_owned()));
        for (hold, what) in ended.chain(begun) {
            writeln!(out, "{}\t{}\t{what}\t{waiters} waiting", rfc3339(hold.from), hold.who())?;
        }
        out.flush()?;
        drop(out);
        diary.forget(now);
    }
    Ok(OK)
}

/// As `examples/flash_sale` draws it: the darker, the longer the lock was held there. Who holds the
/// lock, the first waiters and the last holds have their room on each screen; the rows have the rest.
fn picture(
    diary: &Diary,
    args: &WatchArgs,
    now: SystemTime,
    trouble: Option<&str>,
    (width, height): (usize, usize),
) -> Vec<String> {
    let from = now.checked_sub(args.window).unwrap_or(now);
    let mut lines = head(diary, args, now, trouble, width);
    lines.push(String::new());
    lines.push(start(&format!("the last {}, from left to right:", Span(args.window)), width).to_owned());
    let ended: Vec<_> = diary.holds.iter().rev().filter(|hold| !hold.is_open).collect();
    let bottom = if ended.is_empty() { 0 } else { 2 + ended.len().min(LAST_HOLDS) };
    lines.extend(rows(diary, (from, now), (width, height.saturating_sub(lines.len() + bottom).max(1))));
    let room = height.saturating_sub(lines.len() + 2);
    if !ended.is_empty() && room > 0 {
        lines.push(String::new());
        lines.push(styled("the last holds", Style::new().bold()));
        for hold in ended.into_iter().take(room) {
            let line = format!("{}  held for {} by {}", rfc3339(hold.from), hold.lasted(), hold.who());
            lines.push(start(&line, width).to_owned());
        }
    }
    lines
}

/// Who holds the lock, and the first waiters.
fn head(
    diary: &Diary,
    args: &WatchArgs,
    now: SystemTime,
    trouble: Option<&str>,
    width: usize,
) -> Vec<String> {
    let key = printable(&args.key);
    if let Some(since) = diary.silent_since(now) {
        let silence = Span(now.duration_since(since).unwrap_or_default());
        let title = format!("`{key}`: unknown, Redis has not answered for {silence}  (q: quit)");
        let mut lines = folded(&title, width);
        lines.extend(trouble.into_iter().flat_map(|words| folded(words, width)));
        lines.extend(folded(&format!("before that: {}", diary.state()), width));
        return lines;
    }
    let mut lines = folded(&format!("`{key}`: {}  (q: quit)", diary.state()), width);
    if let Some((_, Some(lock))) = &diary.last {
        let queue = (1..).zip(lock.queue()).take(NEXT_WAITERS);
        lines.extend(
            queue.map(|(place, next)| start(&format!("{place:>3}  {}", waiter(next)), width).to_owned()),
        );
        let more = usize::try_from(lock.waiters()).unwrap_or(usize::MAX).saturating_sub(NEXT_WAITERS);
        if more > 0 && !lock.queue().is_empty() {
            lines.push(format!("     and {more} more"));
        }
    }
    lines
}

/// A row for each process, in the order in which they were seen first: those that hold the lock and
/// those that held it last, where not all have room.
fn rows(diary: &Diary, (from, now): (SystemTime, SystemTime), (width, room): (usize, usize)) -> Vec<String> {
    let mut names: Vec<(String, (bool, SystemTime))> = Vec::new();
    for hold in diary.holds.iter().filter(|hold| hold.is_open || hold.to >= from) {
        let (name, latest) = (hold.name(), (hold.is_open, hold.to));
        match names.iter_mut().find(|(other, _)| *other == name) {
            Some((_, other)) => *other = latest.max(*other),
            None => names.push((name, latest)),
        }
    }
    if names.is_empty() {
        return vec!["no caller held the lock".to_owned()];
    }
    let shown = if names.len() > room { room.saturating_sub(1) } else { names.len() };
    let left_out = names.len() - shown;
    for _ in 0..left_out {
        if let Some(oldest) = (0..names.len()).min_by_key(|place| names[*place].1) {
            names.remove(oldest);
        }
    }
    let label = names.iter().map(|(name, _)| name.width()).max().unwrap_or_default().min(width / 3);
    let columns = width.saturating_sub(label + 3).max(1);
    let silence = diary.silent_since(now).map(|since| (since, now));
    let gaps: Vec<_> = diary.gaps.iter().copied().chain(silence).collect();
    let row = |(name, _): &(String, _)| {
        let shown = start(name, label);
        let blanks = label.saturating_sub(shown.width());
        let holds: Vec<_> = diary.holds.iter().filter(|hold| hold.name() == *name).collect();
        let lane = lane(&holds, &gaps, (from, now), columns);
        format!("{shown}{:blanks$} |{}|", "", styled(&lane, AnsiColor::Green.on_default()))
    };
    let mut rows: Vec<_> = names.iter().map(row).collect();
    if left_out > 0 {
        rows.push(start(&format!("and {left_out} more processes, which held it earlier"), width).to_owned());
    }
    rows
}

/// One row of the picture: `?` where Redis did not answer.
fn lane(
    holds: &[&Hold],
    gaps: &[(SystemTime, SystemTime)],
    (from, to): (SystemTime, SystemTime),
    columns: usize,
) -> String {
    let whole = to.duration_since(from).unwrap_or_default();
    let columns = u32::try_from(columns).unwrap_or(u32::MAX);
    let at = |column: u32| from + whole / columns * column;
    let shade = |column: u32| {
        let (start, end) = (at(column), at(column + 1));
        let middle = start + (whole / columns) / 2;
        if gaps.iter().any(|(from, to)| (*from..*to).contains(&middle)) {
            return '?';
        }
        let touches = |hold: &&&Hold| hold.from < end && hold.until(to) >= start;
        let within =
            |hold: &&Hold| hold.until(to).min(end).duration_since(hold.from.max(start)).unwrap_or_default();
        let mut these = holds.iter().filter(touches).map(within).peekable();
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

#[cfg(test)]
mod tests {
    use redlocked::LockGuard;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn args(key: &str) -> WatchArgs {
        let (window, interval) = (30 * SECOND, Duration::from_millis(20));
        WatchArgs { key: key.to_owned(), window, interval, lines: false }
    }

    fn diary(now: SystemTime) -> Diary {
        Diary::new(now, Duration::from_millis(20))
    }

    fn locks(name: &str) -> LockManager {
        LockManager::connect_blocking(format!("memory://diary-{name}"))
            .unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn acquired(guard: Result<LockGuard, LockError>) -> LockGuard {
        guard.unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn found(locks: &LockManager) -> Option<LockInfo> {
        locks.inspect_blocking("k").unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn drawn(diary: &Diary, now: SystemTime) -> Vec<String> {
        let lines = picture(diary, &args("k"), now, Some("no connection"), (80, 24));
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn a_lock_is_unknown_while_redis_is_silent_and_its_hold_has_no_end_by_that() {
        let locks = locks("silent");
        let guard = acquired(locks.lock("k").acquire_blocking());
        let begin = SystemTime::now();
        let mut diary = diary(begin);
        diary.look(begin, found(&locks));
        let silent = begin + 10 * SECOND;
        let text = drawn(&diary, silent).join("\n");
        assert!(text.starts_with("`k`: unknown, Redis has not answered for 10.0 s"), "{text}");
        assert!(text.contains("\nno connection\nbefore that: held by "), "{text}");
        assert!(text.contains("?????|") && !text.contains("free"), "{text}");
        // It is still the same one.
        assert!(diary.look(silent, found(&locks)).is_empty());
        let later = silent + 10 * SECOND;
        diary.look(later, None);
        drop(guard);
        let text = drawn(&diary, later).join("\n");
        assert!(text.starts_with("`k`: free, 0 waiting"), "{text}");
        assert!(text.contains("held for at least 10.") && text.contains("??"), "{text}");
    }

    #[test]
    fn a_hold_that_is_found_counts_from_its_grant() {
        let locks = locks("granted");
        let _guard = acquired(locks.lock("k").acquire_blocking());
        let mut diary = diary(SystemTime::now());
        let now = SystemTime::now() + 100 * SECOND;
        diary.look(now, found(&locks));
        let title = drawn(&diary, now).remove(0);
        assert!(title.contains("for 1 min 40 s") || title.contains("for 1 min 41 s"), "{title}");
    }

    #[test]
    fn a_lock_that_is_held_is_drawn_up_to_now_between_two_looks() {
        let locks = locks("between");
        let _guard = acquired(locks.lock("k").acquire_blocking());
        let seen = SystemTime::now() + 100 * SECOND;
        let mut diary = diary(seen);
        diary.look(seen, found(&locks));
        let text = drawn(&diary, seen + SECOND / 2).join("\n");
        assert!(text.contains("██|"), "{text}");
    }

    #[test]
    fn each_of_several_holders_has_a_hold_of_its_own() {
        let locks = locks("several");
        let permit = |permits| acquired(locks.lock("k").permits(permits).acquire_blocking());
        let first = permit(5);
        let start = SystemTime::now();
        let mut diary = diary(start);
        diary.look(start, found(&locks));
        let second = permit(5);
        assert!(diary.look(start + SECOND, found(&locks)).is_empty());
        drop(first);
        // The number of permits has changed, and with it the name of all.
        let third = permit(3);
        assert_eq!(diary.look(start + SECOND + SECOND / 4, found(&locks)), [0]);
        let title = drawn(&diary, start + SECOND + SECOND / 4).remove(0);
        assert!(title.starts_with("`k`: held by 2 of 3 permits, 0 waiting"), "{title}");
        let open: Vec<_> = diary.held_now().map(|hold| hold.from).collect();
        assert_eq!(open, [start + SECOND, start + SECOND + SECOND / 4]);
        drop((second, third));
    }
}
