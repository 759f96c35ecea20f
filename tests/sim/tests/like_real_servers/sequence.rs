//! Random commands, as our engine, foreign clients and operators send them, and as no client would.

use crate::scripts::{self, always_free};
use crate::wire::words;

/// A sequence of numbers that its seed repeats: `SplitMix64`.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn one<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }

    pub fn percent(&mut self, times: u64) -> bool {
        self.below(100) < times
    }
}

pub const CLIENTS: usize = 4;
const LOCKS: [&str; 2] = ["lock:a", "lock:b"];
const CLOCK: &str = "lock:%clock";

/// What one client sends in one write.
pub type Step = (usize, Vec<Vec<Vec<u8>>>);

/// What a connection may be asked.
#[derive(Clone, Copy)]
pub struct Abilities {
    pub resp3: bool,
    pub sharded: bool,
}

pub struct Sequence {
    random: Random,
    abilities: Abilities,
    sharded: Vec<String>,
    free: [String; 1],
}

fn inbox(client: usize) -> String {
    format!("lock:%inbox:{client}")
}

impl Sequence {
    pub fn new(seed: u64, abilities: Abilities) -> Self {
        let sharded = [scripts::ACQUIRE, scripts::RELEASE, scripts::FORCE_RELEASE].map(scripts::sharded);
        Self {
            random: Random(seed),
            abilities,
            sharded: sharded.into(),
            free: [always_free(scripts::RELEASE)],
        }
    }

    /// How each client begins.
    pub fn opening(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for client in 0..CLIENTS {
            if self.abilities.resp3 {
                steps.push((client, vec![words(&["HELLO", "3"])]));
                let tracking = words(&["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"]);
                steps.push((client, vec![tracking, words(&["CLIENT", "CACHING", "YES"]), words(&["ROLE"])]));
            }
            // The last one listens to nothing: its waiters count as dead.
            if client + 1 < CLIENTS && (self.abilities.resp3 || client == 0) {
                steps.push((client, vec![words(&["SUBSCRIBE", &inbox(client)])]));
                if self.abilities.sharded {
                    steps.push((client, vec![words(&["SSUBSCRIBE", &inbox(client)])]));
                }
            }
        }
        steps
    }

    pub fn next(&mut self) -> Step {
        // Without RESP3, the first client can only listen.
        let first = u64::from(!self.abilities.resp3);
        let client = usize::try_from(first + self.random.below(CLIENTS as u64 - first)).unwrap();
        let command = match self.random.below(100) {
            0..60 => self.script(client),
            60..75 => self.plain(),
            75..80 => self.foreign(),
            80..85 => self.odd(),
            85..95 if self.abilities.resp3 => return (client, self.watch()),
            95..97 if self.abilities.resp3 => self.subscription(client),
            97 => words(&["SCRIPT", "FLUSH"]),
            98 if self.random.percent(50) => words(&["FLUSHALL"]),
            _ => words(&["PTTL", self.random.one(&LOCKS)]),
        };
        (client, vec![command])
    }

    fn token(&mut self, client: usize) -> String {
        format!("{:022}@host{client}:1/{}", self.random.below(3), client)
    }

    fn ttl(&mut self) -> &'static str {
        self.random.one(&["150", "1200", "5000", "30000"])
    }

    fn lock(&mut self) -> &'static str {
        self.random.one(&LOCKS)
    }

    fn source(&mut self, source: &str) -> Vec<Vec<u8>> {
        // One in three is sent as its digest, which the server may know or not.
        if self.random.percent(33) {
            let digest = sha1_smol::Sha1::from(source).digest().to_string();
            words(&["EVALSHA", &digest])
        } else {
            words(&["EVAL", source])
        }
    }

    fn script(&mut self, client: usize) -> Vec<Vec<u8>> {
        let (lock, token, ttl) = (self.lock(), self.token(client), self.ttl());
        let (queue, claim) = (format!("{lock}%queue"), format!("{lock}%queue%claim"));
        let uses_sharded = self.abilities.sharded && self.random.percent(20);
        let inbox = inbox(client);
        let above_all = (1_u64 << 53).to_string();
        let digits: Vec<_> = token.bytes().map(|byte| format!("{byte:02x}")).collect();
        let digits = digits.concat();
        let (source, keys, arguments): (String, Vec<&str>, Vec<&str>) = match self.random.below(20) {
            0..7 => {
                let how = self.random.one(&[
                    "0",
                    "late",
                    "join",
                    "join",
                    "join",
                    "join_again",
                    "again",
                    "again",
                    "rejoin",
                ]);
                let number = self.random.one(&["0", "1", "2", "100"]);
                let floor = self.random.one(&["", "", &above_all, "1", "9000.5"]).to_owned();
                let mut arguments = words(&[&token, ttl, how]);
                if !matches!(how, "0" | "late") || self.random.percent(50) {
                    arguments.extend(words(&[&inbox, number]));
                    if self.random.percent(50) {
                        arguments.extend(words(&[&floor]));
                        if self.random.percent(30) {
                            arguments.extend(words(&["unfenced"]));
                        }
                    }
                }
                let source = if uses_sharded { self.sharded[0].clone() } else { scripts::ACQUIRE.to_owned() };
                return self.call(&source, &[lock, &queue, CLOCK, &claim], arguments);
            }
            7..11 => {
                let foreign = self.random.one(&["0", "0", "1"]);
                let source = match foreign {
                    "1" => self.free[0].clone(),
                    _ if uses_sharded => self.sharded[1].clone(),
                    _ => scripts::RELEASE.to_owned(),
                };
                let mut arguments = words(&[&token, ttl, foreign, &inbox]);
                if self.random.percent(40) {
                    arguments.extend(words(&["0", self.random.one(&["", "1", &above_all])]));
                    if self.random.percent(50) {
                        arguments.extend(words(&["unfenced"]));
                        // Followers.
                        for _ in 0..self.random.below(3) {
                            arguments.extend(words(&[&self.token(client)]));
                        }
                    }
                }
                return self.call(&source, &[lock, &queue, CLOCK, &claim], arguments);
            }
            11 => (
                scripts::ACQUIRE_ALL.to_owned(),
                vec![
                    LOCKS[0],
                    "lock:a%queue",
                    "lock:a%queue%claim",
                    "lock:a%queue%holders",
                    "lock:a%queue%permits",
                    LOCKS[1],
                    "lock:b%queue",
                    "lock:b%queue%claim",
                    "lock:b%queue%holders",
                    "lock:b%queue%permits",
                    CLOCK,
                ],
                {
                    let how = self.random.one(&["0", "late", "join", "again"]);
                    vec![&*inbox, "", &*token, ttl, how, "100", &*token, ttl, how, "100"]
                },
            ),
            12 => {
                let how = self.random.one(&["", "", "exactly", "ticket"]);
                let arguments = words(&[&*token, ttl, how]);
                return self.call(scripts::RENEW, &[lock, &queue, CLOCK, &claim], arguments);
            }
            13 => (scripts::RENEW_ALL.to_owned(), LOCKS.to_vec(), vec![&*token, ttl, &*token, "5000"]),
            14 => (scripts::DELETE.to_owned(), vec![lock], vec![&*token]),
            15 => (scripts::INSPECT.to_owned(), vec![lock, &*queue], vec![]),
            16 => {
                let source =
                    if uses_sharded { self.sharded[2].clone() } else { scripts::FORCE_RELEASE.to_owned() };
                (source, vec![lock, &*queue, CLOCK, &*claim], vec!["", "0", "0"])
            }
            17 => {
                let count = self.random.one(&["1", "30", "9007199254740000"]);
                (scripts::RESERVE.to_owned(), vec![lock, CLOCK], vec![&*token, count])
            }
            18 => (scripts::DRAW.to_owned(), vec![lock, &*queue, CLOCK, &*claim], vec![&*token, ttl, "0"]),
            _ => match self.random.below(7) {
                0 => (
                    scripts::VOTE.to_owned(),
                    vec![lock, "lock:%votes"],
                    vec![&*token, ttl, "1795000000000000"],
                ),
                1 => (
                    scripts::RAISE_FENCE.to_owned(),
                    vec![lock, "lock:%votes"],
                    vec![&*token, "1795000000000007"],
                ),
                2 => (scripts::REPAIR.to_owned(), vec![lock], vec![&*token, ttl]),
                3 => (scripts::GIVE_UP.to_owned(), vec![lock], vec![&*token]),
                4 => (scripts::TAKE_AWAY.to_owned(), vec![lock], vec![&*digits]),
                5 => (
                    scripts::VOTE.to_owned(),
                    vec![lock, "lock:%votes"],
                    vec![&*token, ttl, "1795000000000000", "late"],
                ),
                _ => (
                    scripts::RAISE.to_owned(),
                    vec![CLOCK, CLOCK, CLOCK],
                    vec!["", "", "", "", "", &*above_all],
                ),
            },
        };
        self.call(&source, &keys, words(&arguments))
    }

    fn call(&mut self, source: &str, keys: &[&str], arguments: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut command = self.source(source);
        command.extend(words(&[&keys.len().to_string()]));
        command.extend(words(keys));
        command.extend(arguments);
        command
    }

    /// A lock without its queue, and single commands of the scripts.
    fn plain(&mut self) -> Vec<Vec<u8>> {
        let (lock, ttl) = (self.lock(), self.ttl());
        let client = usize::try_from(self.random.below(CLIENTS as u64)).unwrap();
        let token = self.token(client);
        let key = self.random.one(&[lock, "lock:a%queue", "lock:a%queue%claim", CLOCK, "other", "list"]);
        let member = self.random.one(&["m", "n", "o"]);
        match self.random.below(27) {
            0..4 => words(&["SET", lock, &token, "NX", "PX", ttl]),
            4 => words(&["DELIFEQ", lock, &token]),
            5 => words(&["DELEX", lock, "IFEQ", &token]),
            6 => words(&["GET", key]),
            7 => words(&["PTTL", key]),
            8 => words(&["EXISTS", key, lock, "none"]),
            9 => words(&["TYPE", key]),
            10 => words(&["INCR", self.random.one(&["other", "number", lock, "list"])]),
            11 => words(&[
                "ZADD",
                self.random.one(&["set", key]),
                self.random.one(&["1", "2.5", "1e3"]),
                member,
            ]),
            12 => words(&["ZADD", "set", self.random.one(&["XX", "NX"]), "7", member]),
            13 => words(&["ZREM", self.random.one(&["set", key]), member, "n"]),
            14 => words(&["ZSCORE", self.random.one(&["set", key]), member]),
            15 => words(&["ZRANK", self.random.one(&["set", key]), member]),
            16 => words(&[
                "ZRANGE",
                "set",
                self.random.one(&["0", "-2", "1"]),
                self.random.one(&["-1", "0", "9"]),
                "WITHSCORES",
            ]),
            17 => words(&["ZPOPMIN", self.random.one(&["set", key])]),
            18 => words(&["ZPOPMIN", "set", self.random.one(&["0", "1", "2"])]),
            19 => words(&["ZCARD", self.random.one(&["set", key])]),
            20 => words(&["PEXPIRE", key, self.random.one(&["40", "3000", "0", "-5"])]),
            // Less than any key has left, and more than any but 30 s: the two may be a millisecond apart.
            25 => words(&["PEXPIRE", key, self.random.one(&["15", "9000", "-5"]), "GT"]),
            21 => words(&["PERSIST", key]),
            22 => words(&["GETSET", self.random.one(&["other", key]), "value"]),
            23 => words(&["PUBLISH", &inbox(client), "hello"]),
            24 => words(&["PUBSUB", "NUMSUB", &inbox(client), "none"]),
            _ => words(&["ZCOUNT", "set", "1", "3"]),
        }
    }

    /// Operators and clients of another kind.
    fn foreign(&mut self) -> Vec<Vec<u8>> {
        let lock = self.lock();
        match self.random.below(6) {
            0 => words(&["DEL", lock]),
            1 => words(&["SET", lock, "foreign", "PX", "3000"]),
            2 => words(&["LPUSH", self.random.one(&["list", lock]), "item"]),
            3 => words(&["DEL", &format!("{lock}%queue"), "other"]),
            4 => words(&["ZADD", &format!("{lock}%queue"), "1", "malformed"]),
            _ => words(&["SET", lock, "foreign"]),
        }
    }

    /// What servers refuse.
    fn odd(&mut self) -> Vec<Vec<u8>> {
        const ODD: [&[&str]; 27] = [
            &["FOO", "a", "b"],
            &["GET"],
            &["GET", "a", "b"],
            &["SET", "other", "v", "PX", "0"],
            &["SET", "other", "v", "PX", "x"],
            &["SET", "other", "v", "NX", "XX"],
            &["PEXPIRE", "other", "x"],
            &["CLIENT", "FOO"],
            &["PUBSUB", "FOO"],
            &["SCRIPT", "FOO"],
            &["CLIENT", "SETNAME", "a b"],
            &["CLIENT", "GETNAME"],
            &["SELECT", "99"],
            &["ZADD", "set", "x", "m"],
            &["ZADD", "set", "1"],
            &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
            &["EVAL", "return redis.call('FOO')", "0"],
            &["EVAL", "return redis.call('GET')", "0"],
            &["EVAL", "\nreturn redis.call('GET', KEYS[1])", "1", "list"],
            &["EVAL", "return redis.pcall('GET', KEYS[1])", "1", "list"],
            &[
                "EVAL",
                "local ok, e = pcall(redis.call, 'INCR', KEYS[1]) return {tostring(ok), e}",
                "1",
                "list",
            ],
            &["EVAL", "return {1, 2.7, 'a', false, true, {ok = 'fine'}, {err = 'ERR bad'}, {}, nil, 3}", "0"],
            &["EVAL", "return redis.call('SET', KEYS[1], 0.5)", "1", "number"],
            &["EVAL", "return 1 + nil", "0"],
            &["EVAL", "syntax error", "0"],
            &["EVAL", "return 1", "7"],
            &["WAIT", "0", "0"],
        ];
        words(ODD[usize::try_from(self.random.below(ODD.len() as u64)).unwrap()])
    }

    /// A read that the server tells of, and what else may come behind `CLIENT CACHING`.
    fn watch(&mut self) -> Vec<Vec<Vec<u8>>> {
        let caching = words(&["CLIENT", "CACHING", "YES"]);
        let lock = self.lock();
        let read = match self.random.below(8) {
            0..3 => words(&["GET", lock]),
            3 => words(&["EXISTS", LOCKS[0], LOCKS[1]]),
            4 => words(&["ZRANGE", "set", "0", "-1"]),
            5 => {
                let client = usize::try_from(self.random.below(CLIENTS as u64)).unwrap();
                let token = self.token(client);
                self.call(scripts::RENEW_ALL, &LOCKS, words(&[&token, "3000", &token, "5000"]))
            }
            6 => self.call("return redis.call('GET', KEYS[1])", &[lock, "other"], Vec::new()),
            _ => self.call(
                "redis.call('SET', KEYS[1], 'x') return redis.call('GET', KEYS[1])",
                &["other"],
                Vec::new(),
            ),
        };
        let mut commands = vec![caching, read];
        if self.random.percent(20) {
            commands.insert(1, words(&["CLIENT", "GETNAME"]));
        }
        if self.random.percent(30) {
            commands.push(words(&["SET", lock, "mine", "PX", "2000"]));
        }
        commands
    }

    fn subscription(&mut self, client: usize) -> Vec<Vec<u8>> {
        let inbox = inbox(client);
        match self.random.below(5) {
            0 => words(&["SUBSCRIBE", "news", "weather"]),
            1 => words(&["UNSUBSCRIBE", "news"]),
            2 if self.abilities.sharded => words(&["SSUBSCRIBE", &inbox]),
            3 if self.abilities.sharded => words(&["SUNSUBSCRIBE", &inbox]),
            _ => words(&["SUBSCRIBE", &inbox]),
        }
    }
}
