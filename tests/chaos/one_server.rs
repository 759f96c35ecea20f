//! One server: its connections are cut, it forgets scripts, it is stopped, and killed and started again with its data.

use std::time::{Duration, Instant};

use super::checker::Loss;
use super::deeds::Deeds;
use super::dice::Dice;
use super::ground::{Connect, Ground, client, cut, flush_scripts, hold_clients};
use super::support::{RedisServer, now};

const TTLS: [u64; 4] = [100, 200, 500, 2500];

pub(crate) struct OneServer {
    server: RedisServer,
    url: String,
    state: State,
    /// Whether the server itself is stopped and killed.
    unwell: bool,
    /// Whether it forgets all locks now and then.
    forgets: bool,
    losses: Vec<Loss>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Well,
    Stopped(Instant),
    Down(Instant),
}

impl OneServer {
    /// Perhaps behind something else, which has that address. The server itself stays well.
    pub(crate) fn well(server: RedisServer, url: String) -> Self {
        Self { server, url, state: State::Well, unwell: false, forgets: false, losses: Vec::new() }
    }

    /// It keeps its data, but for a flush now and then if it `forgets`.
    pub(crate) fn unwell(forgets: bool) -> Self {
        let server = RedisServer::durable();
        let url = server.url();
        Self { unwell: true, forgets, ..Self::well(server, url) }
    }

    fn flush(&mut self, deeds: &mut Deeds) {
        let Some(mut client) = client(&self.server) else {
            return;
        };
        let from = now();
        let _: () = redis::cmd("FLUSHALL").query(&mut client).unwrap();
        let to = now();
        // What was forgotten cannot be renewed.
        let known = to + TTLS[3] * 1_000_000;
        self.losses.push(Loss { keys: None, from, to, known });
        deeds.add("flushes", "FLUSHALL");
    }
}

impl Ground for OneServer {
    fn address(&mut self, _: &mut Dice) -> String {
        self.url.clone()
    }

    fn ttls(&self) -> [u64; 4] {
        TTLS
    }

    fn misbehave(&mut self, dice: &mut Dice, deeds: &mut Deeds) {
        if self.state != State::Well {
            return;
        }
        let back = |ms| Instant::now() + Duration::from_millis(ms);
        match dice.between(0, 60) {
            52..55 if self.unwell => {
                let longest = [300, 600, 2000][dice.index(3)];
                let lasts = dice.between(50, longest);
                self.server.pause();
                self.state = State::Stopped(back(lasts));
                deeds.add("servers stopped", format!("for {lasts} ms"));
            }
            55..57 if self.unwell => {
                self.server.kill();
                self.state = State::Down(back(dice.between(10, 400)));
                deeds.add("servers killed", "it keeps its data");
            }
            57 if self.forgets => self.flush(deeds),
            52.. => {}
            which => {
                let Some(mut client) = client(&self.server) else {
                    return;
                };
                match which {
                    0..24 => cut(&mut client, dice, deeds),
                    24..44 => flush_scripts(&mut client, deeds),
                    _ => hold_clients(&mut client, dice, deeds),
                }
            }
        }
    }

    fn heal(&mut self, all: bool, _: &mut Deeds) {
        let is_over = |until: Instant| all || until <= Instant::now();
        match self.state {
            State::Stopped(until) if is_over(until) => self.server.resume(),
            State::Down(until) if is_over(until) => self.server.restart(),
            _ => return,
        }
        self.state = State::Well;
    }

    fn client_of_another_kind(&self) -> Option<Connect> {
        let client = redis::Client::open(self.server.url()).unwrap();
        Some(Box::new(move || client.get_connection_with_timeout(Duration::from_millis(500)).ok()))
    }

    fn losses(&self) -> &[Loss] {
        &self.losses
    }

    fn keys(&self) -> Vec<String> {
        self.server.keys()
    }
}
