//! What goes wrong, as the single deeds that a fault is made of.

use std::cell::RefCell;
use std::rc::Rc;

use crate::callers::key;
use crate::plan::Fault;
use crate::run::{Fleet, judge};
use crate::server::{DEFAULT_USER, Role, Server, Trouble};
use crate::world::{CutKind, Fate, World};

/// How long it takes a server to take over the data of another, in milliseconds.
const SYNC: u64 = 50;

/// Something that is done to a fleet at one time.
pub type Deed = Box<dyn Fn(&World, &Fleet)>;

/// What a fault does, and after how many milliseconds.
#[must_use]
pub fn deeds(fault: &Fault) -> Vec<(u64, Deed)> {
    let fault = fault.clone();
    match fault {
        Fault::Cut(process, server, how) => {
            let until = match how {
                CutKind::Reset => 0,
                CutKind::LateRequests(late) | CutKind::HalfOpen(late) => late,
            };
            vec![
                (
                    0,
                    deed(move |world, fleet| {
                        disturb(fleet, process);
                        world.cut(fleet.processes[process], fleet.servers[server], how);
                    }),
                ),
                (until, deed(move |_, fleet| disturb(fleet, process))),
            ]
        }
        Fault::Part(process, server, length) => vec![
            (0, deed(move |world, fleet| world.part(fleet.processes[process], fleet.servers[server]))),
            (
                length,
                deed(move |world, fleet| {
                    disturb(fleet, process);
                    world.join(fleet.processes[process], fleet.servers[server]);
                }),
            ),
        ],
        Fault::Slow(latency, length) => vec![
            (
                0,
                deed(move |world, fleet| {
                    disturb_all(fleet);
                    world.slow_down(Some(latency));
                }),
            ),
            (
                length,
                deed(move |world, fleet| {
                    disturb_all(fleet);
                    world.slow_down(None);
                }),
            ),
            // The last late byte.
            (length + latency.lateness, deed(move |_, fleet| disturb_all(fleet))),
        ],
        Fault::Freeze(process, length) => vec![
            (0, deed(move |world, fleet| world.freeze(fleet.processes[process]))),
            (
                length,
                deed(move |world, fleet| {
                    disturb(fleet, process);
                    world.thaw(fleet.processes[process]);
                }),
            ),
        ],
        Fault::Starve(process, number, length) => vec![
            (
                0,
                deed(move |world, fleet| {
                    let runtime = fleet.runtimes.borrow()[process][number];
                    world.starve(fleet.processes[process], runtime);
                }),
            ),
            (
                length,
                deed(move |world, fleet| {
                    disturb(fleet, process);
                    world.feed_all(fleet.processes[process]);
                }),
            ),
        ],
        Fault::DropRuntime(process, number) => vec![(
            0,
            deed(move |world, fleet| {
                disturb(fleet, process);
                let new = world.new_runtime();
                let old = std::mem::replace(&mut fleet.runtimes.borrow_mut()[process][number], new);
                world.drop_runtime(fleet.processes[process], old);
            }),
        )],
        Fault::Kill(process) => vec![(0, deed(move |world, fleet| world.kill(fleet.processes[process])))],
        Fault::ClockAhead(process, length) => vec![(
            0,
            deed(move |world, fleet| {
                disturb(fleet, process);
                world.suspend(fleet.processes[process], std::time::Duration::from_millis(length));
            }),
        )],
        other => of_servers(&other),
    }
}

fn of_servers(fault: &Fault) -> Vec<(u64, Deed)> {
    match fault.clone() {
        Fault::FreezeServer(server, length) => vec![
            (0, deed(move |world, fleet| world.set_fate(fleet.servers[server], Fate::Frozen))),
            (
                length,
                deed(move |world, fleet| {
                    disturb_all(fleet);
                    world.set_fate(fleet.servers[server], Fate::Up);
                }),
            ),
        ],
        Fault::Restart(server, keeps_data, length) => vec![
            (
                0,
                deed(move |world, fleet| {
                    disturb_all(fleet);
                    world.set_fate(fleet.servers[server], Fate::Down);
                }),
            ),
            (
                length,
                deed(move |world, fleet| {
                    disturb_all(fleet);
                    if !keeps_data {
                        all_may_be_lost();
                    }
                    world.restart_server(fleet.servers[server], keeps_data);
                    world.set_fate(fleet.servers[server], Fate::Up);
                }),
            ),
        ],
        Fault::Flush(server) => vec![(
            0,
            deed(move |world, fleet| {
                all_may_be_lost();
                world.with_server(fleet.servers[server], Server::flush_all);
            }),
        )],
        Fault::OldData(server, age) => {
            let old = Rc::new(RefCell::new(None));
            let kept = Rc::clone(&old);
            vec![
                (
                    0,
                    deed(move |world, fleet| {
                        let data = world.with_server(fleet.servers[server], |server, _| server.data());
                        *kept.borrow_mut() = Some(data);
                    }),
                ),
                // It is the replica of another server for a moment.
                (
                    age,
                    deed(move |world, fleet| {
                        refuse(fleet, true);
                        let role = Role::Replica {
                            host: "h".into(),
                            port: 1,
                            link_is_up: true,
                            serves_stale_data: true,
                        };
                        world.with_server(fleet.servers[server], |server, _| server.set_role(role));
                    }),
                ),
                (
                    age + SYNC,
                    deed(move |world, fleet| {
                        disturb_all(fleet);
                        all_may_be_lost();
                        refuse(fleet, false);
                        world
                            .with_server(fleet.servers[server], |server, _| server.set_role(Role::default()));
                        if let Some(data) = old.borrow_mut().take() {
                            world.with_server(fleet.servers[server], |server, now| {
                                server.replace_data(now, data)
                            });
                        }
                    }),
                ),
            ]
        }
        Fault::ServerClock(server, jump) => vec![(
            0,
            deed(move |world, fleet| {
                disturb_all(fleet);
                // Keys end sooner, or later.
                all_may_be_lost();
                world.move_clock(fleet.servers[server], jump * 1000);
            }),
        )],
        Fault::SlowServer(server, cost, length) => vec![
            (0, deed(move |world, fleet| slow_down(world, fleet, server, cost))),
            (length, deed(move |world, fleet| slow_down(world, fleet, server, 0))),
        ],
        Fault::Delete(number) => on_key(number, "", true),
        Fault::DeleteQueue(number) => on_key(number, "%queue", false),
        Fault::Foreign(number, length) => vec![(
            0,
            deed(move |world, fleet| {
                let name = format!("lock:{}", key(number));
                for server in &fleet.servers {
                    world.with_server(*server, |server, now| {
                        if server.value(now, name.as_bytes()).is_none() {
                            server.set(now, name.as_bytes(), b"a foreign value", Some(length));
                        }
                    });
                }
            }),
        )],
        Fault::Forbid(server, command, length) => vec![
            (
                0,
                deed(move |world, fleet| {
                    refuse(fleet, true);
                    disturb_all(fleet);
                    world.with_server(fleet.servers[server], |server, _| server.deny(DEFAULT_USER, command));
                }),
            ),
            (
                length,
                deed(move |world, fleet| {
                    refuse(fleet, false);
                    disturb_all(fleet);
                    world.with_server(fleet.servers[server], |server, _| server.allow(DEFAULT_USER, command));
                }),
            ),
        ],
        Fault::RefuseWrites(server, length) => vec![
            (
                0,
                deed(move |world, fleet| {
                    refuse(fleet, true);
                    disturb_all(fleet);
                    world.with_server(fleet.servers[server], |server, _| {
                        server.set_trouble(refuses_writes(true));
                    });
                }),
            ),
            (
                length,
                deed(move |world, fleet| {
                    refuse(fleet, false);
                    disturb_all(fleet);
                    world.with_server(fleet.servers[server], |server, _| {
                        server.set_trouble(refuses_writes(false));
                    });
                }),
            ),
        ],
        _ => Vec::new(),
    }
}

fn on_key(number: u8, side: &'static str, loses: bool) -> Vec<(u64, Deed)> {
    vec![(
        0,
        deed(move |world, fleet| {
            if loses {
                judge(|oracle| oracle.may_be_lost(&key(number)));
            }
            for server in &fleet.servers {
                let name = format!("lock:{}{side}", key(number));
                world.with_server(*server, |server, now| server.delete(now, name.as_bytes()));
            }
        }),
    )]
}

fn slow_down(world: &World, fleet: &Fleet, server: usize, cost: u64) {
    disturb_all(fleet);
    fleet.slow.set(cost > 0);
    world.set_cost(fleet.servers[server], cost);
}

fn refuse(fleet: &Fleet, begins: bool) {
    let refusals = if begins { fleet.refusals.get() + 1 } else { fleet.refusals.get() - 1 };
    fleet.refusals.set(refusals);
    judge(|oracle| oracle.refuses = refusals > 0);
}

fn refuses_writes(cannot_save: bool) -> Trouble {
    Trouble { cannot_save, ..Trouble::default() }
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
    for server in &fleet.servers {
        if world.fate(*server) != Fate::Up {
            world.set_fate(*server, Fate::Up);
        }
    }
}

fn deed(deed: impl Fn(&World, &Fleet) + 'static) -> Deed {
    Box::new(deed)
}

fn disturb(fleet: &Fleet, process: usize) {
    judge(|oracle| oracle.disturbed(fleet.processes[process]));
}

fn disturb_all(fleet: &Fleet) {
    judge(|oracle| fleet.processes.iter().for_each(|process| oracle.disturbed(*process)));
}

fn all_may_be_lost() {
    judge(|oracle| (0..16).for_each(|number| oracle.may_be_lost(&key(number))));
}
