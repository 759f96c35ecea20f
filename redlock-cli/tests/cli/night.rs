//! An operator's night: what docs/operating.md and docs/command-line.md say, in the order in which a person
//! needs it, with this program alone. The service has a prefix of its own, and its server may evict keys.

use std::time::Duration;

use kit::{RedisServer, eventually};
use redlocked::LockManager;

use crate::tool::{Running, Said, said};

const KEY: &str = "stock:42";

/// A process of the service that holds the lock until it is ended, or waits for it.
fn service(server: &RedisServer) -> Running {
    let url = format!("{}?allow_eviction=true", server.url());
    let wait_and_sleep =
        ["run", "--prefix", "shop:", "--wait", "60s", "--ttl", "5s", KEY, "--", "sleep", "600"];
    Running::start(&url, &wait_and_sleep)
}

fn waiters(server: &RedisServer) -> usize {
    server.run(&format!("ZCARD shop:{KEY}%queue"))
}

#[test]
fn a_night_with_the_tool_alone() {
    let server = RedisServer::start();
    let () = server.run("CONFIG SET maxmemory 100mb");
    let () = server.run("CONFIG SET maxmemory-policy allkeys-lru");
    let holder = service(&server);
    eventually("it holds", || server.run::<bool>(&format!("EXISTS shop:{KEY}")));
    let mut next = service(&server);
    eventually("the next one waits", || waiters(&server) == 1);
    let url = server.url();
    let tool = |arguments: &[&str]| -> Said { said(&url, arguments) };

    // What is wrong with the server?
    let doctor = tool(&["doctor"]);
    assert!(doctor.out.contains("allkeys-lru") && doctor.out.contains("noeviction"), "{doctor:?}");

    // The call for help names the key, not the prefix.
    let shown = tool(&["show", KEY]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(shown.out.contains("--prefix 'shop:'"), "{shown:?}");
    let listed = tool(&["list"]);
    assert!(listed.err.contains("1 under `shop:`: give --prefix 'shop:'"), "{listed:?}");

    // Who holds it, who waits, and does the holder renew its lease?
    let of_shop = |arguments: &[&str]| tool(&[arguments, &["--prefix", "shop:"]].concat());
    let held = of_shop(&["list", "--no-header"]);
    let fields: Vec<&str> = held.out.trim_end().split('\t').collect();
    assert_eq!((fields[0], fields[6]), (KEY, "1"), "{held:?}");
    let alive = of_shop(&["show", KEY]);
    assert!(alive.out.contains("renew") && alive.out.contains(&holder.id().to_string()), "{alive:?}");

    // It hangs, and the lock must be free now. The first try changes nothing: the server may evict locks.
    let refused = of_shop(&["release", "--yes", KEY]);
    assert_eq!(refused.code, Some(78), "{refused:?}");
    assert!(refused.err.contains("--allow-eviction"), "{refused:?}");
    let released = of_shop(&["release", "--yes", "--allow-eviction", KEY]);
    assert_eq!(released.code, Some(0), "{released:?}");

    // The next one has it at once, and the old holder has ended its program.
    let name = next.id().to_string();
    eventually("the next one holds", || of_shop(&["show", "--quick", KEY]).out.contains(&name));
    assert_eq!(waiters(&server), 0);
    let old = holder.said();
    assert_eq!(old.code, Some(crate::tool::LOST), "{old:?}");
    assert!(old.err.contains(KEY), "{old:?}");

    // At the end of the night, the job that was interrupted may run again: no ticks and results are left of it.
    let locks = LockManager::builder(&url).prefix("shop:").allow_eviction(true).connect_blocking().unwrap();
    let hour = Duration::from_secs(3600);
    drop(locks.lock("report").tick(hour).acquire_blocking().unwrap());
    assert!(locks.lock("report").tick(hour).acquire_blocking().is_err(), "its tick is taken");
    let cleared = of_shop(&["tick", "clear", "--yes", "--allow-eviction", "report"]);
    assert_eq!(cleared.code, Some(0), "{cleared:?}");
    drop(locks.lock("report").tick(hour).acquire_blocking().unwrap());

    assert!(next.is_running());
}
