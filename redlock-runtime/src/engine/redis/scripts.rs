//! The scripts that run on a server: which there are, and for which request.

use std::sync::LazyLock;

use crate::engine::protocol::Action;

/// Raises the clock of fencing tokens of a server of its own.
pub(super) const RAISE: &str = concat!(include_str!("scripts/fence.lua"), include_str!("scripts/raise.lua"));

#[derive(Clone, Copy)]
pub(super) enum Script {
    Acquire,
    Renew,
    Release,
    Inspect,
    ForceRelease,
    Vote,
    RaiseFence,
    Repair,
    GiveUp,
    Reserve,
    AcquireAll,
    RenewAll,
}

impl Script {
    pub(super) const COUNT: usize = 12;

    /// In the order of [`Script::index`].
    const ALL: [Self; Self::COUNT] = [
        Self::Acquire,
        Self::Renew,
        Self::Release,
        Self::Inspect,
        Self::ForceRelease,
        Self::Vote,
        Self::RaiseFence,
        Self::Repair,
        Self::GiveUp,
        Self::Reserve,
        Self::AcquireAll,
        Self::RenewAll,
    ];

    pub(super) fn of(action: Action) -> Option<Self> {
        match action {
            Action::Acquire(_) => Some(Self::Acquire),
            Action::AcquireNext { .. } => Some(Self::AcquireAll),
            Action::Renew { .. } | Action::ExpireLater => Some(Self::Renew),
            Action::Release => Some(Self::Release),
            Action::Inspect => Some(Self::Inspect),
            Action::ForceRelease => Some(Self::ForceRelease),
            Action::Vote { .. } => Some(Self::Vote),
            Action::RaiseFence { .. } => Some(Self::RaiseFence),
            Action::Repair { .. } => Some(Self::Repair),
            Action::Reserve { .. } => Some(Self::Reserve),
            Action::Watch | Action::WatchHolder | Action::List { .. } => None,
        }
    }

    pub(super) fn index(self) -> usize {
        match self {
            Self::Acquire => 0,
            Self::Renew => 1,
            Self::Release => 2,
            Self::Inspect => 3,
            Self::ForceRelease => 4,
            Self::Vote => 5,
            Self::RaiseFence => 6,
            Self::Repair => 7,
            Self::GiveUp => 8,
            Self::Reserve => 9,
            Self::AcquireAll => 10,
            Self::RenewAll => 11,
        }
    }

    /// `sharded`: for a Cluster, where inboxes are sharded channels.
    pub(super) fn source(self, sharded: bool) -> &'static str {
        static SHARDED: LazyLock<[String; Script::COUNT]> =
            LazyLock::new(|| Script::ALL.map(|script| on_sharded_channels(script.plain())));
        if sharded { &SHARDED[self.index()] } else { self.plain() }
    }

    fn plain(self) -> &'static str {
        macro_rules! parts {
            ($($name:literal)*) => { concat!($(include_str!(concat!("scripts/", $name, ".lua"))),*) };
        }
        match self {
            Self::Acquire => parts!("fence" "take" "grant" "acquire"),
            Self::Renew => parts!("renew"),
            Self::Release => parts!("free" "fence" "grant" "release"),
            Self::Inspect => parts!("inspect"),
            Self::ForceRelease => parts!("fence" "grant" "force_release"),
            Self::Vote => parts!("vote"),
            Self::RaiseFence => parts!("raise_fence"),
            Self::Repair => parts!("repair"),
            Self::GiveUp => parts!("give_up"),
            Self::Reserve => parts!("reserve"),
            Self::RenewAll => parts!("renew_all"),
            Self::AcquireAll => concat!(
                "local function acquire(KEYS, ARGV)\n",
                parts!("fence" "take" "grant" "acquire"),
                "end\n",
                parts!("acquire_all")
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

/// The same script, for inboxes that are sharded channels.
fn on_sharded_channels(script: &str) -> String {
    if !script.contains("'PUBLISH'") {
        return script.to_owned();
    }
    let script = script
        .replace("redis.call('PUBSUB', 'NUMSUB', next_inbox)[2]", "listeners(next_inbox, next_token, lock)")
        .replace("redis.pcall('PUBLISH', ", "notify(");
    format!("{}{script}", include_str!("scripts/sharded.lua"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_cluster_nothing_but_a_hint_is_published_everywhere() {
        for script in Script::ALL {
            let source = script.source(true);
            let script = source.strip_prefix(include_str!("scripts/sharded.lua")).unwrap_or(source);
            assert!(!script.contains("'PUBLISH'") && !script.contains("'NUMSUB'"), "{script}");
        }
        for script in [Script::Acquire, Script::Release, Script::ForceRelease, Script::AcquireAll] {
            assert!(script.source(true).contains("= listeners(next_inbox, next_token, lock) > 0"));
        }
    }
}
