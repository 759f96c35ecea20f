//! What goes wrong, as the single deeds that a fault is made of.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::callers::key;
use crate::once;
use crate::oracle::Oracle;
use crate::plan::{Fault, Topology};
use crate::run::{Fleet, judge};
use crate::server::{DEFAULT_USER, Role, Server, Trouble};
use crate::world::{CutKind, Fate, ServerId, World};

/// How long it takes a server to take over the data of another, in milliseconds.
const SYNC: u64 = 50;

/// What a client of another kind writes.
pub(crate) const FOREIGN: &[u8] = b"a foreign value";

/// Its ttl, in milliseconds: it releases earlier.
const FOREIGN_TTL: u64 = 10_000;

/// Something that is done to a fleet at one time.
pub type Deed = Box<dyn Fn(&World, &Fleet)>;

/// Deeds, each after so many milliseconds.
pub type Deeds = Vec<(u64, Deed)>;

/// What a fault does.
#[must_use]
pub fn deeds(fault: &Fault) -> Deeds {
    match fault.clone() {
        Fault::Cut(process, server, how) => {
            let until = match how {
                CutKind::Reset => 0,
                CutKind::LateRequests(late) | CutKind::HalfOpen(late) => late,
            };
            let cut = move |world: &World, fleet: &Fleet| {
                disturb(fleet, process);
                world.cut(fleet.processes[process], fleet.servers[server], how);
            };
            lasting(until, cut, move |_, fleet| disturb(fleet, process))
        }
        Fault::Part(process, server, length) => lasting(
            length,
            move |world, fleet| {
                judge(|oracle| oracle.cut_off(fleet.processes[process]));
                world.part(fleet.processes[process], fleet.servers[server]);
            },
            move |world, fleet| {
                judge(|oracle| oracle.joined(fleet.processes[process]));
                disturb(fleet, process);
                world.join(fleet.processes[process], fleet.servers[server]);
            },
        ),
        // While a reply is owed, no client can know that another one was not asked for.
        Fault::Unasked(process, server, reply) => at_once(move |world, fleet| {
            let (process, server) = (fleet.processes[process], fleet.servers[server]);
            if world.fate(server) == Fate::Up && world.say_unasked(process, server, reply.as_bytes()) {
                judge(|oracle| oracle.disturbed(process));
            }
        }),
        Fault::Slow(latency, length) => {
            let slow = move |world: &World, fleet: &Fleet| {
                disturb_all(fleet);
                fleet.slow.set(true);
                world.slow_down(Some(latency));
            };
            let mut deeds = lasting(length, slow, |world, fleet| {
                disturb_all(fleet);
                fleet.slow.set(false);
                world.slow_down(None);
            });
            // The last late byte.
            deeds.extend(after(length + latency.lateness, |_, fleet| disturb_all(fleet)));
            deeds
        }
        Fault::Foreign(number, length) => {
            let name = move || format!("lock:{}", key(number));
            let take = move |world: &World, fleet: &Fleet| {
                on_each_server(world, fleet, |server, now| {
                    if server.value(now, name().as_bytes()).is_none() {
                        server.set(now, name().as_bytes(), FOREIGN, Some(FOREIGN_TTL));
                    }
                });
            };
            lasting(length, take, move |world, fleet| {
                on_each_server(world, fleet, |server, now| {
                    if server.value(now, name().as_bytes()) == Some(FOREIGN) {
                        server.delete(now, name().as_bytes());
                    }
                });
            })
        }
        Fault::Freeze(..)
        | Fault::Starve(..)
        | Fault::DropRuntime(..)
        | Fault::Kill(_)
        | Fault::PowerOff(_)
        | Fault::ClockAhead(..) => of_processes(fault),
        Fault::FreezeServer(..)
        | Fault::Restart(..)
        | Fault::ServerClock(..)
        | Fault::SlowServer(..)
        | Fault::Forbid(..)
        | Fault::RefuseWrites(..)
        | Fault::Full(..) => of_servers(fault),
        // `run.rs` has the managers.
        Fault::ShutDown(_) => Vec::new(),
        Fault::FailOver(to, lag) => crate::groups::fail_over(to, lag),
        Fault::Flush(_)
        | Fault::OldData(..)
        | Fault::Reload(..)
        | Fault::Delete(_)
        | Fault::DeleteQueue(_) => of_data(fault),
    }
}

fn of_processes(fault: &Fault) -> Deeds {
    match fault.clone() {
        Fault::Freeze(process, length) => lasting(
            length,
            move |world, fleet| world.freeze(fleet.processes[process]),
            move |world, fleet| {
                disturb(fleet, process);
                world.thaw(fleet.processes[process]);
            },
        ),
        Fault::Starve(process, number, length) => lasting(
            length,
            move |world, fleet| {
                let runtime = fleet.runtimes.borrow()[process][number];
                world.starve(fleet.processes[process], runtime);
            },
            move |world, fleet| {
                disturb(fleet, process);
                world.feed_all(fleet.processes[process]);
            },
        ),
        Fault::DropRuntime(process, number) => at_once(move |world, fleet| {
            // A stopped process drops nothing: its guards would send their releases.
            if world.frozen_since(fleet.processes[process]).is_some() {
                return;
            }
            disturb(fleet, process);
            let new = world.new_runtime();
            let old = std::mem::replace(&mut fleet.runtimes.borrow_mut()[process][number], new);
            world.drop_runtime(fleet.processes[process], old);
        }),
        Fault::Kill(process) => at_once(move |world, fleet| world.kill(fleet.processes[process])),
        Fault::PowerOff(process) => at_once(move |world, fleet| world.power_off(fleet.processes[process])),
        Fault::ClockAhead(process, length) => at_once(move |world, fleet| {
            disturb(fleet, process);
            judge(|oracle| oracle.goes_ahead(Duration::from_millis(length)));
            world.suspend(fleet.processes[process], Duration::from_millis(length));
        }),
        _ => Vec::new(),
    }
}

fn of_servers(fault: &Fault) -> Deeds {
    match fault.clone() {
        Fault::FreezeServer(server, length) => lasting(
            length,
            move |world, fleet| world.set_fate(fleet.servers[server], Fate::Frozen),
            move |world, fleet| {
                disturb_all(fleet);
                world.set_fate(fleet.servers[server], Fate::Up);
            },
        ),
        Fault::Restart(server, keeps_data, length) => lasting(
            length,
            move |world, fleet| {
                disturb_all(fleet);
                if !keeps_data {
                    forgets(fleet);
                }
                world.set_fate(fleet.servers[server], Fate::Down);
            },
            move |world, fleet| {
                disturb_all(fleet);
                // A node of a quorum does not vote until its locks would have ended.
                if !keeps_data && !matches!(fleet.topology, Topology::Quorum(..)) {
                    all_may_be_lost();
                }
                world.restart_server(fleet.servers[server], keeps_data);
                world.set_fate(fleet.servers[server], Fate::Up);
            },
        ),
        Fault::ServerClock(server, jump) => at_once(move |world, fleet| {
            disturb_all(fleet);
            // Keys end sooner.
            if jump > 0 {
                all_may_be_lost();
            }
            judge(|oracle| oracle.clock_has_jumped = true);
            world.move_clock(fleet.servers[server], jump * 1000);
        }),
        Fault::SlowServer(server, cost, length) => {
            let slow = move |cost| move |world: &World, fleet: &Fleet| slow_down(world, fleet, server, cost);
            lasting(length, slow(cost), slow(0))
        }
        Fault::Forbid(server, command, length) => refusing(
            server,
            length,
            move |server| server.deny(DEFAULT_USER, command),
            move |server| server.allow(DEFAULT_USER, command),
        ),
        Fault::RefuseWrites(server, length) => {
            troubled(server, length, Trouble { cannot_save: true, ..Trouble::default() })
        }
        Fault::Full(server, length) => {
            troubled(server, length, Trouble { out_of_memory: true, ..Trouble::default() })
        }
        _ => Vec::new(),
    }
}

fn of_data(fault: &Fault) -> Deeds {
    match fault.clone() {
        Fault::Flush(server) => at_once(move |world, fleet| {
            all_may_be_lost();
            forgets(fleet);
            world.with_server(fleet.servers[server], Server::flush_all);
        }),
        Fault::OldData(server, age) => {
            let data = Rc::new(RefCell::new(None));
            let kept = Rc::clone(&data);
            let mut deeds = at_once(move |world, fleet| {
                *kept.borrow_mut() =
                    Some(world.with_server(fleet.servers[server], |server, _| server.data()));
            });
            // It is the replica of another server for a moment.
            deeds.extend(after(age, move |world, fleet| {
                refuse(fleet, true);
                let role =
                    Role::Replica { host: "h".into(), port: 1, link_is_up: true, serves_stale_data: true };
                world.with_server(fleet.servers[server], |server, _| server.set_role(role));
            }));
            deeds.extend(after(age + SYNC, move |world, fleet| {
                all_may_be_lost();
                forgets(fleet);
                refuse(fleet, false);
                let data = data.borrow_mut().take().unwrap_or_default();
                world.with_server(fleet.servers[server], |server, now| {
                    server.set_role(Role::default());
                    server.replace_data(now, data);
                });
            }));
            deeds
        }
        Fault::Reload(server, age) => {
            let data = Rc::new(RefCell::new(None));
            let kept = Rc::clone(&data);
            let mut deeds = at_once(move |world, fleet| {
                *kept.borrow_mut() =
                    Some(world.with_server(fleet.servers[server], |server, _| server.data()));
            });
            deeds.extend(after(age, move |world, fleet| {
                all_may_be_lost();
                forgets(fleet);
                let data = data.borrow_mut().take().unwrap_or_default();
                world.with_server(fleet.servers[server], |server, now| server.replace_data(now, data));
            }));
            deeds
        }
        Fault::Delete(number) => at_once(move |world, fleet| {
            judge(|oracle| oracle.set_losable(&key(number)));
            judge(|oracle| oracle.set_uncertain(number));
            delete(world, fleet, &format!("lock:{}", key(number)));
        }),
        Fault::DeleteQueue(number) => at_once(move |world, fleet| {
            judge(|oracle| oracle.set_uncertain(number));
            delete(world, fleet, &format!("lock:{}%queue", key(number)));
        }),
        _ => Vec::new(),
    }
}

/// The server is in this trouble for so long.
fn troubled(server: usize, length: u64, trouble: Trouble) -> Deeds {
    let begin = move |server: &mut Server| server.set_trouble(trouble);
    refusing(server, length, begin, |server| server.set_trouble(Trouble::default()))
}

/// The server refuses something for so long.
fn refusing(
    server: usize,
    length: u64,
    begin: impl Fn(&mut Server) + 'static,
    end: impl Fn(&mut Server) + 'static,
) -> Deeds {
    lasting(
        length,
        move |world, fleet| {
            refuse(fleet, true);
            world.with_server(fleet.servers[server], |server, _| begin(server));
        },
        move |world, fleet| {
            refuse(fleet, false);
            world.with_server(fleet.servers[server], |server, _| end(server));
        },
    )
}

/// All that went wrong is mended.
pub(crate) fn heal(world: &World, fleet: &Fleet) {
    world.slow_down(None);
    fleet.slow.set(false);
    fleet.servers.iter().for_each(|server| world.set_cost(*server, 0));
    for process in &fleet.processes {
        if !world.is_dead(*process) {
            world.thaw(*process);
            world.feed_all(*process);
        }
        for server in &fleet.servers {
            world.join(*process, *server);
        }
    }
    let is_well = |server: &&ServerId| world.fate(**server) == Fate::Up;
    for server in fleet.servers.iter().filter(|server| !is_well(server)) {
        world.set_fate(*server, Fate::Up);
    }
}

pub(crate) fn after(time: u64, deed: impl Fn(&World, &Fleet) + 'static) -> Deeds {
    vec![(time, Box::new(deed))]
}

pub(crate) fn at_once(deed: impl Fn(&World, &Fleet) + 'static) -> Deeds {
    after(0, deed)
}

fn lasting(
    length: u64,
    begin: impl Fn(&World, &Fleet) + 'static,
    end: impl Fn(&World, &Fleet) + 'static,
) -> Deeds {
    vec![(0, Box::new(begin)), (length, Box::new(end))]
}

fn disturb(fleet: &Fleet, process: usize) {
    judge(|oracle| oracle.disturbed(fleet.processes[process]));
}

pub(crate) fn disturb_all(fleet: &Fleet) {
    judge(|oracle| fleet.processes.iter().for_each(|process| oracle.disturbed(*process)));
}

pub(crate) fn all_may_be_lost() {
    once::forget();
    judge(|oracle| (0..16).for_each(|number| oracle.set_losable(&key(number))));
}

/// A server loses its data.
fn forgets(fleet: &Fleet) {
    if matches!(fleet.topology, Topology::Quorum(..)) {
        judge(Oracle::node_forgets);
    }
}

fn on_each_server(world: &World, fleet: &Fleet, deed: impl Fn(&mut Server, u64)) {
    for server in &fleet.servers {
        world.with_server(*server, &deed);
    }
}

fn delete(world: &World, fleet: &Fleet, name: &str) {
    on_each_server(world, fleet, |server, now| {
        server.delete(now, name.as_bytes());
    });
}

fn slow_down(world: &World, fleet: &Fleet, server: usize, cost: u64) {
    disturb_all(fleet);
    fleet.slow.set(cost > 0);
    world.set_cost(fleet.servers[server], cost);
}

fn refuse(fleet: &Fleet, begins: bool) {
    disturb_all(fleet);
    let refusals = if begins { fleet.refusals.get() + 1 } else { fleet.refusals.get() - 1 };
    fleet.refusals.set(refusals);
    judge(|oracle| oracle.refuses(refusals > 0));
}
