//! The command line of a program: a word that it does not know, or cannot read, ends it with 2 and
//! says what is possible.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

/// The words behind the name of the program, which are taken out one after the other. What is left
/// is an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arguments {
    words: Vec<String>,
}

impl Arguments {
    /// Those of this process.
    pub fn of_this_process() -> Self {
        Self { words: std::env::args().skip(1).collect() }
    }

    /// The value of `--name VALUE` or `--name=VALUE`. `possible` says what it may be: "a number of
    /// hours from 1 on".
    pub fn value<T: FromStr>(&mut self, name: &str, possible: &str) -> Result<Option<T>, String> {
        let is_named = |word: &str| {
            word.strip_prefix(name).is_some_and(|rest| matches!(rest.as_bytes(), [] | [b'=', ..]))
        };
        let Some(at) = self.words.iter().position(|word| is_named(word)) else { return Ok(None) };
        let word = self.words.remove(at);
        let value = match word.split_once('=') {
            Some((_, value)) => value.to_owned(),
            None if at < self.words.len() => self.words.remove(at),
            None => return Err(format!("`{name}` needs a value: {possible}")),
        };
        value.parse().map(Some).map_err(|_| format!("`{name} {value}` is not {possible}"))
    }

    /// `--server PATH`: another version of the server, to be measured beside the one on PATH.
    pub fn server(&mut self) -> Result<Option<PathBuf>, String> {
        let server: Option<PathBuf> = self.value("--server", "the path of a redis-server")?;
        match server {
            Some(server) if !server.is_file() => {
                Err(format!("`--server {}` is not the path of a redis-server", server.display()))
            }
            server => Ok(server),
        }
    }

    /// True when this word is there.
    pub fn flag(&mut self, name: &str) -> bool {
        let at = self.words.iter().position(|word| word == name);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// The words that are no options.
    pub fn names(&mut self) -> Vec<String> {
        let (options, names) =
            std::mem::take(&mut self.words).into_iter().partition(|word| word.starts_with('-'));
        self.words = options;
        names
    }

    /// Nothing is left.
    pub fn end(self) -> Result<(), String> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(format!("`{word}` is not an argument of this program, or is there twice")),
        }
    }
}

/// What was read, or the end of the program: with 2, the error and the usage.
pub fn or_usage<T>(read: Result<T, impl Display>, usage: &str) -> T {
    read.unwrap_or_else(|error| {
        eprintln!("{error}\n{usage}");
        std::process::exit(2);
    })
}

/// For a program that has no arguments.
pub fn no_arguments() {
    or_usage(Arguments::of_this_process().end(), "It takes no arguments.");
}

/// For a bench that has no arguments: cargo adds one.
pub fn no_bench_arguments() {
    let mut arguments = Arguments::of_this_process();
    arguments.flag(MEASURE);
    or_usage(arguments.end(), "It takes no arguments.");
}

/// For a bench that may be told of a second server.
pub fn second_server_argument() -> Option<PathBuf> {
    let read = |mut arguments: Arguments| {
        arguments.flag(MEASURE);
        let server = arguments.server()?;
        arguments.end().map(|()| server)
    };
    or_usage(read(Arguments::of_this_process()), "usage: cargo bench --bench NAME [-- --server PATH]")
}

/// `cargo bench` says so to the program.
const MEASURE: &str = "--bench";

#[cfg(test)]
mod tests {
    use super::Arguments;

    fn of(line: &str) -> Arguments {
        Arguments { words: line.split_whitespace().map(str::to_owned).collect() }
    }

    #[test]
    fn an_argument_is_read_or_named_in_the_error() {
        let mut arguments = of("--hours 3 --trace --seed=7 quorum");
        assert_eq!(arguments.value::<u64>("--hours", "hours"), Ok(Some(3)));
        assert_eq!(arguments.value::<u64>("--seed", "a number"), Ok(Some(7)));
        assert_eq!(arguments.value::<u64>("--seconds", "a number"), Ok(None));
        assert!(arguments.flag("--trace") && !arguments.flag("--trace"));
        assert_eq!(arguments.names(), ["quorum"]);
        assert_eq!(arguments.end(), Ok(()));

        let hours = |line: &str| of(line).value::<u64>("--hours", "a number of hours").unwrap_err();
        assert_eq!(hours("--hours 0.1"), "`--hours 0.1` is not a number of hours");
        assert_eq!(hours("--hours"), "`--hours` needs a value: a number of hours");
        assert_eq!(hours("--hours="), "`--hours ` is not a number of hours");
        for line in ["--hour 3", "hours", "--hours-per-day 3"] {
            let mut arguments = of(line);
            assert_eq!(arguments.value::<u64>("--hours", "hours"), Ok(None));
            let word = line.split(' ').next().unwrap();
            let left = arguments.end().unwrap_err();
            assert_eq!(left, format!("`{word}` is not an argument of this program, or is there twice"));
        }
        let mut twice = of("--hours 3 --hours 4");
        assert_eq!(twice.value::<u64>("--hours", "hours"), Ok(Some(3)));
        assert!(twice.end().unwrap_err().contains("`--hours`"));
    }
}
