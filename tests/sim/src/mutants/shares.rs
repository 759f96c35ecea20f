//! Defects of locks that several have together.

use super::files::{
    ACQUIRE_COUNTED_LUA, ADMIT_WAITERS_LUA, DOWNGRADE_LUA, EXTEND_COUNTED_LUA, HAS_ROOM_LUA, HOLDING,
    LOCK_ALL, READ_HOLDERS_LUA, RENEW_COUNTED_LUA, SET_PERMITS_LUA,
};
use super::{
    AS_LONG, EXCLUSION, FENCES, GRANTED_ONCE, Mutant, ONE_CLAIM, ORDER, PROMPT, RATE, TRUE_OUTCOME, edit,
};

pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "shared-key-goes-with-others",
        wrong: "A shared key behind an exclusive one goes in the same call, which takes it alone.",
        violates: GRANTED_ONCE,
        edits: &[edit(
            LOCK_ALL,
            "sharing.limit().is_counted() || self.options.sharing.limit().is_counted()",
            "self.options.sharing.limit().is_counted()",
        )],
    },
    Mutant {
        name: "downgrade-frees-the-lock",
        wrong: "A writer that becomes a reader is taken for inside by nobody: the next writer enters.",
        violates: EXCLUSION,
        edits: &[edit(
            DOWNGRADE_LUA,
            "redis.call('ZADD', holders, string.format('%.0f', now_ms() + lasts), mine)",
            "redis.call('ZADD', holders, '1', mine)",
        )],
    },
    Mutant {
        name: "downgrade-lets-nobody-in",
        wrong: "A writer becomes a reader, and the readers in front wait on.",
        violates: PROMPT,
        edits: &[edit(DOWNGRADE_LUA, "if admit_waiters(0) == false then return {3} end", "")],
    },
    Mutant {
        name: "downgrade-is-done-once",
        wrong: "A downgrade whose answer was lost is a loss when it is sent again.",
        violates: AS_LONG,
        edits: &[edit(DOWNGRADE_LUA, "if not score then return 0 end", "do return 0 end")],
    },
    Mutant {
        name: "downgrade-draws-no-number",
        wrong: "The readers beside a writer that has become one have a number of their own phase, which is below the writer's.",
        violates: FENCES,
        edits: &[edit(
            DOWNGRADE_LUA,
            "phase = fence ~= '0' and fence or string.format('%.0f', next_fence(clock, floor))",
            "phase = string.format('%.0f', (tonumber(fence) > 0 and fence or next_fence(clock, floor)) - 1)",
        )],
    },
    Mutant {
        name: "raised-number-lets-nobody-in",
        wrong: "An operator raises the central limit, and the waiters in front wait on.",
        violates: PROMPT,
        edits: &[edit(SET_PERMITS_LUA, "if limit then\n  for", "if false then\n  for")],
    },
    Mutant {
        name: "raised-number-lets-in-by-the-last-one",
        wrong: "An operator changes the central limit, and waiters enter by the one before.",
        violates: PROMPT,
        edits: &[edit(SET_PERMITS_LUA, "central = tonumber(to) or false", "central = before > 0 and before")],
    },
    Mutant {
        name: "cleared-number-stays",
        wrong: "An operator clears the central limit, and it counts on.",
        violates: EXCLUSION,
        edits: &[edit(SET_PERMITS_LUA, "redis.call('DEL', permits)", "redis.call('GET', permits)")],
    },
    Mutant {
        name: "lowered-number-takes-a-place",
        wrong: "An operator lowers the central limit, and the last of too many holders loses its place.",
        violates: TRUE_OUTCOME,
        edits: &[edit(
            SET_PERMITS_LUA,
            "central = tonumber(to) or false",
            "central = tonumber(to) or false\nif limit and limit > 1 and central and inside > central then \
             redis.call('ZREM', holders, redis.call('ZRANGE', holders, '-1', '-1')[1]) end",
        )],
    },
    Mutant {
        name: "short-way-does-not-read-the-number",
        wrong: "A caller enters beside others by its own number, although the central limit is lower.",
        violates: EXCLUSION,
        edits: &[edit(
            ACQUIRE_COUNTED_LUA,
            "inside < (central_limit or tonumber(number))",
            "inside < tonumber(number)",
        )],
    },
    Mutant {
        name: "free-lock-is-for-any-weight",
        wrong: "A caller takes a free lock with more permits than the central limit allows.",
        violates: EXCLUSION,
        edits: &[edit(
            ACQUIRE_COUNTED_LUA,
            "local fence = not value and not is_too_heavy and",
            "local fence = not value and",
        )],
    },
    Mutant {
        name: "lease-that-is-over-counts",
        wrong: "One of several whose lease is over counts as inside until it leaves.",
        violates: PROMPT,
        edits: &[edit(
            READ_HOLDERS_LUA,
            "if #over > 0 then redis.call('ZREM'",
            "if false then redis.call('ZREM'",
        )],
    },
    Mutant {
        name: "key-is-shorter-than-a-holder",
        wrong: "The key lasts as long as the lease of the last one that has entered, so the lock is free while others are inside.",
        violates: EXCLUSION,
        edits: &[
            edit(
                EXTEND_COUNTED_LUA,
                "math.max(px + math.floor(lasts / 3), has)",
                "px + math.floor(lasts / 3)",
            ),
            edit(
                EXTEND_COUNTED_LUA,
                "if not value and has >= px then return end",
                "if not value then return end",
            ),
        ],
    },
    Mutant {
        name: "holders-end-before-the-key",
        wrong: "One of several that stays for longer makes the key last, but not the set that counts it.",
        violates: EXCLUSION,
        edits: &[edit(EXTEND_COUNTED_LUA, "if has > 0 then redis.call('PEXPIRE', holders, px) end", "")],
    },
    Mutant {
        name: "renewal-of-one-keeps-no-key",
        wrong: "One of several renews its lease, and the key lasts as long as before.",
        violates: EXCLUSION,
        edits: &[edit(
            RENEW_COUNTED_LUA,
            "if redis.call('PTTL', KEYS[1]) < lasts + GRACE then",
            "if false then",
        )],
    },
    Mutant {
        name: "several-permits-count-for-one",
        wrong: "A caller that takes several permits counts for one, whoever asks.",
        violates: EXCLUSION,
        edits: &[edit(
            HAS_ROOM_LUA,
            "return most == 0 or inside + extra + weight <= most",
            "return most == 0 or inside + 1 <= most",
        )],
    },
    Mutant {
        name: "one-more-than-allowed",
        wrong: "One more enters than all that are inside allow.",
        violates: EXCLUSION,
        edits: &[edit(
            HAS_ROOM_LUA,
            "return most == 0 or inside + extra + weight <= most",
            "return most == 0 or inside + extra + weight <= most + 1",
        )],
    },
    Mutant {
        name: "reader-passes-a-waiting-writer",
        wrong: "A reader enters beside others although a writer waits.",
        violates: ORDER,
        edits: &[
            edit(
                ACQUIRE_COUNTED_LUA,
                "and (exist == 0 or exist == 2 and value) then\n  local number",
                "then\n  local number",
            ),
            edit(
                ACQUIRE_COUNTED_LUA,
                "if waiters == 0 and (is_over or limit) and has_room(number, weight) then",
                "if (is_over or limit) and has_room(number, weight) then",
            ),
        ],
    },
    Mutant {
        name: "one-is-let-in",
        wrong: "A release lets one waiter in, and those behind it that have room, too, hear nothing.",
        violates: PROMPT,
        edits: &[
            edit(ADMIT_WAITERS_LUA, "is_over = #granted == IN_ONE", "is_over = #granted == 1"),
            edit(
                ADMIT_WAITERS_LUA,
                "notify(next_inbox, 'free|' .. next_token .. '|0|0||' .. lock)\n          break",
                "break",
            ),
        ],
    },
    Mutant {
        name: "stopped-writer-keeps-readers-out",
        wrong: "A waiter that does not answer, and has no room, keeps out those behind it that have room.",
        violates: ONE_CLAIM,
        edits: &[edit(
            ACQUIRE_COUNTED_LUA,
            "if has_room(number, weight) and not pass_over() then return {3} end",
            "",
        )],
    },
    Mutant {
        name: "claim-begins-a-body",
        wrong: "A waiter with a `min_hold` begins its body when it has a claim: when it dies at once, another one begins soon.",
        violates: RATE,
        edits: &[
            edit(
                HOLDING,
                "if claims && ask.hold.min.is_some() {",
                "if claims && ask.hold.min.is_some() && false {",
            ),
            edit(
                HOLDING,
                "if waiting.ask.hold.min.is_some() {",
                "if waiting.ask.hold.min.is_some() && false {",
            ),
        ],
    },
];
