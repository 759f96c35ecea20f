//! Who held a lock in the last minutes, as bars: one row for all, and one for each process.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};

use crate::history::{End, History, Hold, KEPT};
use crate::text::{exact, printable, process, span};

/// So many processes have a row of their own.
const MOST_LANES: usize = 12;

/// The width of a row, in units of its own.
const WIDTH: u64 = 1_000;

/// So many colours do processes have.
const COLOURS: u32 = 8;

/// How much time the picture shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Window {
    Minute,
    #[default]
    FiveMinutes,
    HalfHour,
}

impl Window {
    const ALL: [Self; 3] = [Self::Minute, Self::FiveMinutes, Self::HalfHour];

    pub(crate) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|window| window.name() == name).unwrap_or_default()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Minute => "1m",
            Self::FiveMinutes => "5m",
            Self::HalfHour => "30m",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Minute => "1 minute",
            Self::FiveMinutes => "5 minutes",
            Self::HalfHour => "30 minutes",
        }
    }

    fn length(self) -> Duration {
        match self {
            Self::Minute => Duration::from_secs(60),
            Self::FiveMinutes => Duration::from_secs(300),
            Self::HalfHour => KEPT,
        }
    }
}

/// From when to when.
struct Scale {
    from: SystemTime,
    to: SystemTime,
}

impl Scale {
    fn at(&self, time: SystemTime) -> u64 {
        let whole = self.to.duration_since(self.from).unwrap_or_default().as_millis().max(1);
        let part = time.duration_since(self.from).unwrap_or_default().as_millis();
        u64::try_from(part * u128::from(WIDTH) / whole).unwrap_or(WIDTH).min(WIDTH)
    }

    /// Where a bar begins, and how wide it is: one that is short is seen, too.
    fn bar(&self, from: SystemTime, to: SystemTime) -> (u64, u64) {
        let (from, to) = (self.at(from), self.at(to));
        (from.min(WIDTH - 2), to.saturating_sub(from).max(2))
    }
}

pub(super) fn timeline(
    history: &History,
    now: SystemTime,
    window: Window,
    here: &dyn Fn(Window) -> String,
) -> Markup {
    let scale = Scale { from: now.checked_sub(window.length()).unwrap_or(now), to: now };
    let is_shown = |hold: &&Hold| hold.is_open() || hold.to >= scale.from;
    let holds: Vec<_> = history.holds.iter().filter(is_shown).collect();
    let mut names: Vec<Option<&str>> = Vec::new();
    for hold in holds.iter().rev() {
        if !names.contains(&hold.holder.name()) {
            names.push(hold.holder.name());
        }
    }
    let left_out = names.len().saturating_sub(MOST_LANES);
    names.truncate(MOST_LANES);
    html! {
        section.timeline aria-labelledby="timeline" {
            h2 id="timeline" { "Timeline" }
            p.windows {
                @for choice in Window::ALL {
                    a href=(here(choice)) aria-current=[(choice == window).then_some("true")] { (choice.words()) }
                }
            }
            @if holds.is_empty() {
                p.note { "Nobody was seen with the lock. Holds are noted while somebody looks at it, here or in the list." }
            } @else {
                div.lanes {
                    (lane("all holders", None, &holds, history, &scale))
                    @for name in &names {
                        @let these: Vec<_> = holds.iter().copied().filter(|hold| hold.holder.name() == *name).collect();
                        (lane(&process(*name), Some(colour(*name)), &these, history, &scale))
                    }
                    div.axis aria-hidden="true" {
                        span { (window.words()) " ago" }
                        span { "now" }
                    }
                }
                @if left_out > 0 { p.more { "and " (left_out) " more processes, which held it earlier" } }
                ul.legend {
                    li { span.swatch.held {} "held" }
                    li { span.swatch.lost {} "its lease ended, and nobody had renewed it" }
                    li { span.swatch.gap {} "nobody looked, or Redis gave no answer" }
                }
                (last_holds(&holds, now))
            }
        }
    }
}

fn lane(label: &str, only: Option<u32>, holds: &[&Hold], history: &History, scale: &Scale) -> Markup {
    let held: Duration = holds.iter().map(|hold| hold.lasted().0).sum();
    let words = format!("{label}: {} holds, {} together", holds.len(), span(held));
    let earlier = (history.began > scale.from).then_some((scale.from, history.began));
    html! {
        div.lane {
            span.label title=(label) { (label) }
            svg role="img" viewBox="0 0 1000 20" preserveAspectRatio="none" aria-label=(words) {
                rect.free x="0" y="0" width="1000" height="20" {}
                @for (from, to) in history.gaps.iter().copied().chain(earlier) {
                    @if to > scale.from {
                        @let (x, width) = scale.bar(from, to);
                        rect.gap x=(x) y="0" width=(width) height="20" {}
                    }
                }
                @for hold in holds {
                    @let (x, width) = scale.bar(hold.from, if hold.is_open() { scale.to } else { hold.to });
                    rect class=(format!("p{}", only.unwrap_or_else(|| colour(hold.holder.name())))) x=(x) y="2" width=(width) height="16" {
                        title { (words_of(hold)) }
                    }
                    @if hold.end == End::Expired {
                        rect.lost x=((x + width).min(WIDTH - 4)) y="0" width="4" height="20" {}
                    }
                }
            }
        }
    }
}

fn words_of(hold: &Hold) -> String {
    let (lasted, is_longer) = hold.lasted();
    let function =
        hold.holder.function().map_or_else(String::new, |function| format!(" in {}", printable(function)));
    format!(
        "{}{function}: {}{}, from {}",
        process(hold.holder.name()),
        if is_longer { "at least " } else { "" },
        span(lasted),
        exact(hold.from)
    )
}

/// By the name of a process, so that it keeps its colour.
fn colour(name: Option<&str>) -> u32 {
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    name.map_or(0, |name| name.bytes().fold(0x811c_9dc5, hash) % COLOURS)
}

/// Lists the last holds in words.
fn last_holds(holds: &[&Hold], now: SystemTime) -> Markup {
    html! {
        details {
            summary { "The last holds" }
            table.cards {
                thead { tr {
                    th scope="col" { "From" } th scope="col" { "Process" } th scope="col" { "Function" }
                    th.number scope="col" { "Held for" } th scope="col" { "End" }
                } }
                tbody {
                    @for hold in holds.iter().rev().take(20) {
                        @let (lasted, is_longer) = if hold.is_open() {
                            (now.duration_since(hold.from).unwrap_or_default(), hold.began_earlier)
                        } else {
                            hold.lasted()
                        };
                        tr {
                            th scope="row" { (exact(hold.from)) }
                            td data-label="Process" { (process(hold.holder.name())) }
                            td data-label="Function" { (printable(hold.holder.function().unwrap_or("–"))) }
                            td.number data-label="Held for" { @if is_longer { "≥ " } (span(lasted)) }
                            td data-label="End" {
                                @match hold.end {
                                    End::Open => "has it",
                                    End::Released => "released",
                                    End::Expired => strong.bad { "lease ended" },
                                    End::Unseen => "not seen",
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_within_the_picture_and_is_seen() {
        let to = SystemTime::now();
        let scale = Scale { from: to - Duration::from_secs(100), to };
        let ago = |seconds| to - Duration::from_secs(seconds);
        assert_eq!(scale.bar(ago(50), ago(25)), (500, 250));
        assert_eq!(scale.bar(ago(500), ago(25)), (0, 750));
        assert_eq!(scale.bar(to, to), (998, 2));
        assert_eq!(Window::named("30m"), Window::HalfHour);
        assert_eq!(Window::named("<script>"), Window::FiveMinutes);
    }
}
