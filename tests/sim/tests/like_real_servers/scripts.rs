//! The scripts, made of their parts as the engine makes them.

macro_rules! part {
    ($name:literal) => {
        include_str!(concat!("../../../../redlock-runtime/src/engine/redis/scripts/", $name, ".lua"))
    };
}

macro_rules! scripts {
    ($($name:ident = $($part:literal)+;)+) => {
        $(pub const $name: &str = concat!($(part!($part)),+);)+

        /// As they stand in the engine's source.
        const MADE_OF: &[&str] = &[$(concat!($($part, " "),+)),+];
    };
}

scripts! {
    ACQUIRE = "time" "fence" "take" "mark" "queue" "caller" "join" "tell" "stuck" "followers" "give" "grant" "counted" "place" "acquire";
    ALL = "acquire_all";
    RENEW = "granted" "keep" "time" "mark" "queue" "tell" "renew";
    RENEW_ALL = "mark" "renew_all";
    RELEASE = "free" "granted" "time" "followers" "hand_over" "mark" "queue" "fence" "tell" "stuck" "give" "caller" "grant" "counted" "leave_free" "release";
    DELETE = "delete";
    INSPECT = "mark" "state" "inspect";
    FORCE_RELEASE = "time" "fence" "mark" "state" "queue" "caller" "tell" "stuck" "followers" "give" "grant" "counted" "force_release";
    TAKE_AWAY = "mark" "take_away";
    VOTE = "granted" "vote";
    RAISE_FENCE = "granted" "raise_fence";
    REPAIR = "granted" "repair";
    GIVE_UP = "granted" "give_up";
    RESERVE = "mark" "reserve";
    DRAW = "time" "fence" "mark" "draw";
    RAISE = "time" "fence" "raise";
}

pub fn acquire_all() -> String {
    format!("local function acquire(KEYS, ARGV)\n{ACQUIRE}end\n{ALL}")
}

/// In a Cluster, through sharded channels.
pub fn sharded(script: &str) -> String {
    let script = script
        .replace("redis.call('PUBSUB', 'NUMSUB', next_inbox)[2]", "listeners(next_inbox, next_token, lock)")
        .replace("redis.pcall('PUBLISH', ", "notify(")
        .replace("redis.call('PUBLISH', ", "notify(");
    format!("{}{script}", part!("sharded"))
}

/// A release to foreign clients, which comes once in 128 microseconds, comes always.
pub fn always_free(script: &str) -> String {
    script.replace("% 128", "% 1")
}

#[test]
fn these_are_the_scripts_of_the_engine() {
    let engine = include_str!("../../../../redlock-runtime/src/engine/redis/scripts/mod.rs");
    for parts in MADE_OF {
        assert!(engine.contains(&format!("parts!({})", parts.trim_end())), "{parts}");
    }
    assert!(sharded(RELEASE).contains("notify(") && always_free(RELEASE) != RELEASE);
}
