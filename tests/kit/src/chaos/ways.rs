//! Ways of our own between some workers and a server: closed, silent, or late, for a while.

use std::time::{Duration, Instant};

use super::deeds::Deeds;
use super::dice::Dice;
use crate::{LateProxy, Proxy};

/// One way, and what is wrong with it now.
pub struct Way {
    /// The number of the server.
    pub(crate) to: usize,
    kind: Kind,
    trouble: Option<Trouble>,
}

enum Kind {
    /// Replies may be held back, connections cut and refused.
    Proxy(Proxy),
    /// Requests may arrive when their connection has long been replaced.
    Late(LateProxy),
}

/// What is wrong with a way, and until when.
#[derive(Clone, Copy)]
enum Trouble {
    Closed(Instant),
    /// The server hears nothing, until the client's side is cut.
    Keeps {
        cut_at: Instant,
        deliver_at: Instant,
    },
    /// The client is connected anew; what it had sent arrives then.
    Delivers(Instant),
}

impl Way {
    pub(crate) fn new(to: usize, port: u16) -> Self {
        Self { to, kind: Kind::Proxy(Proxy::to(port)), trouble: None }
    }

    pub(crate) fn late(to: usize, port: u16) -> Self {
        Self { to, kind: Kind::Late(LateProxy::to(port)), trouble: None }
    }

    pub(crate) fn port(&self) -> u16 {
        match &self.kind {
            Kind::Proxy(proxy) => proxy.port(),
            Kind::Late(late) => late.port(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.trouble.is_none()
    }

    /// For so many milliseconds at most, unless it is in trouble already.
    pub(crate) fn close(&mut self, longest: u64, dice: &mut Dice, deeds: &mut Deeds) {
        if self.trouble.is_some() {
            return;
        }
        let now = Instant::now();
        let soon = |dice: &mut Dice, from, to| Duration::from_millis(dice.between(from, to));
        let (refuses, back) = (dice.percent(30), now + soon(dice, 50, longest));
        let (trouble, how) = match &self.kind {
            Kind::Proxy(proxy) if refuses => {
                proxy.refuse(true);
                (Trouble::Closed(back), "refused")
            }
            Kind::Proxy(proxy) => {
                proxy.hold_replies(true);
                (Trouble::Closed(back), "silent")
            }
            Kind::Late(late) => {
                late.keep();
                let cut_at = now + soon(dice, 200, 1000);
                (Trouble::Keeps { cut_at, deliver_at: cut_at + soon(dice, longest / 8, longest) }, "late")
            }
        };
        self.trouble = Some(trouble);
        deeds.add("ways closed", format!("to {}, {how}", self.to));
    }

    /// Ends what has lasted long enough, or everything.
    pub(crate) fn heal(&mut self, all: bool) {
        let is_over = |until: Instant| all || until <= Instant::now();
        self.trouble = match (self.trouble, &self.kind) {
            (Some(Trouble::Closed(until)), Kind::Proxy(proxy)) if is_over(until) => {
                proxy.refuse(false);
                proxy.hold_replies(false);
                None
            }
            (Some(Trouble::Keeps { cut_at, deliver_at }), Kind::Late(late)) if is_over(cut_at) => {
                late.cut();
                if all {
                    late.deliver();
                }
                (!all).then_some(Trouble::Delivers(deliver_at))
            }
            (Some(Trouble::Delivers(until)), Kind::Late(late)) if is_over(until) => {
                late.deliver();
                None
            }
            (other, _) => other,
        };
    }
}
