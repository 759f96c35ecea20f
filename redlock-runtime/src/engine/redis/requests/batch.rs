//! Requests that share one script call: several locks that one caller asks for, and renewals that
//! come due together.
//!
//! Each request gets its reply as if it had been sent alone. Requests stay in their order, so only
//! neighbours in a batch share a call.
//!
//! A renewal may have a watch behind it: the script reads all locks once more in the end, and that
//! read is watched. Renewals share no call in a Cluster, where a script has one slot and held locks
//! seldom share one, and none in a quorum, where [`Action::Repair`] renews.

use std::iter::repeat;

use super::decode::{read, refusal};
use super::encode::CLIENT_CACHING;
use super::fields::{Encoder, is_renewal, nonsense};
use crate::engine::multi_key::refuse_all;
use crate::engine::protocol::{Action, Id, Kind, Mode, Refusal, Reply, Request, Verdict};
use crate::engine::redis::scripts::{Dialect, Script};
use crate::engine::redis::wire::command::write_command;
use crate::engine::redis::wire::exchange::Exchange;
use crate::engine::redis::wire::value::Value;

/// Fewer renewals are sent one by one: that costs little, and the server keeps one script less.
const WORTH_A_CALL: usize = 4;

/// Renewals in one call at most. Up to Redis 7.0, a server that watches the reads of a script notes
/// all keys of the call at each read: from some 40 keys on, that is more work than as many calls.
/// And a call delays other clients, this one for less than 0.1 ms.
const LONGEST: usize = 16;

/// A script call for several requests, and what its reply depends on.
pub(super) enum SharedCall {
    Acquire { modes: Vec<Mode> },
    Renew { actions: Vec<Action>, tracks_changes: bool },
}

/// The renewals at the start of `requests` that share a call, with their watches; empty if they are
/// too few.
pub(super) fn renewals(requests: &[(Id, Request)]) -> &[(Id, Request)] {
    let (mut count, mut length) = (0, 0);
    let mut before: Option<&Request> = None;
    for (_, request) in requests {
        let is_next = match request.action {
            Action::Renew { shortens: false, .. }
                if count < LONGEST && matches!(request.kind, Kind::Exclusive { .. }) =>
            {
                count += 1;
                true
            }
            Action::Watch => before.is_some_and(|before| is_watched_by(before, request)),
            _ => false,
        };
        if !is_next {
            break;
        }
        length += 1;
        before = Some(request);
    }
    if count < WORTH_A_CALL { &[] } else { requests.get(..length).unwrap_or_default() }
}

fn is_watched_by(before: &Request, request: &Request) -> bool {
    is_renewal(before.action) && before.name == request.name && before.token == request.token
}

impl SharedCall {
    pub(super) fn new(encoder: &Encoder, call: &[(Id, Request)]) -> Self {
        match call {
            [(_, Request { action: Action::Renew { .. }, .. }), ..] => Self::Renew {
                actions: call.iter().map(|(_, request)| request.action).collect(),
                tracks_changes: encoder.session.abilities.tracks_changes,
            },
            _ => Self::Acquire {
                modes: call.iter().map(|(_, request)| encoder.mode(request.action)).collect(),
            },
        }
    }

    pub(super) fn write(&self, encoder: &mut Encoder, call: &[(Id, Request)], exchange: &mut Exchange) {
        match self {
            Self::Acquire { .. } => encoder.acquire_all(call, exchange.commands(1)),
            Self::Renew { tracks_changes, .. } => {
                if *tracks_changes {
                    write_command(exchange.commands(1), &CLIENT_CACHING);
                }
                encoder.renew_all(call, exchange.commands(1));
            }
        }
    }

    /// Returns how many values the server answers.
    pub(super) fn values(&self) -> usize {
        match self {
            Self::Renew { tracks_changes: true, .. } => 2,
            Self::Renew { tracks_changes: false, .. } | Self::Acquire { .. } => 1,
        }
    }

    /// One reply to each request, from the first value of the call and, if there is one, the next.
    pub(super) fn replies(
        &self,
        first: Value,
        next: &mut impl Iterator<Item = Value>,
        dialect: Dialect,
    ) -> Vec<Reply> {
        match self {
            Self::Acquire { modes } => acquired(modes, first, dialect),
            Self::Renew { actions, tracks_changes: true } => {
                renewed(actions, Some(first), next.next().unwrap_or(Value::Nil))
            }
            Self::Renew { actions, tracks_changes: false } => renewed(actions, None, first),
        }
    }
}

/// One reply for each lock that the script came to; the others were not asked for.
fn acquired(modes: &[Mode], value: Value, dialect: Dialect) -> Vec<Reply> {
    let locks = modes.len();
    let reply = |(value, mode): (Value, &Mode)| {
        read(Action::Acquire(*mode), Some(Script::AcquireAll), value, dialect)
    };
    match value {
        // It tells at least of the first one.
        Value::Array(values) if (1..=locks).contains(&values.len()) => values
            .into_iter()
            .zip(modes)
            .map(reply)
            .chain(repeat(Reply::Acquire(Verdict::Skipped)))
            .take(locks)
            .collect(),
        Value::ServerError(error) => refuse_all(&Reply::Refused(refusal(&error)), locks),
        other => refuse_all(&nonsense(&other), locks),
    }
}

/// One reply to each renewal and watch. `watching`: the reply to `CLIENT CACHING`, if that was
/// sent.
fn renewed(actions: &[Action], watching: Option<Value>, value: Value) -> Vec<Reply> {
    let renewals = actions.iter().filter(|action| is_renewal(**action)).count();
    let mut values = match value {
        Value::Array(values) if values.len() == renewals => values.into_iter(),
        Value::ServerError(error) => return vec![Reply::Refused(of_each(refusal(&error))); actions.len()],
        other => return vec![nonsense(&other); actions.len()],
    };
    let unwatched = match watching {
        Some(Value::ServerError(error)) => Some(Reply::Refused(refusal(&error))),
        None | Some(Value::Okay) => None,
        Some(other) => return vec![nonsense(&other); actions.len()],
    };
    let mut found = Reply::NotHeld;
    let reply = |action: &Action| {
        if *action == Action::Watch {
            return unwatched.clone().unwrap_or_else(|| found.clone());
        }
        found = match values.next() {
            Some(Value::Int(1)) => Reply::Done,
            Some(Value::Int(0)) => Reply::NotHeld,
            Some(Value::Int(-1)) => Reply::Free,
            other => nonsense(&other.unwrap_or(Value::Nil)),
        };
        if found == Reply::Free { Reply::NotHeld } else { found.clone() }
    };
    actions.iter().map(reply).collect()
}

/// A permanent refusal may be about one of the locks, where the script stopped: each is sent again,
/// alone.
fn of_each(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Permanent(_) => Refusal::NoScript,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::token::Token;
    use crate::engine::redis::wire::value::ServerError;

    const RENEW: Action = Action::Renew { nth: 0, shortens: false };

    fn batch(actions: &[(Id, Action)]) -> Vec<(Id, Request)> {
        let request = |&(id, action): &(Id, Action)| {
            let (name, token) = (format!("lock:{id}").into(), Token::from_value(&format!("token {id}")));
            (id, Request::new(action, name, token, Duration::from_secs(id)))
        };
        actions.iter().map(request).collect()
    }

    fn watched(ids: std::ops::RangeInclusive<Id>) -> Vec<(Id, Action)> {
        ids.flat_map(|id| [(id, RENEW), (id, Action::Watch)]).collect()
    }

    #[track_caller]
    fn share_a_call(actions: &[(Id, Action)], expected: usize) {
        assert_eq!(renewals(&batch(actions)).len(), expected, "{actions:?}");
    }

    #[test]
    fn renewals_that_are_neighbours_share_a_call() {
        share_a_call(&[], 0);
        share_a_call(&watched(1..=3), 0);
        share_a_call(&watched(1..=4), 8);
        share_a_call(&watched(1..=17), 32);
        share_a_call(&[1, 2, 3, 4, 5].map(|id| (id, RENEW)), 5);
        // A request in between keeps its place.
        share_a_call(&[watched(1..=4), vec![(9, Action::Watch)], watched(5..=8)].concat(), 8);
        share_a_call(&[watched(1..=4), vec![(9, Action::Release)], watched(5..=8)].concat(), 8);
        share_a_call(&[vec![(9, Action::Watch)], watched(1..=4)].concat(), 0);
        share_a_call(&[watched(1..=4), vec![(4, Action::Watch)]].concat(), 8);
        // The shared call cannot shorten a lease.
        let shortens = Action::Renew { nth: 1, shortens: true };
        share_a_call(&[watched(1..=4), vec![(9, shortens)], watched(5..=8)].concat(), 8);
    }

    const ACTIONS: [Action; 4] = [RENEW, Action::Watch, RENEW, RENEW];

    fn error(words: &str) -> Value {
        Value::ServerError(ServerError::said(words.as_bytes()))
    }

    #[test]
    fn each_has_an_answer_of_its_own() {
        let answer = |values| {
            let values = Vec::from(values).into_iter().map(Value::Int).collect();
            renewed(&ACTIONS, Some(Value::Okay), Value::Array(values))
        };
        assert_eq!(answer([1, 0, 1]), [Reply::Done, Reply::Done, Reply::NotHeld, Reply::Done]);
        assert_eq!(answer([0, 1, -1]), [Reply::NotHeld, Reply::NotHeld, Reply::Done, Reply::NotHeld]);
        assert_eq!(answer([-1, 0, 1]), [Reply::NotHeld, Reply::Free, Reply::NotHeld, Reply::Done]);
    }

    #[test]
    fn an_error_of_the_call_refuses_each_request() {
        let said = |words| renewed(&ACTIONS, Some(Value::Okay), error(words));
        let later = |words: &str| vec![Reply::Refused(Refusal::Transient(words.into())); 4];
        assert_eq!(said("LOADING Redis is loading"), later("LOADING Redis is loading"));
        assert_eq!(said("READONLY You can't write"), later("READONLY You can't write"));
        assert_eq!(said("BUSY Redis is busy"), later("BUSY Redis is busy"));
        // Each is sent again, alone: the error may be about one lock.
        let alone = vec![Reply::Refused(Refusal::NoScript); 4];
        assert_eq!(said("NOSCRIPT No matching script"), alone);
        assert_eq!(said("NOPERM No permissions to access a key"), alone);
        // A reply with too few values is not used.
        for answer in [Value::Array(vec![Value::Int(1)]), Value::Nil] {
            let answers = renewed(&ACTIONS, None, answer);
            assert!(answers.iter().all(|reply| matches!(reply, Reply::Refused(Refusal::OutcomeUnknown(_)))));
        }
    }

    #[test]
    fn a_reply_to_another_command_answers_no_request() {
        let unknown = |reply: &Reply| matches!(reply, Reply::Refused(Refusal::OutcomeUnknown(_)));
        let renewals = Value::Array(vec![Value::Int(1), Value::Int(1), Value::Int(1)]);
        assert!(renewed(&ACTIONS, Some(Value::Int(1)), renewals).iter().all(unknown));
        let modes = [Mode::OneTry, Mode::OneTry];
        let many = vec![Value::Int(0), Value::Nil, Value::Int(5)];
        for answer in [Value::Array(Vec::new()), Value::Array(many), Value::Okay, Value::Int(1)] {
            assert!(
                acquired(&modes, answer, Dialect { sharded: false, reads_parts: true }).iter().all(unknown)
            );
        }
    }

    #[test]
    fn a_lock_that_cannot_be_watched_is_renewed() {
        let answer = Value::Array(vec![Value::Int(1), Value::Int(1), Value::Int(1)]);
        let answers = renewed(&ACTIONS, Some(error("NOPERM no permission")), answer);
        let refused = Reply::Refused(Refusal::Permanent("NOPERM no permission".into()));
        assert_eq!(answers, [Reply::Done, refused, Reply::Done, Reply::Done]);
    }
}
