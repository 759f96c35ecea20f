//! What the scripts do.

use super::Mistake as M;
use super::state::{Answer, CLAIM, CLIENTS, GRACE, Lock, Request, STRANGER, State, TTL, least};

/// With a mistake, or without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Server(pub(super) Option<M>);

impl Server {
    fn is(self, mistake: M) -> bool {
        self.0 == Some(mistake)
    }

    /// Those whose lease is over leave.
    fn look(self, state: &mut State) {
        if !self.is(M::ExpiryStaysCounted) {
            for left in &mut state.inside {
                *left = left.filter(|left| *left > 0);
            }
        }
    }

    fn least(self, state: &State) -> u8 {
        match state.lock {
            Lock::Together { limit, .. } if self.is(M::LimitSticks) => limit,
            _ if self.is(M::LimitOfCallerOnly) => 0,
            _ => state.least(),
        }
    }

    pub(super) fn has_room(self, state: &State, limit: u8) -> bool {
        match state.lock {
            Lock::Free => true,
            Lock::Alone { marked, .. } => marked && state.lasts <= GRACE,
            Lock::Together { .. } => {
                let (inside, most) = (state.count(), least(limit, self.least(state)));
                inside == 0 || limit != 1 && (most == 0 || inside < most)
            }
        }
    }

    /// When there may be room for a client with this limit.
    fn left(self, state: &State, limit: u8) -> u8 {
        match state.lock {
            Lock::Free => 0,
            Lock::Alone { owner, marked } => {
                let left = state.lasts.saturating_sub(if marked { GRACE } else { 0 });
                // Its key is watched, or asked for each 50 ms.
                if owner == STRANGER { left.min(1) } else { left }
            }
            Lock::Together { .. } if self.has_room(state, limit) => 0,
            Lock::Together { .. } => {
                let mut ends: Vec<u8> = state.inside.iter().copied().flatten().collect();
                ends.sort_unstable();
                let most = usize::from(least(limit, self.least(state)).max(1));
                ends.get(ends.len().saturating_sub(most)).copied().unwrap_or(0)
            }
        }
    }

    fn enter(self, state: &mut State, id: u8, lasts: u8) {
        let place = state.queue.iter().position(|it| *it == id).unwrap_or(state.queue.len());
        let in_front = state.queue.get(..place).unwrap_or_default();
        let passes = in_front.iter().any(|it| state.clients[usize::from(*it)].is_waiting());
        state.has_passed |= passes && !state.has_vanished && !state.was_deleted;
        state.queue.retain(|it| *it != id);
        let (limit, at) = (state.limit(id), usize::from(id));
        let was_together = matches!(state.lock, Lock::Together { .. });
        let before = state.inside[at].filter(|_| was_together);
        let top = state.clients.iter().map(|client| client.fence).max().unwrap_or(0) + 1;
        let fence = if limit == 1 {
            let marked = !state.queue.is_empty();
            state.inside = [None; CLIENTS];
            state.lock = Lock::Alone { owner: id, marked };
            state.lasts = lasts + if marked { GRACE } else { 0 };
            top
        } else {
            if !was_together {
                state.inside = [None; CLIENTS];
            }
            let (old_limit, old_fence) = match state.lock {
                Lock::Together { limit, fence } if state.count() > 0 || self.is(M::LimitSticks) => {
                    (limit, fence)
                }
                _ => (0, 0),
            };
            let needs = lasts + if self.is(M::NoGrace) { 0 } else { GRACE };
            let keeps = was_together && !self.is(M::KeyEndsWithTheLastToEnter);
            state.lasts = if keeps { state.lasts.max(needs) } else { needs };
            state.inside[at] = Some(before.unwrap_or(0).max(lasts));
            let drawn = if self.is(M::PhaseKeepsOldFence) { top.saturating_sub(2).max(1) } else { top };
            let fence = if old_fence > 0 { old_fence } else { drawn };
            state.lock = Lock::Together { limit: least(old_limit, limit), fence };
            fence
        };
        state.has_vanished = false;
        if before.is_none() {
            let last = state.clients.iter().map(|client| client.entered).max().unwrap_or(0);
            state.client(id).entered = last + 1;
        }
        state.client(id).fence = fence;
    }

    /// `score`: of one that has left. Those are told for which there may be room earlier now.
    fn tell_first(self, state: &mut State, score: Option<u8>) {
        if self.is(M::NoHint) {
            return;
        }
        for id in
            state.queue.iter().copied().take(if self.is(M::TellsOne) { 1 } else { 2 }).collect::<Vec<_>>()
        {
            let left = self.left(state, state.limit(id));
            if score.is_none_or(|score| score >= left) {
                state.tell(id, Answer::Next { left });
            }
        }
    }

    /// Those in front enter while they may. Returns whether `me` is in front, and may, and whether
    /// anyone has entered.
    fn let_in(self, state: &mut State, me: Option<u8>) -> [bool; 2] {
        self.look(state);
        let mut any = false;
        while let Some(&first) = state.queue.first() {
            if Some(first) != me && !state.clients[usize::from(first)].listens() {
                if self.is(M::DeadHeadStays) && matches!(state.lock, Lock::Together { .. }) {
                    break;
                }
                state.queue.remove(0);
                continue;
            }
            let limit = state.limit(first);
            if !self.has_room(state, limit) {
                break;
            }
            if Some(first) == me {
                return [true, any];
            }
            if any && self.is(M::LetsInOne) {
                break;
            }
            self.enter(state, first, if self.is(M::GrantLastsTtl) { TTL } else { CLAIM });
            any = true;
            state.client(first).silent = 1;
            state.tell(first, Answer::Granted { age: 0 });
            if limit == 1 {
                break;
            }
        }
        if any {
            self.tell_first(state, None);
        }
        [false, any]
    }

    fn mark(state: &mut State) {
        if let Lock::Alone { owner, marked: false } = state.lock
            && owner != STRANGER
            && !state.queue.is_empty()
        {
            state.lock = Lock::Alone { owner, marked: true };
            state.lasts += GRACE;
        }
    }

    pub(super) fn execute(self, state: &mut State, id: u8, request: Request, prompt: bool) -> Answer {
        let at = usize::from(id);
        let is_inside = match state.lock {
            Lock::Alone { owner, .. } => owner == id,
            Lock::Together { .. } => state.inside[at].is_some(),
            Lock::Free => false,
        };
        state.client(id).silent = 0;
        match request {
            Request::Set => {
                if state.lock != Lock::Free {
                    return Answer::Taken;
                }
                state.has_vanished |= !prompt && !state.queue.is_empty();
                self.enter(state, id, TTL);
                state.lock = Lock::Alone { owner: id, marked: false };
                state.lasts = TTL;
                Answer::Set
            }
            Request::Join | Request::Again => self.ask(state, id, request == Request::Again, is_inside),
            Request::Leave => {
                self.leave(state, id, is_inside);
                Answer::Left
            }
            Request::Renew if !is_inside => Answer::NotInside,
            Request::Renew => {
                if let Lock::Alone { marked, .. } = state.lock {
                    state.lasts = state.lasts.max(TTL + if marked { GRACE } else { 0 });
                } else {
                    state.inside[at] = Some(TTL);
                    if !self.is(M::RenewalLeavesTheKey) {
                        state.lasts = state.lasts.max(TTL + GRACE);
                    }
                }
                Answer::Renewed
            }
        }
    }

    fn ask(self, state: &mut State, id: u8, again: bool, is_inside: bool) -> Answer {
        let (at, limit) = (usize::from(id), state.limit(id));
        let lasts = if again && !self.is(M::AgainLastsTtl) { CLAIM } else { TTL };
        let inside = Answer::Inside { lasts };
        if is_inside && (matches!(state.lock, Lock::Alone { .. }) || state.inside[at] != Some(0)) {
            state.queue.retain(|it| *it != id);
            if let Lock::Alone { owner, marked } = state.lock {
                let marked = marked || !state.queue.is_empty();
                state.lock = Lock::Alone { owner, marked };
                state.lasts = state.lasts.max(lasts + if marked { GRACE } else { 0 });
            } else {
                let before = if self.is(M::AgainShortens) { 0 } else { state.inside[at].unwrap_or(0) };
                state.inside[at] = Some(before.max(lasts));
                state.lasts = state.lasts.max(lasts + GRACE);
            }
            return inside;
        }
        self.look(state);
        let is_alone = matches!(state.lock, Lock::Alone { .. });
        let has_place = state.queue.contains(&id);
        let has_room = self.has_room(state, limit);
        if has_room && self.is(M::NewcomerPassesQueue) && !state.queue.is_empty() && !has_place {
            self.enter(state, id, lasts);
            self.tell_first(state, None);
            return inside;
        }
        if !has_place && (!has_room || !state.queue.is_empty()) {
            state.queue.push(id);
        }
        if is_alone && !has_room {
            Self::mark(state);
            return Answer::Busy { left: self.left(state, limit) };
        }
        let silent = u8::from(again);
        if state.queue.is_empty() {
            self.enter(state, id, lasts);
            state.client(id).silent = silent;
            return inside;
        }
        if is_alone {
            state.lock = Lock::Free;
        }
        let [is_first, _] = self.let_in(state, Some(id));
        if is_first {
            self.enter(state, id, lasts);
            state.client(id).silent = silent;
            if limit != 1 {
                self.let_in(state, None);
            }
            self.tell_first(state, None);
            return inside;
        }
        Answer::Busy { left: self.left(state, limit) }
    }

    fn leave(self, state: &mut State, id: u8, is_inside: bool) {
        let was_first = state.queue.iter().take(2).any(|it| *it == id);
        state.queue.retain(|it| *it != id);
        match state.lock {
            Lock::Alone { owner, marked } if owner == id => {
                (state.lock, state.lasts) = (Lock::Free, 0);
                if marked {
                    self.let_in(state, None);
                    self.tell_first(state, None);
                }
            }
            Lock::Alone { .. } if was_first => {
                Self::mark(state);
                self.tell_first(state, None);
            }
            Lock::Free if was_first => self.tell_first(state, None),
            Lock::Alone { .. } | Lock::Free => {}
            Lock::Together { .. } => {
                let mut score = None;
                if is_inside {
                    score = state.inside[usize::from(id)].take();
                } else if self.is(M::ReleaseLowersCounter)
                    && let Some(one) = state.inside.iter_mut().find(|left| left.is_some())
                {
                    *one = None;
                }
                if is_inside && self.is(M::ReleaseDeletesTheKey) {
                    (state.lock, state.lasts, state.inside) = (Lock::Free, 0, [None; CLIENTS]);
                    self.let_in(state, None);
                    return;
                }
                let mut any = false;
                if is_inside || !self.is(M::LeavingLetsNobodyIn) {
                    [_, any] = self.let_in(state, None);
                }
                if matches!(state.lock, Lock::Together { .. }) && state.count() == 0 {
                    (state.lock, state.lasts) = (Lock::Free, 0);
                }
                if !any && (is_inside || was_first) && !self.is(M::LeavingTellsNobody) {
                    self.tell_first(state, score.filter(|_| !was_first));
                }
            }
        }
    }
}
