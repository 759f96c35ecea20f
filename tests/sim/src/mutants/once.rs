//! Defects of bodies that run once.

use super::files::{ACQUIRE_ONCE_LUA, FINISH_LUA, KIND, ON_EVENT, RENEW_ONCE_LUA, SPAWNED, STORE_RESULT_LUA};
use super::{BY_ACCIDENT, Mutant, ONE_BODY, ONE_RESULT, READ, STAYS_INTERRUPTED, STORED, edit};

const LOOKS: &str =
    "if not ARGV[12] or redis.sha1hex(result) ~= ARGV[12] then return {6, kept(), result} end";
const BEGINS: &str = "set_record(fingerprint, 's', runner, ARGV[1], before, string.format('%.0f', ARGV[9] + ARGV[2] + GRACE))\nend\nreturn taken";

pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "once-looks-at-no-result",
        wrong: "Each caller that gets the lock runs the body.",
        violates: ONE_BODY,
        edits: &[edit(ACQUIRE_ONCE_LUA, LOOKS, "")],
    },
    Mutant {
        name: "once-looks-only-once",
        wrong: "A waiter that is pushed the lock runs the body without another look at its record.",
        violates: STAYS_INTERRUPTED,
        edits: &[edit(KIND, "!lacks_fence && !self.is_run()", "!lacks_fence && self.tick().is_none()")],
    },
    Mutant {
        name: "result-is-stored-behind-the-release",
        wrong: "The lock is free before its result is stored, by whoever asks next but one.",
        violates: ONE_BODY,
        edits: &[
            edit(
                STORE_RESULT_LUA,
                "set_record(fingerprint, 'd', runner, token, result, lasts)",
                "redis.call('SET', record .. '%late', result, 'PX', lasts)",
            ),
            edit(
                ACQUIRE_ONCE_LUA,
                BEGINS,
                "local late = redis.call('GET', KEYS[6] .. '%late')\n  if late then set_record(fingerprint, 'd', runner, ARGV[1], late, ARGV[9]) end\nend\nreturn taken",
            ),
        ],
    },
    Mutant {
        name: "result-is-not-stored",
        wrong: "A release is answered, and the result is nowhere.",
        violates: ONE_BODY,
        edits: &[edit(STORE_RESULT_LUA, "set_record(fingerprint, 'd', runner, token, result, lasts)", "")],
    },
    Mutant {
        name: "result-is-stored-without-the-lock",
        wrong: "A runner that has lost the lock stores its result over that of the next one.",
        violates: ONE_RESULT,
        edits: &[edit(STORE_RESULT_LUA, "if is_held then\n", "if is_held or how == 'done' then\n")],
    },
    Mutant {
        name: "stored-result-is-told-as-lost",
        wrong: "A runner that has stored its result is told that it is not stored.",
        violates: STORED,
        edits: &[edit(
            FINISH_LUA,
            "if is_held and is_done then\n",
            "if how == 'done' then return 0 end\nif is_held and is_done then\n",
        )],
    },
    Mutant {
        name: "told-waiter-does-not-read",
        wrong: "A waiter that is told that the body is done goes on to wait.",
        violates: READ,
        edits: &[edit(
            ON_EVENT,
            "PushKind::PlaceLost | PushKind::Done => {\n                self.rejoin",
            "PushKind::Done => {}\n            PushKind::PlaceLost => {\n                self.rejoin",
        )],
    },
    Mutant {
        name: "those-that-wait-are-told-nothing",
        wrong: "Those that wait for a result leave the queue and are not told.",
        violates: READ,
        edits: &[edit(FINISH_LUA, "'done|' .. next_token", "'dune|' .. next_token")],
    },
    Mutant {
        name: "another-request-gets-the-result",
        wrong: "A caller gets the result of another request of the same key.",
        violates: ONE_RESULT,
        edits: &[edit(ACQUIRE_ONCE_LUA, "found.fingerprint ~= fingerprint then", "false then")],
    },
    Mutant {
        name: "interrupted-body-runs-again",
        wrong: "A body that was interrupted runs again, although an operator is to look first.",
        violates: STAYS_INTERRUPTED,
        edits: &[edit(ACQUIRE_ONCE_LUA, "if found and ARGV[11] == 'error' then", "if false then")],
    },
    Mutant {
        name: "dropped-body-has-not-run",
        wrong: "A body that was dropped in its middle counts as one that has not begun.",
        violates: STAYS_INTERRUPTED,
        edits: &[edit(KIND, "&of.once), Run::Interrupted)", "&of.once), Run::Undone)")],
    },
    Mutant {
        name: "body-goes-with-its-caller",
        wrong: "A body in a task of its own is dropped when its caller goes away.",
        violates: ONE_BODY,
        edits: &[edit(
            SPAWNED,
            "let ended = Caught { body: self.run_to_its_end(guard, body) }.await;",
            "let (mut caller, mut body) = (caller, Box::pin(Caught { body: self.run_to_its_end(guard, body) }));\n            let ended = std::future::poll_fn(|cx| if caller.poll_closed(cx).is_ready() { Poll::Ready(None) } else { body.as_mut().poll(cx).map(Some) }).await;\n            evict(body);\n            let Some(ended) = ended else { return };",
        )],
    },
    Mutant {
        name: "record-ends-before-its-runner",
        wrong: "The record of a body that takes long ends while it runs.",
        violates: STAYS_INTERRUPTED,
        edits: &[
            edit(ACQUIRE_ONCE_LUA, "ARGV[9] + ARGV[2] + GRACE", "ARGV[9] + 0"),
            edit(RENEW_ONCE_LUA, "if parse(value_of(KEYS[1])) == ARGV[1] then", "if false then"),
        ],
    },
    Mutant {
        name: "failed-body-is-interrupted",
        wrong: "A body that has failed counts as one of which nobody knows its end.",
        violates: BY_ACCIDENT,
        edits: &[edit(STORE_RESULT_LUA, "elseif how == 'undone' and found", "elseif false and found")],
    },
    Mutant {
        name: "record-says-who-lives",
        wrong: "A body that runs counts as interrupted: the record is looked at, and not the lock.",
        violates: BY_ACCIDENT,
        edits: &[edit(
            ACQUIRE_ONCE_LUA,
            "local taken = acquire(KEYS, ARGV)\n",
            "if found and found.runner ~= runner and ARGV[11] == 'error' then return {7, kept(), found.since, found.owner} end\nlocal taken = acquire(KEYS, ARGV)\n",
        )],
    },
];
