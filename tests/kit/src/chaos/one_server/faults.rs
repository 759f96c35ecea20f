//! What goes wrong with the server, and what operators do to it.

use std::time::{Duration, Instant};

use super::super::caller::key;
use super::super::deeds::Deeds;
use super::super::dice::Dice;
use super::super::ground::{cut, flush_scripts, hold_clients};
use super::{OneServer, State, USER, soon};
use crate::now;

pub(crate) fn rest(_: &mut OneServer, _: &mut Dice, _: &mut Deeds) {}

pub(crate) fn cut_one(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    if let Some(mut client) = ground.client() {
        cut(&mut client, dice, deeds);
    }
}

pub(crate) fn forget_scripts(ground: &mut OneServer, _: &mut Dice, deeds: &mut Deeds) {
    if let Some(mut client) = ground.client() {
        flush_scripts(&mut client, deeds);
    }
}

pub(crate) fn stand_still(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    if let Some(mut client) = ground.client() {
        hold_clients(&mut client, dice, deeds);
    }
}

pub(crate) fn stop(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    let longest = [300, 600, 2000][dice.index(3)];
    let lasts = dice.between(50, longest);
    ground.server.pause();
    ground.state = State::Stopped(Instant::now() + Duration::from_millis(lasts));
    deeds.add("servers stopped", format!("for {lasts} ms"));
}

pub(crate) fn kill(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    ground.server.kill();
    ground.state = State::Down(soon(dice, 10, 400));
    deeds.add("servers killed", "it keeps its data");
}

pub(crate) fn close_way(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    if !ground.ways.is_empty() {
        let way = dice.index(ground.ways.len());
        ground.ways[way].close(3000, dice, deeds);
    }
}

/// A client of another kind takes a lock, and lets it expire.
pub(crate) fn squat(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    let (name, lasts) = (format!("lock:{}", key(ground.any_key(dice))), dice.between(20, 500));
    if let Some(mut client) = ground.client() {
        let mut set = redis::cmd("SET");
        set.arg(&name).arg("squatter").arg("NX").arg("PX").arg(lasts);
        let _ = set.query::<Option<String>>(&mut client);
        deeds.add("locks squatted on", &name);
    }
}

pub(crate) fn take_rights(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    let rights = dice.pick(ground.plan.rights);
    if ground.denied_until.is_none()
        && ground.server.try_run::<String>(&format!("ACL SETUSER {USER} {rights}")).is_ok()
    {
        ground.denied_until = Some(soon(dice, ground.plan.denied / 2, ground.plan.denied));
        deeds.add("rights taken", rights);
    }
}

pub(crate) fn flush(ground: &mut OneServer, _: &mut Dice, deeds: &mut Deeds) {
    if let Some(mut client) = ground.client() {
        let from = now();
        let _: () = redis::cmd("FLUSHALL").query(&mut client).unwrap();
        ground.lost(None, from);
        deeds.add("flushes", "FLUSHALL");
    }
}

pub(crate) fn delete_queue(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    let number = ground.any_key(dice);
    let name = format!("lock:{}%queue", key(number));
    if let Some(mut client) = ground.client() {
        let there: u32 = redis::cmd("DEL").arg(&name).query(&mut client).unwrap();
        if there > 0 {
            ground.disturbances.push(Some(vec![number]));
            deeds.add("queues deleted", &name);
        }
    }
}

/// By a manager outside of the workers, or by hand.
pub(crate) fn force_release(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    let number = ground.any_key(dice);
    let from = now();
    let done = if dice.percent(50) {
        ground.operator().force_release_blocking(&key(number)).is_ok_and(|holder| holder.is_some())
    } else {
        let by_hand = ground.server.try_run::<u32>(&format!("DEL lock:{}", key(number)));
        by_hand.map_or(true, |deleted| deleted > 0)
    };
    if done {
        ground.lost(Some(vec![number]), from);
        deeds.add("locks taken away", key(number));
    }
}

pub(crate) fn inspect(ground: &mut OneServer, dice: &mut Dice, deeds: &mut Deeds) {
    let number = ground.any_key(dice);
    let _ = ground.operator().inspect_blocking(&key(number));
    deeds.add("locks inspected", key(number));
}
