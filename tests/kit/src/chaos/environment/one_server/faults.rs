//! The faults of the server, and the acts of operators.

use std::time::{Duration, Instant};

use super::{OneServer, State, USER, soon};
use crate::chaos::checker::Loss;
use crate::chaos::environment::proxies::unasked;
use crate::chaos::environment::{cut, flush_scripts, hold_clients};
use crate::chaos::event_log::EventLog;
use crate::chaos::random::Random;
use crate::chaos::workload::caller::key;
use crate::{eventually, now};

pub(crate) fn do_nothing(_: &mut OneServer, _: &mut Random, _: &mut EventLog) {}

pub(crate) fn cut_one(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    if let Some(mut client) = environment.client() {
        cut(&mut client, random, log);
    }
}

pub(crate) fn forget_scripts(environment: &mut OneServer, _: &mut Random, log: &mut EventLog) {
    if let Some(mut client) = environment.client() {
        flush_scripts(&mut client, log);
    }
}

pub(crate) fn stand_still(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    if let Some(mut client) = environment.client() {
        hold_clients(&mut client, random, log);
    }
}

pub(crate) fn stop(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    let longest = [300, 600, 2000][random.index(3)];
    let lasts = random.between(50, longest);
    environment.server.pause();
    environment.state = State::Stopped(Instant::now() + Duration::from_millis(lasts));
    log.add("servers stopped", format!("for {lasts} ms"));
}

pub(crate) fn kill(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    environment.server.kill();
    environment.state = State::Down(soon(random, 10, 400));
    log.add("servers killed", "it keeps its data");
}

pub(crate) fn disrupt_proxy(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    if !environment.proxies.is_empty() {
        let proxy = random.index(environment.proxies.len());
        environment.proxies[proxy].disrupt(3000, random, log);
    }
}

/// A client of the server gets a reply that it has not asked for.
pub(crate) fn say_unasked(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    if !environment.proxies.is_empty() {
        let (proxy, reply) = (random.index(environment.proxies.len()), unasked(random));
        if environment.proxies[proxy].say(reply) {
            log.add("stray replies", reply.trim_end());
        }
    }
}

/// A foreign client takes a lock, and lets it expire.
pub(crate) fn squat(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    let (name, lasts) = (format!("lock:{}", key(environment.any_key(random))), random.between(20, 500));
    if let Some(mut client) = environment.client() {
        let mut set = redis::cmd("SET");
        set.arg(&name).arg("squatter").arg("NX").arg("PX").arg(lasts);
        let _ = set.query::<Option<String>>(&mut client);
        log.add("locks taken by a foreign client", &name);
    }
}

pub(crate) fn take_rights(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    let rights = random.pick(environment.plan.rights);
    if environment.denied_until.is_none()
        && environment.server.try_run::<String>(&format!("ACL SETUSER {USER} {rights}")).is_ok()
    {
        environment.denied_until = Some(soon(random, environment.plan.denied / 2, environment.plan.denied));
        log.add("rights taken", rights);
    }
}

pub(crate) fn flush(environment: &mut OneServer, _: &mut Random, log: &mut EventLog) {
    if let Some(mut client) = environment.client() {
        let from = now();
        let _: () = redis::cmd("FLUSHALL").query(&mut client).unwrap();
        environment.lost(Loss { of_records: true, ..Loss::now(None, from, environment.plan.detection) });
        log.add("flushes", "FLUSHALL");
    }
}

/// The server has no room for seconds: it refuses what may need more, and takes back what is given
/// back.
pub(crate) fn fill(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    if environment.full_until.is_none()
        && environment.server.try_run::<String>("CONFIG SET maxmemory 1").is_ok()
    {
        environment.full_until = Some(soon(random, 4000, 6000));
        log.add("times that the server was full", "");
    }
}

/// A reason for which a server refuses, how that begins, and how it ends.
const REFUSALS: [(&str, &[&str], &[&str]); 4] = [
    ("full", &["CONFIG SET maxmemory 1"], &["CONFIG SET maxmemory 0"]),
    ("forbidden", &["ACL SETUSER shop -@write -@scripting"], &["ACL SETUSER shop +@all"]),
    (
        "cannot save",
        &["CONFIG SET stop-writes-on-bgsave-error yes"],
        &["CONFIG SET stop-writes-on-bgsave-error no"],
    ),
    ("replica", &["REPLICAOF 127.0.0.1 1"], &["REPLICAOF NO ONE"]),
];

/// The server refuses each call for a moment.
pub(crate) fn refuse(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    if environment.refuses_until.is_some() {
        return;
    }
    let (why, begin, end) = REFUSALS[random.index(REFUSALS.len())];
    environment.refuses_until = Some((soon(random, 300, 1500), end));
    run_all(environment, begin);
    log.add("refusals", why);
}

pub(crate) fn run_all(environment: &OneServer, commands: &[&str]) {
    for command in commands {
        eventually("the server does as it is told", || environment.server.try_run::<String>(command).is_ok());
    }
}

/// As [`take_by_hand`]. The processes of the waiters in front die meanwhile.
pub(crate) fn take_in_front(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    let (number, until) = (environment.any_key(random), soon(random, 1200, 1600));
    if take(environment, number, until, log) {
        environment.kills_at = Some(soon(random, 300, 700));
    }
}

/// A client of another kind takes the lock from its holder, and deletes it after a while: no script
/// sees that.
pub(crate) fn take_by_hand(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    let (number, until) = (environment.any_key(random), soon(random, 2000, 4000));
    take(environment, number, until, log);
}

fn take(environment: &mut OneServer, number: u64, until: Instant, log: &mut EventLog) -> bool {
    let from = now();
    let set = format!("SET lock:{} squatter PX 60000", key(number));
    let is_left = environment.left_until.is_some_and(|until| until > Instant::now());
    if is_left || environment.taken_until.is_some() || environment.server.try_run::<String>(&set).is_err() {
        return false;
    }
    environment.losses.push(Loss::now(Some(vec![number]), from, environment.plan.detection));
    environment.taken_until = Some((until, number));
    log.add("locks taken by hand", key(number));
    true
}

pub(crate) fn delete_queue(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    let number = environment.any_key(random);
    let name = format!("lock:{}%queue", key(number));
    if let Some(mut client) = environment.client() {
        let there: u32 = redis::cmd("DEL").arg(&name).query(&mut client).unwrap();
        if there > 0 {
            environment.disturbances.push(Some(vec![number]));
            log.add("queues deleted", &name);
        }
    }
}

/// Takes a lock away, by a manager outside of the workers or by hand.
pub(crate) fn force_release(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    let number = environment.any_key(random);
    let from = now();
    let done = if random.percent(50) {
        environment.operator().force_release_blocking(&key(number)).is_ok_and(|holder| holder.is_some())
    } else {
        let by_hand = environment.server.try_run::<u32>(&format!("DEL lock:{}", key(number)));
        by_hand.map_or(true, |deleted| deleted > 0)
    };
    if done {
        environment.lost(Loss::now(Some(vec![number]), from, environment.plan.detection));
        log.add("locks taken away", key(number));
    }
}

pub(crate) fn inspect(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    let number = environment.any_key(random);
    let _ = environment.operator().inspect_blocking(&key(number));
    log.add("locks inspected", key(number));
}
