//! The scripts that run on a server: which there are, and for which request.

use std::sync::OnceLock;

use sha1_smol::Sha1;

use crate::engine::protocol::Action;

/// What a server needs of the files below `scripts/`: their lines without comments and indentation.
macro_rules! files {
    ($($name:ident)*) => {
        #[expect(non_upper_case_globals, reason = "as the file")]
        mod part {
            use super::{code, code_length};

            $(pub(crate) const $name: &str = {
                const FILE: &[u8] = include_bytes!(concat!("", stringify!($name), ".lua"));
                const CODE: [u8; code_length(FILE)] = code(FILE);
                // The words of a file are ASCII.
                match std::str::from_utf8(&CODE) {
                    Ok(code) => code,
                    Err(_) => "",
                }
            };)*
        }
    };
}

macro_rules! parts {
    ($($name:ident)*) => { &[$(part::$name),*] };
}

files! {
    acquire
    acquire_all
    acquire_once
    announce
    caller
    confirm_counted
    confirm_record
    counted
    delete
    draw
    end
    end_tick
    enter
    enter_free
    fence
    finish
    finish_alone
    finish_arguments
    followers
    force_release
    free
    give
    give_up
    grant
    granted
    hand_over
    inspect
    join
    keep
    keep_result
    leader
    leave
    leave_counted
    leave_free
    mark
    once
    pass_on
    place
    queue
    raise
    raise_fence
    record
    redeem
    release
    renew
    renew_all
    renew_once
    repair
    reserve
    sharded
    state
    stay
    stuck
    take
    take_away
    tell
    tick
    time
    vote
    watch
}

/// Raises the clock of fencing tokens, when a connection begins.
pub(crate) const RAISE: &[&str] = parts!(time fence raise);

/// Renews without `exactly`, so it never tells waiters.
pub(crate) const CONFIRM: &[&str] = parts!(granted keep mark renew);

/// The same for one of several that have a counted lock.
pub(crate) const CONFIRM_COUNTED: &str = part::confirm_counted;

/// Has the replicas confirm the record that a release has stored.
pub(crate) const CONFIRM_RECORD: &str = part::confirm_record;

/// What the scripts call, on this connection.
#[derive(Clone, Copy)]
pub(crate) struct Dialect {
    /// In a Cluster, inboxes are sharded channels.
    pub(crate) sharded: bool,
    /// Access rules allow `GETRANGE`.
    pub(crate) reads_parts: bool,
}

impl Dialect {
    fn index(self) -> usize {
        usize::from(self.sharded) + 2 * usize::from(self.reads_parts)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
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
    RenewOnce,
}

impl Script {
    const COUNT: usize = 31;

    /// In the order of their declaration.
    #[cfg(test)]
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
        Self::RenewOnce,
    ];

    pub(crate) fn of(action: Action) -> Option<Self> {
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
            | Action::ClearTick
            | Action::Record
            | Action::ClearRecord
            | Action::List { .. }
            | Action::Ping { .. } => None,
        }
    }

    fn index(self) -> usize {
        self as usize
    }

    pub(crate) fn source(self, dialect: Dialect) -> &'static str {
        &self.text(dialect).source
    }

    pub(crate) fn hash(self, dialect: Dialect) -> &'static str {
        &self.text(dialect).hash
    }

    /// Joined by the first request for it: each part is in the program once, and a process needs few
    /// of the scripts.
    fn text(self, dialect: Dialect) -> &'static Text {
        static TEXTS: [[OnceLock<Text>; Script::COUNT]; 4] =
            [const { [const { OnceLock::new() }; Script::COUNT] }; 4];
        TEXTS[dialect.index()][self.index()].get_or_init(|| {
            let plain = self.parts().concat().concat();
            let source = if dialect.sharded { on_sharded_channels(plain) } else { plain };
            let source = if dialect.reads_parts { source } else { without_parts(source) };
            Text { hash: Sha1::from(&source).digest().to_string(), source }
        })
    }

    fn parts(self) -> &'static [&'static [&'static str]] {
        /// acquire.lua and the parts before it, as a function.
        const ACQUIRE: &[&str] = &[
            "local function acquire(KEYS, ARGV)\n",
            part::time,
            part::fence,
            part::take,
            part::mark,
            part::queue,
            part::caller,
            part::join,
            part::tell,
            part::stuck,
            part::followers,
            part::give,
            part::grant,
            part::counted,
            part::place,
            part::acquire,
            "end\n",
        ];
        match self {
            Self::Acquire => &[
                parts!(time fence take mark queue caller join tell stuck followers give grant counted place acquire),
            ],
            Self::Renew => &[parts!(granted keep time mark queue tell renew)],
            Self::PassOn => &[parts!(time mark queue tell pass_on)],
            Self::Release => &[
                parts!(free granted time followers hand_over mark queue fence tell stuck give caller grant counted leave_free release),
            ],
            Self::Delete => &[parts!(delete)],
            Self::Inspect => &[parts!(mark state inspect)],
            Self::ForceRelease => &[
                parts!(time fence mark state queue caller tell stuck followers give grant counted force_release),
            ],
            Self::TakeAway => &[parts!(mark take_away)],
            Self::Vote => &[parts!(granted vote)],
            Self::RaiseFence => &[parts!(granted raise_fence)],
            Self::Repair => &[parts!(granted repair)],
            Self::GiveUp => &[parts!(granted give_up)],
            Self::Reserve => &[parts!(mark reserve)],
            Self::Draw => &[parts!(time fence mark draw)],
            Self::Announce => &[parts!(mark record announce)],
            Self::Leader => &[parts!(mark record leader)],
            Self::RenewAll => &[parts!(mark renew_all)],
            Self::Watch => &[parts!(granted watch)],
            Self::Redeem => &[parts!(time fence mark queue caller tell followers give redeem)],
            Self::Enter => &[parts!(
                enter_free time fence mark queue caller join tell stuck followers give grant counted place enter
            )],
            Self::Stay => &[parts!(time stay granted keep mark renew)],
            Self::End => &[parts!(
                time fence mark queue caller tell stuck followers give grant counted end granted keep renew
            )],
            Self::Leave => &[parts!(
                leave_counted granted time followers hand_over mark queue fence tell stuck give caller grant counted leave_free leave release
            )],
            Self::AcquireOnce => &[parts!(mark once), ACQUIRE, parts!(acquire_once)],
            Self::Finish => &[parts!(
                finish_arguments granted time mark once keep_result queue fence tell stuck followers give caller grant counted leave_free finish release
            )],
            Self::RenewOnce => &[parts!(mark renew_once granted keep time queue tell renew)],
            Self::FinishAlone => &[parts!(finish_arguments mark once keep_result finish_alone)],
            Self::AcquireAll => &[ACQUIRE, parts!(acquire_all)],
            Self::Tick => &[parts!(mark), ACQUIRE, parts!(tick)],
            // What stands behind the arguments of release.lua are tokens to it, and behind the first one of give_up.lua.
            Self::EndTick => &[
                &["local function release(KEYS, ARGV)\nARGV = {unpack(ARGV, 1, 7)}\n"],
                parts!(free granted time followers hand_over mark queue fence tell stuck give caller grant counted leave_free release),
                &["end\n"],
                parts!(granted end_tick),
            ],
            Self::GiveUpTick => &[
                &["local function release(KEYS, ARGV)\nARGV = {ARGV[1]}\n"],
                parts!(granted give_up),
                &["end\n"],
                parts!(granted end_tick),
            ],
        }
    }
}

/// A script as a server gets it.
struct Text {
    source: String,
    hash: String,
}

/// How long [`code`] is.
const fn code_length(file: &[u8]) -> usize {
    walk(file, &mut [])
}

const fn code<const LENGTH: usize>(file: &[u8]) -> [u8; LENGTH] {
    let mut code = [0; LENGTH];
    walk(file, &mut code);
    code
}

/// Writes the lines into `code`, as far as it has room, and returns how long all are.
const fn walk(file: &[u8], code: &mut [u8]) -> usize {
    let (mut at, mut length) = (0, 0);
    while at < file.len() {
        while at < file.len() && (file[at] == b' ' || file[at] == b'\n') {
            at += 1;
        }
        let is_comment = at + 1 < file.len() && file[at] == b'-' && file[at + 1] == b'-';
        while at < file.len() {
            if !is_comment {
                if length < code.len() {
                    code[length] = file[at];
                }
                length += 1;
            }
            at += 1;
            if file[at - 1] == b'\n' {
                break;
            }
        }
    }
    length
}

/// The scripts that a connection has sent with their source; `None` once the server has refused the
/// digest of one.
pub(crate) struct SentScripts(Option<[bool; Script::COUNT]>);

impl Default for SentScripts {
    fn default() -> Self {
        Self(Some([false; Script::COUNT]))
    }
}

impl SentScripts {
    /// False when the source is to be sent.
    pub(crate) fn set(&mut self, script: Script) -> bool {
        self.0.as_mut().is_some_and(|sent| std::mem::replace(&mut sent[script.index()], true))
    }

    pub(crate) fn forget(&mut self, script: Script) {
        if let Some(sent) = &mut self.0 {
            sent[script.index()] = false;
        }
    }

    pub(crate) fn send_sources(&mut self) {
        self.0 = None;
    }
}

/// Publishes through the functions of sharded.lua.
fn on_sharded_channels(script: String) -> String {
    if !script.contains("'PUBLISH'") {
        return script;
    }
    let script = script
        .replace("redis.call('PUBSUB', 'NUMSUB', next_inbox)[2]", "listeners(next_inbox, next_token, lock)")
        .replace("redis.acl_check_cmd('PUBLISH', ", "may_notify(")
        .replace("redis.pcall('PUBLISH', ", "notify(")
        .replace("redis.call('PUBLISH', ", "must_notify(");
    format!("{}{script}", part::sharded)
}

/// A script that tries `GETRANGE` in vain leaves an entry in the `ACL LOG` each time. All read the
/// whole value where it fails.
fn without_parts(script: String) -> String {
    if !script.contains("'GETRANGE'") {
        return script;
    }
    let script = script.replace("redis.pcall('GETRANGE', ", "refused(");
    format!("local function refused() return {{err = ''}} end\n{script}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Dialect = Dialect { sharded: false, reads_parts: true };
    const SHARDED: Dialect = Dialect { sharded: true, reads_parts: true };

    #[test]
    fn where_access_rules_forbid_getrange_no_script_calls_it() {
        for script in Script::ALL {
            for sharded in [false, true] {
                let source = script.source(Dialect { sharded, reads_parts: false });
                assert!(!source.contains("GETRANGE"), "{source}");
            }
        }
    }
    use crate::base::tick::{SETTLES, early};
    use crate::engine::protocol::{CLAIM, QUEUE_TTL};
    use crate::engine::redis::connect::fence_floor::{BEHIND, LEAST};

    #[test]
    fn a_server_gets_the_lines_of_a_file_without_comments_and_indentation() {
        const FILE: &[u8] = b"-- Takes it.\n\nif free then\n  -- Now.\n  take('--') -- it\nend\n";
        const CODE: [u8; code_length(FILE)] = code(FILE);
        assert_eq!(std::str::from_utf8(&CODE), Ok("if free then\ntake('--') -- it\nend\n"));
        for script in Script::ALL {
            let source = script.source(SHARDED);
            assert!(source.is_ascii() && source.ends_with('\n'), "{source}");
            assert!(source.lines().all(|line| !line.is_empty() && !line.starts_with([' ', '-'])), "{source}");
        }
    }

    #[test]
    fn scripts_are_in_the_order_of_their_declaration() {
        assert!(Script::ALL.iter().enumerate().all(|(index, script)| script.index() == index));
    }

    #[test]
    fn scripts_and_engine_use_the_same_numbers() {
        let source = Script::Acquire.source(PLAIN);
        for (name, number) in [
            ("CLAIM", CLAIM.as_millis()),
            ("QUEUE_TTL", QUEUE_TTL.as_millis()),
            ("BEHIND", BEHIND.as_micros()),
            ("LEAST", LEAST.into()),
        ] {
            let [plain, text] = [format!("local {name} = {number}"), format!("local {name} = '{number}'")];
            assert!(source.lines().any(|line| line == plain || line == text), "{name}");
        }
        let numbers = format!("local MOST_EARLY, SETTLES = {}, {}\n", early(u64::MAX), SETTLES.as_millis());
        assert!(part::tick.contains(&numbers), "{numbers}");
        let short_way = part::hand_over;
        let numbers = format!("local LEAST, CLAIM, GRACE, MEMBER = {LEAST}, '{}', 100, ", CLAIM.as_millis());
        assert!(short_way.contains(&numbers) && source.contains("local GRACE = 100\n"), "{numbers}");
        let noted = format!("redis.pcall('SET', claim, next_inbox, 'PX', '{}')", QUEUE_TTL.as_millis());
        assert!(short_way.contains(&noted), "{noted}");
        // The grace in the short ways of counted locks, and with the ms by which they round up.
        for (short_way, needs) in [
            (part::enter_free, ">= lasts + 100\n"),
            (part::enter_free, "px = lasts + 100 + (lasts - lasts % 3) / 3\n"),
            (part::enter_free, &format!(" or {LEAST}) then\n")),
            (part::stay, "lasts + 100 + math.floor(lasts / 3)"),
            (part::leave_counted, "left + 100)"),
        ] {
            assert!(short_way.contains(needs), "{needs}");
        }
    }

    #[test]
    fn in_a_cluster_only_a_hint_is_published_to_all_nodes() {
        for script in Script::ALL {
            let source = script.source(SHARDED);
            let script = source.strip_prefix(part::sharded).unwrap_or(source);
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
            assert!(script.source(SHARDED).contains("= listeners(next_inbox, next_token, lock) > 0"));
        }
    }
}
