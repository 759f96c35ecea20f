//! The scripts that run on a server: which there are, and for which request.

use std::sync::LazyLock;

use crate::engine::protocol::Action;

macro_rules! parts {
    ($($name:literal)*) => { concat!($(include_str!(concat!("scripts/", $name, ".lua"))),*) };
}

/// acquire.lua and the parts before it, as a function.
macro_rules! acquire {
    () => {
        concat!(
            "local function acquire(KEYS, ARGV)\n",
            parts!("time" "fence" "take" "mark" "queue" "caller" "join" "tell" "stuck" "give" "grant" "counted" "place" "acquire"),
            "end\n"
        )
    };
}

/// Raises the clock of fencing tokens, when a connection begins.
pub(super) const RAISE: &str = parts!("time" "fence" "raise");

/// Renews without `exactly`, so it never tells waiters.
pub(super) const CONFIRM: &str = parts!("granted" "keep" "mark" "renew");

/// The same for one of several that have a counted lock.
pub(super) const CONFIRM_COUNTED: &str = parts!("confirm_counted");

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    Acquire,
    Renew,
    PassOn,
    Release,
    Delete,
    Inspect,
    ForceRelease,
    TakeAway,
    Vote,
    RaiseFence,
    Repair,
    GiveUp,
    Reserve,
    Draw,
    Announce,
    Leader,
    AcquireAll,
    RenewAll,
    Watch,
    Redeem,
    Enter,
    Stay,
    End,
    Leave,
    Tick,
    EndTick,
    GiveUpTick,
    AcquireOnce,
    Finish,
    FinishAlone,
}

impl Script {
    const COUNT: usize = 30;

    /// In the order of their declaration.
    const ALL: [Self; Self::COUNT] = [
        Self::Acquire,
        Self::Renew,
        Self::PassOn,
        Self::Release,
        Self::Delete,
        Self::Inspect,
        Self::ForceRelease,
        Self::TakeAway,
        Self::Vote,
        Self::RaiseFence,
        Self::Repair,
        Self::GiveUp,
        Self::Reserve,
        Self::Draw,
        Self::Announce,
        Self::Leader,
        Self::AcquireAll,
        Self::RenewAll,
        Self::Watch,
        Self::Redeem,
        Self::Enter,
        Self::Stay,
        Self::End,
        Self::Leave,
        Self::Tick,
        Self::EndTick,
        Self::GiveUpTick,
        Self::AcquireOnce,
        Self::Finish,
        Self::FinishAlone,
    ];

    pub(super) fn of(action: Action) -> Option<Self> {
        match action {
            Action::Acquire(_) => Some(Self::Acquire),
            Action::AcquireNext { .. } => Some(Self::AcquireAll),
            Action::Renew { .. } | Action::ExpireLater => Some(Self::Renew),
            Action::Release => Some(Self::Release),
            Action::Inspect => Some(Self::Inspect),
            Action::ForceRelease => Some(Self::ForceRelease),
            Action::TakeAway => Some(Self::TakeAway),
            Action::Vote { .. } => Some(Self::Vote),
            Action::RaiseFence { .. } => Some(Self::RaiseFence),
            Action::Repair { .. } => Some(Self::Repair),
            Action::Reserve { .. } => Some(Self::Reserve),
            Action::Draw => Some(Self::Draw),
            Action::Announce => Some(Self::Announce),
            Action::Leader => Some(Self::Leader),
            Action::Watch => Some(Self::Watch),
            Action::Redeem => Some(Self::Redeem),
            Action::WatchLeader
            | Action::WatchHolder
            | Action::LastTick
            | Action::Record
            | Action::ClearRecord
            | Action::List { .. }
            | Action::Ping { .. } => None,
        }
    }

    fn index(self) -> usize {
        self as usize
    }

    /// `sharded`: in a Cluster, inboxes are sharded channels.
    pub(super) fn source(self, sharded: bool) -> &'static str {
        static SHARDED: LazyLock<[String; Script::COUNT]> =
            LazyLock::new(|| Script::ALL.map(|script| on_sharded_channels(script.plain())));
        if sharded { &SHARDED[self.index()] } else { self.plain() }
    }

    fn plain(self) -> &'static str {
        match self {
            Self::Acquire => {
                parts!("time" "fence" "take" "mark" "queue" "caller" "join" "tell" "stuck" "give" "grant" "counted" "place" "acquire")
            }
            Self::Renew => parts!("granted" "keep" "time" "mark" "queue" "tell" "renew"),
            Self::PassOn => parts!("time" "mark" "queue" "tell" "pass_on"),
            Self::Release => {
                parts!("free" "granted" "time" "hand_over" "mark" "queue" "fence" "tell" "stuck" "give" "caller" "grant" "counted" "leave_free" "release")
            }
            Self::Delete => parts!("delete"),
            Self::Inspect => parts!("mark" "state" "inspect"),
            Self::ForceRelease => {
                parts!("time" "fence" "mark" "state" "queue" "caller" "tell" "stuck" "give" "grant" "counted" "force_release")
            }
            Self::TakeAway => parts!("mark" "take_away"),
            Self::Vote => parts!("granted" "vote"),
            Self::RaiseFence => parts!("granted" "raise_fence"),
            Self::Repair => parts!("granted" "repair"),
            Self::GiveUp => parts!("granted" "give_up"),
            Self::Reserve => parts!("mark" "reserve"),
            Self::Draw => parts!("time" "fence" "mark" "draw"),
            Self::Announce => parts!("mark" "record" "announce"),
            Self::Leader => parts!("mark" "record" "leader"),
            Self::RenewAll => parts!("mark" "renew_all"),
            Self::Watch => parts!("granted" "watch"),
            Self::Redeem => parts!("time" "fence" "mark" "queue" "caller" "tell" "give" "redeem"),
            Self::Enter => parts!(
                "enter_free" "time" "fence" "mark" "queue" "caller" "join" "tell" "stuck" "give" "grant" "counted" "place" "enter"
            ),
            Self::Stay => parts!("time" "stay" "granted" "keep" "mark" "renew"),
            Self::End => parts!(
                "time" "fence" "mark" "queue" "caller" "tell" "stuck" "give" "grant" "counted" "end" "granted" "keep" "renew"
            ),
            Self::Leave => parts!(
                "leave_counted" "granted" "time" "hand_over" "mark" "queue" "fence" "tell" "stuck" "give" "caller" "grant" "counted" "leave_free" "leave" "release"
            ),
            Self::AcquireOnce => concat!(parts!("mark" "once"), acquire!(), parts!("acquire_once")),
            Self::Finish => parts!(
                "finish_arguments" "granted" "time" "mark" "once" "keep_result" "queue" "fence" "tell" "stuck" "give" "caller" "grant" "counted" "leave_free" "finish" "release"
            ),
            Self::FinishAlone => parts!("finish_arguments" "mark" "once" "keep_result" "finish_alone"),
            Self::AcquireAll => concat!(acquire!(), parts!("acquire_all")),
            Self::Tick => concat!(acquire!(), parts!("tick")),
            // What stands behind the arguments of release.lua are tokens to it, and behind the first one of give_up.lua.
            Self::EndTick => concat!(
                "local function release(KEYS, ARGV)\nARGV = {unpack(ARGV, 1, 7)}\n",
                parts!("free" "granted" "time" "hand_over" "mark" "queue" "fence" "tell" "stuck" "give" "caller" "grant" "counted" "leave_free" "release"),
                "end\n",
                parts!("granted" "end_tick")
            ),
            Self::GiveUpTick => concat!(
                "local function release(KEYS, ARGV)\nARGV = {ARGV[1]}\n",
                parts!("granted" "give_up"),
                "end\n",
                parts!("granted" "end_tick")
            ),
        }
    }

    pub(super) fn hash(self, sharded: bool) -> &'static str {
        static HASHES: LazyLock<[[String; Script::COUNT]; 2]> = LazyLock::new(|| {
            [false, true].map(|sharded| {
                Script::ALL.map(|script| redis::Script::new(script.source(sharded)).get_hash().to_owned())
            })
        });
        &HASHES[usize::from(sharded)][self.index()]
    }
}

/// The scripts that a connection has sent with their source.
#[derive(Default)]
pub(super) struct SentScripts([bool; Script::COUNT]);

impl SentScripts {
    /// False when the script was not sent before.
    pub(super) fn set(&mut self, script: Script) -> bool {
        std::mem::replace(&mut self.0[script.index()], true)
    }

    pub(super) fn forget(&mut self, script: Script) {
        self.0[script.index()] = false;
    }
}

/// Publishes through the functions of sharded.lua.
fn on_sharded_channels(script: &str) -> String {
    if !script.contains("'PUBLISH'") {
        return script.to_owned();
    }
    let script = script
        .replace("redis.call('PUBSUB', 'NUMSUB', next_inbox)[2]", "listeners(next_inbox, next_token, lock)")
        .replace("redis.acl_check_cmd('PUBLISH', ", "may_notify(")
        .replace("redis.pcall('PUBLISH', ", "notify(")
        .replace("redis.call('PUBLISH', ", "must_notify(");
    format!("{}{script}", include_str!("scripts/sharded.lua"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::protocol::{CLAIM, QUEUE_TTL};
    use crate::engine::redis::fence_floor::{BEHIND, LEAST};

    #[test]
    fn scripts_are_in_the_order_of_their_declaration() {
        assert!(Script::ALL.iter().enumerate().all(|(index, script)| script.index() == index));
    }

    #[test]
    fn scripts_and_engine_use_the_same_numbers() {
        let source = Script::Acquire.source(false);
        for (name, number) in [
            ("CLAIM", CLAIM.as_millis()),
            ("QUEUE_TTL", QUEUE_TTL.as_millis()),
            ("BEHIND", BEHIND.as_micros()),
            ("LEAST", LEAST.into()),
        ] {
            let [plain, text] = [format!("local {name} = {number}"), format!("local {name} = '{number}'")];
            assert!(source.lines().any(|line| line == plain || line == text), "{name}");
        }
        let short_way = include_str!("scripts/hand_over.lua");
        let numbers = format!("local LEAST, CLAIM, GRACE, MEMBER = {LEAST}, '{}', 100, ", CLAIM.as_millis());
        assert!(short_way.contains(&numbers) && source.contains("local GRACE = 100\n"), "{numbers}");
        let noted = format!("redis.pcall('SET', claim, next_inbox, 'PX', '{}')", QUEUE_TTL.as_millis());
        assert!(short_way.contains(&noted), "{noted}");
        // The grace in the short ways of counted locks, and with the ms by which they round up.
        for (short_way, needs) in [
            (include_str!("scripts/enter_free.lua"), ">= lasts + 100\n"),
            (include_str!("scripts/enter_free.lua"), "px = lasts + 100 + (lasts - lasts % 3) / 3\n"),
            (include_str!("scripts/enter_free.lua"), &format!(" or {LEAST}) then\n")),
            (include_str!("scripts/stay.lua"), "lasts + 100 + math.floor(lasts / 3)"),
            (include_str!("scripts/leave_counted.lua"), "left + 100)"),
        ] {
            assert!(short_way.contains(needs), "{needs}");
        }
    }

    #[test]
    fn in_a_cluster_only_a_hint_is_published_to_all_nodes() {
        for script in Script::ALL {
            let source = script.source(true);
            let script = source.strip_prefix(include_str!("scripts/sharded.lua")).unwrap_or(source);
            assert!(!script.contains("'PUBLISH'") && !script.contains("'NUMSUB'"), "{script}");
        }
        for script in [
            Script::Acquire,
            Script::Release,
            Script::ForceRelease,
            Script::AcquireAll,
            Script::Enter,
            Script::Leave,
            Script::AcquireOnce,
            Script::Finish,
        ] {
            assert!(script.source(true).contains("= listeners(next_inbox, next_token, lock) > 0"));
        }
    }
}
