//! The faults of the server, and the acts of operators.

use std::time::{Duration, Instant};

use super::{OneServer, State, USER, soon};
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
