//! The faults of the server, and the acts of operators.

use std::time::{Duration, Instant};

use super::{OneServer, State, USER, soon};
use crate::chaos::checker::Loss;
use crate::chaos::environment::{cut, flush_scripts, hold_clients};
use crate::chaos::event_log::EventLog;
use crate::chaos::random::Random;
use crate::chaos::workload::caller::key;
use crate::now;

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
        environment.lost(None, from);
        log.add("flushes", "FLUSHALL");
    }
}

/// The server has no room for seconds: it refuses what may need more, and takes back what is given back.
pub(crate) fn fill(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    if environment.full_until.is_none()
        && environment.server.try_run::<String>("CONFIG SET maxmemory 1").is_ok()
    {
        environment.full_until = Some(soon(random, 4000, 6000));
        log.add("times that the server was full", "");
    }
}

/// A client of another kind takes the lock from its holder, and deletes it after a while: no script sees that.
pub(crate) fn take_by_hand(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    let (number, from) = (environment.any_key(random), now());
    let set = format!("SET lock:{} squatter PX 60000", key(number));
    let is_left = environment.left_until.is_some_and(|until| until > Instant::now());
    if !is_left && environment.taken_until.is_none() && environment.server.try_run::<String>(&set).is_ok() {
        environment.losses.push(Loss::now(Some(vec![number]), from, environment.plan.detection));
        environment.taken_until = Some((soon(random, 2000, 4000), number));
        log.add("locks taken by hand", key(number));
    }
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
        environment.lost(Some(vec![number]), from);
        log.add("locks taken away", key(number));
    }
}

pub(crate) fn inspect(environment: &mut OneServer, random: &mut Random, log: &mut EventLog) {
    let number = environment.any_key(random);
    let _ = environment.operator().inspect_blocking(&key(number));
    log.add("locks inspected", key(number));
}
