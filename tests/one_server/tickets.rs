//! A lock that travels from one process to another with a ticket, while one of them, the network or
//! the server fails.

use std::process::exit;
use std::sync::mpsc::channel;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use kit::{
    Job, LIMIT, Proxy, RedisServer, SECOND, Worker, connect, connect_to, eventually, listen, runtime, say,
};
use redlocked::{LockError, LockManager, LostReason, ReleaseOutcome, Ticket};

const MINUTE: Duration = Duration::from_secs(60);

/// Takes the lock with the ttl of its first number, gives it away for the time of the second one,
/// and leaves the ticket on the server. Then the test ends it.
#[test]
#[ignore = "runs in a worker process"]
fn worker() {
    let Some(job) = Job::of_this_process() else {
        return;
    };
    let (command, commands) = channel();
    listen(move |line| drop(command.send(line)), || exit(0));
    let [ttl, lasts] = [0, 1].map(|number| Duration::from_millis(job.numbers[number]));
    let locks = connect_to(&job.url);
    let guard = locks.lock("k").ttl(ttl).acquire_blocking().unwrap();
    // It is renewed meanwhile.
    sleep(ttl.min(SECOND / 2));
    let fence = guard.fencing_token();
    let ticket = guard.into_ticket_blocking(lasts).unwrap();
    let mut server = redis::Client::open(job.url).unwrap().get_connection().unwrap();
    let () = redis::cmd("SET").arg("ticket").arg(ticket.expose()).query(&mut server).unwrap();
    say("given", &[fence]);
    let _ = commands.recv();
}

/// Redeems the ticket that is on the server, with the ttl of its number, and never ends by itself.
#[test]
#[ignore = "runs in a worker process"]
fn redeemer() {
    let Some(job) = Job::of_this_process() else {
        return;
    };
    let (command, commands) = channel();
    listen(move |line| drop(command.send(line)), || exit(0));
    let mut server = redis::Client::open(&*job.url).unwrap().get_connection().unwrap();
    let ticket: String = redis::cmd("GET").arg("ticket").query(&mut server).unwrap();
    let locks = connect_to(&job.url);
    let ttl = Duration::from_millis(job.numbers[0]);
    let guard = locks.redeem(ticket.parse().unwrap()).ttl(ttl).acquire_blocking().unwrap();
    say("redeemed", &[guard.fencing_token()]);
    let _ = commands.recv();
}

/// A process that has given its lock away, its fencing token, and the ticket.
fn giver(server: &RedisServer, ttl: Duration, lasts: Duration) -> (Worker, u64, Ticket) {
    let numbers = [ttl, lasts].map(|time| time.as_millis() as u64);
    let worker = Worker::start("tickets::worker", "giver", &server.url(), &numbers);
    let fence = worker.says("given")[0];
    let text: String = server.run("GET ticket");
    let _: u64 = server.run("DEL ticket");
    (worker, fence, text.parse().unwrap())
}

fn reason<T>(outcome: Result<T, LockError>) -> LostReason {
    match outcome.map(drop) {
        Err(LockError::Lost { reason, .. }) => reason,
        other => panic!("the lock is not lost: {other:?}"),
    }
}

#[test]
fn a_ticket_outlives_the_process_that_has_given_it() {
    let server = RedisServer::start();
    let (mut worker, fence, ticket) = giver(&server, MINUTE, MINUTE);
    worker.kill();
    let guard = connect(&server).redeem(ticket).acquire_blocking().unwrap();
    assert!(guard.fencing_token() > fence);
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    server.assert_nothing_left();
}

#[test]
fn the_queue_goes_on_when_both_processes_have_died() {
    let server = RedisServer::start();
    let (mut worker, fence, ticket) = giver(&server, MINUTE, 2 * SECOND);
    let start = Instant::now();
    worker.kill();
    let locks = connect(&server);
    let guard = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    assert!(start.elapsed() < LIMIT / 2 && guard.fencing_token() > fence, "{:?}", start.elapsed());
    assert_eq!(reason(locks.redeem(ticket).acquire_blocking()), LostReason::TicketUsed);
}

#[test]
fn a_worker_that_is_killed_in_the_middle_costs_its_ttl_and_its_ticket_is_used() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let ticket =
        locks.lock("k").ttl(MINUTE).acquire_blocking().unwrap().into_ticket_blocking(MINUTE).unwrap();
    let _: String = server.run(&format!("SET ticket {}", ticket.expose()));
    let waiting = thread::spawn({
        let request = locks.lock("k").wait(LIMIT);
        move || request.acquire_blocking().unwrap()
    });
    let waits = || locks.inspect_blocking("k").unwrap().is_some_and(|info| info.waiters() == 1);
    eventually("a caller waits behind the ticket", waits);
    let mut worker = Worker::start("tickets::redeemer", "redeemer", &server.url(), &[1000]);
    let fence = worker.says("redeemed")[0];
    // It is renewed, and to those who wait the lock was held all the time.
    sleep(SECOND * 3 / 2);
    assert!(!waiting.is_finished());
    let killed = Instant::now();
    worker.kill();
    let next = waiting.join().unwrap();
    let took = killed.elapsed();
    assert!(next.fencing_token() > fence && took < LIMIT / 2, "{took:?}, with a ttl of 1 s");
    assert_eq!(reason(locks.redeem(ticket).acquire_blocking()), LostReason::TicketUsed);
    next.release_blocking().unwrap();
    let _: u64 = server.run("DEL ticket");
    drop(locks);
    server.assert_nothing_left();
}

/// What the holder before had on the way when it was stopped carries its own token.
#[test]
fn a_giver_that_is_stopped_takes_nothing_back_when_it_goes_on() {
    let server = RedisServer::start();
    let (worker, _, ticket) = giver(&server, SECOND / 4, MINUTE);
    worker.freeze();
    let guard = connect(&server).redeem(ticket).ttl(2 * SECOND).acquire_blocking().unwrap();
    worker.thaw();
    // As long as several of its renewals would take.
    sleep(SECOND);
    assert!(guard.is_held());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_ticket_is_over_with_the_data_of_its_server_and_good_where_they_are_kept() {
    for durable in [false, true] {
        let mut server = if durable { RedisServer::durable() } else { RedisServer::start() };
        let (mut worker, _, ticket) = giver(&server, MINUTE, MINUTE);
        worker.kill();
        server.kill();
        server.restart();
        let redeemed = connect(&server).redeem(ticket).wait(LIMIT).acquire_blocking();
        if durable {
            assert!(redeemed.unwrap().is_held());
        } else {
            assert_eq!(reason(redeemed), LostReason::TicketOver);
        }
    }
}

#[test]
fn a_redemption_whose_reply_is_lost_is_asked_for_again_and_counts_once() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let far = connect_to(&proxy.url());
    let locks = connect(&server);
    let guard = locks.lock("k").acquire_blocking().unwrap();
    let fence = guard.fencing_token();
    let ticket = guard.into_ticket_blocking(MINUTE).unwrap();
    let before: String = server.run("GET lock:k");
    proxy.hold_replies(true);
    let redeemed = thread::spawn({
        let request = far.redeem(ticket.clone()).wait(LIMIT);
        move || request.acquire_blocking()
    });
    eventually("the server has done it", || server.run::<String>("GET lock:k") != before);
    let redeemed_value: String = server.run("GET lock:k");
    proxy.cut();
    proxy.hold_replies(false);
    let guard = redeemed.join().unwrap().unwrap();
    assert!(guard.fencing_token() > fence);
    assert_eq!(server.run::<String>("GET lock:k"), redeemed_value, "it is the same lock");
    assert_eq!(reason(locks.redeem(ticket).acquire_blocking()), LostReason::TicketUsed);
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_lost_reply_to_the_giver_is_asked_for_again() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let far = connect_to(&proxy.url());
    let guard = far.lock("k").acquire_blocking().unwrap();
    proxy.hold_replies(true);
    let given = thread::spawn(move || guard.into_ticket_blocking(2 * MINUTE));
    eventually("the server has done it", || server.run::<i64>("PTTL lock:k") > 100_000);
    proxy.cut();
    proxy.hold_replies(false);
    let ticket = given.join().unwrap().unwrap();
    drop(connect(&server).redeem(ticket).acquire_blocking().unwrap());
    drop(far);
    server.assert_nothing_left();
}

#[test]
fn a_caller_that_leaves_at_any_moment_leaves_no_ticket() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for micros in (0..2_000).step_by(50) {
        runtime().block_on(async {
            let guard = locks.lock("k").wait(LIMIT).acquire().await.unwrap();
            let giving = guard.into_ticket(MINUTE);
            let _ = tokio::time::timeout(Duration::from_micros(micros), giving).await.map(|ticket| {
                // This one had it in time.
                locks.redeem(ticket.unwrap()).acquire_blocking().map(drop)
            });
            let free = locks.lock("k").wait(LIMIT).acquire().await.unwrap();
            drop(free);
        });
    }
    drop(locks);
    server.assert_nothing_left();
}

/// One command gives the lock away, one takes it over, and one releases it.
#[test]
fn a_ticket_that_nobody_will_redeem_goes_back_and_the_next_waiter_has_its_lock_at_once() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    let ticket = |lasts| locks.lock("k").acquire_blocking().unwrap().into_ticket_blocking(lasts).unwrap();
    let unsent = ticket(MINUTE * 60);
    let waiter = {
        let others = others.clone();
        thread::spawn(move || others.lock("k").wait_forever().acquire_blocking().unwrap())
    };
    eventually("it waits", || server.run::<usize>("ZCARD lock:k%queue") == 1);
    let start = Instant::now();
    // By a process that has read it.
    assert!(others.cancel_ticket_blocking(unsent.expose().parse().unwrap()).unwrap());
    let guard = waiter.join().unwrap();
    assert!(start.elapsed() < 10 * SECOND, "{:?}", start.elapsed());

    assert!(!locks.cancel_ticket_blocking(unsent.clone()).unwrap(), "the waiter keeps its lock");
    assert!(guard.is_held() && others.inspect_blocking("k").unwrap().is_some());
    assert_eq!(reason(locks.redeem(unsent).acquire_blocking()), LostReason::TicketUsed);
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);

    let unused = ticket(MINUTE);
    assert!(locks.cancel_ticket_blocking(unused.clone()).unwrap());
    assert_eq!(reason(locks.redeem(unused.clone()).acquire_blocking()), LostReason::TicketOver);
    assert!(!locks.cancel_ticket_blocking(unused).unwrap());
    drop((locks, others));
    server.assert_nothing_left();
}

#[test]
fn a_ticket_that_was_redeemed_is_not_taken_back() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let guard = locks.lock("k").acquire_blocking().unwrap();
    let ticket = guard.into_ticket_blocking(MINUTE).unwrap();
    let redeemed = connect(&server).redeem(ticket.clone()).acquire_blocking().unwrap();
    assert!(!locks.cancel_ticket_blocking(ticket).unwrap());
    assert!(redeemed.is_held());
    assert_eq!(redeemed.release_blocking().unwrap(), ReleaseOutcome::Released);

    let other = LockManager::builder(server.url()).prefix("other:").connect_blocking().unwrap();
    let guard = other.lock("k").min_hold(MINUTE).acquire_blocking().unwrap();
    let ticket = guard.into_ticket_blocking(MINUTE).unwrap();
    let error = locks.cancel_ticket_blocking(ticket.clone()).unwrap_err();
    assert!(matches!(error, LockError::InvalidRequest { .. }), "{error}");
    assert!(other.cancel_ticket_blocking(ticket).unwrap());
    assert!(other.lock("k").acquire_blocking().is_ok(), "its `min_hold` has ended with the hand-over");
}

#[test]
fn a_text_that_was_cut_off_is_no_ticket() {
    let server = RedisServer::start();
    let guard = connect(&server).lock("export:7").acquire_blocking().unwrap();
    let text = guard.into_ticket_blocking(MINUTE).unwrap().expose();
    assert!((0..text.len()).all(|cut| text[..cut].parse::<Ticket>().is_err()));
    assert!(text.parse::<Ticket>().is_ok());
}

#[test]
fn each_step_costs_one_command() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let step = || -> [u64; 3] {
        let guard = locks.lock("k").acquire_blocking().unwrap();
        let cost = |before: u64| server.client_commands() - before;
        let before = server.client_commands();
        let ticket = guard.into_ticket_blocking(MINUTE).unwrap();
        let given = cost(before);
        let guard = locks.redeem(ticket).acquire_blocking().unwrap();
        let redeemed = cost(before) - given;
        guard.release_blocking().unwrap();
        [given, redeemed, cost(before) - given - redeemed]
    };
    // The engine may move to another place first, over a new connection.
    eventually("each is one command", || step() == [1, 1, 1]);
}

#[test]
fn no_error_and_no_debug_output_shows_a_ticket() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let other = LockManager::builder(server.url()).prefix("other:").connect_blocking().unwrap();
    let ticket = locks.lock("k").acquire_blocking().unwrap().into_ticket_blocking(MINUTE).unwrap();
    let secret = server.run::<String>("GET lock:k")[..22].to_owned();
    let text = ticket.expose();
    let foreign = other.redeem(ticket.clone()).acquire_blocking().unwrap_err();
    assert!(matches!(&foreign, LockError::InvalidRequest { .. }), "{foreign}");
    let request = locks.redeem(ticket.clone());
    let mut said = vec![format!("{ticket:?} {request:?} {foreign:#?}")];
    drop(request.acquire_blocking().unwrap());
    said.push(format!("{:#?}", locks.redeem(ticket).acquire_blocking().unwrap_err()));
    said.push(format!("{:?}", text[..30].parse::<Ticket>().unwrap_err()));
    for said in said {
        assert!(!said.contains(&secret) && !said.contains(&text[..30]), "{said}");
    }
}

#[test]
fn what_cannot_be_given_away_is_released_and_told() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let several = locks.lock_all(["a", "b"]).acquire_blocking().unwrap();
    let short = locks.lock("k").acquire_blocking().unwrap();
    let lost = locks.lock("lost").ttl(SECOND).renew(false).acquire_blocking().unwrap();
    let _: u64 = server.run("DEL lock:lost");
    for outcome in [several.into_ticket_blocking(MINUTE), short.into_ticket_blocking(Duration::ZERO)] {
        assert!(matches!(&outcome, Err(LockError::InvalidRequest { .. })), "{outcome:?}");
    }
    assert_eq!(reason(lost.into_ticket_blocking(MINUTE)), LostReason::KeyChanged);
    drop(locks);
    server.assert_nothing_left();
}
