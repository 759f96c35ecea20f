//! Who excludes whom on one key: the table of `docs/which-tool.md`, cell by cell.

use std::time::Duration;

use kit::{RedisServer, connect};
use redlocked::once::Once;
use redlocked::{LockError, LockGuard, LockManager, Ticket};

const HOUR: Duration = Duration::from_secs(3600);
const PAGE: &str = include_str!("../../docs/which-tool.md");

/// Acts on a key of the server, through a manager or beside it.
type Act<T> = fn(&LockManager, &RedisServer, &str) -> T;

/// What has the key, as the rows of the page name it, in their order.
const HOLDERS: [(&str, Act<Holds>); 11] = [
    ("exclusive", |locks, _, key| Holds::Guard(locks.lock(key).acquire_blocking().unwrap())),
    ("`shared`", |locks, _, key| Holds::Guard(locks.lock(key).shared().acquire_blocking().unwrap())),
    ("`downgrade`", |locks, _, key| {
        let guard = locks.lock(key).acquire_blocking().unwrap();
        guard.downgrade_blocking().unwrap();
        Holds::Guard(guard)
    }),
    ("`permits", |locks, _, key| Holds::Guard(locks.lock(key).permits(2).acquire_blocking().unwrap())),
    ("one of m permits that are [set centrally]", |locks, _, key| {
        locks.set_permits_blocking(key, 2).unwrap();
        Holds::Guard(locks.lock(key).permits(1_000).acquire_blocking().unwrap())
    }),
    ("a ticket", |locks, _, key| {
        let guard = locks.lock(key).acquire_blocking().unwrap();
        Holds::Ticket(guard.into_ticket_blocking(HOUR).unwrap())
    }),
    ("n starts of a `rate`", |locks, _, key| {
        for _ in 0..2 {
            locks.lock(key).rate(2, HOUR).run_value_blocking(|_guard| ()).unwrap();
        }
        Holds::Nothing
    }),
    ("`min_hold`", |locks, _, key| {
        locks.lock(key).min_hold(HOUR).run_value_blocking(|_guard| ()).unwrap();
        Holds::Nothing
    }),
    ("a foreign", |_, server, key| {
        let _: String = server.run(&format!("SET lock:{key} foreign NX PX 60000"));
        Holds::Nothing
    }),
    ("the record of a tick", |locks, _, key| {
        locks.lock(key).tick(HOUR).run_value_blocking(|_guard| ()).unwrap();
        Holds::Nothing
    }),
    ("the record of a `once`", |locks, _, key| {
        once(locks, key).unwrap();
        Holds::Nothing
    }),
];

#[expect(dead_code, reason = "held until it is dropped")]
enum Holds {
    Guard(LockGuard),
    Ticket(Ticket),
    Nothing,
}

fn once(locks: &LockManager, key: &str) -> Result<Once<u32>, LockError> {
    locks.lock(key).once(HOUR).run_blocking(|_guard| Ok::<_, LockError>(1))
}

fn word<T>(result: Result<T, LockError>) -> &'static str {
    match result {
        Ok(_) => "enters",
        Err(LockError::TickTaken { .. }) => "taken",
        Err(error) if error.is_busy() => "waits",
        Err(error) => panic!("{error}"),
    }
}

/// Who asks, by the column of the page, of which two have two callers each.
const CALLERS: [(usize, Act<&'static str>); 7] = [
    (0, |locks, _, key| word(locks.lock(key).acquire_blocking())),
    (1, |locks, _, key| word(locks.lock(key).shared().acquire_blocking())),
    (2, |locks, _, key| word(locks.lock(key).permits(2).acquire_blocking())),
    (2, |locks, _, key| word(locks.lock(key).rate(2, HOUR).acquire_blocking())),
    (3, |locks, _, key| word(locks.lock(key).tick(HOUR).acquire_blocking())),
    (3, |locks, _, key| match once(locks, key) {
        Ok(Once::Replayed(_)) => "gets the result",
        other => word(other),
    }),
    (4, |_, server, key| {
        let set: Option<String> = server.run(&format!("SET lock:{key} other NX PX 1000"));
        if set.is_some() { "gets the key" } else { "fails" }
    }),
];

#[test]
fn who_excludes_whom_is_as_the_page_says() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let table = PAGE.split("## Who excludes whom").nth(1).unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), HOLDERS.len() + 1, "{rows:?}");
    for (line, ((name, holder), row)) in HOLDERS.iter().zip(&rows[1..]).enumerate() {
        assert!(row[0].starts_with(name), "{name}: {row:?}");
        for (number, (column, caller)) in CALLERS.iter().enumerate() {
            let key = format!("{line}-{number}");
            let _holds = holder(&locks, &server, &key);
            let (said, happened) = (row[column + 1], caller(&locks, &server, &key));
            assert!(said.contains(happened), "{name}, column {column}: {happened}, not {said}");
        }
    }
}
