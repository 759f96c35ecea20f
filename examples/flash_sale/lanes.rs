//! The visits as a picture: one row for each server, time from left to right.

use std::fmt;

use crate::diary::Visit;

const WIDTH: u64 = 72;

/// Draws the visits of each server.
pub(crate) struct Picture<'a>(pub &'a [Vec<Visit>]);

impl fmt::Display for Picture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || self.0.iter().flatten();
        let (Some(from), Some(to)) = (all().map(|visit| visit.from).min(), all().map(|visit| visit.to).max())
        else {
            return f.write_str("no caller held the lock");
        };
        writeln!(f, "who held the lock, {:.2} s from left to right:", seconds(to - from))?;
        self.lanes(f, from, to)?;
        // Around the first time that the lock goes to another server.
        let Some(change) = first_change(self.0) else {
            return Ok(());
        };
        let from = change.saturating_sub(ZOOM / 2).max(from);
        writeln!(f, "the same, {} ms of it, where the lock first goes to another server:", ZOOM / 1_000_000)?;
        self.lanes(f, from, from + ZOOM)
    }
}

/// The length of the closer look, in nanoseconds.
const ZOOM: u64 = 36_000_000;

impl Picture<'_> {
    fn lanes(&self, f: &mut fmt::Formatter<'_>, from: u64, to: u64) -> fmt::Result {
        for (number, visits) in (1..).zip(self.0) {
            write!(f, "  server {number} |")?;
            for column in 0..WIDTH {
                let start = from + (to - from) * column / WIDTH;
                let end = (from + (to - from) * (column + 1) / WIDTH).max(start + 1);
                let mut these = visits
                    .iter()
                    .filter(|visit| visit.from < end && visit.to >= start)
                    .map(|visit| visit.to.min(end) - visit.from.max(start))
                    .peekable();
                if these.peek().is_none() {
                    f.write_str(" ")?;
                    continue;
                }
                f.write_str(match these.sum::<u64>() * 100 / (end - start) {
                    0..15 => "░",
                    15..40 => "▒",
                    40..75 => "▓",
                    _ => "█",
                })?;
            }
            writeln!(f, "|")?;
        }
        Ok(())
    }
}

fn first_change(lanes: &[Vec<Visit>]) -> Option<u64> {
    let mut visits: Vec<(u64, usize)> = lanes
        .iter()
        .enumerate()
        .flat_map(|(lane, visits)| visits.iter().map(move |visit| (visit.from, lane)))
        .collect();
    visits.sort_unstable();
    let mut next = visits.iter().zip(visits.iter().skip(1));
    next.find(|(before, after)| before.1 != after.1).map(|(_, after)| after.0)
}

/// The highest number of visits that overlap.
pub(crate) fn most_at_once(lanes: &[Vec<Visit>]) -> u32 {
    // At the same nanosecond a leave comes before an enter, but never before its own enter.
    let mut steps: Vec<(u64, bool)> = lanes
        .iter()
        .flatten()
        .filter(|visit| visit.from < visit.to)
        .flat_map(|visit| [(visit.from, true), (visit.to, false)])
        .collect();
    steps.sort_unstable();
    let (mut inside, mut most) = (0_u32, 0);
    for (_, enters) in steps {
        inside = if enters { inside + 1 } else { inside.saturating_sub(1) };
        most = most.max(inside);
    }
    most
}

#[allow(clippy::cast_precision_loss, reason = "for a human")]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
