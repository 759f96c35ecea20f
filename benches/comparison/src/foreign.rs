//! The locks of other languages, each in its own process, which reads its commands as lines of
//! JSON.
//!
//! | we say | it answers |
//! | --- | --- |
//! | `{"do": "uncontended", "url", "count"}` | `{"us": [each]}` |
//! | `{"do": "hand_off", "url", "key", "waiters", "holds", "lasts", "from", "to"}` | `{"ms": [each]}` |
//! | `{"do": "flash_sale", "url", "key", "requests", "at_a_time", "wait"}` | `{"lasted", "ms": [each], "failed", "overlaps"}` |
//!
//! Times are in seconds where no unit is named. They measure what the workloads of the same names
//! measure, by their own clocks.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::report::Report;
use crate::workload::{Crowd, Day, Sale};
use kit::{install, unique};

pub const PYTHON: &str = "python-redis-lock 4.0.0";

/// The time limit of every request.
const LIMIT: Duration = Duration::from_mins(3);

pub struct Foreign {
    pub name: &'static str,
    /// More waiters than this would be another experiment.
    pub most_waiters: usize,
    process: Child,
    stdin: ChildStdin,
    answers: UnboundedReceiver<String>,
}

/// The libraries that can be installed here, each as a program and its arguments.
type Found = Result<Vec<String>, String>;

/// Starts them. A library that cannot be installed is left out.
pub fn all(report: &mut Report) -> Vec<Foreign> {
    static REDIS_PY: LazyLock<Found> = LazyLock::new(|| python("redis_py.py"));
    static PYTHON_REDIS_LOCK: LazyLock<Found> = LazyLock::new(|| python("python_redis_lock.py"));
    static NODE_REDLOCK: LazyLock<Found> = LazyLock::new(node_redlock);
    let peers = [
        ("redis-py 8.1.0, asyncio", 500, &REDIS_PY),
        // It needs a thread for each waiter.
        (PYTHON, 50, &PYTHON_REDIS_LOCK),
        ("node-redlock 5.0.0-beta.2", 500, &NODE_REDLOCK),
    ];
    let start = |(name, most_waiters, found): (_, _, &LazyLock<Found>)| match &**found {
        Ok(command) => Some(Foreign::start(name, most_waiters, command)),
        Err(why) => {
            report.left_out(name, why);
            None
        }
    };
    peers.into_iter().filter_map(start).collect()
}

/// How to run one of the scripts in `foreign/`.
fn python(script: &str) -> Found {
    let python = install::python(&peers(), include_str!("foreign/requirements.txt"))?;
    Ok(vec![text(&python), text(&here().join("src/foreign").join(script))])
}

fn node_redlock() -> Found {
    let script = install::node_redlock(&peers(), include_str!("foreign/node_redlock.mjs"))?;
    Ok(vec!["node".to_owned(), text(&script)])
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory with the libraries of other languages.
fn peers() -> PathBuf {
    here().join("target/peers")
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Foreign {
    fn start(name: &'static str, most_waiters: usize, command: &[String]) -> Self {
        let mut process = Command::new(&command[0]);
        process.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = process.spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (answer, answers) = unbounded_channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = answer.send(line);
            }
        });
        Self { name, most_waiters, process, stdin, answers }
    }

    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// `None` when it has failed, now or before: its messages go to standard error.
    async fn ask(&mut self, request: &Value) -> Option<Value> {
        writeln!(self.stdin, "{request}").ok()?;
        let answer = tokio::time::timeout(LIMIT, self.answers.recv()).await;
        let answer = answer.ok().flatten().and_then(|answer| serde_json::from_str(&answer).ok());
        if answer.is_none() {
            eprintln!("{}: no answer to {request}", self.name);
            // A late answer would be taken for the answer to another request.
            let _ = self.process.kill();
        }
        answer
    }

    /// `count` times, in microseconds.
    pub async fn uncontended(&mut self, url: &str, count: usize) -> Vec<f64> {
        let answer = self.ask(&json!({ "do": "uncontended", "url": url, "count": count })).await;
        answer.map(|answer| numbers(&answer["us"])).unwrap_or_default()
    }

    /// The times, in milliseconds.
    pub async fn hand_overs(&mut self, url: &str, crowd: &Crowd) -> Vec<f64> {
        let request = json!({
            "do": "hand_off", "url": url, "key": unique("hand-off"), "waiters": crowd.waiters,
            "holds": crowd.holds.as_secs_f64(), "lasts": crowd.lasts.as_secs_f64(),
            "from": crowd.counts_from().as_secs_f64(), "to": crowd.counts_to().as_secs_f64(),
        });
        let answer = self.ask(&request).await;
        answer.map(|answer| numbers(&answer["ms"])).unwrap_or_default()
    }

    pub async fn flash_sale(&mut self, url: &str, sale: Sale) -> Day {
        let request = json!({
            "do": "flash_sale", "url": url, "key": unique("item"), "requests": sale.requests,
            "at_a_time": sale.at_a_time, "wait": sale.wait.as_secs_f64(),
        });
        let Some(answer) = self.ask(&request).await else {
            return Day {
                lasted: LIMIT.as_secs_f64(),
                waits: Vec::new(),
                failed: sale.requests,
                overlaps: 0,
            };
        };
        let count = |name: &str| u32::try_from(answer[name].as_u64().unwrap()).unwrap();
        Day {
            lasted: answer["lasted"].as_f64().unwrap(),
            waits: numbers(&answer["ms"]),
            failed: count("failed"),
            overlaps: count("overlaps"),
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}
