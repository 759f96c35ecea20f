//! Proxies between some workers and a server: for a while they refuse, hold replies back, or
//! deliver requests late.

use std::time::{Duration, Instant};

use crate::chaos::event_log::EventLog;
use crate::chaos::random::Random;
use crate::{LateProxy, Proxy};

/// One proxy, and its fault.
pub struct FaultyProxy {
    /// The number of the server.
    pub(crate) to: usize,
    kind: Kind,
    disruption: Option<Disruption>,
}

enum Kind {
    /// Replies may be held back, connections cut and refused.
    Proxy(Proxy),
    /// Requests may arrive when their connection has long been replaced.
    Late(LateProxy),
}

/// What no command has asked for. No request would count as granted with it.
pub(crate) fn unasked(random: &mut Random) -> &'static str {
    ["-ERR unasked\r\n", "_\r\n", "+PONG\r\n"][random.index(3)]
}

/// The fault of a proxy, and until when it lasts.
#[derive(Clone, Copy)]
enum Disruption {
    Closed(Instant),
    /// The server receives no requests, until the client's side is cut.
    Keeps {
        cut_at: Instant,
        deliver_at: Instant,
    },
    /// The client has a new connection; the requests that it had sent arrive then.
    Delivers(Instant),
}

impl FaultyProxy {
    pub(crate) fn new(to: usize, port: u16) -> Self {
        Self { to, kind: Kind::Proxy(Proxy::to(port)), disruption: None }
    }

    pub(crate) fn late(to: usize, port: u16) -> Self {
        Self { to, kind: Kind::Late(LateProxy::to(port)), disruption: None }
    }

    pub(crate) fn port(&self) -> u16 {
        match &self.kind {
            Kind::Proxy(proxy) => proxy.port(),
            Kind::Late(late) => late.port(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.disruption.is_none()
    }

    /// Starts a fault of at most `longest` milliseconds, unless one lasts already.
    pub(crate) fn disrupt(&mut self, longest: u64, random: &mut Random, log: &mut EventLog) {
        if self.disruption.is_some() {
            return;
        }
        let now = Instant::now();
        let soon = |random: &mut Random, from, to| Duration::from_millis(random.between(from, to));
        let (refuses, back) = (random.percent(30), now + soon(random, 50, longest));
        let (disruption, how) = match &self.kind {
            Kind::Proxy(proxy) if refuses => {
                proxy.refuse(true);
                (Disruption::Closed(back), "refused")
            }
            Kind::Proxy(proxy) => {
                proxy.hold_replies(true);
                (Disruption::Closed(back), "silent")
            }
            Kind::Late(late) => {
                late.keep();
                let cut_at = now + soon(random, 200, 1000);
                (
                    Disruption::Keeps { cut_at, deliver_at: cut_at + soon(random, longest / 8, longest) },
                    "late",
                )
            }
        };
        self.disruption = Some(disruption);
        log.add("proxies disrupted", format!("to {}, {how}", self.to));
    }

    /// Says something for which no command has asked, and which grants nothing to whoever takes it
    /// for an answer.
    pub(crate) fn say(&self, reply: &str) -> bool {
        matches!(&self.kind, Kind::Proxy(proxy) if self.is_open() && proxy.say(reply.as_bytes()))
    }

    /// Ends the faults that have lasted long enough, or all.
    pub(crate) fn heal(&mut self, all: bool) {
        let is_over = |until: Instant| all || until <= Instant::now();
        self.disruption = match (self.disruption, &self.kind) {
            (Some(Disruption::Closed(until)), Kind::Proxy(proxy)) if is_over(until) => {
                proxy.refuse(false);
                proxy.hold_replies(false);
                None
            }
            (Some(Disruption::Keeps { cut_at, deliver_at }), Kind::Late(late)) if is_over(cut_at) => {
                late.cut();
                if all {
                    late.deliver();
                }
                (!all).then_some(Disruption::Delivers(deliver_at))
            }
            (Some(Disruption::Delivers(until)), Kind::Late(late)) if is_over(until) => {
                late.deliver();
                None
            }
            (other, _) => other,
        };
    }
}
