use super::*;

const MS: u64 = 1_000_000;

fn hold(fence: u64, entered: u64, deadline: u64, left: Option<u64>, writes: &[u64]) -> Hold {
    let (fence, writes) = (Some(fence), writes.to_vec());
    Hold {
        key: 1,
        called: Some(entered),
        fence,
        allows: None,
        asked: entered,
        entered,
        seen: entered,
        deadline,
        lasts: deadline - entered,
        left,
        changed: None,
        asked_for: None,
        writes,
    }
}

fn check(holds: &[Hold]) -> CheckResult {
    check_with(holds, &[])
}

/// At once, and one by one.
fn check_with(holds: &[Hold], losses: &[Loss]) -> CheckResult {
    let named = |number: usize| ((number, 0), holds[number].clone());
    let (mut at_once, mut stepwise) = (Checker::default(), Checker::default());
    at_once.look((0..holds.len()).map(named).collect(), vec![], u64::MAX, losses);
    for number in 0..holds.len() {
        let until = holds.get(number + 1).map_or(u64::MAX, |next| next.entered);
        stepwise.look(vec![named(number)], vec![], until, losses);
        stepwise.forget(until);
    }
    assert_eq!(at_once.result.writes, stepwise.result.writes);
    assert_eq!(at_once.result.refused, stepwise.result.refused);
    assert_eq!(at_once.result.violations.len(), stepwise.result.violations.len());
    at_once.result
}

#[test]
fn one_after_the_other_is_well() {
    let result = check(&[hold(1, 10, 90, Some(20), &[15]), hold(2, 20, 90, Some(30), &[21, 25])]);
    assert_eq!(result.violations, []);
    assert_eq!((result.holds, result.writes, result.refused), (2, 3, 0));
}

/// A hold of phase 1.
fn one_of(allows: u64, entered: u64, left: u64) -> Hold {
    Hold { allows: Some(allows), ..hold(1, entered, 90, Some(left), &[left - 1]) }
}

#[test]
fn several_may_be_inside_when_each_allows_it() {
    let readers = [one_of(0, 10, 80), one_of(0, 20, 40), one_of(3, 30, 70), one_of(3, 50, 60)];
    let result = check(&readers);
    assert_eq!((result.violations, result.writes, result.refused), (vec![], 4, 0));
}

#[test]
fn one_more_than_one_of_them_allows_is_found() {
    let third = check(&[one_of(2, 10, 80), one_of(0, 20, 70), one_of(0, 30, 40)]);
    assert_eq!((third.overlaps(), third.violations.len()), (1, 1));
    let writer = check(&[one_of(0, 10, 80), one_of(0, 20, 30), hold(2, 40, 90, Some(50), &[])]);
    assert_eq!((writer.overlaps(), writer.violations.len()), (1, 1));
    let reader = check(&[hold(1, 10, 90, Some(50), &[]), Hold { fence: Some(2), ..one_of(0, 20, 40) }]);
    assert_eq!((reader.overlaps(), reader.violations.len()), (1, 1));
}

/// The overlaps of these holds, where an operator sets numbers: each with the times of its call, `None` for no answer.
fn overlaps_beside(
    sets: &[(Option<u64>, u64, Option<u64>)],
    losses: &[Loss],
    holds: &[Hold],
) -> (usize, usize) {
    let mut checker = Checker::default();
    for (number, (permits, began, answered)) in (0..).zip(sets) {
        checker.limits.begins((0, number), 1, *permits, *began);
        match answered {
            Some(at) => checker.limits.is_set((0, number), *at),
            None => checker.limits.is_in_doubt((0, number), began + 5),
        }
    }
    let holds = holds.iter().enumerate().map(|(number, hold)| ((number, 0), hold.clone())).collect();
    checker.look(holds, vec![], u64::MAX, losses);
    (checker.result.overlaps(), checker.result.by_central_limit)
}

#[test]
fn a_central_limit_counts_in_place_of_the_numbers_of_permits() {
    let two = [one_of(2, 30, 80), one_of(2, 40, 70), one_of(3, 50, 60)];
    assert_eq!(overlaps_beside(&[], &[], &two), (1, 0));
    assert_eq!(overlaps_beside(&[(Some(3), 10, Some(20))], &[], &two), (0, 1));
    // Lowered, it takes nobody's place away, but lets nobody in.
    assert_eq!(overlaps_beside(&[(Some(3), 10, Some(20)), (Some(1), 41, Some(45))], &[], &two), (1, 0));
    assert_eq!(overlaps_beside(&[(Some(3), 10, Some(20)), (Some(1), 51, Some(55))], &[], &two), (0, 1));
    // Cleared, it counts no more.
    assert_eq!(overlaps_beside(&[(Some(3), 10, Some(20)), (None, 41, Some(45))], &[], &two), (1, 0));
    let alone = [one_of(2, 30, 80), hold(1, 40, 90, Some(60), &[])];
    assert_eq!(overlaps_beside(&[(Some(3), 10, Some(20))], &[], &alone), (1, 0));
    let readers = [one_of(0, 30, 80), one_of(0, 40, 70)];
    assert_eq!(overlaps_beside(&[(Some(1), 10, Some(20))], &[], &readers), (0, 0));
}

#[test]
fn a_central_limit_in_doubt_may_count_or_not() {
    let two = [one_of(2, 30, 80), one_of(2, 40, 70), one_of(3, 50, 60)];
    let one = [one_of(2, 30, 80), one_of(2, 40, 70)];
    assert_eq!(overlaps_beside(&[(Some(3), 10, None)], &[], &two), (0, 1));
    assert_eq!(overlaps_beside(&[(Some(1), 10, None)], &[], &one), (0, 0));
    assert_eq!(overlaps_beside(&[(Some(1), 10, Some(15))], &[], &one), (1, 0));
    // Another one that was set behind it counts, and no other.
    assert_eq!(overlaps_beside(&[(Some(3), 10, None), (Some(2), 20, Some(25))], &[], &two), (1, 0));
    // What is set while it may still be executed does not end it.
    assert_eq!(overlaps_beside(&[(Some(3), 10, None), (Some(2), 12, Some(25))], &[], &two), (0, 1));
}

#[test]
fn a_central_limit_may_be_forgotten_with_all_that_the_server_knows() {
    let forgotten =
        |keys| Loss { keys, from: 22, to: 23, detection: LossDetection::AtLeaseEnd, of_records: true };
    let one = [one_of(2, 30, 80), one_of(2, 40, 70)];
    let set = (Some(1), 10, Some(20));
    assert_eq!(overlaps_beside(&[set], &[forgotten(None)], &one), (0, 0));
    assert_eq!(overlaps_beside(&[set], &[forgotten(Some(vec![2]))], &one), (1, 0));
    assert_eq!(overlaps_beside(&[set, (Some(1), 24, Some(25))], &[forgotten(None)], &one), (1, 0));
    let taken_away = Loss { of_records: false, ..forgotten(None) };
    assert_eq!(overlaps_beside(&[set], &[taken_away], &one), (1, 0));
}

#[test]
fn a_central_limit_is_kept_until_the_holds_of_its_time_were_looked_at() {
    const SECOND: u64 = 1_000 * MS;
    let mut checker = Checker::default();
    checker.limits.begins((0, 0), 1, Some(3), 10);
    checker.limits.is_set((0, 0), 20);
    for number in 1..1_000 {
        checker.limits.begins((0, number), 1, Some(2), number * SECOND);
        checker.limits.is_set((0, number), number * SECOND + 1);
    }
    checker.forget(0);
    let holds = [one_of(2, 30, 80), one_of(2, 40, 70), one_of(3, 50, 60)];
    let holds = holds.into_iter().enumerate().map(|(number, hold)| ((number, 0), hold)).collect();
    checker.look(holds, vec![], u64::MAX, &[]);
    assert_eq!((checker.result.overlaps(), checker.result.by_central_limit), (0, 1));
    assert_eq!(checker.limits.count(), 1_000);
    checker.forget(1_000 * SECOND);
    assert!(checker.limits.count() < 100, "{}", checker.limits.count());
}

#[test]
fn a_writer_behind_readers_has_a_larger_fencing_token() {
    let result = check(&[one_of(0, 10, 30), hold(1, 40, 90, Some(50), &[])]);
    assert_eq!((result.fences(), result.violations.len()), (1, 1));
}

#[test]
fn two_inside_are_seen_also_behind_a_short_one() {
    let result = check(&[
        hold(1, 10, 90, Some(80), &[]),
        hold(2, 20, 90, Some(30), &[]),
        hold(3, 40, 90, Some(85), &[]),
    ]);
    assert_eq!((result.overlaps(), result.violations.len()), (2, 2));
}

#[test]
fn a_holder_that_was_frozen_behind_its_ask_for_a_shorter_ttl_is_not_inside_for_the_longer_one() {
    let overlaps =
        |first: &Hold| check(&[first.clone(), hold(2, 25 * MS, 90 * MS, Some(30 * MS), &[])]).overlaps();
    let mut first =
        Hold { asked_for: Some((12 * MS, 20 * MS)), ..hold(1, 10 * MS, 90 * MS, Some(80 * MS), &[]) };
    first.on_seen(13 * MS, 90 * MS);
    assert_eq!(overlaps(&first), 0);
    first.on_seen(18 * MS, 90 * MS);
    assert_eq!(overlaps(&first), 1, "it went on with the old deadline");
}

#[test]
fn nobody_is_inside_behind_a_deadline_or_after_the_last_sign_of_life() {
    let late = hold(1, 10, 30, Some(80), &[]);
    let killed = hold(2, 40, 90, None, &[]);
    assert_eq!(check(&[late, killed, hold(3, 41, 90, Some(50), &[])]).violations, []);
}

#[test]
fn a_fence_that_does_not_grow_is_seen() {
    for second in [7, 6] {
        let result = check(&[hold(7, 10, 90, Some(20), &[]), hold(second, 30, 90, Some(40), &[])]);
        assert_eq!((result.fences(), result.violations.len()), (1, 1));
    }
}

#[test]
fn a_late_write_is_refused_when_fences_grow_and_taken_when_they_do_not() {
    let next = |fence| hold(fence, 40, 90, Some(60), &[50]);
    let result = check(&[hold(7, 10, 30, Some(70), &[70]), next(8)]);
    assert_eq!((result.violations.len(), result.refused), (0, 1));
    let result = check(&[hold(7, 10, 30, Some(70), &[70]), next(7)]);
    assert_eq!((result.stale_writes(), result.fences(), result.refused), (1, 1, 0));
}

#[test]
fn what_was_forgotten_excuses_two_inside_but_not_the_order_of_fencing_tokens() {
    let check = |fence, from, to| {
        let holds = [hold(7, 10, 90, Some(40), &[]), hold(fence, 30, 90, Some(60), &[])];
        check_with(
            &holds,
            &[Loss { keys: Some(vec![1]), from, to, detection: LossDetection::AtLeaseEnd, of_records: true }],
        )
    };
    assert_eq!(check(8, 20, 21).excused, 1);
    assert_eq!(check(8, 20, 21).violations, []);
    assert_eq!(check(8, 1, 2).overlaps(), 1);
    assert_eq!(check(8, 70, 71).overlaps(), 1);
    let result = check(6, 20, 21);
    assert_eq!((result.excused, result.fences(), result.violations.len()), (1, 1, 1));
}

#[test]
fn who_has_a_lock_that_was_forgotten_is_to_know_it_in_time() {
    let overlaps = |detection, entered: u64, until: u64| {
        // A ttl of three seconds, forgotten after one.
        let first = hold(7, entered * MS, until * MS, Some(9000 * MS), &[]);
        let first = Hold { lasts: 3000 * MS, ..first };
        let second = hold(8, 1001 * MS, 9900 * MS, Some(9900 * MS), &[]);
        let loss = Loss { keys: None, from: 1000 * MS, to: 1000 * MS, detection, of_records: true };
        check_with(&[first, second], &[loss]).overlaps()
    };
    // The second: not watched yet, so at the next renewal.
    for (detection, entered, known) in [
        (LossDetection::Promptly, 700, 1250),
        (LossDetection::Promptly, 900, 2250),
        (LossDetection::AtLeaseEnd, 700, 4250),
    ] {
        assert_eq!(overlaps(detection, entered, known), 0, "{detection:?}");
        assert_eq!(overlaps(detection, entered, known + 1), 1, "{detection:?}");
    }
    assert_eq!(overlaps(LossDetection::Never, 0, 8999), 0);
}

#[test]
fn a_lock_that_nobody_has_although_it_is_waited_for_is_seen() {
    let idle = |called: u64, slept: &[(u64, u64)]| {
        let mut checker = Checker { hand_over: Some(Duration::from_millis(500)), ..Checker::default() };
        for (due, at) in slept {
            checker.lag.add(LagOf::Machine, due * MS, at * MS);
        }
        let first = hold(7, 1000 * MS, 9000 * MS, Some(2000 * MS), &[]);
        let second = hold(8, 2600 * MS, 9000 * MS, Some(3000 * MS), &[]);
        let second = Hold { called: Some(called * MS), ..second };
        checker.look(vec![((1, 1), first), ((2, 1), second)], vec![], u64::MAX, &[]);
        assert_eq!(checker.result.idle(), checker.result.violations.len());
        checker.result.idle()
    };
    assert_eq!(idle(1500, &[]), 1);
    // The second came later; a plain timer was late, too, or just before.
    assert_eq!(idle(2100, &[]), 0);
    assert_eq!(idle(1500, &[(2200, 2310)]), 0);
    assert_eq!(idle(1500, &[(1500, 1610)]), 0);
    assert_eq!(idle(1500, &[(100, 900)]), 1);
}

#[test]
fn a_lock_that_no_caller_enters_again_although_it_is_waited_for_is_seen() {
    let idle = |holds: &[Hold], called: u64, back: u64| {
        let mut checker = Checker { hand_over: Some(Duration::from_millis(500)), ..Checker::default() };
        let holds = (0..).zip(holds).map(|(number, hold)| ((1, number), hold.clone())).collect();
        let wait = Hold::of_a_vain_wait(1, called * MS, back * MS);
        checker.look(holds, vec![((2, 1), wait)], u64::MAX, &[]);
        assert_eq!(checker.result.idle(), checker.result.violations.len());
        checker.result.idle()
    };
    let first = hold(7, 1000 * MS, 9000 * MS, Some(2000 * MS), &[]);
    let later = hold(8, 2600 * MS, 9000 * MS, Some(2700 * MS), &[]);
    assert_eq!(idle(std::slice::from_ref(&first), 1500, 2501), 1);
    assert_eq!(idle(std::slice::from_ref(&first), 1500, 2500), 0);
    // It returned while another caller was inside, or soon after; the lock never had a holder.
    assert_eq!(idle(&[first.clone(), later.clone()], 1500, 2650), 0);
    assert_eq!(idle(&[first.clone(), later.clone()], 1500, 3200), 0);
    assert_eq!(idle(&[first, later], 1500, 3201), 1);
    assert_eq!(idle(&[], 1500, 2001), 1);
}

/// A caller is granted the lock and frozen, the server forgets the lock, another caller holds it,
/// then the first enters.
#[test]
fn who_had_a_lock_that_was_forgotten_may_enter_late() {
    let holds = |second_asked| {
        let first = Hold { asked: 40, ..hold(9, 41, 90, Some(50), &[]) };
        [first, Hold { asked: second_asked, ..hold(7, 60, 90, Some(70), &[]) }]
    };
    let loss =
        [Loss { keys: None, from: 20, to: 21, detection: LossDetection::AtLeaseEnd, of_records: true }];
    assert_eq!(check_with(&holds(10), &loss).fences(), 0);
    assert_eq!(check_with(&holds(10), &loss).excused, 1);
    assert_eq!(check_with(&holds(30), &loss).fences(), 1);
    assert_eq!(check_with(&holds(10), &[]).fences(), 1);
}

#[test]
fn what_another_lock_has_lost_excuses_nothing() {
    let holds = [hold(7, 10, 90, Some(40), &[]), hold(8, 30, 90, Some(60), &[])];
    let loss =
        |keys| [Loss { keys, from: 20, to: 21, detection: LossDetection::AtLeaseEnd, of_records: true }];
    assert_eq!(check_with(&holds, &loss(Some(vec![2, 3]))).overlaps(), 1);
    assert_eq!(check_with(&holds, &loss(None)).overlaps(), 0);
}

#[test]
fn a_foreign_value_that_another_client_changed_is_seen() {
    let changed = Hold { fence: None, changed: Some(21), ..hold(0, 10, 90, Some(20), &[]) };
    assert_eq!(check(std::slice::from_ref(&changed)).changed(), 1);
    let force = |from| Loss { keys: None, from, to: 30, detection: LossDetection::Never, of_records: false };
    let taken_away = check_with(std::slice::from_ref(&changed), &[force(15)]);
    assert_eq!((taken_away.changed(), taken_away.excused), (0, 1));
    assert_eq!(check_with(&[changed], &[force(25)]).changed(), 1);
}
