//! The lock of every tutorial: `SET NX PX`, repeated every few milliseconds, and a script that
//! compares before it deletes.

use std::sync::mpsc::{Receiver, Sender};
use std::thread::sleep;
use std::time::{Duration, Instant};

use kit::{LIMIT, unique};

const DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const EXPIRE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

struct HandWritten {
    client: redis::Connection,
    key: String,
    value: String,
}

/// Runs commands until their sender is dropped.
pub(crate) fn obey(client: redis::Connection, lines: &Receiver<String>, answer: &Sender<String>) {
    let mut lock = HandWritten { client, key: String::new(), value: String::new() };
    let say = |word: &str| answer.send(word.to_owned()).unwrap_or_default();
    say("ready");
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        say(match words[..] {
            ["try", key, ttl] => either(lock.attempt(key, ttl), "held", "refused"),
            ["wait", key, ttl] => {
                let held = lock.attempt(key, ttl) || {
                    say("waiting");
                    lock.wait(key, ttl)
                };
                either(held, "held", "refused")
            }
            ["extend", ttl] => either(lock.owned(EXPIRE, ttl), "extended", "lost"),
            ["release"] => either(lock.owned(DELETE, ""), "released", "lost"),
            ["count", key, counter, rounds] => lock.count(key, counter, rounds.parse().unwrap()),
            _ => panic!("{line:?} is no command"),
        });
    }
}

fn either(is_so: bool, yes: &'static str, no: &'static str) -> &'static str {
    if is_so { yes } else { no }
}

impl HandWritten {
    fn attempt(&mut self, key: &str, ttl: &str) -> bool {
        (self.key, self.value) = (key.to_owned(), unique("hand-written"));
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&self.value).arg("NX").arg("PX").arg(ttl).query(&mut self.client).unwrap()
    }

    fn wait(&mut self, key: &str, ttl: &str) -> bool {
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            if self.attempt(key, ttl) {
                return true;
            }
            sleep(Duration::from_millis(5));
        }
        false
    }

    fn owned(&mut self, script: &str, ttl: &str) -> bool {
        let mut eval = redis::cmd("EVAL");
        eval.arg(script).arg(1).arg(&self.key).arg(&self.value).arg(ttl).query(&mut self.client).unwrap()
    }

    fn count(&mut self, key: &str, counter: &str, rounds: u32) -> &'static str {
        for _ in 0..rounds {
            assert!(self.wait(key, "20000"), "the client never got its turn");
            super::count_once(&mut self.client, counter);
            assert!(self.owned(DELETE, ""), "the client lost its lock");
        }
        "counted"
    }
}
