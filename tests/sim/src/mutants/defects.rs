//! Defects that use has found, and long runs of chaos had not.

use super::files::{
    ACQUIRE_LUA, ASKING, CLUSTER, CONNECTION, DECODE, EXCHANGE, EXTEND_LUA, FIELDS, HELD, HOLDING,
    INCLUDED_RELEASE_LUA, MOST_LUA, NOTIFY_PLACE_LOST_LUA, ON_EVENT, ON_REPLY, REENTRANCY, REVOKE_LUA,
    SEEN_FENCES, TAKE_AWAY_LUA, TOGETHER_LUA, WAITING,
};
use super::{CAUSE, EXCLUSION, Edit, FENCES, FEW_COMMANDS, Mutant, PROMPT, TRUE_OUTCOME, edit};

/// A granted number counts although the manager has seen a larger one.
const NO_REPLY_IS_COMPARED: Edit =
    edit(CONNECTION, "before <= expected.seen.at(at)", "before < expected.seen.at(at).min(1)");

/// So does a number that is pushed.
const NO_PUSH_IS_COMPARED: Edit =
    edit(SEEN_FENCES, "if push.is_undercut {", "push.is_undercut = false;\n        if push.is_undercut {");

pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "shorter-ttl-counts-from-its-answer",
        wrong: "A request for a shorter ttl leaves the lease as it is until it is answered, but the server may have done it.",
        violates: EXCLUSION,
        edits: &[edit(HELD, "            self.lease.shorten(ends);\n", "            let _ = ends;\n")],
    },
    Mutant {
        name: "abilities-of-one-node-count-for-all",
        wrong: "In a Cluster, a lock that a server keeps for a claim is counted for its ttl, as another node would keep it.",
        violates: EXCLUSION,
        edits: &[
            edit(
                ON_REPLY,
                "Ok(Verdict::Claimed { fence }) => self.answered_held(cx, id, sent, fence, true),",
                "Ok(Verdict::Claimed { fence }) => {\n                \
                 let claims = cx.abilities.hands_over;\n                \
                 self.answered_held(cx, id, sent, fence, claims);\n            }",
            ),
            edit(CLUSTER, "            self.tell_abilities();\n", ""),
        ],
    },
    Mutant {
        name: "late-ask-shortens",
        wrong: "A waiter's request that arrives late makes the expiry of its own held lock earlier.",
        violates: EXCLUSION,
        edits: &[edit(ACQUIRE_LUA, "  lasts = math.max(lasts, at_least)\n", "")],
    },
    Mutant {
        name: "late-renewal-shortens",
        wrong: "A renewal that arrives behind a later one for a longer ttl makes the expiry earlier.",
        violates: EXCLUSION,
        edits: &[
            edit(EXTEND_LUA, "    if not exactly and left > tonumber(lasts) then lasts = left end\n", ""),
            edit(EXTEND_LUA, "  if not exactly then lasts = math.max(lasts, left) end\n", ""),
        ],
    },
    Mutant {
        name: "late-shorter-ttl-shortens",
        wrong: "A shorter ttl is sent where a late request could shorten what was extended since.",
        violates: EXCLUSION,
        edits: &[edit(
            FIELDS,
            "shortens && self.session.late_requests == LateRequests::Impossible",
            "shortens",
        )],
    },
    Mutant {
        name: "task-in-sync-body-is-nested",
        wrong: "A task that a sync body's executor polls counts as nested in that body, although another task has spawned it.",
        violates: EXCLUSION,
        edits: &[edit(
            REENTRANCY,
            "let is_ours = *entered_by == task &&",
            "let is_ours = (*entered_by == task || true) &&",
        )],
    },
    Mutant {
        name: "acquire-carries-no-floor",
        wrong: "Fencing tokens go back when older data replace a server's data under a live connection.",
        violates: FENCES,
        edits: &[
            edit(FIELDS, "_ => Floor::above(self.estimate, seen),", "_ => Floor::Estimate(0),"),
            NO_REPLY_IS_COMPARED,
            NO_PUSH_IS_COMPARED,
        ],
    },
    Mutant {
        name: "floor-now-and-then",
        wrong: "For 5 ms after a comparison with the floor, no script carries it, and the client compares plain replies alone.",
        violates: FENCES,
        edits: &[
            edit(
                FIELDS,
                "(fences.estimate(now), fences.is_behind())",
                "(if fences.is_due(now) { fences.estimate(now) } else { 0 }, fences.is_behind())",
            ),
            edit(FIELDS, "_ => Floor::above(self.estimate, seen),", "_ => Floor::Estimate(self.estimate),"),
            NO_REPLY_IS_COMPARED,
            NO_PUSH_IS_COMPARED,
        ],
    },
    Mutant {
        name: "plain-number-is-not-the-callers",
        wrong: "Who takes a lock without a script gets the floor for a fencing token, and not the number that was drawn for it.",
        violates: FENCES,
        edits: &[edit(
            DECODE,
            "fence > 0 => {\n            Reply::Acquire(Verdict::Granted { fence: fence.unsigned_abs() })",
            "fence > 0 => {\n            Reply::Acquire(Verdict::Granted { fence: least })",
        )],
    },
    Mutant {
        name: "plain-number-is-below-the-floor",
        wrong: "A number that was drawn without a script counts although older data have replaced the clock.",
        violates: FENCES,
        edits: &[edit(DECODE, "fence.unsigned_abs() >= least", "fence.unsigned_abs() >= least.min(1)")],
    },
    Mutant {
        name: "plain-lock-counts-from-its-receipt",
        wrong: "The lease of a lock that was taken without a wait counts from the answer, which may come when it is over.",
        violates: EXCLUSION,
        edits: &[edit(
            HOLDING,
            "safe_until(sent, lasts));",
            "safe_until(if claims { sent } else { cx.now }, lasts));",
        )],
    },
    Mutant {
        name: "vanished-queue-is-not-noticed",
        wrong: "When the queue is gone (a flush, an operator, an eviction), the waiters of a process but one never ask again.",
        violates: PROMPT,
        edits: &[
            edit(
                NOTIFY_PLACE_LOST_LUA,
                "if not has_waited or how == 'rejoin' then return end",
                "do return end",
            ),
            edit(
                ON_EVENT,
                "            self.rejoin(cx, id);\n        } else {",
                "            self.ask_early(cx, id);\n        } else {",
            ),
        ],
    },
    Mutant {
        name: "dead-waiters-hold-others-up",
        wrong: "One call removes 64 dead waiters from the front of a queue, and no call follows it.",
        violates: PROMPT,
        edits: &[
            edit(MOST_LUA, "local MOST = 2000", "local MOST = 64"),
            edit(TOGETHER_LUA, "local TOGETHER = 250", "local TOGETHER = 62"),
            edit(
                ACQUIRE_LUA,
                "if holder == false then return {3} end",
                "if holder == false then holder, left = '', -2 end",
            ),
            edit(INCLUDED_RELEASE_LUA, "if next_holder == false then return 2 end\n", ""),
        ],
    },
    Mutant {
        name: "grant-before-its-place-is-ignored",
        wrong: "A grant that overtakes the reply to the request that joined the queue is forgotten.",
        violates: PROMPT,
        edits: &[edit(
            ON_REPLY,
            "let early = waiting.take_deferred_push();",
            "let early = waiting.take_deferred_push().and(None);",
        )],
    },
    Mutant {
        name: "all-refused-waiters-ask-on",
        wrong: "Each waiter that a server refuses for now asks again, with a short pause, for as long as it waits.",
        violates: FEW_COMMANDS,
        edits: &[
            edit(
                WAITING,
                "const REFUSED: Backoff = Backoff { shortest: ASK_AGAIN_AFTER, longest: Duration::from_secs(1) };",
                "const REFUSED: Backoff = Backoff { shortest: ASK_AGAIN_AFTER, longest: ASK_AGAIN_AFTER };",
            ),
            edit(
                ASKING,
                "if is_behind && waiting.ask.queues() && waiting.ask.after.is_none() {",
                "if is_behind && false {",
            ),
        ],
    },
    Mutant {
        name: "renewals-wait-behind-a-backlog",
        wrong: "A renewal is sent after the requests that came before it, so held locks are lost behind a crowd.",
        violates: CAUSE,
        edits: &[
            edit(
                HOLDING,
                "cx.outbox.push_urgent((id, held.renewal_request(cx.now)));",
                "cx.outbox.push((id, held.renewal_request(cx.now)));",
            ),
            edit(
                HOLDING,
                "cx.outbox.push_urgent((id, held.request(Action::Watch)));",
                "cx.outbox.push((id, held.request(Action::Watch)));",
            ),
            edit(
                CLUSTER,
                "Action::Renew { .. } if is_first =>",
                "Action::Renew { .. } if is_first && false =>",
            ),
        ],
    },
    Mutant {
        name: "holder-is-not-told-of-its-force-release",
        wrong: "A lock that is force-released through the manager of its holder goes on to count as held.",
        violates: EXCLUSION,
        edits: &[edit(
            HOLDING,
            "Action::ForceRelease => held.is_named(&request.token),",
            "Action::ForceRelease => false,",
        )],
    },
    Mutant {
        name: "late-force-release-takes-a-vote",
        wrong: "In a quorum, a force-release that arrives late at one node takes the vote of a later holder away.",
        violates: EXCLUSION,
        edits: &[edit(
            TAKE_AWAY_LUA,
            "if holder and string.gsub(holder, '.', digits) == ARGV[1] then",
            "if holder then",
        )],
    },
    Mutant {
        name: "revoke-takes-the-first-of-them",
        wrong: "An operator who takes one holder's place away ends another holder, too.",
        violates: TRUE_OUTCOME,
        edits: &[edit(
            REVOKE_LUA,
            "if string.sub(one, 1, #revoked + 1) == revoked .. '|' then member = one end",
            "member = member or one",
        )],
    },
    Mutant {
        name: "reply-that-nothing-asked-for-is-an-answer",
        wrong: "A reply that no command has asked for answers the next one, and each reply from then on the command before its own.",
        violates: EXCLUSION,
        edits: &[edit(
            EXCHANGE,
            "reply if replies.len() < *owed => {",
            "reply if replies.len() < *owed + 1_000_000 => {",
        )],
    },
];
