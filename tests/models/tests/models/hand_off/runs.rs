//! The protocol as it is: every property holds.

use super::HandOff;
use super::rules::Accident::{
    Crash, Cut, DeleteLock, DeleteQueue, Flush, ForceRelease, Freeze, Restart, RestartOlder, Stranger,
};
use super::rules::{Accident, Bounds};
use crate::holds;

const FAULTS: &[Accident] = &[Crash, Cut, Freeze];
const OPERATORS: &[Accident] = &[DeleteLock, DeleteQueue, Flush, ForceRelease];
const ALL: &[Accident] =
    &[Crash, Cut, Freeze, DeleteLock, DeleteQueue, Flush, ForceRelease, Restart, RestartOlder, Stranger];

const PROMPT: Bounds = Bounds::PROMPT;
const ANY_DELAY: Bounds = Bounds::ANY_DELAY;
const QUEUED: Bounds = Bounds::QUEUED;

fn hold(runs: &[(&str, Bounds)]) {
    for (name, bounds) in runs {
        holds(&format!("hand-off, {name}"), HandOff(*bounds));
    }
}

#[test]
fn three_clients_and_an_accident() {
    let one = Bounds { accidents: 1, kinds: FAULTS, ..PROMPT };
    hold(&[
        ("3 clients", PROMPT),
        ("3 clients and an accident", Bounds { renews: false, ..one }),
        ("3 clients that stay, and an accident", Bounds { cancels: false, ..one }),
    ]);
}

#[test]
fn two_clients_and_two_accidents_of_all_kinds() {
    let two = Bounds { clients: 2, accidents: 2, kinds: ALL, polls: true, may_sleep: 1, ..PROMPT };
    hold(&[("2 clients and 2 accidents of all kinds", two)]);
}

#[test]
fn two_clients_an_accident_and_any_delay() {
    hold(&[("2 clients, an accident, any delay", Bounds { accidents: 1, kinds: FAULTS, ..ANY_DELAY })]);
}

#[test]
fn three_clients_and_any_delay() {
    let three = Bounds { clients: 3, renews: false, cancels: false, ..ANY_DELAY };
    hold(&[("3 clients, any delay", three)]);
}

#[test]
fn requests_that_arrive_behind_those_of_the_next_connection() {
    let late = Bounds { accidents: 1, kinds: &[Cut], kills: false, renews: false, ..ANY_DELAY };
    hold(&[("2 clients, a connection that the server does not end", late)]);
}

#[test]
fn a_queue_of_three() {
    let crash = Bounds { accidents: 1, kinds: &[Crash], renews: false, ..QUEUED };
    hold(&[
        ("a queue, a min_hold and a crash", Bounds { min_hold: true, ..crash }),
        ("a queue, a lock left free and a crash", Bounds { leaves_free: true, cancels: false, ..crash }),
    ]);
}

#[test]
fn a_process_with_two_clients_stands_still() {
    let freeze = Bounds { accidents: 1, kinds: &[Freeze], renews: false, cancels: false, ..QUEUED };
    hold(&[
        ("a queue, 2 clients of one process, and it freezes", Bounds { of_one: &[1, 3], ..freeze }),
        (
            "a queue, 2 clients next to each other, and their process freezes",
            Bounds { of_one: &[1, 2], ..freeze },
        ),
        (
            "a queue, 2 clients of one process, a min_hold",
            Bounds { of_one: &[1, 3], accidents: 0, min_hold: true, ..freeze },
        ),
    ]);
}

#[test]
fn operators_delete_and_flush() {
    let one = Bounds { accidents: 1, kinds: OPERATORS, polls: true, may_sleep: 1, renews: false, ..PROMPT };
    hold(&[("operators", one)]);
}

#[test]
fn strangers_take_the_lock() {
    let two = Bounds { accidents: 2, kinds: &[Stranger], may_sleep: 1, cancels: false, ..PROMPT };
    hold(&[("strangers", two)]);
}

#[test]
fn the_server_restarts() {
    let kinds = &[Restart, RestartOlder];
    hold(&[
        ("a restart", Bounds { accidents: 1, kinds, renews: false, cancels: false, ..PROMPT }),
        ("2 restarts", Bounds { clients: 2, accidents: 2, kinds, ..PROMPT }),
    ]);
}

#[test]
fn a_release_is_one_script_and_a_client_wants_no_fencing_token() {
    hold(&[
        ("a release in one script", Bounds { one_script: true, ..PROMPT }),
        ("a client without a fencing token", Bounds { without_fence: true, renews: false, ..PROMPT }),
    ]);
}

/// What takes minutes: `cargo test -p redlocked-models -- --ignored`.
#[test]
#[ignore = "it takes minutes"]
fn wide_bounds() {
    let crash = Bounds { accidents: 1, kinds: &[Crash], ..QUEUED };
    let one = Bounds { accidents: 1, kinds: FAULTS, ..PROMPT };
    hold(&[
        ("4 clients", Bounds { clients: 4, renews: false, ..PROMPT }),
        ("3 clients that renew and cancel, and an accident", one),
        ("3 clients, a min_hold and a crash", Bounds { kinds: &[Crash], min_hold: true, ..one }),
        ("3 clients, a lock left free and a crash", Bounds { kinds: &[Crash], leaves_free: true, ..one }),
        ("a restart, 3 clients", Bounds { kinds: &[Restart, RestartOlder], ..one }),
        ("operators, renewals", Bounds { kinds: OPERATORS, polls: true, may_sleep: 1, ..one }),
        ("strangers, cancels", Bounds { accidents: 2, kinds: &[Stranger], may_sleep: 1, ..PROMPT }),
        ("a queue and a crash", crash),
        ("a queue, a lock left free and a crash", Bounds { leaves_free: true, renews: false, ..crash }),
        ("2 clients, all kinds, any delay", Bounds { accidents: 1, kinds: ALL, ..ANY_DELAY }),
        ("2 clients, late requests", Bounds { accidents: 1, kinds: &[Cut], kills: false, ..ANY_DELAY }),
        ("3 clients, any delay", Bounds { clients: 3, renews: false, ..ANY_DELAY }),
    ]);
}
