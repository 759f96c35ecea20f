//! Messages on standard error: on a terminal in as many lines as they need, broken between words.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use terminal_size::{Width, terminal_size_of};

use crate::table::folded;

/// What happens while a command goes on.
pub(crate) fn tell(message: &str) {
    write(message, Style::new());
}

/// Why a command ends.
pub(crate) fn fail(message: &str) {
    write(message, AnsiColor::Red.on_default().bold());
}

/// What is said in place of an output.
pub(crate) fn note(text: &str) {
    // Standard error may be closed.
    let _ = writeln!(anstream::stderr(), "{}", as_wide(text));
}

fn write(message: &str, style: Style) {
    const NAME: &str = "redlocked:";
    let text = as_wide(&format!("{NAME} {message}"));
    let rest = text.strip_prefix(NAME).unwrap_or(&text);
    // Standard error may be closed.
    let _ = writeln!(anstream::stderr(), "{style}{NAME}{style:#}{rest}");
}

fn as_wide(text: &str) -> String {
    match terminal_size_of(std::io::stderr()) {
        Some((Width(width), _)) => folded(text, width.into()).join("\n"),
        None => text.to_owned(),
    }
}
