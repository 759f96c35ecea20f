//! A real server and a simulated one that get the same commands.

use std::thread::sleep;
use std::time::Duration;

use kit::RedisServer;
use redlocked_sim::server::{ClientId, Server, ServerSettings, Version};

use crate::real::{Connection, is_fence};
use crate::sequence::{CLIENTS, Sequence, Step};
use crate::wire::{Said, encoded, words};

/// The length of one sequence.
const STEPS: usize = 150;

/// No key may expire so soon, in microseconds, that one server could see it and the other not.
const NEAR: u64 = 25_000;

/// What lasts longer tells nothing: the servers may have executed it at times that are too far
/// apart.
const LONGEST: u64 = 5_000;

pub struct Pair {
    _server: RedisServer,
    port: u16,
    control: Connection,
    version: Version,
}

struct Clients {
    real: Vec<Connection>,
    simulated: Vec<ClientId>,
    /// What the simulated server has said to them, and they have not heard yet.
    unheard: Vec<(ClientId, Vec<u8>)>,
}

impl Pair {
    pub fn start() -> Option<Self> {
        let server = RedisServer::start();
        let version = version_of(&server)?;
        // A real server removes expired keys at random, unless a test says no.
        let debug = ["--enable-debug-command", "yes"].map(str::to_owned);
        let server = if version.has_sharded_channels() { RedisServer::start_with(&debug) } else { server };
        let mut control = Connection::open(server.port());
        assert_eq!(control.ask(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]), Said::Line("+OK".to_owned()));
        Some(Self { port: server.port(), _server: server, control, version })
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// How many steps were compared. A sequence ends early when a step has taken too long.
    pub fn run(&mut self, seed: u64, sequence: &mut Sequence) -> usize {
        self.control.ask(&["FLUSHALL"]);
        self.control.ask(&["SCRIPT", "FLUSH"]);
        let now = self.control.time();
        let settings = ServerSettings { started: now, port: self.port, ..ServerSettings::default() };
        let mut server = Server::new(self.version, settings);
        let simulated: Vec<ClientId> = (0..CLIENTS)
            .map(|number| server.connect(now, &format!("127.0.0.1:{}", 40_000 + number)))
            .collect();
        let real = (0..CLIENTS).map(|_| Connection::open(self.port)).collect();
        let mut clients = Clients { real, simulated, unheard: Vec::new() };
        let mut history: Vec<String> = Vec::new();
        // How far apart the times are that both have stored.
        let mut slack = 0;
        let steps = sequence.opening().into_iter().map(Some).chain((0..STEPS).map(|_| None));
        for (number, step) in steps.enumerate() {
            let no_end_until = self.wait_for_expiries(&server);
            let (client, commands) = step.unwrap_or_else(|| sequence.next());
            history.push(format!("client {client}: {}", described(&commands)));
            let before = self.control.time();
            let real = clients.of_real(number, &(client, commands.clone()));
            let now = self.control.time();
            let simulated = clients.of_simulated(&mut server, now, number, &(client, commands));
            history.extend(heard(&real));
            slack = slack.max(now - before);
            if now - before > LONGEST || now > no_end_until {
                return number;
            }
            for client in 0..CLIENTS {
                compare(
                    seed,
                    &history,
                    &format!("client {client} hears"),
                    &real[client],
                    &simulated[client],
                    slack,
                );
            }
            if number % 8 == 7 {
                let no_end_until = self.wait_for_expiries(&server);
                let before = self.control.time();
                let real = self.data_of_real();
                let now = self.control.time();
                if now - before > LONGEST || now > no_end_until {
                    return number;
                }
                let simulated = data_of_simulated(&mut server, now, &mut clients.unheard);
                let slack = slack.max(now - before);
                compare(seed, &history, "the data are", &real, &simulated, slack);
            }
        }
        for (client, id) in clients.simulated.iter().enumerate() {
            assert!(server.clients().any(|other| other == *id), "client {client} is closed");
        }
        STEPS
    }

    /// A key, or the lease of a marked lock, may be about to end: it is over when this returns. Returns until when none
    /// ends, on either server.
    fn wait_for_expiries(&mut self, server: &Server) -> u64 {
        loop {
            let now = self.control.time();
            let ends = server.keys(now).filter_map(|key| {
                let left = server.pttl(now, key)?? * 1000;
                let end = now + left;
                // The grace of a marked lock.
                [end, end.saturating_sub(100_000)]
                    .into_iter()
                    .find(|end| end + 2000 > now && *end < now + NEAR)
            });
            let Some(end) = ends.max() else {
                // What a key has on the real server it got by so much earlier, at most.
                return now + NEAR - LONGEST;
            };
            sleep(Duration::from_micros((end + 4000).saturating_sub(now)));
        }
    }

    fn data_of_real(&mut self) -> Vec<Said> {
        let mut keys = match self.control.ask(&["KEYS", "*"]) {
            Said::List(_, keys) => keys,
            other => panic!("{other:?}"),
        };
        keys.sort_by_key(|key| format!("{key:?}"));
        let mut data = keys.clone();
        for key in &keys {
            let Said::Text(_, key) = key else { panic!("{key:?}") };
            for command in looks(key) {
                self.control.send(&encoded(&command));
                data.push(self.control.next().unwrap());
            }
        }
        data.extend(self.scanned());
        data
    }

    /// All keys by `SCAN`, sorted.
    fn scanned(&mut self) -> Vec<Said> {
        let (mut cursor, mut all) = ("0".to_owned(), Vec::new());
        loop {
            let Said::List(_, mut page) =
                self.control.ask(&["SCAN", &cursor, "MATCH", "lock:*", "COUNT", "2"])
            else {
                panic!("no page")
            };
            let (Some(Said::List(_, keys)), Some(Said::Text(_, next))) = (page.pop(), page.pop()) else {
                panic!("no page")
            };
            all.extend(keys);
            cursor = String::from_utf8(next).unwrap();
            if cursor == "0" {
                all.sort_by_key(|key| format!("{key:?}"));
                all.dedup();
                return all;
            }
        }
    }
}

fn looks(key: &[u8]) -> [Vec<Vec<u8>>; 4] {
    let command = |name: &str, rest: &[&str]| [words(&[name]), vec![key.to_vec()], words(rest)].concat();
    [
        command("TYPE", &[]),
        command("GET", &[]),
        command("ZRANGE", &["0", "-1", "WITHSCORES"]),
        command("PTTL", &[]),
    ]
}

fn data_of_simulated(server: &mut Server, now: u64, unheard: &mut Vec<(ClientId, Vec<u8>)>) -> Vec<Said> {
    let client = server.connect(now, "127.0.0.1:1");
    let mut ask = |command: &[Vec<u8>]| {
        server.receive(now, client, &encoded(command));
        let (mine, others): (Vec<_>, Vec<_>) =
            server.take_output().into_iter().partition(|(to, _)| *to == client);
        unheard.extend(others);
        Said::read(&mine[0].1).unwrap().0
    };
    let Said::List(_, keys) = ask(&words(&["KEYS", "*"])) else { panic!("no keys") };
    let mut data = keys.clone();
    for key in &keys {
        let Said::Text(_, key) = key else { panic!("{key:?}") };
        data.extend(looks(key).iter().map(|command| ask(command)));
    }
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let Said::List(_, page) = ask(&words(&["SCAN", &cursor, "MATCH", "lock:*", "COUNT", "2"])) else {
            panic!("no page")
        };
        let [Said::Text(_, next), Said::List(_, keys)] = &page[..] else { panic!("{page:?}") };
        found.extend(keys.iter().cloned());
        cursor = String::from_utf8(next.clone()).unwrap();
        if cursor == "0" {
            break;
        }
    }
    found.sort_by_key(|key| format!("{key:?}"));
    data.extend(found);
    server.disconnect(client);
    data
}

impl Clients {
    /// What each client receives of a step, until its answer to a `PING` behind it.
    fn of_real(&mut self, number: usize, (client, commands): &Step) -> Vec<Vec<Said>> {
        let fence = format!("fence {number}");
        let bytes: Vec<u8> = commands.iter().flat_map(|command| encoded(command)).collect();
        self.real[*client].send(&bytes);
        let mut heard: Vec<Vec<Said>> = vec![Vec::new(); CLIENTS];
        // The others hear of it when it is done.
        heard[*client] = self.real[*client].until(&fence);
        for other in (0..CLIENTS).filter(|other| other != client) {
            heard[other] = self.real[other].until(&fence);
        }
        heard
    }

    fn of_simulated(
        &mut self,
        server: &mut Server,
        now: u64,
        number: usize,
        (client, commands): &Step,
    ) -> Vec<Vec<Said>> {
        let fence = format!("fence {number}");
        let bytes: Vec<u8> = commands.iter().flat_map(|command| encoded(command)).collect();
        // In two parts, as a network may deliver it.
        let (first, second) = bytes.split_at(bytes.len() / 2);
        server.receive(now, self.simulated[*client], first);
        server.receive(now, self.simulated[*client], second);
        let ping = encoded(&words(&["PING", &fence]));
        server.receive(now, self.simulated[*client], &ping);
        for other in (0..CLIENTS).filter(|other| other != client) {
            server.receive(now, self.simulated[other], &ping);
        }
        let mut heard = vec![Vec::new(); CLIENTS];
        let unheard = std::mem::take(&mut self.unheard);
        for (to, bytes) in unheard.into_iter().chain(server.take_output()) {
            let client = self.simulated.iter().position(|id| *id == to).unwrap();
            heard[client].extend(bytes);
        }
        heard
            .into_iter()
            .map(|bytes: Vec<u8>| {
                let (mut all, mut at) = (Vec::new(), 0);
                while let Some((said, length)) = Said::read(&bytes[at..]) {
                    if !is_fence(&said, &fence) {
                        all.push(said);
                    }
                    at += length;
                }
                assert_eq!(at, bytes.len(), "a reply is not complete");
                all
            })
            .collect()
    }
}

/// Without it, the test stops here.
pub fn version_of(server: &RedisServer) -> Option<Version> {
    let info: String = server.run("INFO server");
    let version = Version::read(&info);
    if version.is_none() {
        kit::skipped(&format!("{} is not simulated", server.version()));
    }
    version
}

fn described(commands: &[Vec<Vec<u8>>]) -> String {
    let short = |word: &Vec<u8>| {
        let text = String::from_utf8_lossy(word);
        // The last line of a script names it.
        if text.len() > 120 {
            format!("<{}>", text.lines().last().unwrap_or_default())
        } else {
            format!("{text:?}")
        }
    };
    let words = |command: &Vec<Vec<u8>>| command.iter().map(short).collect::<Vec<_>>().join(" ");
    commands.iter().map(words).collect::<Vec<_>>().join("; ")
}

fn heard(all: &[Vec<Said>]) -> Option<String> {
    let each = all.iter().enumerate().filter(|(_, heard)| !heard.is_empty());
    let each: Vec<_> = each.map(|(client, heard)| format!("{client} {heard:?}")).collect();
    (!each.is_empty()).then(|| format!("    {}", each.join(", ")))
}

#[track_caller]
fn compare(seed: u64, history: &[String], what: &str, real: &[Said], simulated: &[Said], slack: u64) {
    let is_like = real.len() == simulated.len()
        && real.iter().zip(simulated).all(|(one, another)| normal(one).is_like(&normal(another), 2 * slack));
    assert!(
        is_like,
        "SEED={seed}\n{}\n{what} of the real server\n  {real:?}\nand of the simulated one (times may be {slack} us apart, twice)\n  \
         {simulated:?}",
        history.join("\n")
    );
}

/// Without what differs from process to process.
fn normal(said: &Said) -> Said {
    match said {
        // The answer to HELLO: the number of the client, and modules.
        Said::List('%', items) if matches!(&items[..], [Said::Text(_, first), ..] if first == b"server") => {
            Said::List('%', items[..6].to_vec())
        }
        other => other.clone(),
    }
}
