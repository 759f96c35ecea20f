//! What the servers can do, and how they are.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use redlocked::LockError;
use redlocked::inspect::NodeInfo;

use super::{Rendered, shown};
use crate::live::Seen;
use crate::state::Servers;
use crate::text::{printable, span};

pub(super) fn render(prefix: &str, seen: &Seen<Servers>) -> Rendered {
    shown("Server", seen, |servers, _| {
        html! {
            h1 { "Server" }
            (checks(prefix, servers))
            h2 { "Nodes" }
            @match &servers.nodes {
                Ok(nodes) if nodes.is_empty() => p.note { "The locks are in the memory of this process: there is no server." },
                Ok(nodes) => (table(nodes, servers.at)),
                Err(LockError::Misconfigured { .. }) => p.note { "Not known: the access rules do not grant " code { "+info" } "." },
                Err(error) => p.trouble { (printable(&error.to_string())) },
            }
        }
    })
}

fn checks(prefix: &str, servers: &Servers) -> Markup {
    let check = |name: &str, works: bool, words: &str| {
        html! {
            tr {
                th scope="row" { (name) }
                td { @if works { span.good { "ok" } } @else { strong.bad { "missing" } } }
                td { (words) }
            }
        }
    };
    let capabilities = servers.capabilities;
    let (takes_locks, words) = match &servers.takes_locks {
        Ok(()) => (true, format!("takes locks, answered in {}", span(servers.answered_in))),
        Err(error) => (false, printable(&error.to_string())),
    };
    html! {
        table.facts {
            caption { "What it can do" }
            tbody {
                (check("writes", takes_locks, &words))
                (check("hand-off", capabilities.hands_over(), if capabilities.hands_over() {
                    "a release passes the lock straight to its longest waiter"
                } else {
                    "waiters ask again and again: see the page “Access rules”"
                }))
                (check("changes", capabilities.tracks_changes(), if capabilities.tracks_changes() {
                    "a holder learns at once when its lock is taken away"
                } else {
                    "a holder learns with its next renewal that its lock was taken away"
                }))
                tr { th scope="row" { "prefix" } td {} td { code { (printable(prefix)) } } }
            }
        }
    }
}

fn table(nodes: &[NodeInfo], at: SystemTime) -> Markup {
    html! {
        table.cards {
            caption { "As each describes itself" }
            thead { tr {
                th scope="col" { "Version" } th scope="col" { "Role" } th.number scope="col" { "Memory" }
                th scope="col" { "When it is full" } th.number scope="col" { "Connections" }
                th.number scope="col" { "Commands a second" } th.number scope="col" { "Clock" } th.number scope="col" { "Up for" }
            } }
            tbody { @for node in nodes { (line(node, at)) } }
        }
        p.note { "Clock: how far it is from the clock of the machine that serves this page." }
    }
}

fn line(node: &NodeInfo, at: SystemTime) -> Markup {
    let number = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), |number| number.to_string());
    let policy = node.eviction_policy().unwrap_or("–");
    html! {
        tr {
            th scope="row" { (printable(node.version().as_deref().unwrap_or("not known"))) }
            td data-label="Role" { (match node.role() { Some("master") => "primary", Some("slave") => "replica", _ => "–" }) }
            td.number data-label="Memory" { (memory(node)) }
            td data-label="When it is full" {
                @if matches!(policy, "noeviction" | "–") {
                    (printable(policy))
                } @else { strong.bad { (printable(policy)) } ": it may remove locks" }
            }
            td.number data-label="Connections" { (number(node.connections())) }
            td.number data-label="Commands a second" { (number(node.commands_per_second())) }
            td.number data-label="Clock" { (node.clock().map_or_else(|| "–".to_owned(), |clock| distance(clock, at))) }
            td.number data-label="Up for" { (node.uptime().map_or_else(|| "–".to_owned(), span)) }
        }
    }
}

fn memory(node: &NodeInfo) -> String {
    let mib = |bytes: u64| format!("{} MiB", bytes.div_ceil(1024 * 1024));
    match (node.used_memory(), node.max_memory()) {
        (Some(used), Some(limit)) => format!("{} of {}", mib(used), mib(limit)),
        (Some(used), None) => mib(used),
        _ => "–".to_owned(),
    }
}

/// `+12 ms` is ahead.
fn distance(clock: SystemTime, at: SystemTime) -> String {
    let (sign, distance) = match clock.duration_since(at) {
        Ok(ahead) => ("+", ahead),
        Err(behind) => ("−", behind.duration()),
    };
    if distance < Duration::from_millis(1) { "0 ms".to_owned() } else { format!("{sign}{}", span(distance)) }
}
