//! Whether locks went to their waiters in the order of arrival: read from the commands of the
//! server, as `MONITOR` tells them, so it knows nothing of any client.
//!
//! A waiter that stands in the queue loses its place only by its own wish (a script that names its
//! token), by a grant, or while its process is disturbed: frozen, killed, cut off, late, or
//! connecting again. Nobody takes a lock past a waiter whose process is not disturbed, unless the
//! lock has expired, grace and all, and its head came too late.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::{JoinHandle, spawn};

use kit::RedisServer;

/// A key that has expired by the model may have its last moment in the server.
const ABOUT: u64 = 2_000;

/// So long a process takes at most to connect again, on a busy machine.
const RECONNECTS: u64 = 2_500_000;

/// A finding is printed with so many commands before it.
const STORY: usize = 60;

/// Times in microseconds of the server's clock.
pub(crate) struct Command {
    at: u64,
    /// Called by a script.
    is_inner: bool,
    words: Vec<String>,
}

impl Command {
    /// `1795632276.441015 [0 127.0.0.1:5000] "GET" "a key"`, or `[0 lua]`.
    fn parse(line: &str) -> Option<Self> {
        let (at, rest) = line.strip_prefix('+')?.split_once(" [")?;
        let (from, text) = rest.split_once("] ")?;
        let (mut words, mut characters) = (Vec::new(), text.chars());
        while characters.find(|one| *one == '"').is_some() {
            let mut word = String::new();
            loop {
                match characters.next()? {
                    '"' => break,
                    '\\' => word.push(characters.next()?),
                    other => word.push(other),
                }
            }
            words.push(word);
        }
        let at = at.replace('.', "").parse().ok()?;
        words.first_mut()?.make_ascii_lowercase();
        Some(Self { at, is_inner: from.ends_with(" lua"), words })
    }

    /// Whether it, or the script, was called with this token.
    fn names(&self, token: &str) -> bool {
        let secret = token.get(..22).unwrap_or(token);
        self.words.iter().skip(1).any(|word| word.contains(secret))
    }

    /// It, and the first arguments of its script, each shortened.
    fn told(&self, script: &Self) -> String {
        let keys = script.words.get(2).and_then(|keys| keys.parse::<usize>().ok()).unwrap_or(0);
        let arguments = script.words.iter().skip(3 + keys).take(3);
        let words: Vec<_> = self.words.iter().chain(arguments).map(|word| format!("{word:.34}")).collect();
        format!("{}: {}", self.at, words.join(" "))
    }

    /// True for a script whose caller asks for the first time. It may take an expired lock that has a queue: what has
    /// expired tells nobody, and who comes first has it.
    fn asks_first(&self) -> bool {
        let keys = self.words.get(2).and_then(|keys| keys.parse::<usize>().ok());
        keys.and_then(|keys| self.words.get(3 + keys + 2)).is_some_and(|how| how == "join" || how == "0")
    }

    /// The process whose token is the first argument of the script.
    fn process(&self) -> Option<u32> {
        let keys: usize = self.words.get(2)?.parse().ok()?;
        process_of(self.words.get(3 + keys)?)
    }
}

/// The process that a token names.
fn process_of(token: &str) -> Option<u32> {
    let (_, owner) = token.split_once('@')?;
    owner.split_once(':')?.1.split(['/', '=', '!', '|']).next()?.parse().ok()
}

/// Without what says when it was granted, and without the mark.
fn token_in(value: &str) -> &str {
    value.split(['=', '!']).next().unwrap_or(value)
}

/// All commands of a server.
pub(crate) struct Monitor {
    stream: TcpStream,
    commands: JoinHandle<Vec<Command>>,
}

impl Monitor {
    pub(crate) fn of(server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        Self { stream, commands: spawn(|| lines.filter_map(|line| Command::parse(&line)).collect()) }
    }

    pub(crate) fn end(self) -> Vec<Command> {
        self.stream.shutdown(Shutdown::Both).unwrap();
        self.commands.join().unwrap()
    }
}

impl Command {
    /// True for the script that redeems this ticket: a floor above all, and the ticket behind it.
    fn redeems(&self, ticket: &str) -> bool {
        let floor = (1_u64 << 53).to_string();
        self.words.last().is_some_and(|last| last == ticket) && self.words.contains(&floor)
    }
}

/// When which process stood still, was cut off or was gone.
#[derive(Default)]
pub(crate) struct Disturbances(HashMap<u32, Vec<(u64, u64)>>);

impl Disturbances {
    pub(crate) fn add(&mut self, process: u32, from: u64, to: u64) {
        self.0.entry(process).or_default().push((from, to));
    }

    fn in_time(&self, process: u32, from: u64, to: u64) -> bool {
        self.0.get(&process).into_iter().flatten().any(|(began, ended)| *began <= to && from <= *ended)
    }
}

struct Place {
    token: String,
    process: u32,
    score: u64,
    since: u64,
    /// By its own wish.
    leaves: bool,
}

#[derive(Default)]
struct Lock {
    value: Option<String>,
    expires: u64,
    /// It was to be taken while it expired: `MONITOR` does not tell whether it was, but a later
    /// write of the same token does.
    perhaps: String,
    queue: Vec<Place>,
    /// Those that have left the queue in this script.
    left: Vec<Place>,
    /// Its latest commands.
    story: VecDeque<String>,
}

/// What the commands say.
#[derive(Default)]
pub(crate) struct Served {
    /// Waiters that were passed, and places that were lost.
    pub(crate) passed: Vec<String>,
    /// How many locks had expired, and went to a newcomer before their head had asked.
    pub(crate) late_heads: u32,
    /// How often which process has connected.
    pub(crate) connections: HashMap<u32, u32>,
    /// How often which process was granted a lock by push, in a script of which other one.
    pub(crate) handed: BTreeMap<(u32, u32), u32>,
    /// How often a lock has travelled with a ticket, from which process to which.
    pub(crate) travelled: BTreeMap<(u32, u32), u32>,
}

/// Reads the commands that concern the locks whose names begin with `prefix`.
pub(crate) fn served(commands: &[Command], prefix: &str, disturbed: &mut Disturbances) -> Served {
    let (mut served, mut locks) = (Served::default(), HashMap::<String, Lock>::new());
    // Until a process has subscribed again over its next connection, it cannot be reached.
    for command in commands.iter().filter(|command| command.words[0] == "subscribe") {
        if let Some(process) = command.words.get(1).and_then(|inbox| process_of(inbox)) {
            disturbed.add(process, command.at.saturating_sub(RECONNECTS), command.at);
            *served.connections.entry(process).or_default() += 1;
        }
    }
    let disturbed = &*disturbed;
    let mut script = commands.first();
    for command in commands {
        if !command.is_inner {
            for (name, lock) in &mut locks {
                lock.settle(name, command.at, disturbed, &mut served);
            }
            script = Some(command);
        }
        let (Some(script), Some(key)) = (script, command.words.get(1)) else { continue };
        if command.words[0] == "publish" {
            let granted = command.words[2].strip_prefix("granted|").and_then(process_of);
            if let Some((to, from)) = granted.zip(script.process()) {
                *served.handed.entry((from, to)).or_default() += 1;
            }
        }
        let keys = if command.words[0] == "del" { &command.words[1..] } else { std::slice::from_ref(key) };
        for key in keys.iter().filter(|key| key.starts_with(prefix)) {
            let name = key.split('%').next().unwrap_or(key);
            let lock = locks.entry(name.to_owned()).or_default();
            lock.story.push_back(command.told(script));
            lock.story.drain(..lock.story.len().saturating_sub(STORY));
            if key.ends_with("%queue") {
                lock.queue_changes(command, script);
            } else if name == key {
                lock.changes(key, command, script, disturbed, &mut served);
            }
        }
    }
    served
}

impl Lock {
    fn queue_changes(&mut self, command: &Command, script: &Command) {
        let words = &command.words;
        let gone: Vec<Place> = match (words[0].as_str(), words.get(2)) {
            ("zadd", Some(score)) => {
                let token = words[3].split('|').next().unwrap().to_owned();
                let Some(process) = process_of(&token) else { return };
                let score = score.parse().unwrap();
                // Another score, if it has a place.
                self.queue.retain(|place| place.token != token);
                self.queue.push(Place { token, process, score, since: command.at, leaves: false });
                self.queue.sort_by_key(|place| place.score);
                return;
            }
            ("zrem", _) => {
                let is_one =
                    |place: &mut Place| words[2..].iter().any(|member| member.starts_with(&place.token));
                self.queue.extract_if(.., is_one).collect()
            }
            ("zpopmin", count) => {
                let count = count.map_or(1, |count| count.parse().unwrap());
                self.queue.drain(..self.queue.len().min(count)).collect()
            }
            ("del", _) => self.queue.drain(..).collect(),
            _ => return,
        };
        self.left.extend(gone.into_iter().map(|place| Place { leaves: script.names(&place.token), ..place }));
    }

    fn changes(
        &mut self,
        name: &str,
        command: &Command,
        script: &Command,
        disturbed: &Disturbances,
        served: &mut Served,
    ) {
        let (words, at) = (&command.words, command.at);
        let exists = self.value.is_some() && at <= self.expires + ABOUT;
        let option = |name: &str| words.iter().skip(3).position(|word| word.eq_ignore_ascii_case(name));
        match (words[0].as_str(), words.get(2)) {
            ("set", Some(value)) => {
                let is_new = option("NX").is_some();
                let token = token_in(value);
                if is_new && exists {
                    if at + ABOUT > self.expires {
                        token.clone_into(&mut self.perhaps);
                    }
                    return;
                }
                // A client that has looked in its script writes without `NX`.
                let took_what_expired = is_new || at + ABOUT > self.expires && script.asks_first();
                let has_expired = took_what_expired && self.value.is_some() || self.perhaps == token;
                let ms: Option<u64> = option("PX").and_then(|place| words[4 + place].parse().ok());
                let before = self.value.replace(value.clone());
                self.expires = ms.map_or(u64::MAX, |ms| at + ms * 1000);
                // To those who wait, a lock whose ticket is redeemed was held all the time.
                let is_redeemed = before.as_ref().is_some_and(|before| script.redeems(token_in(before)));
                if is_redeemed
                    && let Some(way) = before.as_deref().and_then(process_of).zip(process_of(value))
                {
                    *served.travelled.entry(way).or_default() += 1;
                }
                if !is_redeemed && before.as_ref().is_none_or(|before| token_in(before) != token) {
                    self.is_granted(name, token, at, has_expired, disturbed, served);
                }
            }
            ("pexpire", Some(ms)) if exists => self.expires = at + ms.parse::<u64>().unwrap() * 1000,
            ("del", _) => self.value = None,
            ("delifeq" | "delex", Some(_)) if words.last() == self.value.as_ref() => {
                self.value = None;
            }
            _ => {}
        }
    }

    fn is_granted(
        &mut self,
        name: &str,
        token: &str,
        at: u64,
        has_expired: bool,
        disturbed: &Disturbances,
        served: &mut Served,
    ) {
        let place = self.queue.iter().chain(&self.left).find(|place| place.token == token);
        let (has_place, score) = (place.is_some(), place.map_or(u64::MAX, |place| place.score));
        self.left.retain(|place| place.token != token);
        let is_passed = |place: &&Place| {
            place.token != token && place.score < score && !disturbed.in_time(place.process, place.since, at)
        };
        let passed = self.queue.iter().filter(is_passed).count();
        if passed > 0 && has_expired && !has_place {
            served.late_heads += 1;
        } else if passed > 0 {
            let found = format!("{at}: {name} went to {token} past {passed} waiters");
            served.passed.push(self.told(&found));
        }
    }

    fn told(&self, found: &str) -> String {
        let story = self.story.iter().map(String::as_str);
        std::iter::once(found).chain(story).collect::<Vec<_>>().join("\n  ")
    }

    /// At the end of a script.
    fn settle(&mut self, name: &str, at: u64, disturbed: &Disturbances, served: &mut Served) {
        for place in std::mem::take(&mut self.left) {
            if !place.leaves && !disturbed.in_time(place.process, place.since, at) {
                served.passed.push(self.told(&format!("{at}: {} lost its place for {name}", place.token)));
            }
        }
    }
}
