//! `redlocked top`.

use std::io::{self, IsTerminal, Read, Stdin, Write, stdin, stdout};
use std::time::{Duration, SystemTime};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use redlocked::LockManager;
use terminal_size::{Height, Width, terminal_size_of};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::args::TopArgs;
use crate::exit::{Failure, OK, USAGE};
use crate::list::table;
use crate::lock_text::printable;

/// Shorter looks would only keep the server busy.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

const CTRL_C: u8 = 3;

pub(crate) async fn top(locks: &LockManager, args: &TopArgs) -> Result<u8, Failure> {
    if !(stdin().is_terminal() && stdout().is_terminal()) {
        return Err(Failure::new(USAGE, "`top` needs a terminal: `list` does not"));
    }
    let mut resized = signal(SignalKind::window_change())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    let mut keys = keys();
    let mut tick = tokio::time::interval(args.interval.max(SHORTEST_INTERVAL));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let _screen = Screen::enter()?;
    let mut lines = vec!["…".to_owned()];
    loop {
        tokio::select! {
            _ = tick.tick() => lines = look(locks, &args.pattern).await,
            _ = resized.recv() => {}
            key = keys.recv() => match key {
                None | Some(b'q' | b'Q' | CTRL_C) => return Ok(OK),
                Some(_) => continue,
            },
            _ = terminated.recv() => return Ok(OK),
            _ = hung_up.recv() => return Ok(OK),
        }
        draw(&lines)?;
    }
}

/// A summary, and the table of the locks; or why there is none.
async fn look(locks: &LockManager, pattern: &str) -> Vec<String> {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    match locks.list(pattern).await {
        Ok(mut held) => {
            // The order among equals is that of their keys.
            held.sort_by_key(|lock| std::cmp::Reverse(lock.waiters()));
            let waiters: u64 = held.iter().map(|lock| u64::from(lock.waiters())).sum();
            let summary = format!("{now}  locks: {}  waiting: {waiters}  (q: quit)", held.len());
            [summary, String::new()].into_iter().chain(table(&held)).collect()
        }
        // It may be back at the next look.
        Err(error) => vec![format!("{now}  (q: quit)"), String::new(), printable(&error.to_string())],
    }
}

/// The bytes of standard input.
fn keys() -> UnboundedReceiver<u8> {
    let (sender, keys) = unbounded_channel();
    // It ends with the process: a read of a terminal cannot be cancelled.
    std::thread::spawn(move || {
        for byte in stdin().lock().bytes().map_while(Result::ok) {
            if sender.send(byte).is_err() {
                break;
            }
        }
    });
    keys
}

/// The second screen of the terminal, where keys arrive at once and are not shown; until it is dropped.
struct Screen {
    stdin: Stdin,
    before: Termios,
}

impl Screen {
    fn enter() -> io::Result<Self> {
        let stdin = stdin();
        let before = tcgetattr(&stdin)?;
        let mut settings = before.clone();
        // Ctrl-C and Ctrl-Z are bytes like others: the first ends `top`, the second would leave the screen as it is.
        settings.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG);
        tcsetattr(&stdin, SetArg::TCSADRAIN, &settings)?;
        let screen = Self { stdin, before };
        write!(stdout(), "\x1b[?1049h\x1b[?25l")?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = write!(stdout(), "\x1b[?25h\x1b[?1049l");
        let _ = stdout().flush();
        let _ = tcsetattr(&self.stdin, SetArg::TCSADRAIN, &self.before);
    }
}

fn draw(lines: &[String]) -> io::Result<()> {
    let (Width(width), Height(height)) = terminal_size_of(stdout()).unwrap_or((Width(80), Height(24)));
    let mut text = String::from("\x1b[H");
    for line in lines.iter().take(height.into()) {
        text.extend(line.chars().take(width.into()));
        // The rest of the line is old.
        text.push_str("\x1b[K\r\n");
    }
    // Not to scroll, the last line has no end.
    let text = if lines.len() >= usize::from(height) { text.trim_end_matches("\r\n") } else { &text };
    let mut out = stdout().lock();
    write!(out, "{text}")?;
    if lines.len() < usize::from(height) {
        write!(out, "\x1b[J")?;
    }
    out.flush()
}
