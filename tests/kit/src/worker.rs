//! Real processes: a test binary that runs itself again. A worker runs an `#[ignore]`d test; its
//! job comes in the environment, commands on its standard input, and its reports go to its standard
//! output.
//!
//! A worker ends with its standard input, and is killed with the [`Worker`] that started it.

use std::env;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use rustix::time::{ClockId, clock_gettime};

use crate::{LIMIT, eventually};

const TASK: &str = "REDLOCKED_WORKER_TASK";
const URL: &str = "REDLOCKED_WORKER_URL";
const NUMBERS: &str = "REDLOCKED_WORKER_NUMBERS";

/// Nanoseconds on a clock that all processes of this machine share: that of the leases.
pub fn now() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let now = clock_gettime(CLOCK);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

/// From `earlier` to `later`, both from [`now`].
pub fn between(earlier: u64, later: u64) -> Duration {
    Duration::from_nanos(later.saturating_sub(earlier))
}

/// A report of a worker: a word and some numbers.
#[derive(Debug)]
pub struct Line {
    /// What it tells.
    pub word: String,
    /// What belongs to the word.
    pub numbers: Vec<u64>,
}

impl Line {
    /// The test harness writes to the same output: ours start with `@`.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix('@')?.split(' ');
        let word = words.next()?.to_owned();
        Some(Self { word, numbers: words.map(|number| number.parse().unwrap()).collect() })
    }
}

/// A process of its own, seen from the test.
pub struct Worker {
    process: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Line>,
}

impl Worker {
    /// Runs this binary again, as a worker with that task; what makes it panic is on the standard error.
    /// `test`: the path of its `#[ignore]`d
    /// test.
    pub fn start(test: &str, task: &str, url: &str, numbers: &[u64]) -> Self {
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
        Self::run(command.env(TASK, task).env(URL, url).env(NUMBERS, numbers.join(" ")))
    }

    /// Runs another program, which reports as [`say`] does and ends with its standard input.
    pub fn run(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (say, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok).filter_map(|text| Line::parse(&text)) {
                if say.send(line).is_err() {
                    break;
                }
            }
        });
        Self { process, input, lines }
    }

    /// One line on its standard input.
    pub fn tell(&mut self, command: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{command}").unwrap();
        input.flush().unwrap();
    }

    /// The numbers of its next line, which must be this word.
    #[track_caller]
    pub fn says(&self, word: &str) -> Vec<u64> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) if line.word == word => line.numbers,
            other => panic!("a worker was to say {word:?}: {other:?}"),
        }
    }

    /// Its reports so far.
    pub fn said(&self) -> Vec<Line> {
        self.lines.try_iter().collect()
    }

    /// Its reports until its output ends.
    pub fn last_words(&self) -> Vec<Line> {
        self.lines.iter().collect()
    }

    /// SIGSTOP, and none of its threads runs any more when this returns: the signal alone takes its
    /// time.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        eventually("a worker is stopped", || waitid(WaitId::Pid(self.id()), stopped).unwrap().is_some());
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        // Its end was not waited for yet, so the number is still its own.
        kill_process(self.id(), signal).unwrap();
    }

    /// Its number, as others name it.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    fn id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap()
    }

    /// `kill -9`, and gone when this returns.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Ends its standard input.
    pub fn dismiss(&mut self) {
        self.input = None;
    }

    /// Whether it is gone, without waiting.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ends(&mut self) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                assert!(status.success(), "a worker failed: {status}");
                return;
            }
            assert!(start.elapsed() < LIMIT, "a worker does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The job of this process, when it is a worker.
pub struct Job {
    /// Which of the tasks of this binary.
    pub task: String,
    /// Where its server is.
    pub url: String,
    /// What the task is about: counts, times, a number of its own.
    pub numbers: Vec<u64>,
}

impl Job {
    /// `None` when this process is no worker.
    pub fn of_this_process() -> Option<Self> {
        let (task, url) = (env::var(TASK).ok()?, env::var(URL).ok()?);
        let numbers = env::var(NUMBERS).ok()?;
        // Also ends a worker that is frozen when its test is killed.
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
        // The harness may be in the middle of a line.
        io::stdout().write_all(b"\n").unwrap();
        let numbers = numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
        Some(Self { task, url, numbers })
    }
}

/// One line in one write: a worker that is killed says it as a whole or not at all.
pub fn say(word: &str, numbers: &[u64]) {
    let mut line = format!("@{word}");
    for number in numbers {
        write!(line, " {number}").unwrap();
    }
    line.push('\n');
    io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// Hands the lines of the standard input to `command`, and calls `end` behind the last.
pub fn listen(mut command: impl FnMut(String) + Send + 'static, end: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            command(line);
        }
        end();
    });
}
