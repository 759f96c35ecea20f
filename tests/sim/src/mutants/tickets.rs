//! Defects of tickets.

use super::files::{REDEEM_LUA, RELEASING};
use super::{EXCLUSION, FENCES, Mutant, NO_ORPHAN, ONCE, edit};

pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "ticket-takes-from-anybody",
        wrong: "A ticket that comes late, or a second time, takes the lock from whoever has it.",
        violates: EXCLUSION,
        edits: &[edit(REDEEM_LUA, "if holder ~= token and holder ~= ARGV[8] then return -1 end\n", "")],
    },
    Mutant {
        name: "redemption-draws-no-fencing-token",
        wrong: "Who redeems a ticket has the fencing token of the holder before.",
        violates: FENCES,
        edits: &[edit(
            REDEEM_LUA,
            "'unfenced' and 0 or next_fence(clock, floor), tonumber(ttl)",
            "'unfenced' and 0 or tonumber(redis.call('GET', clock)), tonumber(ttl)",
        )],
    },
    Mutant {
        name: "ticket-outlives-its-redemption",
        wrong: "The lock keeps the token of the ticket when it is redeemed.",
        violates: ONCE,
        edits: &[edit(REDEEM_LUA, "set_lock(token .. granted,", "set_lock(ARGV[8] .. granted,")],
    },
    Mutant {
        name: "ticket-without-a-caller-is-kept",
        wrong: "A caller that has left while its ticket was asked for leaves the lock taken for the time of the ticket.",
        violates: NO_ORPHAN,
        edits: &[edit(RELEASING, "if is_kept && !(is_left && is_told) {", "if is_kept && !is_left {")],
    },
];
