//! A process that ends right behind a call which does not wait for its release, or right behind the
//! drop of a guard, leaves no lock: each kind of call, in each place, with each end of a process.
//!
//! ```text
//! cargo test --test exits [-- PART_OF_A_NAME]
//! ```
//!
//! Without the harness of Rust's tests: this program runs itself again, and the end of its `main` is one
//! of the ends. The ttl is a minute, so a lock that is gone was released.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and says what it runs"
)]

mod shapes;

use std::env;
use std::process::{Command, ExitCode, Stdio, abort, exit};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kit::RedisServer;

use shapes::{ASYNC_PLACES, ASYNC_WORKS, Call, OTHER, SYNC_PLACES, SYNC_WORKS};

/// What this program is to do as a child: its case, a name for its keys, the urls of the servers.
const ORDER: &str = "REDLOCKED_EXITS_ORDER";

/// Each case, so often.
const TIMES: usize = 3;

/// So many children run at a time.
const AT_A_TIME: usize = 4;

/// The last request of a process that has ended may not be read yet, on a busy machine.
const IS_READ_WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// `main` returns.
    Return,
    /// `std::process::exit`, on the thread of the call.
    Exit,
    /// `std::process::abort`: nothing else runs.
    Abort,
}

const ENDS: [End; 3] = [End::Return, End::Exit, End::Abort];

impl End {
    /// Ends the process, unless `main` is to return.
    pub(crate) fn comes(self) {
        match self {
            Self::Return => {}
            Self::Exit => exit(0),
            Self::Abort => abort(),
        }
    }
}

/// A kind of call, a place and an end.
#[derive(Clone)]
struct Case {
    is_async: bool,
    place: &'static str,
    work: &'static str,
    end: End,
    /// Over a quorum of three servers, else over one.
    servers: usize,
    /// The number of this case.
    number: usize,
}

impl Case {
    fn all() -> Vec<Self> {
        let in_async = ASYNC_PLACES.iter().flat_map(|place| ASYNC_WORKS.map(|work| (true, place.0, work.0)));
        let blocking = SYNC_PLACES.iter().flat_map(|place| SYNC_WORKS.map(|work| (false, place.0, work.0)));
        let on_one = in_async.chain(blocking).map(|kind| (kind, 1));
        // A quorum has neither readers nor permits.
        let on_three = [
            (true, "multi", "by_hand"),
            (true, "current", "several_by_hand"),
            (false, "in_current", "by_hand"),
        ];
        let kinds = on_one.chain(on_three.map(|kind| (kind, 3)));
        let with = |((is_async, place, work), servers)| {
            ENDS.map(|end| Self { is_async, place, work, end, servers, number: 0 })
        };
        kinds.flat_map(with).enumerate().map(|(number, case)| Self { number, ..case }).collect()
    }

    fn name(&self) -> String {
        let kind = if self.is_async { "async" } else { "sync" };
        let Self { place, work, end, servers, .. } = self;
        format!("{kind}/{place}/{work}/{end:?}/{servers}")
    }

    fn goes(&self, call: Call) {
        if self.is_async {
            let place = ASYNC_PLACES.iter().find(|other| other.0 == self.place).unwrap().1;
            place(ASYNC_WORKS.iter().find(|other| other.0 == self.work).unwrap().1, call);
        } else {
            let place = SYNC_PLACES.iter().find(|other| other.0 == self.place).unwrap().1;
            place(SYNC_WORKS.iter().find(|other| other.0 == self.work).unwrap().1, &call);
        }
    }

    /// Runs it in a process of its own, so often. Returns the locks that are left.
    fn runs(&self, servers: &[RedisServer]) -> Vec<String> {
        let servers = &servers[..self.servers];
        let name = self.name();
        let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
        let mut left = Vec::new();
        for time in 0..TIMES {
            let keys = format!("{}-{time}", self.number);
            let order = format!("{name} {keys} {}", urls.join(" "));
            let mut child = Command::new(env::current_exe().unwrap());
            let status = child.env(ORDER, order).stdin(Stdio::null()).status().unwrap();
            assert_eq!(status.success(), self.end != End::Abort, "{name}: {status}");
            left.extend(left_behind(servers, &keys));
        }
        left
    }
}

/// The locks that a child which has ended leaves.
fn left_behind(servers: &[RedisServer], name: &str) -> Vec<String> {
    let ended = Instant::now();
    loop {
        let keys =
            servers.iter().flat_map(|server| server.run::<Vec<String>>(&format!("KEYS lock:{name}:*")));
        // A place in a queue is no lock.
        let left: Vec<String> = keys.filter(|key| !key.contains(OTHER) && !key.contains("%queue")).collect();
        if left.is_empty() || ended.elapsed() > IS_READ_WITHIN {
            return left;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Runs the case that the parent has ordered.
fn child(order: &str) {
    let mut words = order.split(' ').map(str::to_owned);
    let (case, name) = (words.next().unwrap(), words.next().unwrap());
    let case = Case::all().into_iter().find(|other| other.name() == case).unwrap();
    case.goes(Call { urls: words.collect(), name, end: case.end });
}

fn main() -> ExitCode {
    if let Ok(order) = env::var(ORDER) {
        child(&order);
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = env::args().skip(1).collect();
    let part = words.iter().find(|word| !word.starts_with('-')).map_or("", String::as_str);
    let cases: Vec<Case> = Case::all().into_iter().filter(|case| case.name().contains(part)).collect();
    if words.iter().any(|word| word == "--list") {
        for case in cases {
            println!("{}: test", case.name());
        }
        return ExitCode::SUCCESS;
    }
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::durable()).collect();
    let next = AtomicUsize::new(0);
    let is_red = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let left = case.runs(&servers);
                    if !left.is_empty() {
                        is_red.fetch_add(1, Ordering::Relaxed);
                        println!("{} leaves {} keys, such as {}", case.name(), left.len(), left[0]);
                    }
                }
            });
        }
    });
    let red = is_red.into_inner();
    println!("{} cases of {}, each {TIMES} times: {red} leave locks", cases.len(), Case::all().len());
    if red == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
