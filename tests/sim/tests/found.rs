//! What schedules have found: each defect is mended, and the plan that shows it stays.

use redlock_runtime::OnInterrupted;
use redlocked_sim::plan::{Fault, Hold, Once, Plan, Topology, Way, What};
use redlocked_sim::run::run;
use redlocked_sim::server::Version;
use redlocked_sim::world::CutKind;

/// Whatever a plan leaves open.
fn holds(plan: impl Fn(u64) -> Plan) {
    for seed in 0..50 {
        let report = run(&plan(seed), false);
        assert_eq!(report.violation, None, "seed {seed}");
    }
}

/// It took a vote away from a holder that had come after the call had returned, and another one had
/// not heard that holder.
#[test]
fn a_force_release_that_arrives_late_at_one_node_takes_nothing_from_a_later_holder() {
    holds(|seed| {
        let first = Hold { hold: 1_000, ..Hold::of(0) };
        let second = Hold { hold: 1_500, ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 4)
            .with_call(0, 1, What::Hold(first))
            .with_call(200, 0, What::ForceRelease(0))
            .with_call(350, 2, What::Hold(second))
            .with_call(450, 3, What::Hold(Hold::of(0)));
        plan.topology = Topology::Quorum(Version::Redis70, 3);
        plan.latency.usual = 20;
        // The next connection may not end the one before.
        plan.may_kill = false;
        plan.faults.push((150, Fault::Part(2, 0, 3_000)));
        plan.faults.push((201 + seed, Fault::Cut(0, 2, CutKind::LateRequests(600))));
        plan
    });
}

/// A release that left the lock free for other clients told two waiters of one process, which was
/// stopped: the one behind them slept until it asked by itself.
#[test]
fn a_lock_that_is_left_free_beside_a_stopped_process_is_taken_by_another_one() {
    holds(|seed| {
        let mut plan = Plan::quiet(seed, 3);
        for key in 0..8 {
            plan = plan.with_call(0, 0, What::Hold(Hold { hold: 1_500, ..Hold::of(key) }));
            for _ in 0..20 {
                plan = plan.with_call(100, 1, What::Hold(Hold::of(key)));
            }
            plan = plan.with_call(300, 2, What::Hold(Hold::of(key)));
        }
        plan.faults.push((1_000, Fault::Freeze(1, 8_000)));
        plan
    });
}

/// The loop's alarm was set on a clock that stands still while the host is suspended, and was not
/// set again.
#[test]
fn after_a_suspension_callers_are_back_within_their_limits() {
    holds(|seed| {
        let long = Hold { ttl: 30_000, hold: 9_000, ..Hold::of(0) };
        let impatient = Hold { wait: Some(50), ..Hold::of(0) };
        let mut plan =
            Plan::quiet(seed, 1).with_call(0, 0, What::Hold(long)).with_call(2_500, 0, What::Hold(impatient));
        // Elsewhere the stall watchdog wakes a loop that is late.
        plan.processes[0].own_thread = true;
        plan.faults.push((2_000, Fault::ClockAhead(0, 12_000)));
        plan
    });
}

/// An alarm whose time had not come when the host went on.
#[test]
fn after_a_suspension_an_alarm_that_is_set_rings_in_time() {
    holds(|seed| {
        let impatient = Hold { wait: Some(183), ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 2)
            .with_call(0, 1, What::Hold(Hold { hold: 6_000, ..Hold::of(0) }))
            .with_call(555, 0, What::Hold(Hold { hold: 247, ..Hold::of(1) }))
            .with_call(895, 0, What::Hold(impatient));
        plan.processes[0].own_thread = true;
        // The first of its process looks at its lock after 100 ms, and the answer has a second.
        plan.faults.push((688, Fault::ClockAhead(0, 683)));
        plan
    });
}

/// The next waiter of its process took over its long pause, without a place in the queue, and slept
/// beside a free lock.
#[test]
fn when_the_first_waiter_of_a_cohort_leaves_the_next_one_has_its_own_place() {
    holds(|seed| {
        let mut plan = Plan::quiet(seed, 2).with_call(0, 0, What::Hold(Hold { hold: 300, ..Hold::of(0) }));
        for _ in 0..20 {
            plan = plan.with_call(10, 0, What::Hold(Hold { leaves_after: Some(100), ..Hold::of(0) }));
        }
        plan.processes[1].cohort = 8;
        plan.with_call(30, 1, What::Hold(Hold { leaves_after: Some(20), ..Hold::of(0) })).with_call(
            40,
            1,
            What::Hold(Hold::of(0)),
        )
    });
}

/// A refused release was given up after a shorter ttl, which the server had refused, too.
#[test]
fn a_release_is_repeated_for_as_long_as_the_key_may_last_by_an_earlier_ttl() {
    holds(|seed| {
        let shortened = Hold { hold: 300, extend: vec![(50, 100)], ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 1).with_call(0, 0, What::Hold(shortened));
        plan.length = 6_000;
        plan.faults.push((20, Fault::RefuseWrites(0, 1_500)));
        plan
    });
}

/// It had waited behind others of its process, so it knew that the lock was busy, and was told that
/// Redis does not answer.
#[test]
fn a_waiter_whose_wait_ends_when_it_first_asks_is_told_that_the_lock_was_busy() {
    holds(|seed| {
        let hold = Hold { hold: 285 + seed % 15, ..Hold::of(0) };
        // It needs another lease than the holder's, which is not handed over in the process.
        let waiter = Hold { ttl: 20_000, wait: Some(300), ..Hold::of(0) };
        let mut plan =
            Plan::quiet(seed, 1).with_call(0, 0, What::Hold(hold)).with_call(3, 0, What::Hold(waiter));
        plan.latency.usual = 3;
        plan.processes[0].cohort = 8;
        plan
    });
}

/// Callers left, the server refused to let them go, and only they were told when a lock was to end:
/// the one behind slept on.
#[test]
fn waiters_that_a_server_refuses_to_let_go_leave_as_soon_as_they_may() {
    holds(|seed| {
        let long = Hold { hold: 6_000, min_hold: Some(6_100), ..Hold::of(0) };
        let impatient = Hold { ttl: 300, wait: Some(1_000), ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 3)
            .with_call(0, 0, What::Hold(long))
            .with_call(100, 1, What::Hold(impatient.clone()))
            .with_call(110, 1, What::Hold(impatient))
            .with_call(200, 2, What::Hold(Hold::of(0)));
        plan.faults.push((1_000, Fault::RefuseWrites(0, 1_000)));
        plan
    });
}

/// The right to let a queue expire was taken away, and its first waiter left a queue that stayed
/// forever.
#[test]
fn a_queue_that_may_not_get_an_expiry_does_not_stay() {
    holds(|seed| {
        let long = Hold { hold: 2_000, ..Hold::of(0) };
        let impatient = Hold { wait: Some(100), ..Hold::of(0) };
        let mut plan =
            Plan::quiet(seed, 2).with_call(0, 0, What::Hold(long)).with_call(500, 1, What::Hold(impatient));
        plan.faults.push((400, Fault::Forbid(0, "pexpire", 500)));
        plan
    });
}

/// A lock that was kept for its `min_hold` ended when a claim of its process should have: to a
/// waiter that knew of the claim alone, the process looked stuck, and its waiters lost their
/// places.
#[test]
fn waiters_of_a_process_that_keeps_a_lock_for_its_min_hold_keep_their_places() {
    holds(|seed| {
        let kept = Hold {
            min_hold: Some([990, 1_000, 1_050][usize::try_from(seed % 3).unwrap_or(0)]),
            ..Hold::of(0)
        };
        let mut plan = Plan::quiet(seed, 3)
            .with_call(0, 0, What::Hold(Hold { hold: 400, ..Hold::of(0) }))
            .with_call(50, 1, What::Hold(kept))
            .with_call(200, 2, What::Hold(Hold::of(0)));
        for at in [60, 70, 80] {
            plan = plan.with_call(at, 1, What::Hold(Hold::of(0)));
        }
        plan.foreign_clients = false;
        plan
    });
}

/// A caller with one try took a lock behind waiters that had died, and the script failed when it
/// told the next ones: its request named no inbox. The lock stayed.
#[test]
fn one_try_behind_waiters_that_have_died_takes_the_lock() {
    holds(|seed| {
        let one_try = |key| What::Hold(Hold { wait: Some(0), ..Hold::of(key) });
        let dies = Hold { ttl: 300, hold: 1_000, renew: false, ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 3)
            .with_call(0, 0, What::Hold(dies))
            .with_call(20, 1, What::Hold(Hold::of(0)))
            .with_call(345, 2, one_try(1))
            // So soon after another lock that its request has no floor of fencing tokens, either.
            .with_call(348, 2, one_try(0));
        plan.length = 6_000;
        plan.faults.extend([(100, Fault::Kill(0)), (100, Fault::Kill(1))]);
        plan
    });
}

/// Two callers of a process joined the queue in another order than they came: the first of the
/// process asks for both, and took those in front of it for others, who would watch a foreign
/// client's lock.
#[test]
fn the_first_waiter_of_a_process_watches_a_foreign_lock_whatever_the_order_in_the_queue() {
    holds(|seed| {
        // The first one sends a plain `SET` before it joins: the server has told it of no waiter.
        let unfenced = Hold { fenced: false, ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 1);
        for at in [500, 501, 501] {
            plan = plan.with_call(at, 0, What::Hold(unfenced.clone()));
        }
        plan.latency.usual = 3;
        plan.faults.push((400, Fault::Foreign(0, 500)));
        plan
    });
}

/// A server that had stopped executed what it was sent before, and refused the same request over
/// the next connection for good: the caller got its error, and nobody released the lock.
#[test]
fn a_call_that_fails_for_good_releases_what_an_earlier_request_may_have_got() {
    holds(|seed| {
        let mut plan = Plan::quiet(seed, 1);
        for at in [677, 882] {
            plan = plan.with_call(at, 0, What::Hold(Hold { wait: Some(8_000), ..Hold::of(0) }));
        }
        plan.processes[0].io_timeout = 300;
        plan.length = 3_000;
        plan.faults.extend([(116, Fault::Forbid(0, "zrange", 2_885)), (556, Fault::FreezeServer(0, 1_713))]);
        plan
    });
}

/// A waiter that had not asked for seconds took the drift of its clock in that time for a
/// thousandth, and counted its lease from too late.
#[test]
fn the_lease_of_a_waiter_that_has_waited_for_long_counts_from_no_later_than_its_grant() {
    holds(|seed| {
        let long = Hold { ttl: 30_000, hold: 6_000, ..Hold::of(0) };
        let first = Hold { wait: Some(5_800), ..Hold::of(0) };
        let short = Hold { ttl: 300, hold: 1_000, renew: false, wait: Some(20_000), ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 3)
            .with_call(0, 1, What::Hold(long))
            // Only the first waiter of a process asks.
            .with_call(100, 0, What::Hold(first))
            .with_call(200, 0, What::Hold(short))
            .with_call(300, 2, What::Hold(Hold { wait: Some(20_000), ..Hold::of(0) }));
        plan.processes[0].fast = -9_000;
        // The grant is read late, and the claim cannot be confirmed.
        plan.faults.extend([(5_990, Fault::Freeze(0, 60)), (6_051, Fault::Part(0, 0, 1_000))]);
        plan
    });
}

/// A foreign client released the lock between the requests of two callers of a process, and the
/// second one took it: its release told the first one nothing.
#[test]
fn a_waiter_that_was_passed_by_another_caller_of_its_process_hears_of_that_ones_release() {
    holds(|seed| {
        let hold = Hold { wait: Some(8_000), hold: 88, ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 1);
        plan.latency.usual = 2;
        for key in 0..8 {
            let released = 1_000 + 20 * u64::from(key);
            plan.faults.push((released - 200, Fault::Foreign(key, 200)));
            plan = plan
                .with_call(released - 1, 0, What::Hold(Hold { keys: vec![key], ..hold.clone() }))
                .with_call(released, 0, What::Hold(Hold { keys: vec![key], ..hold.clone() }));
        }
        plan.foreign_clients = true;
        plan
    });
}

/// A process was stopped while a waiter of it had the lock for a claim, so all its waiters lost
/// their places. When it went on, that waiter had waited for too long and left, and the next one
/// paused as long as before: beside a free lock.
#[test]
fn the_waiters_of_a_process_that_was_stopped_ask_although_the_granted_one_has_left() {
    holds(|seed| {
        let mut plan = Plan::quiet(seed, 3).with_call(0, 0, What::Hold(Hold { hold: 500, ..Hold::of(0) }));
        plan = plan.with_call(10, 1, What::Hold(Hold { wait: Some(1_500), ..Hold::of(0) }));
        for _ in 0..10 {
            plan = plan.with_call(20, 2, What::Hold(Hold::of(0)));
        }
        plan.faults.push((100, Fault::Freeze(1, 3_500)));
        plan.length = 5_000;
        plan.with_call(30, 1, What::Hold(Hold::of(0)))
    });
}

/// The data of a server became older under a holder that they still had. Its release granted the
/// lock with a fencing token below those that had been given since.
#[test]
fn a_release_after_older_data_grants_no_smaller_fencing_token() {
    holds(|seed| {
        let holder = Hold { hold: 2_500, ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 2)
            .with_call(100, 1, What::Hold(holder))
            .with_call(300, 0, What::Hold(Hold { hold: 30, ..Hold::of(0) }))
            .with_call(400, 0, What::ForceRelease(0))
            .with_call(1_500, 0, What::Hold(Hold::of(0)));
        // The holder notices nothing until its lock is back.
        plan.faults = vec![(390, Fault::OldData(0, 100 + seed)), (399, Fault::Freeze(1, 400))];
        plan
    });
}

/// The first of two keys came milliseconds before the end of the wait. The request for the second
/// one was under way when that was over: the caller heard that Redis had given no answer within a
/// second.
#[test]
fn a_last_key_that_is_asked_for_just_before_the_end_of_the_wait_is_no_outage() {
    holds(|seed| {
        let mut plan = Plan::quiet(seed, 2);
        plan.latency.usual = 3;
        for (nth, key) in [0, 2, 4, 6].into_iter().enumerate() {
            let at = 2_000 * u64::try_from(nth).unwrap_or(0);
            let hold = Hold { hold: 1_084 + 2 * (seed % 6), ..Hold::of(key) };
            let both = Hold { keys: vec![key, key + 1], wait: Some(1_000), ..Hold::of(key) };
            plan = plan.with_call(at, 0, What::Hold(hold)).with_call(at + 100, 1, What::Hold(both));
        }
        plan.length = 9_000;
        plan
    });
}

/// A reply gave it the lock before the push for the same grant was read. When that came, the lock
/// was being released, and was released once more, which passed it on: the caller's own release
/// heard that the lock had been lost.
#[test]
fn a_release_behind_a_grant_that_is_told_twice_says_that_the_lock_was_held() {
    holds(|seed| {
        let short = |key| Hold { hold: 25, fenced: false, ..Hold::of(key) };
        let all = Hold { keys: vec![0, 1, 2, 3], hold: 0, wait: Some(4_800), ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 1)
            .with_call(324, 0, What::Hold(Hold { renew: false, wait: Some(3_500), ..short(2) }))
            .with_call(329, 0, What::Hold(Hold { ttl: 300, renew: false, wait: Some(2_660), ..short(0) }))
            .with_call(345, 0, What::Hold(Hold { ttl: 3_000, hold: 0, wait: None, ..short(0) }))
            .with_call(499, 0, What::Hold(Hold { ttl: 1_000, wait: Some(150), ..short(2) }))
            .with_call(580, 0, What::Hold(Hold { ttl: 300, wait: Some(70), ..all.clone() }))
            .with_call(733, 0, What::Hold(all));
        plan.topology = Topology::One(Version::Valkey9);
        plan.latency.usual = 0;
        plan.processes[0].io_timeout = 300;
        // The first requests arrive behind those of the next connection.
        plan.may_kill = false;
        plan.faults = vec![(264, Fault::Part(0, 0, 2_330)), (483, Fault::FreezeServer(0, 3_740))];
        plan
    });
}

/// The first of four waiters asked without the queue, and was sent away from it when three others
/// were in it. The next one of them had not asked as the first, and did not look at what it had
/// been told: that the lock was about to expire.
#[test]
fn a_waiter_behind_one_that_is_sent_away_asks_when_the_lock_expires() {
    holds(|seed| {
        let kept = Hold { min_hold: Some(250), ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 1).with_call(0, 0, What::Hold(kept));
        for fenced in [false, true, false, true] {
            plan = plan.with_call(240 + seed % 10, 0, What::Hold(Hold { fenced, ..Hold::of(0) }));
        }
        plan.latency.usual = 0;
        plan.processes[0].max_waiters = 3;
        plan
    });
}

/// A process handed its lock to a caller of its own, and was stopped before its release had reached
/// the server. The promise that a stopped process costs one claim counted that lock, too, under the
/// token of the first caller, as if it had been granted to the stopped process.
#[test]
fn a_lock_that_was_passed_on_before_the_process_stopped_is_no_claim() {
    holds(|seed| {
        let first = Hold { hold: 1_100, renew: false, min_hold: Some(270), ..Hold::of(0) };
        let unfenced = |hold| Hold { fenced: false, ttl: 3_000, way: Way::Run, ..hold };
        let second = Hold { hold: 2, ..Hold::of(0) };
        let third = Hold { ttl: 300, way: Way::Drop, ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 2)
            .with_call(0, 0, What::Hold(unfenced(first)))
            .with_call(465, 0, What::Hold(unfenced(second)))
            .with_call(800, 0, What::Hold(third));
        plan.processes[0].cohort = 8;
        plan.length = 4_000;
        // A late request of an earlier connection keeps a lock for its ttl.
        plan.may_kill = false;
        plan.faults = vec![(590, Fault::Part(0, 0, 2_018)), (1_663, Fault::Freeze(0, 3_900))];
        plan
    });
}

/// A process had lost the right to `PUBLISH`: the waiter to which it released its lock was not told,
/// and joined the queue behind callers of that process, which went on without a queue, and past
/// this one. Behind their places, that waiter asked less often than the judge took for granted; and
/// what these places then got, and gave back, it took for locks without an owner.
#[test]
fn a_lock_that_is_released_past_its_queue_is_found_by_a_poll() {
    holds(|seed| {
        let mut plan = Plan::quiet(seed, 2)
            .with_call(0, 0, What::Hold(Hold { hold: 1_000, ..Hold::of(0) }))
            .with_call(50, 1, What::Hold(Hold::of(0)));
        for at in 100..112 {
            let hold = if at == 111 { 1_000 } else { 1 };
            plan = plan.with_call(at, 0, What::Hold(Hold { hold, ..Hold::of(0) }));
        }
        // Before Redis 7.0, who asks for a lock that is held does not hear of the rule.
        plan.topology = Topology::One(Version::Redis62);
        plan.faults.push((900, Fault::Forbid(0, "publish", 1_000)));
        plan
    });
}

/// A caller that does not renew was inside until its lease was over, by a clock that was slow by all
/// that a lease allows for. Its release came after the lease, when the next waiter had asked: so its
/// process seemed to be stuck, and its waiters lost their places, which the judge did not expect.
#[test]
fn behind_a_caller_that_outlives_its_lease_others_of_its_process_may_lose_their_places() {
    holds(|seed| {
        let mut plan = Plan::quiet(seed, 3);
        for round in 0..8 {
            let (start, key) = (round * 20, u8::try_from(round).unwrap_or(0));
            let first = Hold { hold: 400, ..Hold::of(key) };
            let outlives = Hold { ttl: 1_000, hold: 3_000, renew: false, way: Way::Run, ..Hold::of(key) };
            plan = plan
                .with_call(start, 0, What::Hold(first))
                .with_call(start + 50, 1, What::Hold(outlives))
                .with_call(start + 100, 2, What::Hold(Hold::of(key)))
                .with_call(start + 150, 1, What::Hold(Hold::of(key)))
                .with_call(start + 300, 0, What::Hold(Hold::of(key)));
        }
        plan.processes[1].fast = -9_000;
        plan.latency.usual = 2;
        plan.foreign_clients = false;
        plan
    });
}

/// The clock of a process went ahead while it gave its lock back: by that clock the lease was over,
/// and the release said that the lock was lost, which the judge took for a wrong outcome.
#[test]
fn a_release_during_which_the_clock_goes_ahead_may_say_that_the_lock_was_lost() {
    holds(|seed| {
        let extended =
            Hold { ttl: 3_000, fenced: false, hold: 3_698, extend: vec![(45, 500)], ..Hold::of(1) };
        let mut plan = Plan::quiet(seed, 1).with_call(95, 0, What::Hold(extended));
        (plan.processes[0].runtimes, plan.calls[0].runtime) = (2, 1);
        plan.latency.usual = 0;
        plan.faults = vec![(3_736, Fault::Starve(0, 0, 358)), (3_810, Fault::ClockAhead(0, 1_100))];
        plan
    });
}

/// One of several that entered took the hint for the waiter behind it along: that one slept until
/// its own poll beside a lock with room.
#[test]
fn a_waiter_behind_one_of_several_enters_when_the_lease_of_another_one_is_over() {
    holds(|seed| {
        let counted = |allows: u32, hold: u64| Hold { allows, hold, ..Hold::of(0) };
        let kept = Hold { min_hold: Some(300), ..counted(0, 150) };
        let mut plan = Plan::quiet(seed, 2);
        for hold in [counted(3, 3_000), counted(0, 200), kept] {
            plan = plan.with_call(0, 0, What::Hold(hold));
        }
        plan.with_call(20, 1, What::Hold(counted(0, 2_000))).with_call(30, 1, What::Hold(counted(0, 10)))
    });
}

/// The set of those that have the lock was stored, and then might not get its expiry: it stayed for
/// ever.
#[test]
fn a_server_that_forbids_an_expiry_keeps_nobody_inside() {
    holds(|seed| {
        let reader = Hold { allows: 0, wait: Some(300), ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 1).with_call(200, 0, What::Hold(reader));
        plan.faults.push((100, Fault::Forbid(0, "pexpire", 1_000)));
        plan
    });
}

/// One that could not make the set last for its lease was in it, and found itself there when it asked
/// again: the set ended long before, and a writer entered beside it.
#[test]
fn one_of_several_enters_only_with_a_set_that_lasts_for_its_lease() {
    holds(|seed| {
        let first = Hold { ttl: 300, allows: 3, hold: 5_000, ..Hold::of(0) };
        let second = Hold { allows: 2, hold: 3_000, ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 2)
            .with_call(0, 0, What::Hold(first))
            .with_call(200, 1, What::Hold(second))
            .with_call(900, 0, What::Hold(Hold::of(0)));
        plan.faults.push((50, Fault::Forbid(0, "pexpire", 500)));
        plan
    });
}

/// Where the server has no queue, a waiter that finds the lock held writes nothing, so a server that
/// refuses to write does not refuse it: it goes on to ask, which the judge did not expect.
#[test]
fn without_a_queue_a_waiter_is_not_refused_while_the_lock_is_held() {
    holds(|seed| {
        let mut plan = Plan::quiet(seed, 1)
            .with_call(0, 0, What::Hold(Hold { hold: 10, ..Hold::of(0) }))
            .with_call(500, 0, What::Hold(Hold::of(0)));
        plan.topology = Topology::One(Version::Redis5);
        plan.faults.push((5, Fault::RefuseWrites(0, 3_800)));
        plan
    });
}

/// A server came back with data in which one of several was still inside. Who joined that one has
/// its fencing token, also behind an exclusive holder, which the judge did not expect.
#[test]
fn one_that_joins_those_of_older_data_has_their_fencing_token() {
    holds(|seed| {
        let counted = |hold: u64| Hold { allows: 3, hold, ..Hold::of(0) };
        let exclusive = Hold { fenced: false, hold: 20, ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 1)
            .with_call(235, 0, What::Hold(Hold { ttl: 3_000, ..counted(143) }))
            .with_call(423, 0, What::Hold(exclusive))
            .with_call(2_729, 0, What::Hold(counted(3)));
        plan.length = 3_500;
        plan.faults.push((304, Fault::OldData(0, 331)));
        plan
    });
}

/// A writer asked first in its process, and joined the queue behind a reader of it, because its first
/// request was a direct one. The reader slept beside a lock with room until the writer asked.
#[test]
fn a_reader_in_front_of_a_writer_of_its_process_enters_when_there_is_room() {
    holds(|seed| {
        let reader = |allows| What::Hold(Hold { allows, hold: 1_500, ..Hold::of(0) });
        let mut plan = Plan::quiet(seed, 5)
            .with_call(0, 0, What::Hold(Hold { hold: 800, ..Hold::of(0) }))
            .with_call(100, 1, reader(3))
            .with_call(120, 2, reader(3))
            .with_call(140, 3, reader(0))
            .with_call(900, 4, What::Hold(Hold { fenced: false, ..Hold::of(0) }))
            .with_call(900, 4, reader(0));
        // It counts as inside for a second after it was let in.
        plan.faults.push((700, Fault::PowerOff(1)));
        plan
    });
}

/// The server tells the reader when there is room: the writer was to ask for it, and
/// had asked just before, and heard of its own time.
#[test]
fn a_waiter_that_is_told_of_room_asks_whoever_asked_first_in_its_process() {
    holds(|seed| {
        let permit = |allows, hold| What::Hold(Hold { allows, hold, ttl: 3_000, wait: None, ..Hold::of(0) });
        let mut plan = Plan::quiet(seed, 5)
            .with_call(0, 0, permit(2, 9_000))
            .with_call(20, 1, permit(3, 1_000))
            .with_call(40, 2, permit(2, 1_000))
            .with_call(60, 3, permit(3, 9_000))
            .with_call(1_900, 4, What::Hold(Hold { fenced: false, wait: None, ..Hold::of(0) }))
            .with_call(1_900, 4, permit(3, 0));
        plan.faults.push((700, Fault::PowerOff(0)));
        plan.faults.push((2_700, Fault::PowerOff(3)));
        plan
    });
}

/// Its release was a plain command, which found that another process waits, and nobody was left to send
/// the script. Before a reader, the script asked for those that have the lock together.
#[test]
fn a_process_that_ends_behind_a_call_leaves_the_lock_to_a_waiter_of_which_it_has_not_heard() {
    for (allows, way) in [(1, Way::Drop), (1, Way::Run), (0, Way::Drop), (3, Way::Run)] {
        holds(|seed| {
            let last = Hold { hold: 40, way, exits: true, ..Hold::of(0) };
            Plan::quiet(seed, 2).with_call(20, 0, What::Hold(last)).with_call(
                30 + seed,
                1,
                What::Hold(Hold { allows, ..Hold::of(0) }),
            )
        });
    }
}

/// A caller that did not get in cleared dead waiters away, and told nobody: the one that was then the
/// first slept when the last lease ended.
#[test]
fn a_waiter_that_becomes_the_first_one_hears_when_the_leases_of_dead_holders_end() {
    holds(|seed| {
        let permit = |hold| Hold { allows: 2, hold, ..Hold::of(0) };
        let waiter = |allows| What::Hold(Hold { allows, hold: 1_000, ..Hold::of(0) });
        let mut plan = Plan::quiet(seed, 8)
            .with_call(0, 0, What::Hold(Hold { hold: 1_300, ..Hold::of(0) }))
            .with_call(50, 1, waiter(2))
            .with_call(60, 2, waiter(2))
            .with_call(70, 3, waiter(0))
            .with_call(100, 4, waiter(1))
            .with_call(110, 5, waiter(1))
            .with_call(1_800, 6, What::Hold(Hold { wait: Some(0), ..permit(0) }));
        plan.length = 5_000;
        plan.faults.push((1_200, Fault::Kill(4)));
        plan.faults.push((1_330 + seed, Fault::Kill(1)));
        plan.faults.push((1_400 + seed, Fault::Kill(2)));
        plan.faults.push((1_500 + seed, Fault::Kill(3)));
        plan
    });
}

/// The record of a body that had run was deleted, and then its result might not be stored: the next
/// caller ran the body again, although it was to wait for an operator.
#[test]
fn a_body_whose_result_cannot_be_stored_counts_as_interrupted() {
    holds(|seed| {
        let once = Once {
            lasts: 30_000,
            by: None,
            on_interrupted: OnInterrupted::Error,
            fails: false,
            clears: false,
            spawn: false,
        };
        let call = |ttl| What::Hold(Hold { ttl, hold: 49, once: Some(once), ..Hold::of(0) });
        let mut plan = Plan::quiet(seed, 1).with_call(354, 0, call(300)).with_call(873, 0, call(1_000));
        plan.faults.push((392, Fault::Forbid(0, "set", 189)));
        plan
    });
}

/// Two calls of a process were granted their locks by one batch. The first returned and ended the process before the
/// task of the second ran: its lock stays for its ttl, as that of a task inside its body does.
#[test]
fn a_process_that_ends_leaves_what_another_task_was_granted_to_the_ttl() {
    holds(|seed| {
        let first = Hold { hold: 0, way: Way::Drop, exits: true, ..Hold::of(0) };
        let second = Hold { ttl: 10_000, hold: 0, way: Way::Release, ..Hold::of(2) };
        let mut plan =
            Plan::quiet(seed, 1).with_call(280, 0, What::Hold(first)).with_call(280, 0, What::Hold(second));
        plan.length = 4_000;
        plan
    });
}

/// The waiter was told when the second of those inside would end, because the first to end was the one that allowed the
/// fewest: it slept beside room.
#[test]
fn one_that_takes_several_enters_when_the_one_leaves_that_allowed_the_fewest() {
    holds(|seed| {
        let reader = Hold { allows: 0, hold: 1_500, ..Hold::of(0) };
        let kept = Hold { allows: 2, hold: 0, min_hold: Some(100), way: Way::Release, ..Hold::of(0) };
        let heavy = Hold { allows: 3, takes: 2, wait: Some(500), ..Hold::of(0) };
        Plan::quiet(seed, 3)
            .with_call(0, 0, What::Hold(reader))
            .with_call(150, 1, What::Hold(kept))
            .with_call(170, 2, What::Hold(heavy))
    });
}

/// Its process was no longer allowed to publish, so it entered without the queue, where its place stayed. The next request of
/// another process let it in a second time, for a claim, which ended its lease.
#[test]
fn a_holder_whose_place_is_still_in_the_queue_keeps_its_lease() {
    holds(|seed| {
        let first = Hold { allows: 2, hold: 300, ..Hold::of(0) };
        let second = Hold { allows: 3, ttl: 10_000, hold: 3_500, ..Hold::of(0) };
        let mut plan = Plan::quiet(seed, 2)
            .with_call(100, 0, What::Hold(first))
            .with_call(250, 1, What::Hold(Hold { wait: Some(8_000), ..Hold::of(0) }))
            .with_call(280, 0, What::Hold(Hold { wait: Some(8_000), ..second }));
        plan.length = 10_000;
        plan.faults.push((200, Fault::Forbid(0, "publish", 8_000)));
        plan
    });
}

/// Its first waiter could not be inside beside the holder, and both had died. The waiter behind them slept until the first one had to
/// answer a hint, beyond the end of the holder's lease: the key was gone, and a caller that came later took it.
#[test]
fn a_waiter_behind_a_dead_one_asks_when_the_last_lease_ends() {
    holds(|seed| {
        let mut plan = Plan::quiet(seed, 5)
            .with_call(0, 0, What::Hold(Hold { ttl: 10_000, hold: 778, ..Hold::of(0) }))
            .with_call(
                30,
                1,
                What::Hold(Hold { ttl: 300, allows: 2, hold: 1_000, wait: None, ..Hold::of(0) }),
            )
            .with_call(40, 2, What::Hold(Hold { hold: 1_000, wait: None, ..Hold::of(0) }))
            .with_call(50, 3, What::Hold(Hold { allows: 3, hold: 1_000, wait: None, ..Hold::of(0) }))
            .with_call(1_862, 4, What::Hold(Hold { wait: Some(500), ..Hold::of(0) }));
        plan.length = 8_000;
        plan.foreign_clients = false;
        plan.faults.extend([(440, Fault::PowerOff(1)), (1_026, Fault::PowerOff(2))]);
        plan
    });
}

/// Twenty waiters of a process that has died were in front. The reader behind them asks seldom, and may be late. When it
/// had entered and did not know it yet, there was room for another reader, and the simulation said that it slept.
#[test]
fn a_reader_that_enters_behind_many_dead_waiters_is_late_and_does_not_sleep() {
    holds(|seed| {
        let call = |allows, hold| What::Hold(Hold { allows, hold, ttl: 10_000, wait: None, ..Hold::of(0) });
        let mut plan = Plan::quiet(seed, 2).with_call(0, 0, call(1, 285)).with_call(50, 0, call(0, 2_000));
        for _ in 0..20 {
            plan = plan.with_call(60, 0, call(1, 700));
        }
        plan = plan.with_call(150, 1, call(0, 0));
        (plan.length, plan.latency.usual) = (12_000, 30);
        plan.foreign_clients = false;
        plan.faults.push((700 + seed, Fault::Kill(0)));
        plan
    });
}

/// A process was frozen when its two calls came. The server executed the second one last, whose answer was read first: the
/// simulation took the other one for the later.
#[test]
fn of_two_limits_that_are_set_at_one_instant_either_may_count() {
    holds(|seed| {
        let reader = Hold { allows: 0, hold: 400, ..Hold::of(0) };
        let permit = |hold| What::Hold(Hold { allows: 3, hold, ..Hold::of(0) });
        let mut plan = Plan::quiet(seed, 1)
            .with_call(50, 0, What::Hold(Hold { hold: 20, ..Hold::of(0) }))
            .with_call(60, 0, What::SetPermits(0, Some(2)))
            .with_call(70, 0, What::SetPermits(0, Some(6)))
            .with_call(1_000, 0, What::Hold(reader))
            .with_call(1_050, 0, permit(200))
            .with_call(1_100, 0, permit(10));
        (plan.latency.usual, plan.reorder) = (0, 2);
        plan.faults.push((40, Fault::Freeze(0, 60)));
        plan
    });
}

/// Sixty callers of another process began after it and were in front of it: its first try found the lock taken just before.
/// Their process, which passed the lock on to itself, lost its power. The waiter asks as seldom as one behind sixty, and
/// the simulation counted those that had begun before it.
#[test]
fn a_waiter_asks_as_seldom_as_its_place_says_whenever_the_others_have_begun() {
    holds(|seed| {
        let call = |allows, hold| What::Hold(Hold { allows, hold, ttl: 10_000, wait: None, ..Hold::of(0) });
        let mut plan = Plan::quiet(seed, 2).with_call(9, 0, call(1, 300));
        for number in 0..64 {
            plan = plan.with_call(10, 1, call(if number % 8 == 7 { 3 } else { 1 }, 1));
        }
        plan.latency.usual = 3;
        plan.length = 16_000;
        plan.faults.push((40 + 2 * seed, Fault::PowerOff(1)));
        plan
    });
}
