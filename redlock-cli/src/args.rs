//! The command line: what `--help` says.
#![allow(clippy::doc_markdown, reason = "clap prints these comments as they are")]

#[cfg(unix)]
use std::ffi::OsString;
#[cfg(feature = "serve")]
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
#[cfg(unix)]
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand, ValueEnum};

/// Looks at locks on Redis, takes them away, and runs any program under one.
#[derive(Parser, Debug)]
#[command(name = "redlocked", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
A duration is written as 500ms, 5s, 1m30s or '1m 30s'.

Exit codes:
   0  done
   1  the lock is held by another caller in `run` and `wait`, or free in `show`, `release`, `leader`
      and `resign`; or no number is set in `permits`;
      or the question of `release` was not answered with yes; or `doctor` misses a feature
  64  the command line, the key or the address cannot be used
  71  the operating system refused
  75  Redis cannot be reached: the same call may succeed later
  78  Redis refuses: the same call fails until a setting is changed
`redlocked run --help` has the codes of `run`.";

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// The address of Redis, in any form that the library takes. Default: the environment variable
    /// REDLOCK_URL, else REDIS_URL. Other users of the machine see an address with a password on
    /// the command line, but not in the environment
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The start of every key on the server. Default: the environment variable REDLOCK_PREFIX, else
    /// `lock:`
    #[arg(long, global = true, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// A file with the certificate authorities, in PEM form, that sign the server's certificate.
    /// Default: those that the system trusts
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Accepts a server that may evict locks when it is full. Default: the environment variable
    /// REDLOCK_ALLOW_EVICTION, `true` or `false`. Commands that only read accept it anyway
    #[arg(long, global = true)]
    pub(crate) allow_eviction: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Lists the held locks
    ///
    /// Prints one lock a line, sorted by key: the key, the holder, its function, how long ago it
    /// asked for the lock by the clock of its host, how long the lease lasts unless it is renewed,
    /// and the number of waiters. By default this is a table on a terminal, which is cut to its
    /// width, and `tsv` elsewhere. `(foreign)` is a client of another kind than this library.
    ///
    /// The server walks over all its keys, locks or not, about 1,000 in a step. Where no lock is held
    /// under this prefix, it does so again, for at most 10 s, for the locks under other ones.
    List(ListArgs),
    /// Shows a lock: its holder, its lease, its waiters
    ///
    /// Prints the holder, when it asked for the lock by the clock of its host, how long the lease
    /// lasts unless it is renewed, and the waiters in the order of their turns. Exits with 1 when
    /// the lock is free.
    ///
    /// Then it watches whether the holder is alive: a live holder renews its lease every third of
    /// its ttl, and is seen to do so. One that has died, hangs, cannot reach Redis, or does not
    /// renew, is not. This takes up to half of the lease that is left, at most 15 s; in JSON it is
    /// the field `renewed`, `null` where it is not known. A lock that its holder has left to a ticket
    /// has a line that says so, and nobody renews it; in JSON it is the field `ticket`. With another
    /// format than JSON, there is the line of `list` alone.
    Show(ShowArgs),
    /// Shows the held locks, again and again; ends on q or Ctrl-C
    ///
    /// Shows the table of `list`, the locks with the most waiters first, as far as they fit on the
    /// screen.
    #[cfg(unix)]
    Top(TopArgs),
    /// Says whether the server takes locks now
    ///
    /// Writes once over a new connection, which changes nothing: a replica, a full server and one
    /// that cannot save are reported, too.
    Ping,
    /// Says what the server can do, and what is missing
    ///
    /// Connects, takes and releases a lock on a key of its own, and looks at each optional feature:
    /// what is missing has a line with what to do. It ends by walking over all keys of the server
    /// for at most 10 s, as `list` does.
    ///
    /// Exits with 1 when all locks work, but a feature is missing; and with 64, 75 or 78 when they
    /// do not.
    Doctor(DoctorArgs),
    /// Shows live who holds a lock, and who held it for how long
    ///
    /// On a terminal this is a picture: one row for each process, and time from left to right; the
    /// darker, the longer it held the lock there. It ends on q or Ctrl-C. Elsewhere there are two
    /// lines for each hold, when it begins and when it has ended: since when, who, for how long,
    /// and how many wait.
    ///
    /// It looks 50 times a second. So times are as exact as that, and a hold that is shorter may be
    /// missed.
    #[cfg(unix)]
    Watch(WatchArgs),
    /// Waits until a lock is free
    ///
    /// Returns when the lock is free: without a holder and without waiters. It looks ten times a
    /// second and takes no lock, so another caller may have it by then, and a lock that is free for
    /// less than that may be missed. `run` waits in the queue.
    ///
    /// After 1, 4, 16, 64 … seconds, standard error has a line that says who holds the lock.
    Wait(WaitArgs),
    /// Takes a lock away from its holder
    ///
    /// Takes the lock away from its holder and passes it to the longest waiter. The holder learns
    /// that its lock is lost, but what it has already sent is on its way: only fencing tokens keep
    /// that out.
    ///
    /// With --holder, one of several that hold the lock together loses its place. The others keep
    /// theirs, and a waiter that has room now enters.
    ///
    /// Shows the holder and asks first. Exits with 1 when the lock is free, --holder names none of
    /// its holders, or the answer is not yes.
    Release(ReleaseArgs),
    /// Says who leads an election
    ///
    /// Prints the leader, its term, since when it leads, what it has announced, and how long its
    /// lease lasts unless it is renewed. Exits with 1 when nobody leads.
    Leader(LeaderArgs),
    /// Takes the lead away from a leader
    ///
    /// Its body is stopped, and the next candidate leads; the old one joins the end of the queue.
    /// Shows the leader and asks first, as `release` does. Exits with 1 when nobody leads, when the lock is
    /// held by no leader, or the answer is not yes.
    Resign(ConfirmedArgs),
    /// Shows what is known of a body that runs once, or forgets it
    ///
    /// Where nothing is known, it looks for the key under other prefixes: a walk over all keys of the
    /// server, for at most 10 s.
    #[command(subcommand)]
    Once(OnceCommand),
    /// Shows the last tick of a key, or forgets it
    ///
    /// Where no tick is recorded, it looks for the key under other prefixes: a walk over all keys of
    /// the server, for at most 10 s.
    #[command(subcommand)]
    Tick(TickCommand),
    /// Shows or sets how many permits a key has, whatever its callers say
    ///
    /// The number counts for all callers with permits or a rate, in the place of their own, until
    /// --clear. A larger number lets waiters in at once. A smaller one takes nobody's place away:
    /// nobody enters until there is room. Readers and exclusive callers are not affected.
    ///
    /// Without a number it prints the one that is set, and exits with 1 when none is. With --clear it
    /// exits with 1 when none was set.
    Permits(PermitsArgs),
    /// Runs a command while it holds a lock
    ///
    /// Takes the lock, runs the command, and releases the lock when the command and all processes
    /// of its group have ended.
    ///
    /// While it waits, standard error has a line after 1, 4, 16, 64 … seconds that says who holds
    /// the lock, and its own place in the queue.
    ///
    /// The command can tell its resource REDLOCK_FENCING_TOKEN, a number that grows with each grant
    /// of the lock; REDLOCK_KEY is the key.
    ///
    /// When the lock cannot be renewed, the whole group gets SIGTERM, and SIGKILL before the lease
    /// ends; when the lock was taken away, SIGKILL at once. SIGINT, SIGTERM, SIGHUP and SIGQUIT go
    /// to the group, with SIGKILL after --kill-after. A second process does the same when this one
    /// is killed or stands still; after a kill it releases the lock, too.
    ///
    /// The command runs in a process group of its own, and gets the terminal when it reads from it.
    /// Ctrl-Z stops both: a command that is stopped for longer than its lease is ended.
    #[cfg(unix)]
    Run(RunArgs),
    /// Serves pages that show the locks in a browser, live
    ///
    /// Prints the address when it listens, and ends on Ctrl-C: who holds which lock, who waits, and
    /// who held it in the last minutes; the leaders, the ticks, the bodies that run once, and the
    /// servers. It asks Redis while a browser shows a page, at most once a second.
    ///
    /// The pages only read, unless --allow-release is given.
    #[cfg(feature = "serve")]
    Serve(ServeArgs),
    /// Prints what a shell needs to complete command lines
    ///
    /// For bash: redlocked completions bash >~/.local/share/bash-completion/completions/redlocked
    ///
    /// For zsh, in a folder of $fpath: redlocked completions zsh >_redlocked
    ///
    /// For fish: redlocked completions fish >~/.config/fish/completions/redlocked.fish
    Completions(CompletionsArgs),
    /// Prints a manual page
    ///
    /// To read one: redlocked man run | man -l -
    ///
    /// To install them all: redlocked man --dir ~/.local/share/man/man1
    Man(ManArgs),
}

#[derive(clap::Args, Debug)]
pub(crate) struct ListArgs {
    /// Only keys, without the prefix, that match: `*` stands for any characters, `?` for one
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// The order of the locks
    #[arg(long, default_value = "key", value_name = "COLUMN", help_heading = "Output")]
    pub(crate) sort: Sort,
    /// Goes on, and prints each lock again whose holder or number of waiters has changed since the
    /// last look. A lock that is free by then has `(free)` as its holder, in JSON `null`; and there
    /// is one JSON object a line
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_name = "INTERVAL",
          value_parser = humantime::parse_duration, help_heading = "Output")]
    pub(crate) watch: Option<Duration>,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// The form of the output
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    /// Prints no header above a table or tab-separated values
    #[arg(long)]
    pub(crate) no_header: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people: as wide as the terminal
    Table,
    /// For people: nothing is cut off, with the time of asking and the first waiter
    Wide,
    /// For programs: tab-separated, times in milliseconds and in seconds since 1970
    Tsv,
    /// For programs: the same, with all that is known of the waiters
    Json,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Sort {
    /// By key
    Key,
    /// By host, process and function
    Holder,
    /// Held for the longest first
    Held,
    /// The shortest lease first
    Lease,
    /// The most waiters first
    Waiters,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ShowArgs {
    /// The key, without the prefix
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Does not watch whether the holder is alive
    #[arg(short, long)]
    pub(crate) quick: bool,
    /// Shows the first 100 holders and waiters also where they do not fit the terminal
    #[arg(short, long)]
    pub(crate) all: bool,
}

#[cfg(unix)]
#[derive(clap::Args, Debug)]
pub(crate) struct TopArgs {
    /// Only keys, without the prefix, that match: `*` stands for any characters, `?` for one
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// The order of the locks
    #[arg(help_heading = "Output", long, default_value = "waiters", value_name = "COLUMN")]
    pub(crate) sort: Sort,
    /// How long between two looks
    #[arg(help_heading = "Output", long, default_value = "1s", value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) interval: Duration,
}

#[cfg(feature = "serve")]
#[derive(clap::Args, Debug)]
pub(crate) struct ServeArgs {
    /// Where it listens. Another address than one of this machine alone needs --token-file
    #[arg(long, default_value = "127.0.0.1:7380", value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// A file with the password that a browser asks for, with any user name: one line of 16
    /// characters at least, in a file that only its owner can read. A program sends it as
    /// `Authorization: Bearer`
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Lets the pages release locks, and clear the records of ticks and of bodies that run once.
    /// Each such act has a line on standard error
    #[arg(long)]
    pub(crate) allow_release: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct DoctorArgs {
    /// The form of the output. Default: words for people, as wide as the terminal
    #[arg(short, long, value_name = "FORMAT", help_heading = "Output")]
    pub(crate) output: Option<Format>,
}

#[cfg(unix)]
#[derive(clap::Args, Debug)]
pub(crate) struct WatchArgs {
    /// The key, without the prefix
    pub(crate) key: String,
    /// How much time the picture shows
    #[arg(help_heading = "Output", long, default_value = "30s", value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) window: Duration,
    /// How long between two looks
    #[arg(help_heading = "Output", long, default_value = "20ms", value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) interval: Duration,
    /// Prints lines on a terminal, too
    #[arg(help_heading = "Output", long)]
    pub(crate) lines: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct WaitArgs {
    /// The key, without the prefix
    pub(crate) key: String,
    /// The longest to wait; then the exit code is 1. Default: without a limit
    #[arg(help_heading = "Waiting", long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Does not say whom it waits for
    #[arg(help_heading = "Waiting", short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct LeaderArgs {
    /// The key, without the prefix
    pub(crate) key: String,
    /// Prints one JSON object, or `null`
    #[arg(help_heading = "Output", long)]
    pub(crate) json: bool,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum OnceCommand {
    /// Says whether the body of a key is done, runs, or was interrupted
    ///
    /// Prints since when, by which process and function, and how many bytes its stored result has.
    /// Exits with 1 when nothing is known.
    Show(LeaderArgs),
    /// Forgets what is known, so that the next call runs the body
    ///
    /// For a body that was interrupted, once you have seen whether its effects are done. Shows what
    /// is known and asks first. Exits with 1 when nothing is known, or the answer is not yes.
    Clear(ConfirmedArgs),
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum TickCommand {
    /// Says which tick of a key is the last one that is over, and who has run it
    ///
    /// Prints its nominal time in UTC, and the process and the function that have run it. Exits with
    /// 1 when no tick is recorded.
    Show(LeaderArgs),
    /// Forgets the last tick, so that the next call runs
    ///
    /// For a server whose clock was ahead for a while: the tick that was run then is later than those
    /// that are due now, so they count as taken. Shows the tick and asks first. Exits with 1 when no
    /// tick is recorded, or the answer is not yes.
    Clear(ConfirmedArgs),
}

#[derive(clap::Args, Debug)]
pub(crate) struct PermitsArgs {
    /// The key, without the prefix
    pub(crate) key: String,
    /// So many permits there are from now on: 1 to 10,000
    #[arg(value_name = "N")]
    pub(crate) permits: Option<u32>,
    /// From now on, the numbers of the callers count again
    #[arg(long, conflicts_with = "permits")]
    pub(crate) clear: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) confirmed: ConfirmedArgs,
    /// Takes the lock from this holder alone: `HOST:PID`, or `HOST:PID in FUNCTION`, as `show`
    /// prints it. If the process holds the lock several times, each of those ends
    #[arg(long, value_name = "NAME")]
    pub(crate) holder: Option<String>,
}

/// A command that changes what others have, so that a person is asked first.
#[derive(clap::Args, Debug)]
pub(crate) struct ConfirmedArgs {
    /// The key, without the prefix
    pub(crate) key: String,
    /// Does not ask. Without a terminal to ask on, it is required
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[cfg(unix)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(clap::Args, Debug)]
#[command(after_help = RUN_EXIT_CODES)]
pub(crate) struct RunArgs {
    /// The key, without the prefix
    pub(crate) key: String,
    /// Waits for the lead, runs the command while this process leads, and waits again when it no
    /// longer leads, or when the command fails. Exits when the command exits with 0
    #[arg(help_heading = "Leader", long, conflicts_with_all = ["wait", "nonblock", "quiet", "conflict_exit_code", "min_hold", "max_hold", "shared", "permits", "take", "rate", "ticks"])]
    pub(crate) leader: bool,
    /// What `redlocked leader` and other processes show of this leader, such as its address
    #[arg(help_heading = "Leader", long, value_name = "TEXT", requires = "leader")]
    pub(crate) announce: Option<String>,
    /// The longest to wait for the lock. Default: without a limit
    #[arg(help_heading = "Waiting", short, long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) wait: Option<Duration>,
    /// Fails at once when the lock is held
    #[arg(help_heading = "Waiting", short, long, conflicts_with = "wait")]
    pub(crate) nonblock: bool,
    /// Does not say whom it waits for
    #[arg(help_heading = "Waiting", short, long)]
    pub(crate) quiet: bool,
    /// The exit code when the lock was not acquired
    #[arg(help_heading = "Waiting", short = 'E', long, default_value_t = crate::exit::CONFLICT, value_name = "CODE")]
    pub(crate) conflict_exit_code: u8,
    /// How long the lock outlives this machine. It is renewed every third of this time. At least 1s
    #[arg(help_heading = "Lease", long, default_value = "30s", value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) ttl: Duration,
    /// How long the key stays locked at least, also when the command ends sooner. For a job that
    /// several machines start at the same minute by their own clocks
    #[arg(help_heading = "Lease", long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) min_hold: Option<Duration>,
    /// How long the lock may be held. Then it counts as lost: the command is ended, with exit code 70
    #[arg(help_heading = "Lease", long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) max_hold: Option<Duration>,
    /// Holds the lock together with any number of others that share it, beside whom a `run` without
    /// it is the writer
    #[arg(help_heading = "How many", long, conflicts_with_all = ["permits", "take", "ticks"])]
    pub(crate) shared: bool,
    /// Lets at most so many in at once. All that ask for the key name the same number
    #[arg(help_heading = "How many", long, value_name = "NUMBER", conflicts_with = "ticks")]
    pub(crate) permits: Option<u32>,
    /// How many of the permits the command takes: at most as many as there are. One that waits for several
    /// is not passed by those that need fewer. Default: 1
    #[arg(help_heading = "How many", long, value_name = "NUMBER", requires = "permits")]
    pub(crate) take: Option<u32>,
    /// Starts the command at most so often in any time of that length, over all machines, such as
    /// 5/1m. It holds no lock: the command takes the place of this process
    #[arg(help_heading = "How many", long, value_name = "STARTS/DURATION", value_parser = rate, conflicts_with_all = ["shared", "permits", "take", "ticks", "ttl", "min_hold", "max_hold", "kill_after"])]
    pub(crate) rate: Option<(u32, Duration)>,
    /// Runs the command once per tick of this length, over all machines that start it at about the
    /// same time by their own clocks: less than 150s apart, or a quarter of a tick below 10m. `1h` is
    /// for each job that is due once an hour, a day or a month, in any zone. From 1s to 366 days
    #[arg(help_heading = "Tick", long, value_name = "DURATION", group = "ticks", conflicts_with = "min_hold", value_parser = humantime::parse_duration)]
    pub(crate) tick: Option<Duration>,
    /// Runs the command once for this nominal time, over all machines that name the same one: for a
    /// scheduler that knows when the job was due. As 2026-11-22T11:53:54Z, or in seconds since 1970
    #[arg(help_heading = "Tick", long, value_name = "TIME", group = "ticks", conflicts_with = "min_hold", value_parser = nominal_time)]
    pub(crate) tick_at: Option<SystemTime>,
    /// What becomes of a tick whose machine dies, or whose command ends with another code than 0
    #[arg(help_heading = "Tick", long, value_name = "WHAT", requires = "ticks", default_value = "skip")]
    pub(crate) tick_missed: Missed,
    /// How long the command has between SIGTERM and SIGKILL; at most half of the ttl. Default: a
    /// third of the ttl, at most 10s
    #[arg(help_heading = "Lease", short, long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) kill_after: Option<Duration>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[cfg(unix)]
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// It is over
    Skip,
    /// A machine that comes later, or waits with --wait, runs the command
    Retry,
}

#[derive(clap::Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ManArgs {
    /// The command whose page is printed. Default: the page of the whole program
    pub(crate) command: Option<String>,
    /// Writes the pages of the program and of each command into this folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    pub(crate) dir: Option<PathBuf>,
}

#[cfg(unix)]
fn nominal_time(text: &str) -> Result<SystemTime, String> {
    let seconds = text.parse().ok().and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    match seconds {
        Some(time) => Ok(time),
        None => humantime::parse_rfc3339(text).map_err(|error| error.to_string()),
    }
}

#[cfg(unix)]
fn rate(text: &str) -> Result<(u32, Duration), String> {
    let (starts, per) =
        text.split_once('/').ok_or("a rate is how many starts in which time, such as 5/1m")?;
    let starts = starts.trim().parse().map_err(|_| format!("`{starts}` is no number of starts"))?;
    let per = humantime::parse_duration(per.trim()).map_err(|error| error.to_string())?;
    Ok((starts, per))
}

#[cfg(unix)]
const RUN_EXIT_CODES: &str = "\
Exit codes, as of flock(1):
      the code of the command, or 128 + the number of the signal that ended it
   1  the lock was not acquired in time, or the tick is taken (-E sets another code)
  64  the command line, the key or the address cannot be used
  69  the command cannot be started
  70  the lock was lost: the command was killed, or another caller may have been inside
  71  the operating system refused
  75  Redis cannot be reached
  78  Redis refuses: the same call fails until a setting is changed";
