//! Mistakes in the scripts, and the test that finds each.

use crate::by_hand::{Edit, fails_with, text};
use crate::central;
use crate::counted;
use crate::failing;
use crate::full_server;
use crate::once;
use crate::random_kinds;
use crate::short_ways;
use crate::ticks;

struct Mistake {
    edit: Edit,
    found_by: fn(),
}

impl Mistake {
    /// The name of the file, without its folder.
    fn name(&self) -> &str {
        self.edit.0.rsplit('/').next().unwrap_or_default()
    }
}

const fn mistake(file: &'static str, from: &'static str, to: &'static str, found_by: fn()) -> Mistake {
    Mistake { edit: (file, from, to), found_by }
}

fn random() {
    random_kinds::run(0..30, 400);
}

const MISTAKES: &[Mistake] = &[
    // Who has room.
    mistake("includes/has_room", "return most == 0 or inside + extra + weight <= most", "return number == 0 or inside < number", random),
    mistake("includes/has_room", "limit, extra = least(limit, entering_least)", "limit = 9 do return inside < number end limit, extra = 9", random),
    mistake("includes/has_room", "limit, extra, entering_extra = least(limit, number)", "limit, extra, entering_extra = number", random),
    mistake(
        "includes/has_room",
        " and inside > #entering / 2 then",
        " then",
        counted::the_members_of_a_lock_that_was_deleted_keep_nobody_out,
    ),
    // How many permits are taken.
    mistake("includes/has_room", "inside + extra + weight <= most", "inside + weight <= most", random),
    mistake("includes/has_room", "inside + extra + weight <= most", "inside + extra < most", random),
    mistake("includes/add_holders", "(extra > 0 and 1 or limit)", "limit", random),
    mistake("includes/limits_of", "(tonumber(its_weight) or 1) - 1", "0", random),
    mistake("includes/number_of", "tonumber(its_weight) or 1, label", "1, label", random),
    mistake("includes/counted", "if missing <= 1 then return 0 end", "if missing <= 3 then return 0 end", random),
    mistake("includes/counted", "taken, most = taken + weight_of(members[i])", "taken, most = taken + 1", random),
    mistake("includes/counted", "local taken, most = weight, number", "local taken, most = weight, least(number, limit)", random),
    mistake("includes/counted", "if most ~= 0 and taken > allowed(most) then return i - 1 end", "do return i - 1 end", random),
    mistake("commands/acquire_counted", "taken + (tonumber(its_weight) or 1)", "taken + 1", random),
    mistake("commands/acquire_counted", "if weight ~= '' and its_least ~= '1' then", "if false then", counted::one_that_takes_several_permits_counts_for_as_many_whatever_way_it_enters),
    mistake("commands/acquire_counted", "string.find(number, 'x', 1, true) and '1' or number", "string.match(number, '%d+')", random),
    mistake("commands/acquire_counted", "inside < (central_limit or tonumber(number))", "true", random),
    mistake("commands/acquire_counted", "string.sub(value, 1, #prefix) == prefix", "string.byte(value) == 37", random),
    mistake("commands/acquire", "local is_over = not inside_now", "local is_over = true", random),
    mistake("commands/acquire", "inside > 0 and who_is_inside()", "false", random),
    // Whose lease is over.
    mistake("includes/read_holders", "if #over > 0 then redis.call('ZREM'", "if false then redis.call('ZREM'", random),
    mistake(
        "includes/read_holders",
        "if next(stuck) then",
        "if false then",
        counted::a_stuck_process_costs_one_claim_whatever_its_callers_wait_for,
    ),
    mistake(
        "includes/read_holders",
        "found[i + 1] % 1 == 0",
        "true",
        counted::a_process_that_lets_its_lease_end_is_not_stuck,
    ),
    mistake(
        "includes/admit_waiters",
        "first == inbox and waiters or notified_waiters()",
        "waiters",
        counted::a_stuck_process_costs_one_claim_whatever_its_callers_wait_for,
    ),
    // Who tells those that are in front now.
    mistake(
        "includes/admit_waiters",
        "have_left = have_left or gone > 0",
        "",
        counted::whoever_clears_the_front_of_the_queue_tells_those_that_are_the_first_two_then,
    ),
    mistake(
        "includes/evict",
        "have_left = have_left or #gone > 0",
        "",
        counted::whoever_clears_the_front_of_the_queue_tells_those_that_are_the_first_two_then,
    ),
    mistake(
        "commands/acquire",
        "if waits or have_left then",
        "if waits then",
        counted::whoever_clears_the_front_of_the_queue_tells_those_that_are_the_first_two_then,
    ),
    mistake(
        "includes/admit_waiters",
        "if have_left and inside > 0 then",
        "if is_inside or #granted > 0 then",
        counted::whoever_clears_the_front_of_the_queue_tells_those_that_are_the_first_two_then,
    ),
    mistake(
        "includes/count_waiters",
        "    have_left = true\n",
        "",
        counted::a_full_queue_that_loses_its_first_waiters_tells_those_that_are_the_first_two_then,
    ),
    mistake(
        "includes/notify_front",
        "if inside > 0 then return admit_waiters() ~= false end",
        "",
        counted::a_full_queue_that_loses_its_first_waiters_tells_those_that_are_the_first_two_then,
    ),
    mistake(
        "includes/notify_front",
        "holder and math.max(left, 0) or 0",
        "math.max(left, 0)",
        counted::a_full_queue_that_loses_its_first_waiters_tells_those_that_are_the_first_two_then,
    ),
    mistake(
        "commands/acquire",
        "have_left and not notify_front",
        "false and not notify_front",
        counted::a_full_queue_that_loses_its_first_waiters_tells_those_that_are_the_first_two_then,
    ),
    mistake(
        "commands/acquire_counted",
        "have_left and not notify_front",
        "false and not notify_front",
        counted::a_full_queue_that_loses_its_first_waiters_tells_those_that_are_the_first_two_then,
    ),
    mistake(
        "commands/acquire",
        "if have_left then notify_waiters(",
        "if false then notify_waiters(",
        counted::behind_the_waiters_of_a_stuck_process_the_first_two_are_told,
    ),
    mistake(
        "commands/acquire_counted",
        "if have_left then notify_front(holder, left) end",
        "",
        counted::behind_the_waiters_of_a_stuck_process_the_first_two_are_told,
    ),
    // Who keeps out those behind it, and does not answer.
    mistake(
        "commands/acquire_counted",
        "if has_room(number, weight) and not pass_over() then return {3} end",
        "",
        counted::a_first_waiter_that_does_not_answer_is_passed_over_after_a_claim,
    ),
    mistake(
        "commands/acquire",
        "leave_unanswered()",
        "",
        counted::a_first_waiter_that_does_not_answer_is_passed_over_after_a_claim,
    ),
    mistake(
        "includes/pass_over",
        "hinted.waited >= CLAIM + 0 then",
        "true then",
        counted::a_first_waiter_that_does_not_answer_is_passed_over_after_a_claim,
    ),
    mistake(
        "includes/hinted",
        " or redis.call('PTTL', queue) > QUEUE_TTL - CLAIM / 2 - waited",
        "",
        counted::a_first_waiter_that_answers_keeps_its_place,
    ),
    mistake(
        "includes/is_there",
        "return not leaves",
        "return true",
        counted::one_that_leaves_takes_its_older_place_under_another_tag_with_it,
    ),
    mistake("includes/read_holders", "if its_inbox and ", "if ", counted::a_member_of_another_form_is_in_nobodys_way),
    mistake(
        "commands/expire_counted",
        "  shorten()\n",
        "",
        counted::the_key_ends_with_the_last_lease_where_that_ends_sooner_than_it_was_to,
    ),
    // Who counts as a waiter.
    mistake("includes/count_waiters", "if #dead > 0 then", "if false then", counted::one_dead_waiter_makes_room_for_one),
    // How long a claim lasts.
    mistake("includes/admit_waiters", "math.min(next_ttl, CLAIM))", "tonumber(next_ttl))", random),
    mistake("commands/acquire_counted", "math.max(now_ms() + lasts + 1, math.floor(score))", "now_ms() + lasts + 1", random),
    mistake("commands/renew_counted", "math.max(now_ms + ARGV[2] + 1, math.floor(score))", "now_ms + ARGV[2] + 1", random),
    mistake(
        "commands/renew_counted",
        "redis.pcall('ZADD'",
        "redis.call('ZADD'",
        counted::a_full_server_keeps_who_is_inside_and_lets_the_next_ones_in,
    ),
    // How long the keys last.
    mistake("includes/extend_counted", "math.max(px + math.floor(lasts / 3), has)", "px + math.floor(lasts / 3)", random),
    mistake("includes/extend_counted", "if not value and has >= px then return end", "if not value then return end", random),
    mistake("includes/add_holders", "is_first and 0 or redis.call('PTTL', lock)", "0", random),
    mistake(
        "includes/add_holders",
        "is_first and 0 or redis.call('PTTL', lock)",
        "redis.call('PTTL', lock) + 3000",
        random,
    ),
    mistake("includes/extend_counted", "if has > 0 then redis.call('PEXPIRE', holders, px) end", "", random),
    mistake("includes/add_holders", "if is_first then redis.call('DEL', holders, claim) end", "", random),
    mistake("includes/admit_next", "if who == nil then", "if false then", random),
    mistake("commands/acquire_counted", "redis.call('PTTL', KEYS[1]) >= lasts + GRACE", "true", random),
    mistake("commands/release_counted", "redis.call('PTTL', KEYS[1]) > 2 * (left + GRACE)", "false", random),
    mistake("commands/renew_counted", "redis.call('PTTL', KEYS[1]) < lasts + GRACE", "false", random),
    mistake(
        "commands/expire_counted",
        "extend_counted(lasts + 1, false, redis.call('PTTL', lock))",
        "nil",
        counted::one_that_lets_its_lease_end_later_than_it_would_keeps_the_key_for_so_long,
    ),
    // The queue.
    mistake(
        "includes/admit_waiters",
        "if gone > 0 then redis.call('ZPOPMIN', queue, gone) end",
        "if gone > 0 then redis.call('ZPOPMIN', queue, 1) end",
        random,
    ),
    mistake(
        "includes/admit_waiters",
        "is_over = #granted == IN_ONE",
        "is_over = #granted == 1",
        counted::readers_are_inside_together_and_a_writer_alone_in_the_order_of_their_requests,
    ),
    mistake(
        "commands/acquire_counted",
        "waiters == 0 and (is_over or limit) and has_room(number, weight)",
        "(is_over or limit) and has_room(number, weight)",
        random,
    ),
    mistake("commands/acquire_counted", "exist == 0 or exist == 2 and value", "true", random),
    mistake("commands/acquire_counted", "exist == 2 and value", "value", random),
    mistake("commands/release_counted", "and not inside[2]", "", random),
    mistake("commands/release_counted", "inside = inside - 1", "inside = inside", random),
    mistake("commands/release_counted", "and redis.call('EXISTS', KEYS[2]) == 0", "", random),
    mistake(
        "includes/release",
        "return not admit_next(place, score) and 2 or score and 1 or 0",
        "return 0",
        random,
    ),
    mistake("includes/grant_next", "if string.byte(kind) == 110 then return admit_waiters() end", "", random),
    mistake("commands/release", "(is_fenced or string.byte(first, -1) == 100)", "true", random),
    mistake("commands/release", "redis.call('ZREM', queue, unpack(places))", "", short_ways::a_release_does_the_same_the_short_way_and_the_long_way),
    mistake("commands/release", "and next_inbox ~= inbox and not to_tell[1]", "and false", short_ways::a_release_does_the_same_the_short_way_and_the_long_way),
    mistake("commands/release", "is_fenced and '' or followers_of(", "followers_of(", short_ways::a_release_does_the_same_the_short_way_and_the_long_way),
    mistake("commands/release", "' .. mark .. followers .. '", "' .. mark .. '", short_ways::a_release_does_the_same_the_short_way_and_the_long_way),
    mistake("commands/acquire", "or not holder and string.byte(value) ~= COUNTED", "or not holder", random),
    // The phase, and what is published.
    mistake("includes/counted", "return ends and math.max(math.ceil(ends - now_ms()), 0) or 0", "return 0", random),
    mistake(
        "includes/notify_each",
        "math.ceil(score - now_ms()) >= left",
        "true",
        counted::waiters_are_told_again_only_when_they_can_enter_earlier,
    ),
    mistake(
        "includes/notify_each",
        "math.ceil(score - now_ms()) >= left",
        "false",
        counted::waiters_are_told_again_only_when_they_can_enter_earlier,
    ),
    mistake(
        "commands/watch",
        "== ARGV[2] and ARGV[1] or value",
        "and ARGV[1] or value",
        counted::what_is_deleted_is_lost_and_the_next_phase_has_another_number,
    ),
    mistake(
        "commands/force_release",
        "if before[6] then redis.call('DEL', holders) end",
        "",
        counted::an_operator_takes_the_lock_from_all_that_have_it,
    ),
    mistake(
        "commands/force_release",
        "string.gsub(holder, '.', digits) ~= loser then return before end",
        "false then return before end",
        counted::an_operator_takes_the_lock_from_the_holder_that_is_named,
    ),
    mistake(
        "commands/force_release",
        "if before[6] and holder then holder = string.gsub(",
        "if false then holder = string.gsub(",
        counted::an_operator_takes_the_lock_from_the_holder_that_is_named,
    ),
    mistake(
        "commands/revoke",
        "inside = inside - redis.call('ZREM', holders, member)",
        "redis.call('ZREM', holders, member)",
        counted::an_operator_takes_its_place_from_one_of_several,
    ),
    mistake(
        "commands/revoke",
        "== revoked .. '|' then",
        "~= '' then",
        counted::an_operator_takes_its_place_from_one_of_several,
    ),
    mistake(
        "commands/revoke",
        "if not admit_next(nil, score) then",
        "if false then admit_next(nil, score)",
        random,
    ),
    mistake(
        "commands/revoke",
        "if not admit_next(nil, score) then",
        "if false then admit_next(nil, score)",
        counted::a_heavy_one_that_an_operator_ends_gives_back_all_its_permits,
    ),
    mistake(
        "commands/revoke",
        "notify(its_inbox .. home, 'revoked|'",
        "notify(inbox .. home, 'revoked|'",
        counted::an_operator_takes_its_place_from_one_of_several,
    ),
    mistake("commands/release_counted", "if inside == 0 and leave_free()", "if false", counted::strangers_and_a_full_queue),
    // How many there are, where an operator has set the number.
    mistake("includes/central", "if number < 2 then return number end", "", random),
    mistake("includes/central", "return central or number", "return number", central::a_number_that_is_set_counts_for_each_way_in),
    mistake("includes/central", "return central or number", "return math.min(central or number, number)", random),
    mistake("includes/central", "return central or number", "return math.max(central or number, number)", random),
    mistake("includes/has_room", "allowed(least(number, limit))", "least(number, limit)", random),
    mistake("includes/counted", "math.max(allowed(least(number, limit)), 1)", "math.max(least(number, limit), 1)", random),
    mistake("includes/counted", "taken > allowed(most) then", "taken > most then", random),
    mistake(
        "includes/admit_waiters",
        "and not is_refused(next_inbox, its_kind) then",
        "then",
        central::a_waiter_that_takes_too_many_leaves_with_a_push,
    ),
    mistake(
        "includes/admit_waiters",
        "notify(its_inbox, 'gone||0|0||' .. lock)",
        "",
        central::a_waiter_that_takes_too_many_leaves_with_a_push,
    ),
    mistake(
        "includes/admit_waiters",
        "if its_weight == 1 or its_weight <= allowed(its_number) then return false end",
        "if its_weight <= allowed(its_number) then return false end",
        central::one_permit_of_a_reader_is_never_too_many,
    ),
    mistake("commands/acquire_counted", "local is_too_heavy = central_limit and", "local is_too_heavy = false and", central::one_that_takes_too_many_is_refused_each_way),
    mistake(
        "commands/acquire_counted",
        "if weight > 1 and weight > allowed(number) then",
        "if false then",
        central::one_that_takes_too_many_is_refused_each_way,
    ),
    mistake(
        "commands/acquire_counted",
        "inside < (central_limit or tonumber(number))",
        "inside < tonumber(number)",
        central::a_number_that_is_set_counts_for_each_way_in,
    ),
    mistake(
        "commands/acquire_counted",
        "local limit = central_limit or most + 0",
        "local limit = most + 0",
        central::a_number_that_is_set_counts_for_each_way_in,
    ),
    mistake("commands/set_permits", "if limit then", "if false then", central::a_number_that_is_raised_lets_waiters_in),
    mistake("commands/set_permits", "admit_next(0)", "admit_next()", central::those_that_wait_on_are_told_when_there_is_room),
    mistake(
        "commands/set_permits",
        "redis.call('DEL', permits)",
        "redis.call('GET', permits)",
        central::a_number_that_is_raised_lets_waiters_in,
    ),
    mistake(
        "commands/set_permits",
        "central = tonumber(to) or false",
        "central = before > 0 and before",
        central::a_number_that_is_raised_lets_waiters_in,
    ),
    // What access rules forbid.
    mistake(
        "commands/acquire_counted",
        "redis.pcall('ZADD', KEYS[5], ends, member)",
        "redis.call('ZADD', KEYS[5], ends, member)",
        counted::those_that_may_not_be_counted_leave_a_free_lock,
    ),
    mistake(
        "commands/acquire_counted",
        "if redis.pcall('PEXPIRE', KEYS[5], px) ~= 1 then",
        "redis.pcall('PEXPIRE', KEYS[5], px) if false then",
        counted::those_that_may_not_be_counted_leave_a_free_lock,
    ),
    mistake(
        "commands/acquire_counted",
        "redis.call('DEL', KEYS[1], KEYS[5])",
        "",
        counted::those_that_may_not_be_counted_leave_a_free_lock,
    ),
    mistake(
        "includes/add_holders",
        "(added and type(redis.pcall('PEXPIRE', holders, px)) ~= 'table')",
        "added",
        counted::those_that_may_not_be_counted_leave_a_free_lock,
    ),
    mistake(
        "includes/add_holders",
        "redis.call('DEL', lock, holders)",
        "",
        counted::those_that_may_not_be_counted_leave_a_free_lock,
    ),
    mistake(
        "includes/add_holders",
        "if not added then redis.call('ZADD', holders, 'NX', unpack(entering)) end",
        "",
        counted::one_that_may_not_be_counted_beside_others_is_not_granted_the_lock,
    ),
    // Ticks.
    mistake("commands/tick", "asked + early)", "asked)", ticks::a_random_fleet_runs_each_tick_once),
    mistake(
        "commands/tick",
        "now - ARGV[10]",
        "now",
        ticks::a_call_that_comes_late_is_for_the_tick_of_its_call_and_a_waiter_for_the_one_it_was_told,
    ),
    mistake(
        "commands/tick",
        "if not tick then",
        "if length > 0 then",
        ticks::a_call_that_comes_late_is_for_the_tick_of_its_call_and_a_waiter_for_the_one_it_was_told,
    ),
    mistake(
        "commands/tick",
        "if last > tick then",
        "if false then",
        ticks::a_clock_that_is_set_back_a_little_costs_nothing_and_by_more_the_ticks_in_between,
    ),
    mistake(
        "commands/tick",
        "its_token == ARGV[1]",
        "false",
        ticks::a_caller_whose_answer_was_lost_has_its_tick_and_no_other_one_has,
    ),
    mistake("commands/tick", "if is_own then tick = last end", "", ticks::a_caller_whose_answer_was_lost_has_its_tick_and_no_other_one_has),
    mistake("commands/tick", " and type(answer) == 'number'", "", ticks::a_busy_lock_takes_no_tick),
    mistake(
        "commands/tick",
        "if ARGV[13] == 'record' and",
        "if",
        ticks::a_tick_that_is_retried_is_over_with_a_release_of_the_lock_that_is_still_held,
    ),
    mistake("commands/tick", "tick + keeps - now))", "keeps))", ticks::no_record_is_gone_before_its_tick_is_refused_as_old),
    mistake("commands/tick", "tick + keeps <= now", "tick + keeps < now", ticks::no_record_is_gone_before_its_tick_is_refused_as_old),
    mistake(
        "commands/tick",
        " or its_call and math.abs(asked - its_call) < early",
        "",
        ticks::a_timer_runs_once_for_each_of_its_firings_wherever_in_the_tick_it_fires,
    ),
    mistake(
        "commands/tick",
        "tick = tick + length",
        "tick = tick + 0",
        ticks::a_timer_runs_once_for_each_of_its_firings_wherever_in_the_tick_it_fires,
    ),
    mistake("commands/tick", "asked - its_call >= length - early", "true", ticks::a_run_by_hand_takes_no_later_tick),
    mistake(
        "commands/tick",
        "granted + SETTLES - now",
        "0",
        ticks::one_that_can_wait_does_so_for_a_moment_where_the_tick_may_be_given_back,
    ),
    mistake(
        "commands/tick",
        "math.min(answer[3], settles)",
        "answer[3]",
        ticks::one_that_can_wait_does_so_for_a_moment_where_the_tick_may_be_given_back,
    ),
    mistake(
        "commands/tick",
        "ARGV[3] ~= '0'",
        "true",
        ticks::one_that_can_wait_does_so_for_a_moment_where_the_tick_may_be_given_back,
    ),
    mistake(
        "includes/end_tick",
        "now - asked",
        "now",
        ticks::a_run_that_is_not_recorded_before_its_end_keeps_out_the_other_calls_of_its_firing,
    ),
    mistake(
        "includes/end_tick",
        "is_held = value == token or value == token .. '!'",
        "is_held = true",
        ticks::a_tick_that_is_retried_is_over_with_a_release_of_the_lock_that_is_still_held,
    ),
    mistake(
        "includes/end_tick",
        " or value == token .. '!'",
        "",
        ticks::a_marked_lock_that_was_waited_for_ends_its_tick_as_well,
    ),
    mistake(
        "includes/end_tick",
        "if its_token == token then",
        "do",
        ticks::a_caller_that_leaves_before_its_body_begins_opens_its_own_tick_alone,
    ),
    mistake(
        "includes/end_tick",
        "redis.call('SET', record, last .. '|',",
        "redis.call('SET', KEYS[6], '0|',",
        ticks::a_caller_that_leaves_before_its_body_begins_opens_its_own_tick_alone,
    ),
    mistake(
        "includes/end_tick",
        "local answer = release()",
        "redis.call('SET', record, 'earlier')\nlocal answer = release()",
        full_server::on_a_full_server_each_script_frees_what_it_releases_and_changes_nothing_where_it_is_refused,
    ),
    mistake(
        "includes/end_tick",
        "redis.call('PEXPIRE', record, px)",
        "",
        full_server::on_a_full_server_each_script_frees_what_it_releases_and_changes_nothing_where_it_is_refused,
    ),
    // Bodies that run once.
    mistake(
        "commands/acquire_once",
        "if not ARGV[12] or",
        "if not ARGV[12] and ARGV[3] == 'join' or ARGV[12] and",
        once::a_body_runs_once_and_those_that_wait_are_told,
    ),
    mistake(
        "commands/acquire_once",
        "if parse(value_of(KEYS[1])) == ARGV[1] then return 1 end",
        "",
        once::a_grant_by_a_push_is_given_back_and_tells_the_next,
    ),
    mistake(
        "commands/acquire_once",
        ".. '|once') and 1 or 0",
        ".. '|other') and 1 or 0",
        once::a_grant_by_a_push_is_given_back_and_tells_the_next,
    ),
    mistake("commands/acquire_once", "found.fingerprint ~= fingerprint", "false", once::a_key_stands_for_one_request),
    mistake(
        "commands/acquire_once",
        "and not (found and found.runner == runner)",
        "",
        once::what_was_interrupted_is_an_error_where_it_is_asked_for,
    ),
    mistake(
        "commands/acquire_once",
        "if found and ARGV[11] == 'error' then return",
        "if false then return",
        once::what_was_interrupted_is_an_error_where_it_is_asked_for,
    ),
    mistake(
        "commands/acquire_once",
        "redis.sha1hex(result) ~= ARGV[12]",
        "false",
        once::a_result_that_is_ignored_counts_as_none,
    ),
    mistake(
        "includes/store_result",
        "parse(value) == token, found",
        "true, found",
        once::a_result_whose_lock_was_lost_is_not_stored,
    ),
    mistake(
        "includes/store_result",
        "and not is_done and found.runner == runner then",
        "and found.runner == runner then",
        once::a_grant_by_a_push_is_given_back_and_tells_the_next,
    ),
    mistake(
        "includes/store_result",
        "elseif how == 'undone'",
        "elseif how ~= 'done'",
        once::what_was_interrupted_is_an_error_where_it_is_asked_for,
    ),
    mistake(
        "includes/store_result",
        "elseif how == 'done' and is_done and found.runner == runner then",
        "elseif how == 'done' and is_done then",
        once::a_result_whose_lock_was_lost_is_not_stored,
    ),
    mistake(
        "includes/store_result",
        "elseif how == 'done' and is_done and found.runner == runner then",
        "elseif false then",
        once::a_body_runs_once_and_those_that_wait_are_told,
    ),
    mistake(
        "commands/finish",
        "if is_held and is_done then",
        "if is_held and how == 'done' then",
        once::a_grant_by_a_push_is_given_back_and_tells_the_next,
    ),
    mistake("commands/finish", "if its_kind == 'once' then", "if kind then", once::a_plain_waiter_behind_gets_the_lock),
    mistake("includes/once", "'PX', lasts", "'PX', 1000", once::a_body_runs_once_and_those_that_wait_are_told),
    mistake(
        "commands/acquire_once",
        "ARGV[9] + ARGV[2] + GRACE",
        "ARGV[9] + 0",
        once::a_record_lasts_for_as_long_as_its_lock_and_behind_it_for_once,
    ),
    mistake(
        "commands/acquire_once",
        "before = found.ends .. '|' .. found.before",
        "",
        once::a_result_that_is_ignored_survives_a_body_that_fails,
    ),
    mistake(
        "includes/store_result",
        "redis.call('SET', record, found.before, 'PX', string.format('%.0f', found.left))",
        "redis.call('DEL', record)",
        once::a_result_that_is_ignored_survives_a_body_that_fails,
    ),
    mistake(
        "commands/renew_once",
        "if parse(value_of(KEYS[1])) == ARGV[1] then",
        "if false then",
        once::a_record_lasts_for_as_long_as_its_lock_and_behind_it_for_once,
    ),
    mistake(
        "commands/renew_once",
        "'^[^|]*|s|%d+|(%x+)|') == ARGV[5] then",
        "'^[^|]*|.|%d+|(%x+)|') then",
        once::a_record_lasts_for_as_long_as_its_lock_and_behind_it_for_once,
    ),
    mistake(
        "commands/renew_once",
        "ARGV[4] + math.max(ARGV[2], redis.call('PTTL', KEYS[1])) + GRACE",
        "ARGV[4] + ARGV[2] + GRACE\nredis.call('PEXPIRE', key, string.format('%.0f', lasts))",
        once::a_record_lasts_for_as_long_as_its_lock_and_behind_it_for_once,
    ),
    // A lock that is held alone, and beside others from then on.
    mistake(
        "commands/downgrade",
        "if holder == token then",
        "if holder then",
        counted::one_that_is_downgraded_lets_in_those_in_front_that_have_room_beside_it,
    ),
    mistake(
        "commands/downgrade",
        "if not score then return 0 end",
        "score = score or 0",
        counted::one_that_is_downgraded_lets_in_those_in_front_that_have_room_beside_it,
    ),
    mistake(
        "commands/downgrade",
        "phase = fence ~= '0' and fence or ",
        "phase = ",
        counted::one_that_is_downgraded_lets_in_those_in_front_that_have_room_beside_it,
    ),
    mistake(
        "commands/downgrade",
        "if admit_waiters(0) == false then return {3} end",
        "",
        counted::one_that_is_downgraded_lets_in_those_in_front_that_have_room_beside_it,
    ),
    mistake(
        "commands/downgrade",
        "written, limit, inside = '%holders|' .. number .. '|' .. phase, number, 1",
        "written, limit, inside = '%holders|' .. number .. '|' .. phase, number, 0",
        counted::one_that_is_downgraded_lets_in_those_in_front_that_have_room_beside_it,
    ),
    mistake(
        "commands/downgrade",
        "local leaves = true",
        "local leaves = false",
        counted::one_that_is_downgraded_leaves_nothing_of_what_was_before,
    ),
    mistake(
        "commands/downgrade",
        "  redis.pcall('DEL', claim)",
        "",
        counted::one_that_is_downgraded_leaves_nothing_of_what_was_before,
    ),
    mistake(
        "commands/downgrade",
        "  redis.call('DEL', holders)\n  redis.call('ZADD', holders, 'XX', '0', '')",
        "  redis.call('DEL', claim)",
        counted::one_that_is_downgraded_leaves_nothing_of_what_was_before,
    ),
    mistake(
        "commands/downgrade",
        "redis.call('ZREM', queue, token",
        "redis.call('ZREM', queue, place_ttl",
        counted::one_without_a_fencing_token_draws_it_when_it_is_downgraded,
    ),
    mistake(
        "commands/downgrade",
        "math.max(now_ms() + ttl + 1, math.floor(score))",
        "now_ms() + ttl + 1",
        counted::one_without_a_fencing_token_draws_it_when_it_is_downgraded,
    ),
    mistake(
        "commands/downgrade",
        "  extend_counted(ends - now_ms(), false, redis.call('PTTL', lock))",
        "",
        counted::one_without_a_fencing_token_draws_it_when_it_is_downgraded,
    ),
    mistake(
        "commands/downgrade",
        "math.max(tonumber(ttl), without_grace(redis.call('PTTL', lock), grace))",
        "ttl",
        counted::one_without_a_fencing_token_draws_it_when_it_is_downgraded,
    ),
    mistake(
        "commands/downgrade",
        "  redis.call('DEL', holders)\n  redis.call('ZADD', holders, 'XX', '0', '')",
        "  redis.call('ZADD', holders, 'XX', '0', '')\n  redis.call('DEL', holders)",
        full_server::on_a_full_server_each_script_frees_what_it_releases_and_changes_nothing_where_it_is_refused,
    ),
    mistake(
        "commands/downgrade",
        "  redis.call('PEXPIRE', holders, redis.call('PTTL', holders))",
        "",
        full_server::on_a_full_server_each_script_frees_what_it_releases_and_changes_nothing_where_it_is_refused,
    ),
];

/// Those that matter where a command fails.
const WHERE_ONE_FAILS: &[Mistake] = &[
    mistake(
        "commands/acquire_counted",
        "return redis.error_reply('TRYAGAIN the server has refused to count a caller')",
        "",
        failing::those_that_enter_and_leave,
    ),
    mistake(
        "commands/downgrade",
        "    redis.call('DEL', holders)\n    return expires",
        "    return expires",
        failing::those_that_downgrade,
    ),
    mistake(
        "includes/add_holders",
        "error({err = 'TRYAGAIN the server has refused to count a caller'})",
        "",
        failing::those_that_enter_and_leave,
    ),
    mistake(
        "includes/release",
        "    redis.call('DEL', lock)\n    redis.pcall('DEL', claim)",
        "    redis.call('DEL', lock, claim)",
        failing::those_that_enter_and_leave,
    ),
];

#[test]
fn each_mistake_is_one_of_the_scripts_as_they_are() {
    for Mistake { edit: (name, from, _), .. } in MISTAKES.iter().chain(WHERE_ONE_FAILS) {
        assert_eq!(text(name).matches(from).count(), 1, "{name}: {from}");
    }
}

/// `cargo test --test scripts each_mistake -- --ignored`
#[test]
#[ignore = "takes minutes"]
fn each_mistake_in_the_scripts_is_found() {
    let survives = |mistake: &&Mistake| !fails_with(mistake.edit, mistake.found_by);
    let survivors: Vec<_> = MISTAKES.iter().filter(survives).map(|mistake| mistake.edit).collect();
    assert!(survivors.is_empty(), "{survivors:#?}");
}

/// As `each_mistake_in_the_scripts_is_found`, for those of bodies that run once, which are found in a moment.
#[test]
fn each_mistake_in_the_record_of_a_body_is_found() {
    let names = ["acquire_once", "store_result", "finish", "once", "renew_once"];
    let of_bodies = MISTAKES.iter().filter(|mistake| names.contains(&mistake.name()));
    let survives = |mistake: &&Mistake| !fails_with(mistake.edit, mistake.found_by);
    let survivors: Vec<_> = of_bodies.filter(survives).map(|mistake| mistake.edit).collect();
    assert!(survivors.is_empty(), "{survivors:#?}");
}

/// As `each_mistake_in_the_scripts_is_found`, for those of ticks, which are found in a moment.
#[test]
fn each_mistake_in_the_record_of_ticks_is_found() {
    let of_ticks = MISTAKES.iter().filter(|mistake| ["tick", "end_tick"].contains(&mistake.name()));
    let survives = |mistake: &&Mistake| !fails_with(mistake.edit, mistake.found_by);
    let survivors: Vec<_> = of_ticks.filter(survives).map(|mistake| mistake.edit).collect();
    assert!(survivors.is_empty(), "{survivors:#?}");
}

/// As `each_mistake_in_the_scripts_is_found`, for what an operator does, which is found in a moment.
#[test]
fn each_mistake_where_an_operator_takes_a_lock_away_is_found() {
    let names = ["revoke", "force_release"];
    let of_operators = MISTAKES.iter().filter(|mistake| names.contains(&mistake.name()));
    let survives = |mistake: &&Mistake| !fails_with(mistake.edit, mistake.found_by);
    let survivors: Vec<_> = of_operators.filter(survives).map(|mistake| mistake.edit).collect();
    assert!(survivors.is_empty(), "{survivors:#?}");
}

/// As `each_mistake_in_the_scripts_is_found`, for a lock that is downgraded, which is found in a moment.
#[test]
fn each_mistake_in_a_downgrade_is_found() {
    let of_downgrades = MISTAKES.iter().filter(|mistake| mistake.name() == "downgrade");
    let survives = |mistake: &&Mistake| !fails_with(mistake.edit, mistake.found_by);
    let survivors: Vec<_> = of_downgrades.filter(survives).map(|mistake| mistake.edit).collect();
    assert!(survivors.is_empty(), "{survivors:#?}");
}

/// As `each_mistake_in_the_scripts_is_found`, for the central limit, as far as they are found in a moment.
#[test]
fn each_mistake_in_the_central_limit_is_found() {
    let slow: fn() = random;
    let of_limits = MISTAKES.iter().filter(|mistake| {
        let texts = [mistake.edit.1, mistake.edit.2].concat();
        let words = ["central", "allowed", "is_refused", "notify(its_inbox, 'gone"];
        let is_of_it = mistake.name() == "set_permits" || words.iter().any(|word| texts.contains(word));
        is_of_it && !std::ptr::fn_addr_eq(mistake.found_by, slow)
    });
    let of_limits: Vec<_> = of_limits.collect();
    assert!(of_limits.len() >= 12, "{}", of_limits.len());
    let survivors: Vec<_> = of_limits
        .into_iter()
        .filter(|mistake| !fails_with(mistake.edit, mistake.found_by))
        .map(|mistake| mistake.edit)
        .collect();
    assert!(survivors.is_empty(), "{survivors:#?}");
}

/// As `each_mistake_in_the_scripts_is_found`, for those that matter where a command fails.
#[test]
fn each_mistake_where_a_command_fails_is_found() {
    let survives = |mistake: &&Mistake| !fails_with(mistake.edit, mistake.found_by);
    let survivors: Vec<_> = WHERE_ONE_FAILS.iter().filter(survives).map(|mistake| mistake.edit).collect();
    assert!(survivors.is_empty(), "{survivors:#?}");
}
