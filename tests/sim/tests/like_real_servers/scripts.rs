//! The scripts, made of their parts as the engine makes them.

macro_rules! parts {
    ($($name:literal)*) => {
        concat!($(include_str!(concat!("../../../../redlock-runtime/src/engine/redis/scripts/", $name, ".lua"))),*)
    };
}

pub const ACQUIRE: &str =
    parts!("time" "fence" "take" "mark" "queue" "caller" "join" "tell" "give" "grant" "acquire");
pub const ACQUIRE_ALL: &str = concat!(
    "local function acquire(KEYS, ARGV)\n",
    parts!("time" "fence" "take" "mark" "queue" "caller" "join" "tell" "give" "grant" "acquire"),
    "end\n",
    parts!("acquire_all")
);
pub const RENEW: &str = parts!("keep" "time" "mark" "queue" "tell" "renew");
pub const RENEW_ALL: &str = parts!("mark" "renew_all");
pub const RELEASE: &str =
    parts!("free" "mark" "queue" "time" "fence" "tell" "give" "hand_over" "caller" "grant" "release");
pub const DELETE: &str = parts!("delete");
pub const INSPECT: &str = parts!("mark" "state" "inspect");
pub const FORCE_RELEASE: &str =
    parts!("time" "fence" "mark" "state" "queue" "caller" "tell" "give" "grant" "force_release");
pub const VOTE: &str = parts!("vote");
pub const RAISE_FENCE: &str = parts!("raise_fence");
pub const REPAIR: &str = parts!("repair");
pub const GIVE_UP: &str = parts!("give_up");
pub const RESERVE: &str = parts!("mark" "reserve");
pub const DRAW: &str = parts!("time" "fence" "mark" "draw");
pub const RAISE: &str = parts!("time" "fence" "raise");

/// In a Cluster, through sharded channels.
pub fn sharded(script: &str) -> String {
    let script = script
        .replace("redis.call('PUBSUB', 'NUMSUB', next_inbox)[2]", "listeners(next_inbox, next_token, lock)")
        .replace("redis.pcall('PUBLISH', ", "notify(");
    format!("{}{script}", parts!("sharded"))
}

/// A release to foreign clients, which comes once in 128 microseconds, comes always.
pub fn always_free(script: &str) -> String {
    script.replace("% 128", "% 1")
}
