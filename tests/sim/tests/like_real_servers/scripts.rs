//! The scripts, as the engine builds them.

macro_rules! text {
    ($path:literal) => {
        include_str!(concat!("../../../../redlock-runtime/src/engine/redis/scripts/", $path, ".lua"))
    };
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)+) => {
        $(pub const $name: &str = text!($file);)+
    };
}

scripts! {
    ACQUIRE = "built/acquire";
    ACQUIRE_ALL = "built/acquire_all";
    RENEW = "built/renew";
    RENEW_ALL = "built/renew_all";
    RELEASE = "built/release";
    DELETE = "built/delete";
    INSPECT = "built/inspect";
    FORCE_RELEASE = "built/force_release";
    TAKE_AWAY = "built/take_away";
    VOTE = "built/vote";
    RAISE_FENCE = "built/raise_fence";
    REPAIR = "built/repair";
    GIVE_UP = "built/give_up";
    RESERVE = "built/reserve";
    DRAW = "built/draw";
    RAISE = "built/raise";
}

/// In a Cluster, through sharded channels: the includes that publish are other ones.
pub fn sharded(script: &str) -> String {
    script
        .replace(text!("includes/notify"), text!("includes/notify_sharded"))
        .replace(text!("includes/must_notify"), text!("includes/must_notify_sharded"))
        .replace(text!("includes/may_notify"), text!("includes/may_notify_sharded"))
        .replace(text!("includes/listeners"), text!("includes/listeners_sharded"))
}

/// A release to foreign clients, which comes once in 128 microseconds, comes always.
pub fn always_free(script: &str) -> String {
    script.replace("% 128", "% 1")
}

#[test]
fn the_texts_that_are_replaced_are_there() {
    for script in [ACQUIRE, RELEASE, FORCE_RELEASE] {
        assert!(sharded(script).contains("'SPUBLISH'") && sharded(script).contains("'SHARDNUMSUB'"));
    }
    assert!(always_free(RELEASE) != RELEASE);
}
