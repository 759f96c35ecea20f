//! One lock, the scripts, and callers whose requests are written by hand.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use kit::{LIMIT, RedisServer};
use redis::{PubSub, Value};

pub(crate) const LOCK: &str = "lock:k";
pub(crate) const QUEUE: &str = "lock:k%queue";
pub(crate) const CLAIM: &str = "lock:k%queue%claim";
pub(crate) const HOLDERS: &str = "lock:k%queue%holders";
pub(crate) const PERMITS: &str = "lock:k%queue%permits";
pub(crate) const CLOCK: &str = "lock:%clock";

/// Reads everything about the lock at one moment.
const STATE: &str = "local now = redis.call('TIME')
return {redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]), now[1] * 1000 + math.floor(now[2] / 1000),
  redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES'), redis.call('PTTL', KEYS[3]), redis.call('ZRANGE', KEYS[2], 0, -1),
  redis.call('GET', KEYS[4]) or '0'}";

/// One that asks for the lock.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) token: String,
    pub(crate) ttl: u64,
    pub(crate) inbox: String,
    /// How many it allows inside, itself included; 0 for any number.
    pub(crate) number: u32,
    /// For how many of them it counts.
    pub(crate) weight: u32,
    pub(crate) fenced: bool,
}

impl Caller {
    pub(crate) fn is_counted(&self) -> bool {
        self.number != 1
    }

    fn kind(&self) -> String {
        match (self.number, self.fenced) {
            (1, true) => String::new(),
            (1, false) => "unfenced".to_owned(),
            (number, _) if self.weight == 1 => format!("n{number}"),
            (number, _) => format!("n{number}x{}", self.weight),
        }
    }

    pub(crate) fn place(&self) -> String {
        let kind = self.kind();
        let bar = if kind.is_empty() { "" } else { "|" };
        format!("{}|{}|{}{bar}{kind}", self.token, self.ttl, self.inbox)
    }
}

/// The answer to a request for the lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Inside {
        fence: u64,
    },
    Busy {
        holder: String,
        left: i64,
        place: i64,
    },
    Full(i64),
    /// It takes more permits than the central limit allows.
    TooHeavy {
        takes: i64,
        central: i64,
    },
}

impl Answer {
    pub(crate) fn is_inside(&self) -> bool {
        matches!(self, Self::Inside { .. })
    }
}

/// The lock at one moment, in ms of the server.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) value: String,
    pub(crate) px: i64,
    pub(crate) at: i64,
    /// The tokens of those that are inside, and what is left of their leases.
    pub(crate) inside: HashMap<String, i64>,
    pub(crate) holders_px: i64,
    pub(crate) waiting: Vec<String>,
    /// The central limit; 0 without one.
    pub(crate) central: u32,
}

impl State {
    pub(crate) fn is_counted(&self) -> bool {
        self.value.starts_with("%holders|")
    }

    /// The number of the phase of a counted lock.
    pub(crate) fn phase(&self) -> u64 {
        self.value.rsplit('|').next().unwrap().parse().unwrap()
    }
}

pub(crate) struct Scripts {
    pub(crate) server: RedisServer,
    client: redis::Connection,
    by_name: HashMap<&'static str, redis::Script>,
    inboxes: HashMap<String, PubSub<'static>>,
    /// An exclusive caller has been told to name the holders.
    names_holders: bool,
    /// The most waiters of one that joins.
    pub(crate) at_most: u32,
    tokens: u64,
}

impl Scripts {
    pub(crate) fn start() -> Self {
        let server = RedisServer::start();
        let mut client = server.client();
        let names = [
            "acquire",
            "renew",
            "pass_on",
            "release",
            "inspect",
            "force_release",
            "watch",
            "redeem",
            "acquire_counted",
            "renew_counted",
            "expire_counted",
            "release_counted",
            "revoke",
            "downgrade",
            "set_permits",
            "acquire_once",
            "finish",
            "renew_once",
        ];
        let load = |name| {
            let script = redis::Script::new(&source(name));
            let _: String = script.load(&mut client).unwrap();
            (name, script)
        };
        let by_name = names.map(load).into_iter().collect();
        Self {
            server,
            client,
            by_name,
            inboxes: HashMap::new(),
            names_holders: false,
            at_most: 10_000,
            tokens: 0,
        }
    }

    pub(crate) fn forget_all(&mut self) {
        redis::cmd("FLUSHALL").exec(&mut self.client).unwrap();
        self.names_holders = false;
    }

    /// A client listens there from now on.
    pub(crate) fn listen(&mut self, inbox: &str) {
        // As long as the test: it belongs to no other.
        let connection: &'static mut redis::Connection = Box::leak(Box::new(self.server.client()));
        let mut listener = connection.as_pubsub();
        listener.subscribe(inbox).unwrap();
        listener.set_read_timeout(Some(LIMIT)).unwrap();
        self.inboxes.insert(inbox.to_owned(), listener);
    }

    /// What was published to an inbox since it was asked last.
    pub(crate) fn texts(&mut self, inbox: &str) -> Vec<String> {
        redis::cmd("PUBLISH").arg(inbox).arg("").exec(&mut self.client).unwrap();
        let listener = self.inboxes.get_mut(inbox).unwrap();
        let next = || listener.get_message().unwrap().get_payload().unwrap();
        std::iter::repeat_with(next).take_while(|text: &String| !text.is_empty()).collect()
    }

    /// Returns the kind, the token and the first number of each push.
    pub(crate) fn pushes(&mut self, inbox: &str) -> Vec<(String, String, i64)> {
        let push = |text: String| {
            let parts: Vec<_> = text.splitn(6, '|').collect();
            assert_eq!(parts[5], LOCK);
            (parts[0].to_owned(), parts[1].to_owned(), parts[2].parse().unwrap())
        };
        self.texts(inbox).into_iter().map(push).collect()
    }

    pub(crate) fn caller(&mut self, number: u32, ttl: u64, inbox: &str) -> Caller {
        self.tokens += 1;
        let token = format!("{:0>22}@host:1/1790000000/m::f", self.tokens);
        Caller { token, ttl, inbox: inbox.to_owned(), number, weight: 1, fenced: true }
    }

    pub(crate) fn run<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        command.query(&mut self.client).unwrap()
    }

    fn call(&mut self, name: &'static str, arguments: &[&str]) -> Value {
        let names_holders = self.names_holders || !matches!(name, "acquire" | "release");
        let keys: &[&str] = match name {
            "inspect" => &[LOCK, QUEUE, HOLDERS, PERMITS],
            "watch" => &[LOCK],
            "renew_counted" => &[LOCK, HOLDERS],
            "redeem" | "renew" => &[LOCK, QUEUE, CLOCK, CLAIM],
            _ if names_holders => &[LOCK, QUEUE, CLOCK, CLAIM, HOLDERS, PERMITS],
            _ => &[LOCK, QUEUE, CLOCK, CLAIM],
        };
        self.call_with(name, keys, arguments)
    }

    pub(crate) fn call_with(&mut self, name: &'static str, keys: &[&str], arguments: &[&str]) -> Value {
        let mut call = self.by_name[name].prepare_invoke();
        for key in keys {
            call.key(*key);
        }
        for argument in arguments {
            call.arg(*argument);
        }
        call.invoke(&mut self.client).unwrap()
    }

    /// As a client does: a call that has to go on is called again, and names the holders.
    fn call_for(
        &mut self,
        caller: &Caller,
        names: [&'static str; 2],
        how: &str,
        ttl: u64,
        number: &str,
    ) -> Value {
        let (ttl, kind) = (ttl.to_string(), caller.kind());
        let arguments = [&*caller.token, &*ttl, how, &*caller.inbox, number, "", &*kind];
        for _ in 0..2 {
            let answer = self.call(names[usize::from(caller.is_counted())], &arguments);
            let goes_on = match &answer {
                Value::Int(number) => *number == 2,
                Value::Array(parts) => parts[..] == [Value::Int(3)],
                _ => false,
            };
            if !goes_on {
                return answer;
            }
            assert!(!self.names_holders && !caller.is_counted(), "it had not to be called again");
            self.names_holders = true;
        }
        panic!("it does not end")
    }

    pub(crate) fn ask(&mut self, caller: &Caller, how: &str) -> Answer {
        let at_most = self.at_most.to_string();
        match self.call_for(caller, ["acquire", "acquire_counted"], how, caller.ttl, &at_most) {
            Value::Int(fence) => Answer::Inside { fence: fence.unsigned_abs() },
            Value::Array(parts) => match &parts[..] {
                [Value::Int(0), Value::BulkString(holder), Value::Int(left), _, Value::Int(place), _] => {
                    let holder = String::from_utf8(holder.clone()).unwrap();
                    Answer::Busy { holder, left: *left, place: *place }
                }
                [Value::Int(2), Value::Int(waiters)] => Answer::Full(*waiters),
                [Value::Int(10), Value::Int(takes), Value::Int(central)] => {
                    Answer::TooHeavy { takes: *takes, central: *central }
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Leaves the lock free for foreign clients, if it becomes free.
    pub(crate) fn leave_free(&mut self, caller: &Caller) -> bool {
        self.call_for(caller, ["release", "release_counted"], "128", caller.ttl, "0") == Value::Int(1)
    }

    /// Takes over what was left to this ticket: what the script answers.
    pub(crate) fn redeem(&mut self, caller: &Caller, ticket: &str) -> i64 {
        let ttl = caller.ttl.to_string();
        match self.call("redeem", &[&caller.token, &ttl, "0", &caller.inbox, "0", "", "", ticket]) {
            Value::Int(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// How often the server has run a command, within scripts, too.
    pub(crate) fn calls_of(&mut self, command: &str) -> u64 {
        let stats: String = self.run(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }

    /// True when it was inside.
    pub(crate) fn leave(&mut self, caller: &Caller) -> bool {
        self.call_for(caller, ["release", "release_counted"], "0", caller.ttl, "0") == Value::Int(1)
    }

    pub(crate) fn stay(&mut self, caller: &Caller, ttl: u64, exactly: bool) -> bool {
        let answer = match (caller.is_counted(), exactly) {
            (true, false) => {
                let (ttl, kind) = (ttl.to_string(), caller.kind());
                self.call("renew_counted", &[&caller.token, &ttl, "", &caller.inbox, &kind])
            }
            (_, true) => self.call_for(caller, ["renew", "expire_counted"], "exactly", ttl, "0"),
            (false, false) => self.call_for(caller, ["renew", "renew"], "", ttl, "0"),
        };
        answer == Value::Int(1)
    }

    /// It has the lock alone, with this fencing token, and has it beside others from now on. Returns the fencing token of
    /// all that are inside, or 0 when it is not.
    pub(crate) fn downgrade(&mut self, caller: &Caller, fence: u64) -> u64 {
        let (ttl, fence) = (caller.ttl.to_string(), fence.to_string());
        let place_kind = if caller.fenced { "" } else { "unfenced" };
        let arguments = [&*caller.token, &*ttl, &*fence, &*caller.inbox, &*ttl, "", "n0", place_kind];
        match self.call("downgrade", &arguments) {
            Value::Int(phase) => phase.unsigned_abs(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn force_release(&mut self) -> Value {
        self.force_release_from("")
    }

    /// Takes the lock from whom this names, as it is in the key, or from whoever has it.
    pub(crate) fn force_release_from(&mut self, holder: &str) -> Value {
        let digits = holder.bytes().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
        self.call("force_release", &[&digits, "0", "0", "", "0", ""])
    }

    /// Takes its place from one of several, for an operator with this inbox: what the script answers.
    pub(crate) fn revoke(&mut self, caller: &Caller, inbox: &str) -> i64 {
        match self.call("revoke", &[&caller.token, "0", "0", inbox, "", ""]) {
            Value::Int(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// Sets the central limit, or clears it with 0, for an operator with this inbox. Returns the one before.
    pub(crate) fn set_permits(&mut self, permits: u32, inbox: &str) -> i64 {
        let permits = if permits == 0 { String::new() } else { permits.to_string() };
        match self.call("set_permits", &[&permits, "", "", inbox, "", ""]) {
            Value::Array(parts) => match parts[..] {
                [Value::Int(0), Value::Int(before)] => before,
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn watch(&mut self, caller: &Caller, phase: u64) -> i64 {
        match self.call("watch", &[&caller.token, &phase.to_string()]) {
            Value::Int(left) => left,
            other => panic!("{other:?}"),
        }
    }

    /// How many are inside, as an operator sees it.
    pub(crate) fn inspected(&mut self) -> i64 {
        match self.call("inspect", &[]) {
            Value::Array(parts) => match &parts[..] {
                [Value::Nil, ..] => 0,
                [_, _, _, _, _, Value::Array(counted)] => match counted[0] {
                    Value::Int(inside) => inside,
                    ref other => panic!("{other:?}"),
                },
                _ => 1,
            },
            other => panic!("{other:?}"),
        }
    }

    /// The time of the server in ms.
    pub(crate) fn now(&mut self) -> i64 {
        let (seconds, micros): (i64, i64) = redis::cmd("TIME").query(&mut self.client).unwrap();
        seconds * 1000 + micros / 1000
    }

    pub(crate) fn state(&mut self) -> State {
        type Read = (String, i64, i64, Vec<(String, f64)>, i64, Vec<String>, u32);
        let script = redis::Script::new(STATE);
        let mut call = script.key(LOCK);
        call.key(QUEUE).key(HOLDERS).key(PERMITS);
        let read: Read = call.invoke(&mut self.client).unwrap();
        let (value, px, at, holders, holders_px, waiting, central) = read;
        let token = |member: &String| member.split('|').next().unwrap().to_owned();
        let inside = if value.starts_with("%holders|") {
            let left = |ends: f64| (ends.ceil() as i64) - at;
            holders
                .iter()
                .map(|(member, ends)| (token(member), left(*ends)))
                .filter(|(_, left)| *left > 0)
                .collect()
        } else if value.is_empty() {
            HashMap::new()
        } else {
            let left = px - if value.ends_with('!') { 100 } else { 0 };
            let holder = value.trim_end_matches('!').split('=').next().unwrap().to_owned();
            HashMap::from([(holder, left)]).into_iter().filter(|(_, left)| *left > 0).collect()
        };
        State { value, px, at, inside, holders_px, waiting: waiting.iter().map(token).collect(), central }
    }
}

/// The text of a script, as the engine builds it, with the mistake that is tested.
pub(crate) fn source(name: &str) -> String {
    let script = text(&format!("built/{name}"));
    match EDIT.with_borrow(Clone::clone) {
        Some(edit) => edited(&script, edit),
        None => script,
    }
}

/// What stands in an include stands in the script, too. A command has others in between.
fn edited(script: &str, (file, from, to): Edit) -> String {
    let text = text(file);
    let is_other = |line: &&str| !line.trim_start().starts_with("--- @");
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let parts = lines.split(|line| !is_other(line)).map(<[_]>::concat);
    match parts.into_iter().find(|part| part.contains(from)) {
        Some(part) => script.replace(&part, &part.replacen(from, to, 1)),
        None => panic!("{file}: {from}"),
    }
}

/// In a Cluster, includes that publish are other ones.
pub(crate) fn on_sharded_channels(script: &str) -> String {
    ["notify", "must_notify", "may_notify", "listeners"].iter().fold(script.to_owned(), |script, name| {
        script.replace(&text(&format!("includes/{name}")), &text(&format!("includes/{name}_sharded")))
    })
}

/// The names of all scripts but those that a connection sends by itself.
pub(crate) fn all_scripts() -> Vec<String> {
    const BY_ITSELF: &[&str] = &["raise", "confirm", "confirm_counted", "confirm_record"];
    let files = std::fs::read_dir(folder().join("built")).unwrap();
    let name = |file: std::io::Result<DirEntry>| {
        file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()
    };
    files.map(name).filter(|name| !BY_ITSELF.contains(&&**name)).collect()
}

/// A file of the scripts, a text in it, and what stands there instead.
pub(crate) type Edit = (&'static str, &'static str, &'static str);

thread_local! {
    static EDIT: RefCell<Option<Edit>> = const { RefCell::new(None) };
}

/// True when `test` fails with scripts that were edited like this.
pub(crate) fn fails_with(edit: Edit, test: fn()) -> bool {
    EDIT.set(Some(edit));
    let failed = std::panic::catch_unwind(test).is_err();
    EDIT.set(None);
    failed
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("redlock-runtime/src/engine/redis/scripts")
}

/// The text of a file.
pub(crate) fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{name}.lua"))).unwrap()
}

/// No name twice.
pub(crate) fn are_unique(names: &[String]) -> bool {
    names.iter().collect::<HashSet<_>>().len() == names.len()
}
