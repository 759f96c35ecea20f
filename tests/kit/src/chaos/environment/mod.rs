//! The servers that the workers connect to, and the faults injected there.

pub mod cluster;
pub mod one_server;
pub mod proxies;
pub mod quorum;

use std::collections::HashMap;
use std::time::Duration;

use crate::chaos::checker::{Loss, LossDetection};
use crate::chaos::event_log::EventLog;
use crate::chaos::random::Random;
use crate::chaos::workload::caller::key;
use crate::chaos::workload::fleet::{Fleet, Role};
use crate::{RedisServer, now};

/// The name of the run's own connections, which are never cut.
const OURS: &str = "driver";

/// After a hand-over the next holder is inside within this, behind a thousand other requests on a busy machine: 0.5 to 1 s
/// were seen at a load of 10 and more. A waiter that missed its push asks by itself, mostly later.
pub(crate) const HAND_OVER: Duration = Duration::from_millis(1_500);

/// Connects; `None` when no server answers.
pub type Connect = Box<dyn FnMut() -> Option<redis::Connection> + Send>;

/// The locks on the server and their values, read between `from` and `to`.
#[derive(Clone, Debug)]
pub struct Sample {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) locks: HashMap<String, String>,
}

/// The servers of a run: where workers connect, and the faults there.
pub trait Environment {
    /// The worker processes.
    fn fleet(&self) -> Fleet {
        Fleet::MIXED
    }

    /// The URL for the next worker.
    fn address(&mut self, random: &mut Random) -> String;

    /// The ttls of the locks, in milliseconds.
    fn ttls(&self) -> [u64; 4];

    /// The longest that a caller that ignores its lease stays, in milliseconds.
    fn overrun(&self) -> u64 {
        300
    }

    /// Injects a fault into the servers or the network.
    fn inject_fault(&mut self, random: &mut Random, log: &mut EventLog);

    /// The role whose processes are all killed now, if any.
    fn kills(&mut self) -> Option<Role> {
        None
    }

    /// Ends the faults that have lasted long enough, or all.
    fn heal(&mut self, all: bool, log: &mut EventLog);

    /// Connects the foreign client, where the plan has one.
    fn foreign_client(&self) -> Option<Connect> {
        None
    }

    /// The locks on the server; `None` while a worker may not reach it.
    fn sample(&mut self) -> Option<Sample> {
        None
    }

    /// The locks, or queues, that an operator has deleted since the last call; `None` stands for
    /// all.
    fn disturbances(&mut self) -> Vec<Option<Vec<u64>>> {
        Vec::new()
    }

    /// When a holder notices that its lock was taken away.
    fn loss_detection(&self) -> LossDetection {
        LossDetection::AtLeaseEnd
    }

    /// How soon a lock with waiters has its next holder, where no fault is injected.
    fn hands_over_within(&self) -> Option<Duration> {
        None
    }

    /// True when a fault delays answers. Then a call may return later, because a waiter at its limit
    /// awaits an answer for twice as long as answers usually take.
    fn delays_answers(&self) -> bool {
        false
    }

    /// How soon a lock that callers want has a caller inside, whoever is stuck or full.
    fn used_within(&self) -> Option<Duration> {
        None
    }

    /// When locks may have been forgotten.
    fn losses(&self) -> &[Loss];

    /// How many requests the rewriting proxies have changed.
    fn rewrites(&self) -> u64 {
        0
    }

    /// The keys that are left on the servers.
    fn keys(&self) -> Vec<String>;
}

/// `None` when the server does not answer: it may have been stopped a moment ago.
pub(crate) fn client(server: &RedisServer) -> Option<redis::Connection> {
    let mut client = server.connect()?;
    redis::cmd("CLIENT").arg("SETNAME").arg(OURS).query::<()>(&mut client).ok()?;
    Some(client)
}

/// These keys, as far as this server has them, and some of those of dropped calls, of which there
/// may be very many. `None` when it does not answer.
pub(crate) fn look_at_keys(client: &mut redis::Connection, keys: &[u64]) -> Option<Sample> {
    const LOOK: &str = "local found = {} \
         local function look(keys) for _, key in ipairs(keys) do local value = redis.pcall('GET', key) \
         if type(value) == 'string' then found[#found + 1] = key found[#found + 1] = value end end end \
         look(ARGV) look(redis.call('SCAN', 0, 'MATCH', 'lock:dropped:*', 'COUNT', 300)[2]) return found";
    client.set_read_timeout(Some(Duration::from_millis(300))).ok()?;
    let mut look = redis::cmd("EVAL");
    look.arg(LOOK).arg(0);
    for number in keys {
        look.arg(format!("lock:{}", key(*number)));
    }
    let from = now();
    let found: Vec<String> = look.query(client).ok()?;
    let pairs = found.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    Some(Sample { from, to: now(), locks: pairs.collect() })
}

/// Looks at several servers, one after the other, each over a connection of its own that is kept.
#[derive(Default)]
pub struct Watches(HashMap<u16, redis::Connection>);

impl Watches {
    /// A sample of each server; `None` when one does not answer.
    pub(crate) fn look<'a>(
        &mut self,
        servers: impl Iterator<Item = &'a RedisServer>,
        keys: &[u64],
    ) -> Option<Vec<Sample>> {
        let mut samples = Vec::new();
        for server in servers {
            let mut watch = self.0.remove(&server.port()).or_else(|| client(server))?;
            samples.push(look_at_keys(&mut watch, keys)?);
            self.0.insert(server.port(), watch);
        }
        Some(samples)
    }
}

/// Cuts a random connection of the workers.
pub(crate) fn cut(client: &mut redis::Connection, random: &mut Random, log: &mut EventLog) {
    let list: String = redis::cmd("CLIENT").arg("LIST").query(client).unwrap();
    let ours = format!(" name={OURS} ");
    let ids: Vec<&str> = list
        .lines()
        .filter(|line| !line.contains(&ours) && !line.contains(" flags=S") && !line.contains(" flags=M"))
        .filter_map(|line| line.strip_prefix("id=")?.split(' ').next())
        .collect();
    if ids.is_empty() {
        return;
    }
    let id = ids[random.index(ids.len())];
    let cut: u32 = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query(client).unwrap();
    if cut > 0 {
        log.add("connections cut", id);
    }
}

pub(crate) fn flush_scripts(client: &mut redis::Connection, log: &mut EventLog) {
    let _: () = redis::cmd("SCRIPT").arg("FLUSH").query(client).unwrap();
    log.add("scripts flushed", "");
}

/// Pauses all clients of the server for a while.
pub(crate) fn hold_clients(client: &mut redis::Connection, random: &mut Random, log: &mut EventLog) {
    let lasts = random.between(10, 200);
    let _: () = redis::cmd("CLIENT").arg("PAUSE").arg(lasts).query(client).unwrap();
    log.add("clients paused", format!("for {lasts} ms"));
}
