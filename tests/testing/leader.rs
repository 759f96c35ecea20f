//! Elections in the tests of a user: a leader is taken away and comes back, in no time.

use std::time::Duration;

use kit::{SECOND, next_leader, unique};
use redlocked::{LockError, LockManager};

async fn manager() -> LockManager {
    LockManager::connect(format!("memory://{}", unique("leader"))).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_leader_is_taken_away_and_comes_back() {
    let locks = manager().await;
    let node = locks.testing().unwrap();
    let election = locks.election("loop").ttl(10 * SECOND).announce("here");
    let mut terms = Vec::new();
    let outcome = election.lead(async |term| {
        terms.push(term.fencing_token());
        let leader = election.leader().await?;
        assert!(leader.is_some_and(|leader| leader.fencing_token() == Some(term.fencing_token())));
        match terms.len() {
            1 => drop(node.take_away("loop")),
            2 => node.lose_data(),
            3 => {
                // For longer than its ttl.
                node.set_unreachable();
                tokio::spawn({
                    let node = node.clone();
                    async move {
                        tokio::time::sleep(20 * SECOND).await;
                        node.recover();
                    }
                });
            }
            _ => return Ok::<_, LockError>(term.remaining()),
        }
        std::future::pending().await
    });
    assert!(outcome.await.unwrap() > Duration::ZERO);
    assert!(terms.len() == 4 && terms.windows(2).all(|two| two[0] < two[1]), "{terms:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_elsewhere_is_stood_by_for_and_pauses_take_no_time() {
    let locks = manager().await;
    let node = locks.testing().unwrap();
    let (start, real) = (tokio::time::Instant::now(), std::time::Instant::now());
    let held = node.hold("loop", "billing::lead").unwrap();
    tokio::spawn(async move {
        tokio::time::sleep(3600 * SECOND).await;
        drop(held);
    });
    let mut errors = 0;
    let election = locks.election("loop");
    let mut changes = election.observe();
    assert!(next_leader(&mut changes).await.unwrap().is_some_and(|leader| leader.fencing_token().is_none()));
    let outcome = election.lead(async |_| {
        errors += 1;
        if errors < 5 { Err("no such table") } else { Ok(()) }
    });
    outcome.await.unwrap();
    let waited = start.elapsed();
    assert!(waited >= 3604 * SECOND && waited < 3700 * SECOND, "an hour, and four pauses: {waited:?}");
    assert!(real.elapsed() < 20 * SECOND);
    assert_eq!(next_leader(&mut changes).await.unwrap(), None);
}
