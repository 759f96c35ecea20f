//! Elections over a Cluster, a quorum, and a primary that moves.

use std::time::Instant;

use kit::{LIMIT, Quorum, RedisCluster, SECOND, SentinelGroup, connect_to, next_leader, runtime, unique};
use redlocked::election::{Election, LeadError, Term};
use redlocked::{LockError, LockManager};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A test in which nobody ever leads fails, too.
#[track_caller]
fn in_time<F: Future>(test: F) -> F::Output {
    let ended = runtime().block_on(async { tokio::time::timeout(3 * LIMIT, test).await });
    ended.unwrap_or_else(|_| panic!("the test does not end in time"))
}

/// A candidate in a task, and its terms.
fn candidate(election: &Election) -> (tokio::task::JoinHandle<()>, UnboundedReceiver<Term>) {
    let (told, terms) = unbounded_channel();
    let lead = election.lead(async move |term: Term| {
        let _ = told.send(term);
        std::future::pending::<Result<(), LockError>>().await
    });
    (tokio::spawn(async move { drop(lead.await) }), terms)
}

/// Waits until the server has the record of this term.
async fn announced(election: &Election, term: &Term) -> Option<String> {
    let start = Instant::now();
    loop {
        let leader = election.leader().await.unwrap();
        if let Some(leader) = leader.filter(|leader| leader.fencing_token() == Some(term.fencing_token())) {
            return leader.announced().map(str::to_owned);
        }
        assert!(start.elapsed() < LIMIT, "it announces itself");
    }
}

#[test]
fn in_a_cluster_the_record_is_beside_its_lock_and_is_observed() {
    let cluster = RedisCluster::of_this_process();
    let prefix = unique("leader:");
    let builder = || LockManager::builder(cluster.url()).prefix(&prefix).io_timeout(4 * SECOND);
    let connect = || builder().connect_blocking().unwrap();
    let (locks, others) = (connect(), connect());
    in_time(async {
        for key in ["k", "{tag}k", "a{b}:c"] {
            let watcher = others.election(key);
            let mut changes = watcher.observe();
            assert_eq!(next_leader(&mut changes).await.unwrap(), None);
            let election = locks.election(key).ttl(60 * SECOND).announce("10.0.0.5:8080");
            let (task, mut terms) = candidate(&election);
            let term = terms.recv().await.unwrap();
            assert_eq!(announced(&watcher, &term).await.as_deref(), Some("10.0.0.5:8080"));
            let start = Instant::now();
            while next_leader(&mut changes)
                .await
                .unwrap()
                .is_none_or(|leader| leader.fencing_token() != Some(term.fencing_token()))
            {}
            task.abort();
            while next_leader(&mut changes).await.unwrap().is_some() {}
            assert!(start.elapsed() < 10 * SECOND, "it is told: {:?}", start.elapsed());
        }
    });
    let left = cluster.keys_of(&prefix);
    assert!(left.iter().all(|key| key.ends_with("%clock")), "{left:?}");
}

#[test]
fn over_a_quorum_one_leads_without_a_record_and_that_is_said() {
    let quorum = Quorum::durable(3);
    let connect = || quorum.builder().io_timeout(4 * SECOND).connect_blocking().unwrap();
    let (locks, others) = (connect(), connect());
    in_time(async {
        let (task, mut terms) = candidate(&locks.election("k").ttl(5 * SECOND));
        let first = terms.recv().await.unwrap();
        let watcher = others.election("k").ttl(5 * SECOND);
        let leader = watcher.leader().await.unwrap().unwrap();
        assert!(leader.name().is_some() && leader.fencing_token().is_none() && leader.expires_in().is_some());
        let no_record = |error: &LockError| {
            matches!(error, LockError::Misconfigured { .. }) && error.to_string().contains("quorum")
        };
        assert!(no_record(&next_leader(&mut watcher.observe()).await.unwrap_err()));
        let outcome = watcher.clone().announce("here").lead(async |_| Ok::<_, LockError>(())).await;
        assert!(matches!(&outcome, Err(LeadError::Lock(error)) if no_record(error)), "{outcome:?}");
        // A quorum keeps no order: the candidate may lead again before the watcher does.
        let resigns = async {
            first.resign();
            while let Some(again) = terms.recv().await {
                again.resign();
            }
        };
        let leads = watcher.lead(async |term| Ok::<_, LockError>(term.fencing_token()));
        let number = tokio::select! {
            number = leads => number.unwrap(),
            () = resigns => panic!("the candidate has ended"),
        };
        assert!(number > first.fencing_token());
        task.abort();
    });
}

#[test]
fn a_leader_whose_primary_moves_leads_on_or_a_later_term_follows() {
    let group = SentinelGroup::start();
    let connect = || connect_to(&group.url());
    let (locks, others) = (connect(), connect());
    in_time(async {
        let election = locks.election("k").ttl(2 * SECOND).announce("here");
        let (task, mut terms) = candidate(&election);
        let mut term = terms.recv().await.unwrap();
        let watcher = others.election("k");
        announced(&watcher, &term).await;
        let before = group.primary().port();
        group.fail_over();
        group.wait_for_another_primary_than(before);
        let start = Instant::now();
        loop {
            if let Ok(next) = terms.try_recv() {
                assert!(next.fencing_token() > term.fencing_token() && !term.is_leading());
                term = next;
            }
            // It is announced where the primary is now.
            let there = watcher.leader().await.ok().flatten();
            if group.primary().port() != before
                && there.is_some_and(|leader| leader.fencing_token() == Some(term.fencing_token()))
                && term.is_leading()
            {
                break;
            }
            assert!(start.elapsed() < LIMIT, "somebody leads there");
            tokio::time::sleep(SECOND / 100).await;
        }
        task.abort();
    });
}
