//! A `min_hold` whose release reaches Redis too late writes a warning, because a body's caller gets
//! its result.

use std::time::Duration;

use kit::{Proxy, RedisServer, eventually, unique};
use redlocked::LockManager;
use tracing::Level;

use crate::seen::{events, subscribe};

const SECOND: Duration = Duration::from_secs(1);

fn warnings(key: &str) -> usize {
    let is_it = |message: &String| message.contains("min_hold");
    let events = events("key", key).into_iter().filter(|event| event.level == Level::WARN);
    events.filter(|event| event.fields.get("message").is_some_and(is_it)).count()
}

#[test]
fn a_release_that_comes_too_late_for_a_min_hold_is_in_the_log() {
    subscribe();
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::connect_blocking(proxy.url()).unwrap();
    // The second outage outlasts the `min_hold`.
    for min_hold in [60 * SECOND, 2 * SECOND] {
        let (late, kept) = (unique("late"), unique("kept"));
        for (key, outage) in [(&kept, false), (&late, true)] {
            let body = |_: &redlocked::LockGuard| {
                proxy.refuse(outage);
                "the result"
            };
            let result = locks.lock(&**key).ttl(SECOND).min_hold(min_hold).run_value_blocking(body);
            assert_eq!(result.unwrap(), "the result");
        }
        eventually("its ttl is over", || server.run::<i32>(&format!("EXISTS lock:{late}")) == 0);
        if min_hold < 60 * SECOND {
            eventually("it is in the log without a connection", || warnings(&late) == 1);
        }
        proxy.refuse(false);
        eventually("it is in the log", || warnings(&late) == 1);
        assert_eq!(warnings(&kept), 0);
        eventually("there is a connection again", || locks.ping_blocking().is_ok());
    }
}
