//! One of many leads: who follows a leader that dies, freezes, fails, resigns or shuts down, and
//! are two bodies ever inside at a time.

mod blocked;
#[cfg(unix)]
mod processes;
mod record;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kit::{LIMIT, Proxy, RedisServer, SECOND, connect, connect_to, eventually, runtime};
use redlocked::election::{LeadError, Term};
use redlocked::{LockError, LockEvent, LockManager};
use tokio::sync::mpsc::unbounded_channel;

type Never = Result<(), LockError>;

/// Leads until it is stopped.
async fn endless(_: Term) -> Never {
    std::future::pending().await
}

/// A test in which nobody ever leads fails, too.
#[track_caller]
fn in_time<F: Future>(test: F) -> F::Output {
    let ended = runtime().block_on(async { tokio::time::timeout(3 * LIMIT, test).await });
    ended.expect("the test ends in time")
}

/// Returns the number of candidates that wait.
fn waiting_candidates(server: &RedisServer) -> usize {
    server.run("ZCARD lock:k%queue")
}

/// Returns when so many candidates wait.
async fn candidates_wait(server: &RedisServer, count: usize) {
    let start = Instant::now();
    while waiting_candidates(server) != count {
        assert!(start.elapsed() < LIMIT, "{} wait, not {count}", waiting_candidates(server));
        tokio::time::sleep(SECOND / 1000).await;
    }
}

/// Waits until the lock is free.
async fn withdrawn(server: &RedisServer) {
    let start = Instant::now();
    while leads(server) {
        assert!(start.elapsed() < LIMIT, "the lock is held");
        tokio::time::sleep(SECOND / 1000).await;
    }
}

fn leads(server: &RedisServer) -> bool {
    server.run::<u32>("EXISTS lock:k") == 1
}

/// True while a body runs.
struct Inside<'a>(&'a AtomicBool);

impl<'a> Inside<'a> {
    fn enter(inside: &'a AtomicBool) -> Self {
        assert!(!inside.swap(true, Ordering::SeqCst), "two bodies at a time");
        Self(inside)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[test]
fn a_value_of_the_body_is_returned_when_the_lock_is_free() {
    let server = RedisServer::start();
    let election = connect(&server).election("k");
    let value = runtime().block_on(election.lead(async |term| Ok::<_, LockError>(term.fencing_token())));
    assert!(value.unwrap() > 0 && !leads(&server));
    let value = election.lead_blocking(|term| Ok::<_, LockError>(term.fencing_token()));
    assert!(value.unwrap() > 0 && !leads(&server));
}

#[test]
fn leaders_that_resign_under_load_follow_each_other_with_growing_terms() {
    const CANDIDATES: usize = 8;
    const TERMS: u64 = 200;
    let server = RedisServer::start();
    let (inside, last, count) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for number in 0..CANDIDATES {
            let (server, inside, last, count) = (&server, &inside, &last, &count);
            threads.spawn(move || {
                let election = connect(server).election("k");
                let body = |term: &Term| {
                    let _inside = Inside::enter(inside);
                    assert!(
                        term.fencing_token() > last.swap(term.fencing_token(), Ordering::SeqCst),
                        "terms grow"
                    );
                    if count.fetch_add(1, Ordering::SeqCst) < TERMS {
                        term.resign();
                        assert!(!term.is_leading() && term.remaining().is_zero());
                    }
                };
                let outcome = if number % 2 == 0 {
                    election.lead_blocking(|term| {
                        body(term);
                        Ok::<_, LockError>(())
                    })
                } else {
                    runtime().block_on(election.lead(async |term| {
                        body(&term);
                        tokio::task::yield_now().await;
                        Ok::<_, LockError>(())
                    }))
                };
                outcome.unwrap();
            });
        }
    });
    assert!(count.into_inner() >= TERMS && !leads(&server));
    assert_eq!(waiting_candidates(&server), 0);
}

#[test]
fn one_that_resigns_is_followed_by_the_next_candidate_and_waits_behind_it() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    in_time(async {
        let (told, mut terms) = unbounded_channel();
        let candidate = |locks: &LockManager, name: &'static str| {
            let told = told.clone();
            tokio::spawn(locks.election("k").lead(async move |term| {
                let _ = told.send((name, term.clone(), Instant::now()));
                endless(term).await
            }))
        };
        let mut tasks = vec![candidate(&locks, "first")];
        let (name, first, _) = terms.recv().await.unwrap();
        tasks.push(candidate(&others, "second"));
        candidates_wait(&server, 1).await;
        let resigned = Instant::now();
        first.resign();
        let (next, second, at) = terms.recv().await.unwrap();
        assert_eq!((name, next), ("first", "second"));
        assert!(second.fencing_token() > first.fencing_token());
        assert!(at - resigned < SECOND, "it is told, and does not ask: {:?}", at - resigned);
        candidates_wait(&server, 1).await;
        second.resign();
        let (third, term, _) = terms.recv().await.unwrap();
        assert!(third == "first" && term.fencing_token() > second.fencing_token());
        first.resign();
        assert!(term.is_leading(), "an earlier term changes nothing");
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
    });
}

/// One release in 128 of any other lock leaves it free for a moment, and whoever comes first has it.
#[test]
fn two_candidates_that_resign_lead_in_turns() {
    const TERMS: usize = 1000;
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    in_time(async {
        let (told, mut terms) = unbounded_channel();
        let candidate = |locks: &LockManager, number: usize| {
            let told = told.clone();
            tokio::spawn(locks.election("k").lead(async move |term| {
                let _ = told.send((number, term.clone()));
                endless(term).await
            }))
        };
        let mut tasks = vec![candidate(&locks, 0)];
        let mut last = terms.recv().await.unwrap();
        tasks.push(candidate(&others, 1));
        let mut twice = 0;
        for _ in 1..TERMS {
            candidates_wait(&server, 1).await;
            last.1.resign();
            let next = terms.recv().await.unwrap();
            twice += usize::from(next.0 == last.0);
            last = next;
        }
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        // When the machine stops for a moment, an engine reconnects from another thread. Its candidate has no place
        // meanwhile.
        assert!(twice < TERMS / 100, "a leader that resigned was its own successor {twice} times");
    });
}

#[test]
fn a_body_that_fails_goes_to_the_end_of_the_queue_after_a_pause() {
    let server = RedisServer::start();
    let (told, mut events) = unbounded_channel();
    let builder = LockManager::builder(server.url()).on_event(move |event| {
        if let LockEvent::TermEnded { term, end, error, .. } = event {
            let _ = told.send((*term, end.as_str(), error.map(str::to_owned)));
        }
    });
    in_time(async {
        let locks = builder.connect().await.unwrap();
        let others = LockManager::connect(server.url()).await.unwrap();
        let mut terms = Vec::new();
        let other = tokio::spawn(async move {
            // Behind the one that will fail.
            while others.inspect("k").await.unwrap().is_none() {}
            others.election("k").lead(async |_| Ok::<_, LockError>(Instant::now())).await
        });
        let start = Instant::now();
        let value = locks.election("k").lead(async |term| {
            terms.push(term.fencing_token());
            if terms.len() == 1 {
                candidates_wait(&server, 1).await;
                return Err("no such table");
            }
            Ok(Instant::now())
        });
        let again = value.await.unwrap();
        let others_turn = other.await.unwrap().unwrap();
        assert!(others_turn < again, "the next candidate leads meanwhile");
        assert!(again - start >= SECOND && again - start < 20 * SECOND, "{:?}", again - start);
        assert!(terms.is_sorted());
        let failed = events.recv().await.unwrap();
        assert_eq!(failed, (terms[0], "failed", Some("no such table".to_owned())));
        assert_eq!(events.recv().await.unwrap(), (terms[1], "returned", None));
    });
}

#[test]
fn with_stop_on_error_the_error_comes_back_and_the_lock_is_free() {
    let server = RedisServer::start();
    let election = connect(&server).election("k").stop_on_error();
    let outcome = runtime().block_on(election.lead(async |_| Err::<(), _>("no such table")));
    assert_eq!(outcome, Err(LeadError::Body("no such table")));
    assert!(!leads(&server));
    let outcome = election.lead_blocking(|_| Err::<(), _>("no such table"));
    assert_eq!(outcome, Err(LeadError::Body("no such table")));
    assert!(!leads(&server));
}

#[test]
fn a_shutdown_drops_the_body_at_once_and_the_next_candidate_leads() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    in_time(async {
        let (told, mut terms) = unbounded_channel();
        let leader = tokio::spawn({
            let election = locks.election("k");
            async move {
                election
                    .lead(async move |term| {
                        let _ = told.send(term.clone());
                        endless(term).await
                    })
                    .await
            }
        });
        let term = terms.recv().await.unwrap();
        let candidate = tokio::spawn({
            let election = others.election("k");
            async move { election.lead(async |_| Ok::<_, LockError>(Instant::now())).await }
        });
        // A candidate of this manager that waits ends, too.
        let here = tokio::spawn({
            let election = locks.election("k");
            async move { election.lead(endless).await }
        });
        candidates_wait(&server, 2).await;
        let start = Instant::now();
        locks.shutdown(Duration::from_secs(60)).await.unwrap();
        assert!(start.elapsed() < 10 * SECOND, "the body has not used the limit up");
        assert!(!term.is_leading());
        for outcome in [leader.await.unwrap(), here.await.unwrap()] {
            assert!(matches!(outcome, Err(LeadError::Lock(LockError::ManagerClosed { .. }))), "{outcome:?}");
        }
        candidate.await.unwrap().unwrap();
    });
}

#[test]
fn a_shutdown_tells_a_sync_body_and_ends_a_pause() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let closed = |outcome| matches!(outcome, Err(LeadError::Lock(LockError::ManagerClosed { .. })));
    std::thread::scope(|threads| {
        let leader = threads.spawn(|| {
            locks.election("k").lead_blocking(|term| {
                eventually("the leader is told", || !term.is_leading());
                Ok::<_, LockError>(())
            })
        });
        let pausing = threads.spawn(|| {
            let mut failures = 0;
            let outcome = locks.election("other").lead_blocking(|_| {
                failures += 1;
                Err::<(), _>(LockError::NotConfigured)
            });
            (outcome, failures)
        });
        eventually("one leads, the other has failed", || {
            leads(&server) && server.run::<u32>("EXISTS lock:other") == 0
        });
        let start = Instant::now();
        locks.shutdown_blocking(LIMIT).unwrap();
        assert!(closed(leader.join().unwrap()));
        let (outcome, _) = pausing.join().unwrap();
        assert!(closed(outcome) && start.elapsed() < 20 * SECOND);
    });
    assert!(server.keys().iter().all(|key| key.contains('%')), "{:?}", server.keys());
}

/// etcd#21128, #22123: a campaign that has failed leaves a key, and a zombie is elected.
#[test]
fn a_candidate_that_gives_up_leaves_nothing_behind() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    in_time(async {
        let held = others.lock("k").acquire().await.unwrap();
        let candidates: Vec<_> = (0..3)
            .map(|_| {
                let election = locks.election("k");
                tokio::spawn(async move { election.lead(endless).await })
            })
            .collect();
        candidates_wait(&server, 3).await;
        for candidate in &candidates[1..] {
            candidate.abort();
        }
        candidates_wait(&server, 1).await;
        // The grant and the end of its candidate cross each other.
        candidates[0].abort();
        held.release().await.unwrap();
        let value = others.election("k").lead(async |_| Ok::<_, LockError>(7)).await;
        assert_eq!(value, Ok(7), "no phantom leads");
        candidates_wait(&server, 0).await;
        assert!(!leads(&server));
    });
}

/// client-go#728, kubernetes#23731: the old leader is never told.
#[test]
fn a_leader_that_is_cut_off_is_stopped_before_the_next_one_leads() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let cut_off = connect_to(&proxy.url());
    let others = connect(&server);
    let inside = Arc::new(AtomicBool::new(false));
    in_time(async {
        let (told, mut terms) = unbounded_channel();
        let leader = tokio::spawn({
            let (election, inside) = (cut_off.election("k").ttl(SECOND), Arc::clone(&inside));
            async move {
                election
                    .lead(async move |term| {
                        let _inside = Inside::enter(&inside);
                        let _ = told.send(term.clone());
                        endless(term).await
                    })
                    .await
            }
        });
        let first = terms.recv().await.unwrap();
        let watched = tokio::spawn({
            let first = first.clone();
            async move { first.ended().await }
        });
        let candidate = others.election("k").ttl(SECOND).lead(async |term| {
            let _inside = Inside::enter(&inside);
            assert!(term.fencing_token() > first.fencing_token() && !first.is_leading());
            Ok::<_, LockError>(())
        });
        let cut = async {
            candidates_wait(&server, 1).await;
            proxy.refuse(true);
            proxy.cut();
        };
        let (outcome, ()) = tokio::join!(candidate, cut);
        outcome.unwrap();
        watched.await.unwrap();
        // It comes back, and leads a later term.
        proxy.refuse(false);
        let again = terms.recv().await.unwrap();
        assert!(again.fencing_token() > first.fencing_token());
        leader.abort();
    });
}

/// kubernetes#139991: the lock is given back while the body still runs.
#[test]
fn a_lock_is_given_back_when_its_body_is_gone() {
    struct Body<'a>(&'a RedisServer, &'a AtomicU64);
    impl Drop for Body<'_> {
        fn drop(&mut self) {
            assert!(leads(self.0), "the body is gone before its lock");
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    let server = RedisServer::start();
    let locks = connect(&server);
    let bodies = AtomicU64::new(0);
    let runtime = runtime();
    let mut resigned = false;
    let outcome = runtime.block_on(locks.election("k").stop_on_error().lead(async |term| {
        let _body = Body(&server, &bodies);
        if !std::mem::replace(&mut resigned, true) {
            term.resign();
            return endless(term).await.map_err(|_| "stopped");
        }
        Err("failed")
    }));
    assert_eq!(outcome, Err(LeadError::Body("failed")));
    runtime.block_on(async {
        let (told, mut began) = unbounded_channel();
        let lead = locks.election("k");
        let lead = lead.lead(async |term| {
            let _body = Body(&server, &bodies);
            let _ = told.send(());
            endless(term).await
        });
        tokio::select! {
            outcome = lead => panic!("it leads until it is dropped: {outcome:?}"),
            _ = began.recv() => {}
        }
    });
    assert_eq!(bodies.load(Ordering::SeqCst), 3);
    eventually("the dropped future has released", || !leads(&server));
}

#[test]
fn no_two_bodies_of_one_value_run_at_a_time() {
    let server = RedisServer::start();
    let election = connect(&server).election("k");
    let inside = AtomicBool::new(false);
    let calls = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                // The lock is taken away: the body of a sync leader goes on for a while.
                election.lead_blocking(|term| {
                    let _inside = Inside::enter(&inside);
                    if calls.fetch_add(1, Ordering::SeqCst) < 4 {
                        let _: u32 = server.run("DEL lock:k");
                        eventually("the leader is told", || !term.is_leading());
                    }
                    Ok::<_, LockError>(())
                })
            });
        }
    });
    assert_eq!(calls.into_inner(), 8, "each call has led, and four have led again");
}

#[test]
fn a_leader_whose_runtime_is_blocked_stops_before_it_is_polled_again() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    let (mut polled_after, mut terms) = (false, 0);
    in_time(async {
        locks
            .election("k")
            .ttl(SECOND / 2)
            .lead(async |term| {
                terms += 1;
                if terms == 1 {
                    server.pause();
                    // Nothing renews: the body itself does not let its runtime go on.
                    let blocked = std::thread::spawn({
                        let term = term.clone();
                        move || eventually("the lease ends", || !term.is_leading())
                    });
                    blocked.join().unwrap();
                    server.resume();
                    tokio::task::yield_now().await;
                    polled_after = true;
                }
                Ok::<_, LockError>(())
            })
            .await
            .unwrap();
        others.election("k").lead(async |_| Ok::<_, LockError>(())).await.unwrap();
    });
    assert!(!polled_after && terms == 2, "{polled_after} {terms}");
}

#[test]
fn a_term_ends_with_the_max_hold_of_its_manager_and_the_next_candidate_leads_at_once() {
    let server = RedisServer::start();
    let builder = LockManager::builder(server.url()).default_max_hold(SECOND / 2);
    in_time(async {
        let (locks, others) = (builder.connect().await.unwrap(), connect(&server));
        let leader = tokio::spawn(locks.election("k").ttl(60 * SECOND).lead(endless));
        while !leads(&server) {
            tokio::time::sleep(SECOND / 100).await;
        }
        let start = Instant::now();
        others.election("k").lead(async |_| Ok::<_, LockError>(())).await.unwrap();
        assert!(start.elapsed() < 10 * SECOND, "{:?}", start.elapsed());
        candidates_wait(&server, 0).await;
        leader.abort();
    });
}
