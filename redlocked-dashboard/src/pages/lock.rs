//! One lock: who is inside, who waits, who held it, and what can be done.

use std::time::SystemTime;

use maud::{Markup, html};
use redlocked::Holder;
use redlocked::inspect::LockInfo;

use super::locks::{held_for, kind, lease};
use super::timeline::{Window, timeline};
use super::{Rendered, jobs, shown};
use crate::history::{History, Renewal};
use crate::live::Seen;
use crate::state::{Details, State};
use crate::text::{ago, exact, printable, process, since_then, span};

pub(super) fn render(state: &State, base: &str, key: &str, window: Window, seen: &Seen<Details>) -> Rendered {
    let history = state.history(key);
    let here = |window: Window| {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("key", key)
            .append_pair("last", window.name())
            .finish();
        format!("{base}/lock?{query}")
    };
    let title = printable(key);
    let rendered = shown(&title, seen, |details, at| {
        html! {
            h1 { span.key { (title) } }
            (summary(details))
            @if let Some(lock) = &details.lock {
                (holders(lock, history.as_ref(), at))
                (queue(lock, at))
            }
            (records(details, at))
            @match &history {
                Some(history) => (timeline(history, at, window, &here)),
                None => {}
            }
            (commands(key, state.locks.prefix(), details))
        }
    });
    let below = match &seen.answer {
        Some((details, _)) if state.allow_release => forms(state, base, key, details, history.as_ref()),
        _ => html! {},
    };
    Rendered { below, ..rendered }
}

fn summary(details: &Details) -> Markup {
    let leads = details.leader.as_ref().is_some_and(|leader| leader.fencing_token().is_some());
    html! {
        p.summary {
            @match &details.lock {
                Some(lock) => {
                    span.badge.held { "held" } " "
                    span.badge { (kind(lock, leads, details.once.is_some(), details.tick.is_some())) } " "
                    @match lock.waiters() {
                        0 => "nobody waits",
                        1 => "1 caller waits",
                        waiters => { (waiters) " callers wait" }
                    }
                }
                None => span.badge.free { "free" },
            }
        }
    }
}

fn holders(lock: &LockInfo, history: Option<&History>, at: SystemTime) -> Markup {
    let shown = lock.holders();
    let hidden = usize::try_from(lock.inside()).unwrap_or(usize::MAX).saturating_sub(shown.len());
    let is_alone = lock.holder().inside().is_none();
    html! {
        h2 { "Who has it" }
        table.cards {
            thead { tr {
                th scope="col" { "Process" } th scope="col" { "Function" }
                @if lock.limit().is_some_and(|limit| limit > 1) { th.number scope="col" { "Permits" } }
                th.number scope="col" { (if is_alone { "Held for" } else { "Asked ago" }) }
                th.number scope="col" { "Lease left" } th scope="col" { "Renewal" }
            } }
            tbody {
                @for holder in shown {
                    tr {
                        th scope="row" { (process(holder.name())) }
                        td data-label="Function" { (printable(holder.function().unwrap_or("–"))) }
                        @if lock.limit().is_some_and(|limit| limit > 1) { td.number data-label="Permits" { (holder.taken()) } }
                        td.number data-label=(if is_alone { "Held for" } else { "Asked ago" }) {
                            @if is_alone { (held_for(lock, at)) }
                            @else if let Some(asked) = holder.asked() { (since_then(asked, at)) }
                            @else { "–" }
                        }
                        td.number data-label="Lease left" {
                            @if is_alone { (lease(lock)) }
                            @else { (holder.expires_in().map_or_else(|| "no end".to_owned(), span)) }
                        }
                        td data-label="Renewal" { (renewal(holder, history, at)) }
                    }
                }
            }
        }
        @if hidden > 0 { p.more { "and " (hidden) " more holders" } }
    }
}

/// Whether the holder is alive, as far as its renewals say.
fn renewal(holder: &Holder, history: Option<&History>, at: SystemTime) -> Markup {
    let hold = history.and_then(|history| {
        history.holds.iter().find(|hold| hold.is_open() && hold.holder.is_same_call(holder))
    });
    html! {
        @match hold.map(|hold| hold.renewal(at)) {
            Some(Renewal::NoLease) => "none: the key does not expire",
            Some(Renewal::Seen(renewed)) => { span.good { "renewed" } " " (ago(renewed, at)) " ago" }
            Some(Renewal::Overdue(since)) => strong.bad { "none for " (ago(since, at)) },
            Some(Renewal::NotYet) | None => "not seen yet",
        }
    }
}

fn queue(lock: &LockInfo, at: SystemTime) -> Markup {
    let queue = lock.queue();
    let hidden = usize::try_from(lock.waiters()).unwrap_or(usize::MAX).saturating_sub(queue.len());
    html! {
        h2 { "Who waits" }
        @if queue.is_empty() {
            p.note { "Nobody." }
        } @else {
            table.cards {
                thead { tr {
                    th.place scope="col" { "Place" } th scope="col" { "Process" } th scope="col" { "Function" }
                    th.number scope="col" { "Waits for" }
                } }
                tbody {
                    @for (place, waiter) in (1..).zip(queue) {
                        tr {
                            td.place data-label="Place" { (place) }
                            th scope="row" { (process(waiter.name())) }
                            td data-label="Function" { (printable(waiter.function().unwrap_or("–"))) }
                            td.number data-label="Waits for" {
                                @if let Some(asked) = waiter.asked() { (since_then(asked, at)) } @else { "–" }
                            }
                        }
                    }
                }
            }
            @if hidden > 0 { p.more { "and " (hidden) " more waiters" } }
        }
    }
}

/// What is kept beside the lock.
fn records(details: &Details, at: SystemTime) -> Markup {
    let leader = details.leader.as_ref().filter(|leader| leader.fencing_token().is_some());
    html! {
        @if leader.is_some() || details.tick.is_some() || details.once.is_some() {
            h2 { "What is recorded" }
            table.facts { tbody {
                @if let Some(leader) = leader {
                    tr { th scope="row" { "leader" } td {
                        (process(leader.name()))
                        @if let Some(term) = leader.fencing_token() { ", fencing token " (term) }
                        @if let Some(since) = leader.since() { ", leads for " (since_then(since, at)) }
                        @if let Some(text) = leader.announced() { ", announces “" (printable(text)) "”" }
                    } }
                }
                @if let Some(tick) = &details.tick {
                    tr { th scope="row" { "last tick" } td {
                        time datetime=(exact(tick.time())) { (exact(tick.time())) }
                        ", run by " (process(tick.by().name()))
                        @if let Some(function) = tick.by().function() { " in " (printable(function)) }
                    } }
                }
                @if let Some(once) = &details.once {
                    tr { th scope="row" { "once" } td {
                        (jobs::state(once, details.lock.is_some())) ", for " (since_then(once.since(), at))
                        ", by " (process(once.name()))
                        @if let Some(function) = once.function() { " in " (printable(function)) }
                    } }
                }
            } }
        }
    }
}

/// The commands of the tool that show and do the same.
fn commands(key: &str, prefix: &str, details: &Details) -> Markup {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let prefix = if prefix == "lock:" { String::new() } else { format!(" --prefix {}", quoted(prefix)) };
    let command = |words: &str| format!("redlocked{prefix} {words} {}", quoted(key));
    // One with other characters would not be what a terminal pastes.
    let is_plain = printable(key) == key;
    html! {
        @if is_plain {
            h2 { "In a terminal" }
            ul.commands {
                li { code { (command("show")) } }
                li { code { (command("watch")) } }
                @if details.lock.is_some() { li { code { (command("release")) } } }
                @if details.tick.is_some() { li { code { (command("tick show")) } } }
                @if details.once.is_some() { li { code { (command("once show")) } } }
            }
        }
    }
}

/// What changes something: each asks for the key.
fn forms(state: &State, base: &str, key: &str, details: &Details, history: Option<&History>) -> Markup {
    let form = |action: &str, hidden: &[(&str, &str)], title: &str, words: &str, button: &str| {
        let id = format!("typed-{}", title.replace(' ', "-"));
        html! {
            section.act {
                h2 { (title) }
                p { (words) }
                form method="post" action=(format!("{base}/{action}")) autocomplete="off" {
                    input type="hidden" name="page_token" value=(state.page_token);
                    input type="hidden" name="key" value=(key);
                    @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
                    label for=(id) { "Type the key to confirm" }
                    input id=(id) name="typed" required autocapitalize="off" spellcheck="false";
                    button { (button) }
                }
            }
        }
    };
    let change = history.map_or(0, |history| history.change).to_string();
    html! {
        @if details.lock.is_some() {
            (form(
                "release",
                &[("change", &change)],
                "Release the lock",
                "Takes the lock from the callers above and passes it on. What they have already sent is on its way: only fencing tokens keep it out.",
                "Release",
            ))
        }
        @if details.tick.is_some() {
            (form("clear", &[("what", "tick")], "Clear the tick", "Forgets the last tick: the next call runs its body.", "Clear the tick"))
        }
        @if details.once.is_some() {
            (form("clear", &[("what", "once")], "Clear the record", "Forgets the body that ran once: the next call runs it again.", "Clear the record"))
        }
    }
}
