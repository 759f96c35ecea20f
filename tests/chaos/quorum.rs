//! A quorum keeps Redlock's promises while a minority of its nodes fails, and the checker finds
//! each mistake of a client, made on the wire.

use std::time::{Duration, Instant};

use super::{seed, setting, summary};
use kit::chaos::checker::CheckResult;
use kit::chaos::environment::Environment;
use kit::chaos::environment::quorum::{Plan, QuorumNodes};
use kit::chaos::run::Chaos;
use kit::{LIMIT, RedisServer, Rewriter};

fn direct(_: usize, server: &RedisServer) -> u16 {
    server.port()
}

/// The checker finds nothing in a run of this plan, and callers enter all the time.
fn is_clean(plan: Plan, seconds: u64, port: impl FnMut(usize, &RedisServer) -> u16) {
    let chaos = super::is_clean(|_| QuorumNodes::new(plan, port), seconds);
    // Longer than the time in which all nodes can be unwell at once.
    let parts = (setting("CHAOS_SECONDS", || seconds) / 5).max(2);
    let over_time = chaos.history.entered_over_time(parts);
    assert!(over_time.iter().all(|holds| *holds > 3), "it stood still: {over_time:?}");
}

fn nodes() -> usize {
    usize::try_from(setting("CHAOS_NODES", || 3)).unwrap()
}

fn everything(clock: bool) {
    is_clean(Plan { clock, ..Plan::everything(nodes()) }, 6, direct);
}

#[test]
fn at_most_one_has_the_votes_while_any_minority_is_unwell() {
    everything(false);
}

/// A clock that jumps takes a vote away from its holder. With other nodes unwell that is one too
/// many: two callers may be inside then, and their fencing tokens must differ.
#[test]
fn fencing_tokens_are_in_order_although_clocks_jump() {
    everything(true);
}

#[test]
fn a_lock_that_is_waited_for_is_taken_while_a_minority_is_unwell() {
    is_clean(Plan::crowded(nodes()), 6, direct);
}

#[test]
fn crowds_are_served_at_once_on_a_quorum() {
    is_clean(Plan::hand_over(nodes()), 4, direct);
}

#[test]
fn a_reply_that_nothing_has_asked_for_is_no_vote() {
    let chaos = super::is_clean(|_| QuorumNodes::new(Plan::stray_replies(), direct), 8);
    assert!(chaos.log.count("stray replies") > 0);
}

/// The checker finds `what`, with this port for each node.
fn is_found(plan: Plan, port: impl FnMut(usize, &RedisServer) -> u16, what: impl Fn(&CheckResult) -> bool) {
    super::is_found(QuorumNodes::new(plan, port), |history| what(&history.check()));
}

/// Replaces this text of a script by that, on the nodes before the `end`th.
fn rewritten(
    (pattern, replacement): (&'static str, &'static str),
    end: usize,
) -> impl FnMut(usize, &RedisServer) -> u16 {
    move |number, server| {
        if number < end { Rewriter::to(server.port(), pattern, replacement).port() } else { server.port() }
    }
}

/// A node votes for a caller although another one has the lock.
const GENEROUS: (&str, &str) =
    ("without_time(holder, ARGV[1]) ~= ARGV[1] then", "without_time(holder, ARGV[1]) == nil     then");

#[test]
fn a_vote_for_who_has_not_got_the_lock_is_found() {
    is_found(Plan::quiet(), rewritten(GENEROUS, 3), |result| result.overlaps() > 0);
}

/// When one node of three votes for every caller, a single honest vote makes a majority.
#[test]
fn a_minority_that_is_accepted_is_found() {
    is_found(Plan::quiet(), rewritten(GENEROUS, 1), |result| result.overlaps() > 0);
}

/// A clock that is twice as fast exceeds the allowance for drift; one that is a hundredth faster
/// does not.
#[test]
fn servers_whose_clocks_run_faster_than_is_allowed_for_are_found() {
    let faster = ("granted, 'NX', 'PX', ARGV[2]) == false", "granted,'NX','PX',ARGV[2]*.5) == false");
    is_found(Plan::quiet(), rewritten(faster, 3), |result| result.overlaps() > 0);
    let allowed = ("granted, 'NX', 'PX', ARGV[2]) == false", "granted,'NX','PX',ARGV[2]*.99)== false");
    // Without the allowance, a waiter that knows the expiry would enter ten milliseconds before the
    // lease ends.
    let plan = Plan { ttls: [1000; 4], overrun: 1500, ..Plan::quiet() };
    is_clean(plan, 5, rewritten(allowed, 3));
}

#[test]
fn a_wish_for_a_fencing_token_that_is_always_granted_is_found() {
    let granted = ("if seen < wanted then return wanted end", "if seen          then return wanted end");
    is_found(Plan::quiet(), rewritten(granted, 3), |result| result.fences() > 0);
}

/// Two of three nodes forget at once: safe only when a restarted node waits before it votes.
#[test]
fn restarted_nodes_that_vote_at_once_are_found() {
    let plan = Plan { forget: 2, ..Plan::quiet() };
    let old = |_: usize, server: &RedisServer| {
        Rewriter::of_answers(server.port(), "uptime_in_seconds:0", "uptime_in_seconds:9").port()
    };
    let often = Plan { away: 30, rest: Duration::from_millis(100), ..plan };
    is_found(often, old, |result| result.overlaps() > 0);
    // So often that hardly a caller gets a lock.
    let mut chaos = Chaos::new(QuorumNodes::new(often, direct), seed());
    chaos.run(Duration::from_secs(4), |_| false);
    let result = chaos.history.check();
    summary(&chaos);
    assert_eq!(result.violations, []);
    is_clean(plan, 5, direct);
}

/// Locks of ten minutes, of which none may be left when all callers have gone.
#[test]
fn what_a_failed_attempt_does_not_give_back_is_found() {
    let plan = Plan { ttls: [600_000; 4], ..Plan::quiet() };
    let left = |a_while: Duration, port: &mut dyn FnMut(usize, &RedisServer) -> u16| {
        let mut chaos = Chaos::new(QuorumNodes::new(plan, port), seed()).kind();
        chaos.run(Duration::from_secs(3), |_| false);
        summary(&chaos);
        let end = Instant::now();
        while !chaos.environment.keys().is_empty() && end.elapsed() < a_while {
            std::thread::sleep(Duration::from_millis(10));
        }
        chaos.environment.keys()
    };
    assert_eq!(left(LIMIT, &mut direct), [""; 0]);
    assert!(!left(LIMIT / 4, &mut keeps_what_is_young()).is_empty());
}

/// A failed attempt releases at once, a holder later: this refuses each release in the lock's first
/// nine milliseconds.
fn keeps_what_is_young() -> impl FnMut(usize, &RedisServer) -> u16 {
    let all = concat!(
        "local value = without_time(holder, token)\n",
        "if value == token or value == token .. '!' then return redis.call('DEL', KEYS[1]) end"
    );
    let old = concat!(
        "if without_time(holder, token) == token and redis.call('PTTL', KEYS[1]) < 599991 then\n",
        "return redis.call('DEL', KEYS[1])\n    end"
    );
    move |_, server| Rewriter::to(server.port(), all, old).port()
}
