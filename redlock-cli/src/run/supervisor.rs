//! From the start of the command to the end of its group, which comes before the end of the lease.

use std::time::Duration;

use nix::sys::signal::Signal;
use redlocked::LockGuard;
use redlocked::election::Term;
use tokio::time::{Instant, sleep_until};

use super::group::Group;
use super::signals::{Signals, Told};
use super::terminal::{Terminal, stop_this_process};
use super::watchdog::{self, Watchdog};
use crate::lock_text::{Span, printable};
use crate::stderr::tell;

/// How long a command has to end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Grace {
    /// Between SIGTERM and SIGKILL.
    pub(crate) kill_after: Duration,
    /// With this much left on the lease, the group gets SIGTERM.
    pub(crate) terminate_at: Duration,
    /// With this much left on the lease, the group gets SIGKILL.
    pub(crate) kill_at: Duration,
    /// The command is started with more than this left on the lease.
    pub(crate) start_above: Duration,
}

impl Grace {
    const SHORTEST_TTL: Duration = Duration::from_secs(1);
    const LONGEST_DEFAULT: Duration = Duration::from_secs(10);
    /// The longest time before the end of the lease in which SIGKILL takes effect.
    const LONGEST_MARGIN: Duration = Duration::from_secs(1);
    /// A waiter is granted the lock for so long, and its first renewal, after a third of that, makes
    /// the ttl of it.
    const CLAIM: Duration = Duration::from_secs(1);

    /// The lock is renewed every third of the ttl. So the two of them together must be less than
    /// two thirds, or else SIGTERM came before a renewal could.
    pub(crate) fn new(ttl: Duration, kill_after: Option<Duration>) -> Result<Self, String> {
        if ttl < Self::SHORTEST_TTL {
            return Err(
                "--ttl must be at least 1s: a shorter lease leaves no time to end a command".to_owned()
            );
        }
        let kill_after = kill_after.unwrap_or_else(|| (ttl / 3).min(Self::LONGEST_DEFAULT));
        if kill_after > ttl / 2 {
            return Err(format!(
                "--kill-after must be at most half of the ttl, {}: the lease may end that soon after the first renewal that \
                 fails",
                Span(ttl / 2)
            ));
        }
        let kill_at = (ttl / 20).min(Self::LONGEST_MARGIN);
        let terminate_at = kill_after + kill_at;
        // Half of the claim leaves the first renewal as much time as a short ttl leaves a later one.
        let start_above = if terminate_at > Self::CLAIM / 2 {
            terminate_at.max(Self::CLAIM.min(ttl / 10 * 9))
        } else {
            terminate_at
        };
        Ok(Self { kill_after, terminate_at, kill_at, start_above })
    }

    /// Refuses a hold that is over before the command can start.
    pub(crate) fn within(self, max_hold: Option<Duration>) -> Result<Self, String> {
        match max_hold {
            Some(longest) if longest <= self.start_above => Err(format!(
                "--max-hold must be longer than {}: the command is asked to end that long before",
                Span(self.start_above)
            )),
            _ => Ok(self),
        }
    }
}

/// What the command runs under.
pub(crate) trait Lease {
    fn remaining(&self) -> Duration;

    async fn lost(&self);

    /// Why it is lost, or about to be.
    fn why_lost(&self) -> String;
}

impl Lease for LockGuard {
    fn remaining(&self) -> Duration {
        self.remaining()
    }

    async fn lost(&self) {
        self.lost().await;
    }

    fn why_lost(&self) -> String {
        let key = printable(self.key());
        match self.lost_reason() {
            Some(reason) => format!("the lock on `{key}` was lost: {reason}"),
            None => format!("the lock on `{key}` cannot be renewed"),
        }
    }
}

/// The term of a leader, and the key.
impl Lease for (&Term, &str) {
    fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    async fn lost(&self) {
        self.0.ended().await;
    }

    fn why_lost(&self) -> String {
        let what = if self.0.is_leading() { "cannot be renewed" } else { "was lost" };
        format!("the lead of `{}` {what}", printable(self.1))
    }
}

/// How the group has ended.
pub(crate) struct Ending {
    /// The exit code of the command.
    pub(crate) code: u8,
    /// This process was told to end, and so the group was.
    pub(crate) is_told: bool,
    /// The group was told to end because the lease was about to end, or had.
    pub(crate) is_lost: bool,
}

struct Supervisor<'a, L> {
    group: Group,
    lease: &'a L,
    grace: Grace,
    terminal: Terminal,
    watchdog: Watchdog,
    /// When a group that was told to end is killed.
    kill: Option<Instant>,
    /// The stop of a group that was asked to stop, and has not.
    stop: Option<Stop>,
    is_told: bool,
    is_lost: bool,
}

/// A group that received a signal to stop, and has not stopped.
struct Stop {
    /// When to send the signal to continue, or, after that, the next signal to stop.
    due: Instant,
    is_continued: bool,
    /// How many more times the signal is sent.
    tries: u8,
}

/// Returns when the whole group has ended; with an error where there was no command in it.
pub(crate) async fn supervise<L: Lease>(
    group: Group,
    lease: &L,
    grace: Grace,
    signals: &mut Signals,
    watchdog: Watchdog,
) -> Result<Ending, String> {
    let terminal = Terminal::of_this_process();
    let mut supervisor = Supervisor {
        group,
        lease,
        grace,
        terminal,
        watchdog,
        kill: None,
        stop: None,
        is_told: false,
        is_lost: false,
    };
    // The command waits for it.
    supervisor.tell_watchdog();
    loop {
        if let Some(signal) = supervisor.group.collect() {
            supervisor.on_stop(signal);
        }
        if supervisor.group.has_ended() {
            break;
        }
        let next = supervisor.on_time();
        let told = tokio::select! {
            told = signals.recv() => Some(told),
            () = sleep_until(next) => None,
            () = lease.lost(), if !supervisor.is_lost => None,
        };
        match told {
            Some(Told::End(signal)) => {
                supervisor.is_told = true;
                supervisor.end(signal);
            }
            Some(Told::PassOn(signal)) => supervisor.group.signal(signal),
            // The command decides; this process follows it.
            Some(Told::Suspend) => supervisor.stop(TRIES_TO_STOP),
            Some(Told::Child) | None => {}
        }
    }
    if let Some(refusal) = supervisor.watchdog.dismiss() {
        return Err(refusal);
    }
    // A group has ended once its first process has.
    let code = supervisor.group.code.unwrap_or(u8::MAX);
    Ok(Ending { code, is_told: supervisor.is_told, is_lost: supervisor.is_lost })
}

const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
const TIME_TO_STOP: Duration = Duration::from_millis(200);
const TIME_TO_GO_ON: Duration = Duration::from_millis(50);
const TRIES_TO_STOP: u8 = 10;

impl<L: Lease> Supervisor<'_, L> {
    /// Ends the group in time. Returns when to look again.
    fn on_time(&mut self) -> Instant {
        let now = Instant::now();
        let left = self.tell_watchdog();
        if left <= self.grace.terminate_at && !self.is_lost {
            self.is_lost = true;
            tell(&format!("{}: ending the command", self.lease.why_lost()));
            self.end(Signal::SIGTERM);
        }
        if left <= self.grace.kill_at || self.kill.is_some_and(|kill| kill <= now) {
            self.group.signal(Signal::SIGKILL);
            return now + PAUSE;
        }
        let limit = if self.is_lost { self.grace.kill_at } else { self.grace.terminate_at };
        match self.stop.take_if(|stop| stop.due <= now) {
            Some(Stop { is_continued: true, tries, .. }) => self.stop(tries),
            Some(Stop { tries, .. }) => {
                self.group.signal(Signal::SIGCONT);
                let tries = tries.checked_sub(1);
                self.stop = tries.map(|tries| Stop { due: now + TIME_TO_GO_ON, is_continued: true, tries });
            }
            None => {}
        }
        let stop = self.stop.as_ref().map(|stop| stop.due);
        // Timers stand still while the machine is suspended, and the watchdog waits for news.
        let look = (left.saturating_sub(limit)).min(LONGEST_PAUSE);
        let next = self.kill.into_iter().chain(stop).fold(now + look, Ord::min);
        // No signal tells of the end of processes that are not our children.
        if self.group.code.is_some() { next.min(now + PAUSE) } else { next }
    }

    /// Half of the time before the end of the lease in which this process kills. Returns what is left of
    /// the lease.
    fn tell_watchdog(&mut self) -> Duration {
        // This process may stand still between the two lines: then the watchdog ends the group sooner.
        let now = watchdog::now();
        let left = self.lease.remaining();
        if let Ok(now) = now {
            self.watchdog.lease(self.group.id(), now, left.saturating_sub(self.grace.kill_at / 2));
        }
        left
    }

    /// Tells the group to stop. The command may take its time, or ignore it.
    ///
    /// A shell that is just starting a program by `vfork` waits for it, and that stops first: then
    /// neither of them goes on, nor is the shell seen to stop. So the group is continued for a
    /// moment, and told again.
    fn stop(&mut self, tries: u8) {
        let due = Instant::now() + TIME_TO_STOP;
        self.stop = Some(Stop { due, is_continued: false, tries });
        self.group.signal(Signal::SIGTSTP);
    }

    /// Tells the group to end, and kills it when it does not.
    fn end(&mut self, signal: Signal) {
        self.stop = None;
        self.kill.get_or_insert_with(|| Instant::now() + self.grace.kill_after);
        self.group.signal(signal);
        // A stopped process cannot end.
        self.group.signal(Signal::SIGCONT);
    }

    /// The command was stopped.
    fn on_stop(&mut self, signal: Signal) {
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        let is_for_shell = wants_terminal || signal == Signal::SIGTSTP;
        // By another process, which may continue it: nothing is asked of us.
        if !is_for_shell {
            return;
        }
        self.stop = None;
        if !(wants_terminal && self.terminal.lend(self.group.id())) {
            // The shell sees this process stop, and continues it.
            let was_lent = self.terminal.take_back();
            stop_this_process();
            // Meanwhile no renewal was sent.
            if self.lease.remaining() <= self.grace.kill_at {
                return;
            }
            if was_lent || wants_terminal {
                self.terminal.lend(self.group.id());
            }
        }
        self.group.signal(Signal::SIGCONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_grace_is_a_third_of_the_ttl_up_to_ten_seconds() {
        let kill_after = |ttl: Duration| Grace::new(ttl, None).map(|grace| grace.kill_after);
        assert_eq!(kill_after(3 * SECOND), Ok(SECOND));
        assert_eq!(kill_after(30 * SECOND), Ok(10 * SECOND));
        assert_eq!(kill_after(300 * SECOND), Ok(10 * SECOND));
        let grace = Grace::new(30 * SECOND, Some(15 * SECOND));
        let terminate_at = 16 * SECOND;
        let expected =
            Grace { kill_after: 15 * SECOND, terminate_at, kill_at: SECOND, start_above: terminate_at };
        assert_eq!(grace, Ok(expected));
    }

    #[test]
    fn a_command_whose_grace_is_most_of_a_claim_starts_after_the_first_renewal() {
        let above = |ttl, kill_after| Grace::new(ttl, kill_after).map(|grace| grace.start_above);
        let short = SECOND / 10;
        assert_eq!(above(2 * SECOND, None), Ok(SECOND));
        assert_eq!(above(10 * SECOND, Some(4 * short)), Ok(SECOND));
        assert_eq!(above(6 * SECOND, Some(short)), Ok(4 * short), "it need not wait");
        for ttl in [SECOND, 11 * short, 12 * short, 15 * short] {
            for kill_after in [None, Some(ttl / 2)] {
                let grace = Grace::new(ttl, kill_after).unwrap_or_else(|reason| unreachable!("{reason}"));
                // The lease is shorter than the ttl by the drift allowance.
                assert!(grace.start_above + ttl / 100 + SECOND / 500 < ttl, "{ttl:?}: {grace:?}");
            }
        }
    }

    #[test]
    fn a_grace_that_leaves_no_time_for_a_renewal_is_refused() {
        let refusal = |ttl, kill_after| Grace::new(ttl, kill_after).err().unwrap_or_default();
        assert!(refusal(SECOND / 2, None).contains("at least 1s"));
        assert!(refusal(30 * SECOND, Some(16 * SECOND)).contains("at most half of the ttl, 15.0 s"));
    }
}
