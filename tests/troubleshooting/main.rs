//! Each message of the page "Troubleshooting" as a user gets it: it is provoked here, and the page
//! quotes its words.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod provoke;

use std::collections::BTreeSet;

use kit::free_port;
use redlocked::{LockError, distributed_lock};

const PAGE: &str = include_str!("../../docs/troubleshooting.md");

/// What the tests are built with.
const LOCKED: &str = include_str!("../../Cargo.lock");

/// True when the pieces between each `…` are in the message, in order.
fn quotes(quoted: &str, message: &str) -> bool {
    let mut rest = Some(message);
    for piece in quoted.split('…') {
        rest = rest.and_then(|rest| rest.split_once(piece)).map(|(_, behind)| behind);
    }
    rest.is_some()
}

/// The words that the page quotes, each at the start of a row.
fn quoted_by_the_page() -> BTreeSet<&'static str> {
    let cells = PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    cells.map(|(words, _)| words.trim_matches('`').trim()).collect()
}

/// A test for each message: the page has its words, and it is what the call behind them fails with.
macro_rules! messages {
    ($($(#[$when:meta])* $name:ident: $words:literal from $fails:expr;)*) => {
        $(
            $(#[$when])*
            #[test]
            fn $name() {
                let message = ($fails).to_string();
                assert!(quotes($words, &message), "{message}");
            }
        )*

        #[test]
        fn the_page_quotes_these_and_no_others() {
            assert_eq!(quoted_by_the_page(), BTreeSet::from([$($words),*]));
        }
    };
}

messages! {
    no_server: "Connection refused" from provoke::connecting_to(&provoke::at(free_port()));
    no_such_host: "failed to lookup address information" from provoke::connecting_to("redis://no-such-host.invalid/");
    a_silent_server: "does not answer within …" from provoke::a_silent_server();
    no_password: "it wants a password (NOAUTH)" from provoke::no_password();
    a_wrong_password: "user or password is wrong (WRONGPASS)" from provoke::a_wrong_password();
    no_permission: "forbids what every lock needs: … (NOPERM …" from provoke::no_permission();
    protected_mode: "DENIED Redis is running in protected mode" from provoke::connecting_to(&provoke::at(provoke::that_says(
        b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for \
          the default user. In this mode connections are only accepted from the loopback interface.\r\n",
    )));
    too_many_clients: "ERR max number of clients reached" from provoke::too_many_clients();
    another_program: "it is no Redis server" from provoke::connecting_to(&provoke::at(provoke::that_says(b"HTTP/1.1 400 Bad Request\r\n\r\n")));
    tls_on_this_port: "it speaks TLS on this port: rediss://" from
        provoke::connecting_to(&provoke::at(provoke::that_says(b"\x15\x03\x01\x00\x02\x02\x46")));
    #[cfg(not(feature = "tls"))]
    tls_without_the_feature: "that needs the feature `tls` of redlocked" from provoke::connecting_to("rediss://127.0.0.1/");
    #[cfg(feature = "tls")]
    tls_of_an_unknown_authority: "its certificate is from an authority that is not trusted here" from provoke::an_unknown_authority();
    #[cfg(feature = "tls")]
    tls_where_there_is_none: "(does it speak TLS on this port?)" from provoke::no_tls_on_this_port();
    a_proxy_without_a_server: "it closed the connection and said nothing" from provoke::connecting_to(&provoke::at(provoke::that_says(b"")));
    a_proxy_that_closes: "it closed the connection instead of answering CLIENT KILL" from provoke::a_proxy_that_closes();
    a_proxy_of_commands: "does not know what every lock needs: …" from provoke::a_proxy_of_commands();
    a_replica: "is a replica; locks are taken on its primary" from provoke::a_replica();
    evicts: "may evict locks when it is full (maxmemory-policy …)" from provoke::evicts();
    no_cluster: "it is not part of a Cluster: its address starts with redis://" from provoke::no_cluster();
    several_keys_in_a_cluster: "this server is part of a Cluster (CROSSSLOT)" from provoke::several_keys_in_a_cluster();
    is_full: "OOM command not allowed" from provoke::is_full();
    cannot_save: "MISCONF Redis is configured to save RDB snapshots" from provoke::cannot_save();
    too_few_replicas: "NOREPLICAS Not enough good replicas to write" from provoke::too_few_replicas();
    a_key_of_another_type: "WRONGTYPE Operation against a key holding the wrong kind of value" from provoke::a_key_of_another_type();
    held_by_another_client: "is held by a client of another kind" from provoke::held_by_another_client();
    a_far_server: "must be several times as long as a round trip" from provoke::a_far_server();
    a_nested_call: "deadlock: this task already holds" from provoke::a_nested_call();
    a_reader_that_writes: "the outer call holds it" from provoke::a_reader_that_writes();
    readers_over_a_quorum: "over a quorum of independent servers nobody counts who is inside" from provoke::readers_over_a_quorum();
    readers_in_cohorts: "passes each lock on from one caller to the next" from provoke::readers_in_cohorts();
    an_empty_value: "cannot be the key of a lock: it is empty" from provoke::an_empty_value();
    deleted_meanwhile: "its key was deleted or overwritten on the server" from provoke::deleted_meanwhile();
    its_lease_ended: "its lease ended before it was renewed" from provoke::its_lease_ended();
    #[cfg(not(feature = "testing"))]
    a_paused_clock: "the clock of this tokio runtime is paused" from provoke::a_paused_clock();
    not_configured: "no lock manager is configured" from provoke::not_configured();
}

#[distributed_lock(key = "k", constant_key)]
fn without_a_manager() -> Result<(), LockError> {
    Ok(())
}

#[test]
#[ignore = "the test of `not_configured` starts it, in an environment without an address"]
#[allow(clippy::print_stdout, reason = "that test reads it")]
fn a_process_that_has_no_manager() {
    println!("{}", without_a_manager().unwrap_err());
}

/// The page names each version that fits; the tests have it.
#[test]
fn the_tests_run_with_the_versions_that_the_page_names() {
    let (_, rest) = PAGE.split_once("| crate | version |").unwrap();
    let (_, rows) = rest.split_once("| --- |").unwrap();
    let rows: Vec<Vec<_>> = rows
        .lines()
        .skip(1)
        .map_while(|line| line.strip_prefix("| "))
        .map(|row| row.split(" | ").collect())
        .collect();
    assert!(rows.len() > 5, "{rows:?}");
    for row in rows {
        let (name, version) = (row[0], row[1]);
        let of_crate = format!("[[package]]\nname = \"{name}\"\nversion = \"");
        let locked: Vec<_> =
            LOCKED.split(&*of_crate).skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let is_locked =
            |locked: &&str| locked.strip_prefix(version).is_some_and(|rest| rest.starts_with('.'));
        assert!(locked.iter().any(is_locked), "{name} {version}: {locked:?}");
    }
}
