//! Who leads, as others see it: what a leader announces, and who is notified of its changes.

use std::time::{Duration, Instant, SystemTime};

use kit::{LIMIT, Proxy, RedisServer, SECOND, connect, connect_to, eventually, next_leader, unique};
use redlocked::election::{Election, LeadError, Leader, Term};
use redlocked::{LockError, LockManager};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{candidates_wait, endless, in_time, withdrawn};

/// No test waits for its end.
const LONG: Duration = Duration::from_secs(300);

/// A candidate in a task, and its terms.
fn candidate(election: &Election) -> (tokio::task::JoinHandle<()>, UnboundedReceiver<Term>) {
    let (told, terms) = unbounded_channel();
    let lead = election.lead(async move |term: Term| {
        let _ = told.send(term.clone());
        endless(term).await
    });
    (tokio::spawn(async move { drop(lead.await) }), terms)
}

/// The leader of this term, as soon as it has announced itself.
async fn announced(election: &Election, term: &Term) -> Leader {
    let start = Instant::now();
    loop {
        if let Some(leader) =
            election.leader().await.unwrap().filter(|leader| leader.fencing_token().is_some())
        {
            assert_eq!(leader.fencing_token(), Some(term.fencing_token()));
            return leader;
        }
        assert!(start.elapsed() < 20 * SECOND, "it announces itself");
    }
}

#[test]
fn the_leader_its_term_and_its_time_are_one_command() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    in_time(async {
        let watcher = others.election("k");
        assert_eq!(watcher.leader().await.unwrap(), None);
        let before = SystemTime::now() - SECOND / 100;
        let (task, mut terms) = candidate(&locks.election("k").ttl(LONG).announce("10.0.0.5:8080|grün"));
        let term = terms.recv().await.unwrap();
        let leader = announced(&watcher, &term).await;
        assert_eq!(leader.announced(), Some("10.0.0.5:8080|grün"));
        let process = format!(":{}", std::process::id());
        assert!(leader.name().is_some_and(|owner| owner.ends_with(&process)), "{leader:?}");
        assert!(leader.since().is_some_and(|since| since >= before && since <= SystemTime::now() + SECOND));
        assert!(leader.expires_in().is_some_and(|left| left > SECOND && left <= LONG), "{leader:?}");
        let token: String = server.run("GET lock:k");
        let secret = &token[..22];
        let shown = format!("{leader:?} {term:?} {watcher:?}");
        assert!(!shown.contains(secret), "no token is shown: {shown}");

        // The lock is renewed now and then.
        loop {
            let _: String = server.run("CONFIG RESETSTAT");
            for _ in 0..10 {
                assert!(watcher.leader().await.unwrap().is_some_and(|again| again.is_same_term(&leader)));
            }
            if server.client_commands() == 10 {
                break;
            }
        }
        // A runtime that ends takes the connection with it, and the record stays.
        task.abort();
        withdrawn(&server).await;
    });
    eventually("nothing is left", || server.keys().is_empty());
}

#[test]
fn an_observer_is_told_and_does_not_ask() {
    let server = RedisServer::start();
    let [first, second, others] = [(); 3].map(|()| connect(&server));
    in_time(async {
        let mut changes = others.election("k").observe();
        assert_eq!(next_leader(&mut changes).await.unwrap(), None);
        let text = String::from("first");
        let (task, mut terms) = candidate(&first.election("k").ttl(LONG).announce(&text));
        let term = terms.recv().await.unwrap();
        // It may be seen in the moment before its announcement.
        let mut change = async || loop {
            let leader = next_leader(&mut changes).await.unwrap();
            if leader.as_ref().is_none_or(|leader| leader.fencing_token().is_some()) {
                return (leader, Instant::now());
            }
        };
        let (seen, _) = change().await;
        let is_first = |leader: Leader| {
            leader.fencing_token() == Some(term.fencing_token()) && leader.announced() == Some(&*text)
        };
        assert!(seen.is_some_and(is_first));
        tokio::time::sleep(SECOND / 5).await;
        let _: String = server.run("CONFIG RESETSTAT");
        let idle = tokio::time::timeout(2 * SECOND, change()).await;
        assert!(idle.is_err(), "nothing changes: {idle:?}");
        // It may be told late of what it has read already.
        assert!(server.client_commands() <= 1, "and nothing is asked: {}", server.client_commands());
        let (next_task, mut next_terms) = candidate(&second.election("k").ttl(LONG).announce("second"));
        candidates_wait(&server, 1).await;
        let resigned = Instant::now();
        term.resign();
        let next = next_terms.recv().await.unwrap();
        let (mut seen, mut at) = change().await;
        if seen.is_none() {
            (seen, at) = change().await;
        }
        let seen = seen.unwrap();
        assert_eq!((seen.fencing_token(), seen.announced()), (Some(next.fencing_token()), Some("second")));
        assert!(at - resigned < 5 * SECOND, "long before the ttl: {:?}", at - resigned);
        // Nobody follows.
        task.abort();
        candidates_wait(&server, 0).await;
        next_task.abort();
        let (seen, _) = change().await;
        assert_eq!(seen, None);
    });
}

/// The leader writes its record again and again, so that it ends soon after a leader that vanishes.
#[test]
fn an_observer_is_told_nothing_when_the_same_leader_writes_its_record_again() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    in_time(async {
        let (task, mut terms) = candidate(&locks.election("k").ttl(2 * SECOND).announce("here"));
        let term = terms.recv().await.unwrap();
        let watcher = others.election("k");
        let leader = announced(&watcher, &term).await;
        let mut changes = watcher.observe();
        assert!(next_leader(&mut changes).await.unwrap().is_some_and(|seen| seen.is_same_term(&leader)));
        // As the clock of the leader, and the way to the server, may have it.
        let record: String = server.run("GET lock:k%queue%leader");
        let since = record.split('|').nth(1).unwrap().parse::<u64>().unwrap();
        let earlier = record.replacen(&since.to_string(), &(since - 5000).to_string(), 1);
        let _: String = server.run(&format!("SET lock:k%queue%leader {earlier} KEEPTTL"));
        let lasts = || server.run::<i64>("PTTL lock:k%queue%leader");
        let (mut writes, mut left) = (0, lasts());
        let change = tokio::time::timeout(LIMIT, async {
            tokio::select! {
                change = next_leader(&mut changes) => Some(change),
                () = async {
                    while writes < 4 {
                        tokio::time::sleep(SECOND / 100).await;
                        let now_left = lasts();
                        writes += usize::from(now_left > left);
                        left = now_left;
                    }
                } => None,
            }
        });
        let change = change.await.expect("the record is written again");
        assert!(change.is_none(), "nothing has changed: {change:?}");
        let again = watcher.leader().await.unwrap().unwrap();
        let since = leader.since().unwrap() - 5 * SECOND;
        assert_eq!(
            (again.fencing_token(), again.since()),
            (leader.fencing_token(), Some(since)),
            "it stays as it was"
        );
        task.abort();
    });
}

/// The server tells no client of its own changes, so the manager has to.
#[test]
fn an_observer_hears_of_the_leaders_of_its_own_manager() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    in_time(async {
        let mut changes = locks.election("k").observe();
        assert_eq!(next_leader(&mut changes).await.unwrap(), None);
        let mut sees = async |term: u64| {
            while next_leader(&mut changes)
                .await
                .unwrap()
                .is_none_or(|leader| leader.fencing_token() != Some(term))
            {}
        };
        let (task, mut terms) = candidate(&locks.election("k").ttl(LONG));
        let (next_task, mut next_terms) = candidate(&others.election("k").ttl(LONG));
        let term = tokio::select! {
            term = terms.recv() => term,
            term = next_terms.recv() => term,
        };
        let mut term = term.unwrap();
        // One of them is of the observer's manager, and no lease ends meanwhile.
        for _ in 0..4 {
            sees(term.fencing_token()).await;
            candidates_wait(&server, 1).await;
            term.resign();
            term = tokio::select! {
                term = terms.recv() => term,
                term = next_terms.recv() => term,
            }
            .unwrap();
        }
        task.abort();
        next_task.abort();
    });
}

#[test]
fn an_observer_finds_a_leader_gone_that_vanished() {
    let server = RedisServer::start();
    // A runtime that stands still for a moment costs it no connection.
    let others = LockManager::builder(server.url()).own_thread(true).connect_blocking().unwrap();
    let proxy = Proxy::to(server.port());
    let locks = connect_to(&proxy.url());
    in_time(async {
        let (task, mut terms) = candidate(&locks.election("k").ttl(3 * SECOND));
        let term = terms.recv().await.unwrap();
        let watcher = others.election("k");
        announced(&watcher, &term).await;
        let mut changes = watcher.observe();
        assert!(next_leader(&mut changes).await.unwrap().is_some());
        proxy.refuse(true);
        proxy.cut();
        assert_eq!(next_leader(&mut changes).await.unwrap(), None);
        task.abort();
    });
}

/// As a caller does that waits for something else, too: `select!` in a loop.
#[test]
fn an_observer_whose_calls_are_dropped_early_looks_in_time() {
    let server = RedisServer::start();
    let others = connect(&server);
    in_time(async {
        let _: String = server.run("SET lock:k by-hand PX 3000");
        let mut changes = others.election("k").observe();
        assert!(next_leader(&mut changes).await.unwrap().is_some());
        // The server tells of no record, and the observer looks after a second.
        while tokio::time::timeout(SECOND / 20, next_leader(&mut changes)).await.is_err() {}
    });
}

#[test]
fn a_record_that_is_lost_is_written_again_over_the_next_connection() {
    let server = RedisServer::start();
    let (proxy, others) = (Proxy::to(server.port()), connect(&server));
    let locks = connect_to(&proxy.url());
    in_time(async {
        let (task, mut terms) = candidate(&locks.election("k").ttl(LONG).announce("here"));
        let term = terms.recv().await.unwrap();
        let watcher = others.election("k");
        let before = announced(&watcher, &term).await;
        assert_eq!(server.run::<u32>("DEL lock:k%queue%leader"), 1);
        let without = watcher.leader().await.unwrap().unwrap();
        assert!(without.fencing_token().is_none() && without.name() == before.name());
        proxy.cut();
        let again = announced(&watcher, &term).await;
        let apart = again.since().unwrap().duration_since(before.since().unwrap());
        let apart = apart.unwrap_or_else(|error| error.duration());
        assert!(apart < SECOND / 5 && again.announced() == Some("here"), "since when it leads: {apart:?}");
        task.abort();
    });
}

/// A record is that of the holder, or none.
#[test]
fn the_record_of_an_earlier_leader_says_nothing_about_the_holder() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    in_time(async {
        let (task, mut terms) = candidate(&locks.election("k").ttl(LONG).announce("old"));
        let term = terms.recv().await.unwrap();
        let watcher = others.election("k");
        announced(&watcher, &term).await;
        let _: String = server.run("COPY lock:k%queue%leader kept");
        task.abort();
        while watcher.leader().await.unwrap().is_some() {}
        let held = locks.lock("k").acquire().await.unwrap();
        let _: u32 = server.run("RENAMENX kept lock:k%queue%leader");
        let holder = watcher.leader().await.unwrap().unwrap();
        assert!(holder.fencing_token().is_none() && holder.announced().is_none() && holder.name().is_some());
        held.release().await.unwrap();
        let _: String = server.run("SET lock:k by-hand PX 60000");
        let by_hand = watcher.leader().await.unwrap().unwrap();
        assert!(
            by_hand.fencing_token().is_none() && by_hand.name().is_none() && by_hand.expires_in().is_some()
        );
    });
}

/// All locks of a server wait for a script that reads many megabytes.
#[test]
fn what_another_client_wrote_in_place_of_a_record_is_none_and_is_not_read_in_full() {
    const LENGTH: usize = 32 << 20;
    let server = RedisServer::start();
    // A busy machine takes long over the value that the test writes.
    let locks = LockManager::builder(server.url()).io_timeout(LIMIT / 2).connect_blocking().unwrap();
    let held = locks.lock("k").ttl(10 * LIMIT).acquire_blocking().unwrap();
    let record = "lock:k%queue%leader";
    let read_by_scripts = || {
        let memory: String = server.run("INFO memory");
        let bytes = memory.lines().find_map(|line| line.strip_prefix("used_memory_lua:")).unwrap();
        bytes.trim().parse::<usize>().unwrap()
    };
    let long = "1".repeat(LENGTH);
    redis::cmd("SET").arg(record).arg(&long).exec(&mut server.client()).unwrap();
    let holder = locks.election("k").leader_blocking().unwrap();
    assert!(holder.is_some_and(|holder| holder.fencing_token().is_none()));
    assert!(read_by_scripts() < LENGTH);
    let _: usize = server.run(&format!("DEL {record}"));
    let _: usize = server.run(&format!("RPUSH {record} of-another-type"));
    let holder = locks.election("k").leader_blocking().unwrap();
    assert!(holder.is_some_and(|holder| holder.fencing_token().is_none()));
    held.release_blocking().unwrap();
    let election = locks.election("k");
    let leads = election.lead_blocking(|term| {
        eventually("it announces itself", || {
            let leader = election.leader_blocking().unwrap();
            leader.is_some_and(|leader| leader.fencing_token() == Some(term.fencing_token()))
        });
        Ok::<_, LockError>(())
    });
    assert_eq!(leads, Ok(()));
}

#[test]
fn an_announcement_that_cannot_be_written_is_refused_before_anything_is_sent() {
    let locks = LockManager::connect_blocking(format!("memory://{}", unique("announce"))).unwrap();
    for text in ["x".repeat(513), "two\nlines".to_owned()] {
        let outcome = locks.election("k").announce(text).lead_blocking(|_| Ok::<_, LockError>(()));
        assert!(matches!(&outcome, Err(LeadError::Lock(LockError::InvalidRequest { .. }))), "{outcome:?}");
    }
}

#[test]
fn a_server_that_tells_of_no_changes_says_so() {
    let server = RedisServer::start();
    let rules = server.known_rules("on >secret ~lock:* &lock:* +@all -client|tracking");
    let _: String = server.run(&format!("ACL SETUSER blind {rules}"));
    let url = format!("redis://blind:secret@127.0.0.1:{}/", server.port());
    let locks = connect_to(&url);
    if locks.capabilities_blocking().unwrap().tracks_changes() {
        return; // Redis 6 has no rule for a subcommand.
    }
    in_time(async {
        let election = locks.election("k");
        let error = next_leader(&mut election.observe()).await.unwrap_err();
        assert!(matches!(error, LockError::Misconfigured { .. }), "{error:?}");
        assert!(error.to_string().contains("`leader()`"), "{error}");
        assert_eq!(election.leader().await.unwrap(), None);
    });
}
