//! The scripts that run on a server: which there are, and for which request.

use std::sync::OnceLock;

use sha1_smol::Sha1;

use crate::engine::protocol::Action;

/// The code of a file: its lines without comments and indentation, except for the lines that name
/// other files.
macro_rules! code {
    ($path:expr) => {{
        const FILE: &[u8] = include_bytes!($path);
        const CODE: [u8; code_length(FILE)] = code(FILE);
        // The words of a file are ASCII.
        match std::str::from_utf8(&CODE) {
            Ok(code) => code,
            Err(_) => "",
        }
    }};
}

macro_rules! includes {
    ($($name:ident)*) => {
        /// The files below `includes/`: each is in the program once.
        const INCLUDES: &[(&str, &str)] =
            &[$((stringify!($name), code!(concat!("includes/", stringify!($name), ".lua")))),*];
    };
}

macro_rules! scripts {
    ($($script:ident = $name:ident)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Script {
            $($script),*
        }

        impl Script {
            const ALL: &[Self] = &[$(Self::$script),*];

            const COUNT: usize = Self::ALL.len();

            /// The name of its file below `commands/`.
            const fn name(self) -> &'static str {
                match self {
                    $(Self::$script => stringify!($name)),*
                }
            }

            const fn code(self) -> &'static str {
                match self {
                    $(Self::$script => code!(concat!("commands/", stringify!($name), ".lua"))),*
                }
            }
        }
    };
}

includes! {
    add_holders
    add_waiter
    admit_next
    admit_waiters
    asks
    central
    claim
    count_waiters
    counted
    end_tick
    enqueue
    evict
    evict_stalled
    extend
    extend_counted
    fence
    first_behind
    first_two
    followers
    grace
    grant_next
    grant_one
    granted_now
    has_room
    hinted
    is_there
    least
    leave_free
    limits_of
    listeners
    listeners_sharded
    may_notify
    may_notify_sharded
    me
    member
    mine
    most
    must_notify
    must_notify_sharded
    notified_waiters
    notify
    notify_each
    notify_front
    notify_place_lost
    notify_sharded
    notify_waiters
    number_of
    once
    parse
    pass_over
    queue_ttl
    read
    read_holders
    record_at
    release
    set_lock
    set_mark
    shown
    state
    store_result
    time
    together
    value_of
    who_keeps_out
    without_grace
    without_tag
    without_time
}

/// The commands that the scripts call, on this connection.
#[derive(Clone, Copy)]
pub(crate) struct Dialect {
    /// In a Cluster, inboxes are sharded channels.
    pub(crate) sharded: bool,
    /// Access rules allow `GETRANGE`.
    pub(crate) reads_parts: bool,
}

/// The dialect of scripts that are sent by `EVAL`, and publish nothing.
pub(crate) const EVALUATED: Dialect = Dialect { sharded: false, reads_parts: true };

impl Dialect {
    fn index(self) -> usize {
        usize::from(self.sharded) + 2 * usize::from(self.reads_parts)
    }
}

scripts! {
    Acquire = acquire
    Renew = renew
    PassOn = pass_on
    Release = release
    Delete = delete
    Inspect = inspect
    ForceRelease = force_release
    TakeAway = take_away
    Vote = vote
    RaiseFence = raise_fence
    Repair = repair
    GiveUp = give_up
    Reserve = reserve
    Draw = draw
    Announce = announce
    Leader = leader
    AcquireAll = acquire_all
    RenewAll = renew_all
    Watch = watch
    Redeem = redeem
    AcquireCounted = acquire_counted
    RenewCounted = renew_counted
    ExpireCounted = expire_counted
    ReleaseCounted = release_counted
    Downgrade = downgrade
    Revoke = revoke
    SetPermits = set_permits
    Tick = tick
    EndTick = end_tick
    GiveUpTick = give_up_tick
    AcquireOnce = acquire_once
    Finish = finish
    FinishAlone = finish_alone
    RenewOnce = renew_once
    Raise = raise
    Confirm = confirm
    ConfirmCounted = confirm_counted
    ConfirmRecord = confirm_record
}

impl Script {
    pub(crate) fn of(action: Action) -> Option<Self> {
        match action {
            Action::Acquire(_) => Some(Self::Acquire),
            Action::AcquireNext { .. } => Some(Self::AcquireAll),
            Action::Renew { .. } | Action::ExpireLater => Some(Self::Renew),
            Action::Release => Some(Self::Release),
            Action::Inspect => Some(Self::Inspect),
            Action::SetPermits { .. } => Some(Self::SetPermits),
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
            Action::Downgrade { .. } => Some(Self::Downgrade),
            Action::WatchLeader
            | Action::WatchHolder
            | Action::LastTick
            | Action::ClearTick
            | Action::Permits
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

    /// Joined by the first request for it: a process needs few of the scripts.
    fn text(self, dialect: Dialect) -> &'static Text {
        static TEXTS: [[OnceLock<Text>; Script::COUNT]; 4] =
            [const { [const { OnceLock::new() }; Script::COUNT] }; 4];
        TEXTS[dialect.index()][self.index()].get_or_init(|| {
            let source = joined(self.name(), &|file| code_of(file, dialect.sharded));
            let source = if dialect.reads_parts { source } else { without_parts(source) };
            Text { hash: Sha1::from(&source).digest().to_string(), source }
        })
    }
}

/// A file of the scripts, by its name.
#[derive(Clone, Copy)]
enum File<'a> {
    Command(&'a str),
    Include(&'a str),
}

/// In a Cluster, includes that publish are other ones.
fn code_of(file: File<'_>, sharded: bool) -> &'static str {
    let include = |wanted: &str| INCLUDES.iter().find(|(name, _)| *name == wanted).map(|(_, code)| *code);
    let found = match file {
        File::Command(wanted) => {
            Script::ALL.iter().find(|script| script.name() == wanted).map(|script| script.code())
        }
        File::Include(wanted) if sharded => include(&format!("{wanted}_sharded")).or_else(|| include(wanted)),
        File::Include(wanted) => include(wanted),
    };
    // A test reads the names of all files.
    found.unwrap_or_default()
}

/// The text of a command, with what it includes.
fn joined<'a>(command: &str, text_of: &impl Fn(File<'_>) -> &'a str) -> String {
    let mut script = String::new();
    add(text_of(File::Command(command)), text_of, &mut Vec::new(), &mut script);
    script
}

/// An include goes in front of the line behind the one that names it, and into each script once.
fn add<'a>(
    text: &'a str,
    text_of: &impl Fn(File<'_>) -> &'a str,
    included: &mut Vec<&'a str>,
    script: &mut String,
) {
    for line in text.split_inclusive('\n') {
        if let Some(name) = named(line, "--- @include \"") {
            if !included.contains(&name) {
                included.push(name);
                add(text_of(File::Include(name)), text_of, included, script);
            }
        } else if let Some(name) = named(line, "--- @function \"") {
            script.extend(["local function ", name, "(KEYS, ARGV)\n"]);
            add(text_of(File::Command(name)), text_of, included, script);
            script.push_str("end\n");
        } else {
            script.push_str(line);
        }
    }
}

fn named<'a>(line: &'a str, directive: &str) -> Option<&'a str> {
    line.trim_start().strip_prefix(directive)?.split('"').next()
}

/// A script as a server gets it.
struct Text {
    source: String,
    hash: String,
}

/// Returns how long [`code`] is.
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
        let names_a_file =
            at + 5 < file.len() && file[at + 2] == b'-' && file[at + 4] == b'@' && file[at + 5] != b'w';
        // Without the arguments of an include.
        let mut is_left_out = is_comment && !names_a_file;
        while at < file.len() {
            is_left_out = is_left_out || is_comment && file[at] == b'(';
            if !is_left_out || is_comment && names_a_file && file[at] == b'\n' {
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

/// A script to which the server refuses `GETRANGE` leaves an entry in the `ACL LOG` each time. All read the
/// whole value where it fails.
fn without_parts(script: String) -> String {
    if !script.contains("'GETRANGE'") {
        return script;
    }
    let script = script.replace("redis.pcall('GETRANGE', ", "refused(");
    format!("local function refused() return {{err = ''}} end\n{script}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]
mod tests;
