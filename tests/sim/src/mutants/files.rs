//! The files that mutants change.

pub(super) const LEASE: &str = "redlock-runtime/src/base/lease.rs";
pub(super) const LOCK_ALL: &str = "redlock-runtime/src/acquire/many.rs";
pub(super) const REENTRANCY: &str = "redlock-runtime/src/reentrancy.rs";
pub(super) const SPAWNED: &str = "redlock-runtime/src/once/spawned.rs";
pub(super) const HANDLE: &str = "redlock-runtime/src/engine/handle.rs";
pub(super) const LEAD: &str = "redlock-runtime/src/election/lead.rs";
pub(super) const TERM: &str = "redlock-runtime/src/election/term.rs";
pub(super) const KIND: &str = "redlock-runtime/src/engine/lock_table/lock/kind.rs";
pub(super) const RUNNER: &str = "redlock-runtime/src/engine/runner/mod.rs";
pub(super) const ANNOUNCING: &str = "redlock-runtime/src/engine/lock_table/lock/announcing.rs";
pub(super) const ASKING: &str = "redlock-runtime/src/engine/lock_table/lock/acquiring.rs";
pub(super) const FOLLOWERS: &str = "redlock-runtime/src/engine/lock_table/lock/local_successors.rs";
pub(super) const HELD: &str = "redlock-runtime/src/engine/lock_table/lock/held.rs";
pub(super) const HOLDING: &str = "redlock-runtime/src/engine/lock_table/lock/holding.rs";
pub(super) const ON_EVENT: &str = "redlock-runtime/src/engine/lock_table/lock/events.rs";
pub(super) const ON_REPLY: &str = "redlock-runtime/src/engine/lock_table/lock/replies.rs";
pub(super) const RELEASING: &str = "redlock-runtime/src/engine/lock_table/lock/releasing.rs";
pub(super) const STANDING: &str = "redlock-runtime/src/engine/lock_table/lock/standing.rs";
pub(super) const TABLE: &str = "redlock-runtime/src/engine/lock_table/mod.rs";
pub(super) const WAITING: &str = "redlock-runtime/src/engine/lock_table/lock/waiting.rs";
pub(super) const CONNECTION: &str = "redlock-runtime/src/engine/redis/requests/connection.rs";
pub(super) const DECODE: &str = "redlock-runtime/src/engine/redis/requests/decode.rs";
pub(super) const FIELDS: &str = "redlock-runtime/src/engine/redis/requests/fields.rs";
pub(super) const SEEN_FENCES: &str = "redlock-runtime/src/engine/redis/wire/seen_fences.rs";
pub(super) const CLUSTER: &str = "redlock-runtime/src/engine/topology/cluster/mod.rs";
pub(super) const REDIRECT: &str = "redlock-runtime/src/engine/topology/cluster/redirect.rs";
pub(super) const EXCHANGE: &str = "redlock-runtime/src/engine/redis/wire/exchange.rs";
pub(super) const LINK: &str = "redlock-runtime/src/engine/topology/link.rs";
pub(super) const QUORUM: &str = "redlock-runtime/src/engine/topology/quorum/mod.rs";
pub(super) const QUORUM_MEMBER: &str = "redlock-runtime/src/engine/topology/quorum/member.rs";

pub(super) const ACQUIRE_COUNTED_LUA: &str =
    "redlock-runtime/src/engine/redis/scripts/commands/acquire_counted.lua";
pub(super) const ACQUIRE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/acquire.lua";
pub(super) const ACQUIRE_ONCE_LUA: &str =
    "redlock-runtime/src/engine/redis/scripts/commands/acquire_once.lua";
pub(super) const ADD_WAITER_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/add_waiter.lua";
pub(super) const DELETE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/delete.lua";
pub(super) const EVICT_STALLED_LUA: &str =
    "redlock-runtime/src/engine/redis/scripts/includes/evict_stalled.lua";
pub(super) const EXTEND_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/extend.lua";
pub(super) const FENCE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/fence.lua";
pub(super) const FINISH_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/finish.lua";
pub(super) const FOLLOWERS_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/followers.lua";
pub(super) const GIVE_UP_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/give_up.lua";
pub(super) const GRACE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/grace.lua";
pub(super) const GRANT_NEXT_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/grant_next.lua";
pub(super) const GRANT_ONE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/grant_one.lua";
pub(super) const HAS_ROOM_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/has_room.lua";
pub(super) const INCLUDED_END_TICK_LUA: &str =
    "redlock-runtime/src/engine/redis/scripts/includes/end_tick.lua";
pub(super) const INCLUDED_RELEASE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/release.lua";
pub(super) const DOWNGRADE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/downgrade.lua";
pub(super) const ENQUEUE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/enqueue.lua";
pub(super) const EXTEND_COUNTED_LUA: &str =
    "redlock-runtime/src/engine/redis/scripts/includes/extend_counted.lua";
pub(super) const STORE_RESULT_LUA: &str =
    "redlock-runtime/src/engine/redis/scripts/includes/store_result.lua";
pub(super) const LEAVE_FREE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/leave_free.lua";
pub(super) const ADMIT_WAITERS_LUA: &str =
    "redlock-runtime/src/engine/redis/scripts/includes/admit_waiters.lua";
pub(super) const READ_HOLDERS_LUA: &str =
    "redlock-runtime/src/engine/redis/scripts/includes/read_holders.lua";
pub(super) const MOST_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/most.lua";
pub(super) const PASS_ON_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/pass_on.lua";
pub(super) const SET_LOCK_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/set_lock.lua";
pub(super) const REDEEM_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/redeem.lua";
pub(super) const RELEASE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/release.lua";
pub(super) const RENEW_COUNTED_LUA: &str =
    "redlock-runtime/src/engine/redis/scripts/commands/renew_counted.lua";
pub(super) const RENEW_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/renew.lua";
pub(super) const RENEW_ONCE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/renew_once.lua";
pub(super) const RESERVE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/reserve.lua";
pub(super) const REVOKE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/revoke.lua";
pub(super) const SET_PERMITS_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/set_permits.lua";
pub(super) const SET_MARK_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/set_mark.lua";
pub(super) const TAKE_AWAY_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/take_away.lua";
pub(super) const NOTIFY_WAITERS_LUA: &str =
    "redlock-runtime/src/engine/redis/scripts/includes/notify_waiters.lua";
pub(super) const NOTIFY_PLACE_LOST_LUA: &str =
    "redlock-runtime/src/engine/redis/scripts/includes/notify_place_lost.lua";
pub(super) const TICK_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/tick.lua";
pub(super) const TOGETHER_LUA: &str = "redlock-runtime/src/engine/redis/scripts/includes/together.lua";
pub(super) const VOTE_LUA: &str = "redlock-runtime/src/engine/redis/scripts/commands/vote.lua";
