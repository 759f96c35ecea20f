//! The second screen of a terminal, for what is drawn again and again.

use std::io::{self, IsTerminal, Read, Stdin, Write, stdin, stdout};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use terminal_size::{Height, Width, terminal_size_of};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::exit::{Failure, USAGE};

const CTRL_C: u8 = 3;

/// Keys arrive at once and are not shown; until it is dropped.
pub(crate) struct Screen {
    stdin: Stdin,
    before: Termios,
    is_coloured: bool,
    keys: UnboundedReceiver<u8>,
    resized: Signal,
    terminated: Signal,
    hung_up: Signal,
}

/// What a person wants.
pub(crate) enum Wish {
    /// Another size.
    Redraw,
    End,
}

impl Screen {
    pub(crate) fn enter(command: &str, instead: &str) -> Result<Self, Failure> {
        if !(stdin().is_terminal() && stdout().is_terminal()) {
            return Err(Failure::new(USAGE, format!("`{command}` needs a terminal: {instead} does not")));
        }
        let (resized, terminated) = (signal(SignalKind::window_change())?, signal(SignalKind::terminate())?);
        let hung_up = signal(SignalKind::hangup())?;
        let stdin = stdin();
        let before = tcgetattr(&stdin).map_err(io::Error::from)?;
        let mut settings = before.clone();
        // Ctrl-C and Ctrl-Z are bytes like others: the first ends the command, the second would
        // leave the screen as it is.
        settings.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG);
        tcsetattr(&stdin, SetArg::TCSADRAIN, &settings).map_err(io::Error::from)?;
        let is_coloured = AutoStream::choice(&stdout()) != ColorChoice::Never;
        let screen = Self { stdin, before, is_coloured, keys: keys(), resized, terminated, hung_up };
        write!(stdout(), "\x1b[?1049h\x1b[?25l")?;
        Ok(screen)
    }

    /// Can be dropped and called again.
    pub(crate) async fn wish(&mut self) -> Wish {
        loop {
            tokio::select! {
                _ = self.resized.recv() => return Wish::Redraw,
                key = self.keys.recv() => {
                    if matches!(key, None | Some(b'q' | b'Q' | CTRL_C)) {
                        return Wish::End;
                    }
                }
                _ = self.terminated.recv() => return Wish::End,
                _ = self.hung_up.recv() => return Wish::End,
            }
        }
    }

    /// In columns and lines.
    pub(crate) fn size() -> (usize, usize) {
        let (Width(width), Height(height)) = terminal_size_of(stdout()).unwrap_or((Width(80), Height(24)));
        (width.into(), height.into())
    }

    /// Each line fits.
    pub(crate) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let (_, height) = Self::size();
        let shown = &lines[..lines.len().min(height)];
        // The rest of each line is old.
        let text = shown.join("\x1b[K\r\n");
        let text = if self.is_coloured { text } else { strip_str(&text).to_string() };
        // At once: nobody sees a half of it.
        stdout().write_all(format!("\x1b[H{text}\x1b[K\x1b[J").as_bytes())?;
        stdout().flush()
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
