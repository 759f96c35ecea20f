//! The mistakes that the chaos suite makes on the wire, where they are not those of another list here; and that of a forked child.

use super::files::{
    DELETE_LUA, FENCE_LUA, GIVE_UP_LUA, GRANT_ONE_LUA, HANDLE, INCLUDED_RELEASE_LUA, QUORUM, QUORUM_MEMBER,
    RELEASE_LUA, VOTE_LUA,
};
use super::{EXCLUSION, FENCES, FORKED, IN_TIME, Mutant, NO_ORPHAN, NOTHING_LEFT, PROMPT, edit};

pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "release-does-not-compare",
        wrong: "A release frees the lock of any holder.",
        violates: EXCLUSION,
        edits: &[edit(INCLUDED_RELEASE_LUA, "if not is_held then\n", "if holder == nil then\n")],
    },
    Mutant {
        name: "fencing-token-is-not-raised",
        wrong: "Each grant has the same fencing token.",
        violates: FENCES,
        edits: &[edit(FENCE_LUA, "redis.call('INCR', clock)", "tonumber(redis.call('GET', clock)) or 0")],
    },
    Mutant {
        name: "grant-is-dated-in-the-future",
        wrong: "The server's time in a grant is far ahead, so that its waiter counts from when it reads it.",
        violates: EXCLUSION,
        edits: &[
            edit(GRANT_ONE_LUA, "fence .. '|' .. now ..", "fence .. '|9' .. now .."),
            edit(RELEASE_LUA, "fence .. '|' .. at ..", "fence .. '|9' .. at .."),
        ],
    },
    Mutant {
        name: "release-deletes-nothing",
        wrong: "A release is answered, but the key stays.",
        violates: NO_ORPHAN,
        edits: &[
            edit(RELEASE_LUA, "then return redis.call('DEL', KEYS[1]) end", "then return 1 end"),
            edit(DELETE_LUA, "then return redis.call('DEL', KEYS[1]) end", "then return 1 end"),
        ],
    },
    Mutant {
        name: "fencing-tokens-only-count",
        wrong: "Fencing tokens that were given after a failover's data were copied are given again.",
        violates: FENCES,
        edits: &[edit(FENCE_LUA, "if fence < least then", "if fence < LEAST then")],
    },
    Mutant {
        name: "hand-over-deletes",
        wrong: "The lock is deleted instead of handed over, and its first waiter has lost its place.",
        violates: PROMPT,
        edits: &[edit(
            RELEASE_LUA,
            "redis.call('SET', lock, next_token .. '=' .. seconds .. mark, 'PX', px)",
            "if redis.call('DEL', lock) then return 1 end",
        )],
    },
    Mutant {
        name: "granted-lock-ends-early",
        wrong: "The key of a lock that is handed over ends long before the lease that the push tells the waiter of.",
        violates: EXCLUSION,
        edits: &[edit(
            RELEASE_LUA,
            "(lasts == CLAIM and CLAIM_AND_GRACE or string.format('%d', lasts + GRACE))",
            "string.format('%d', lasts / 9)",
        )],
    },
    Mutant {
        name: "granted-waiter-is-not-told",
        wrong: "A waiter is granted the lock, and the push has no kind that it knows.",
        violates: NO_ORPHAN,
        edits: &[
            edit(GRANT_ONE_LUA, "'granted|' .. next_token", "'grunted|' .. next_token"),
            edit(RELEASE_LUA, "'granted|' .. next_token", "'grunted|' .. next_token"),
        ],
    },
    Mutant {
        name: "node-refuses-all-votes",
        wrong: "The nodes of a quorum refuse every caller, although the lock is free.",
        violates: IN_TIME,
        edits: &[
            edit(VOTE_LUA, "'NX', 'PX', ARGV[2]) == false\n", "'XX', 'PX', ARGV[2]) == false\n"),
            edit(VOTE_LUA, "if holder then\n", "if true then\n"),
        ],
    },
    Mutant {
        name: "node-keeps-what-is-released",
        wrong: "A node of a quorum answers a release, and keeps the key.",
        violates: NO_ORPHAN,
        edits: &[edit(
            GIVE_UP_LUA,
            "then return redis.call('DEL', KEYS[1]) end",
            "then return redis.call('TTL', KEYS[1]) end",
        )],
    },
    Mutant {
        name: "node-votes-twice",
        wrong: "A node votes for a caller although another one has the lock.",
        violates: EXCLUSION,
        edits: &[edit(
            VOTE_LUA,
            "if without_time(holder, ARGV[1]) ~= ARGV[1] then\n",
            "if holder == nil then\n",
        )],
    },
    Mutant {
        name: "minority-is-a-quorum",
        wrong: "Half of the nodes, rounded down, are a quorum.",
        violates: EXCLUSION,
        edits: &[edit(QUORUM, "let needed = members.len() / 2 + 1;", "let needed = members.len() / 2;")],
    },
    Mutant {
        name: "vote-lasts-for-half-of-the-ttl",
        wrong: "The clocks of the nodes run faster than the lease allows for.",
        violates: EXCLUSION,
        edits: &[edit(
            VOTE_LUA,
            ".. granted, 'NX', 'PX', ARGV[2]) == false",
            ".. granted, 'NX', 'PX', math.ceil(ARGV[2] / 2)) == false",
        )],
    },
    Mutant {
        name: "proposed-fencing-token-is-always-taken",
        wrong: "A node votes for a fencing token below one that it has seen.",
        violates: FENCES,
        edits: &[edit(VOTE_LUA, "if seen < wanted then return wanted end", "if seen then return wanted end")],
    },
    Mutant {
        name: "restarted-node-votes-at-once",
        wrong: "A node that may have forgotten a lock votes before that lock would have expired.",
        violates: EXCLUSION,
        edits: &[edit(
            QUORUM_MEMBER,
            "let left = max_ttl.saturating_sub(up_for);",
            "let left = max_ttl.saturating_sub(max_ttl);",
        )],
    },
    Mutant {
        name: "failed-vote-is-not-released",
        wrong: "The votes of an attempt that failed stay on their nodes.",
        violates: NOTHING_LEFT,
        edits: &[edit(QUORUM, "        if has_failed {\n", "        if has_failed && false {\n")],
    },
    Mutant {
        name: "forked-child-sends-to-its-parent",
        wrong: "A forked child takes the loop of its parent for its own.",
        violates: FORKED,
        edits: &[edit(
            HANDLE,
            "self.process.load(Ordering::Relaxed) == process",
            "self.process.load(Ordering::Relaxed) <= process",
        )],
    },
];
