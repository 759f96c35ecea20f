//! Renewals that come due together, in one call: what many held locks cost is hardly more than their number of calls.
//!
//! Each gets its answer as if it had been asked for alone, and the watch behind it, too: in the end the script reads all of
//! them once more, which is what makes the server watch them. Requests stay in their order, so only those that stand one
//! after the other in a batch share a call. In a Cluster none do: a script has one slot there, and held locks seldom
//! share one. In a quorum there are none: [`Action::Repair`] is what renews there.

use std::time::Duration;

use redis::{Cmd, Value};

use super::decode::{nonsense, refusal};
use crate::engine::protocol::{Action, Id, Refusal, Reply, Request};

/// Fewer are asked for one by one: what that costs is little, and one script less is sent and kept.
const WORTH_A_CALL: usize = 4;

/// Renewals in one call at most. Up to Redis 7.0, a server that is asked to watch what a script reads notes all keys of the
/// call at each of its reads: from some 40 keys on, that is more work than so many calls. And a call keeps everybody else
/// waiting, this one for less than 0.1 ms.
const LONGEST: usize = 16;

/// The requests at the start of these that share a call; none if they are too few.
pub(super) fn at_the_start(requests: &[(Id, Request)]) -> &[(Id, Request)] {
    let (mut renewals, mut length) = (0, 0);
    let mut before: Option<&Request> = None;
    for (_, request) in requests {
        let is_next = match request.action {
            Action::Renew { shortens: false, .. } if renewals < LONGEST => {
                renewals += 1;
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
    if renewals < WORTH_A_CALL { &[] } else { requests.get(..length).unwrap_or_default() }
}

fn is_watched_by(before: &Request, request: &Request) -> bool {
    is_renewal(before.action) && before.name == request.name && before.token == request.token
}

/// A call of `renew_all.lua` behind its start.
pub(super) fn write(command: &mut Cmd, requests: &[(Id, Request)]) {
    command.arg(renewals(requests).count());
    for request in renewals(requests) {
        command.arg(&*request.name);
    }
    for request in renewals(requests) {
        command.arg(request.token.value()).arg(in_ms(request.ttl));
    }
}

/// How many words and bytes that are, at most.
pub(super) fn size(requests: &[(Id, Request)]) -> (usize, usize) {
    let long = renewals(requests).map(|request| request.name.len() + request.token.value().len() + 20);
    (3 + 3 * requests.len(), 60 + long.sum::<usize>())
}

fn renewals(requests: &[(Id, Request)]) -> impl Iterator<Item = &Request> {
    requests.iter().map(|(_, request)| request).filter(|request| is_renewal(request.action))
}

fn is_renewal(action: Action) -> bool {
    matches!(action, Action::Renew { .. })
}

/// What became of such requests. `watching`: what the server said of watching what comes next, if that was asked for.
pub(super) fn answers(actions: &[Action], watching: Option<Value>, answer: Value) -> Vec<Reply> {
    let renewals = actions.iter().filter(|action| is_renewal(**action)).count();
    let mut values = match answer {
        Value::Array(values) if values.len() == renewals => values.into_iter(),
        Value::ServerError(error) => return vec![Reply::Refused(of_all(refusal(&error))); actions.len()],
        other => return vec![nonsense(&other); actions.len()],
    };
    let unwatched = match watching {
        Some(Value::ServerError(error)) => Some(Reply::Refused(refusal(&error))),
        _ => None,
    };
    let mut found = Reply::NotHeld;
    let answer = |action: &Action| {
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
    actions.iter().map(answer).collect()
}

/// What will not pass may be about one of them, and the script may have stopped there: each is asked for again, alone, and
/// hears what is true of it.
fn of_all(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Permanent(_) => Refusal::NoScript,
        other => other,
    }
}

pub(crate) fn in_ms(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::token::Token;

    const RENEW: Action = Action::Renew { nth: 0, shortens: false };

    fn batch(actions: &[(Id, Action)]) -> Vec<(Id, Request)> {
        let request = |&(id, action): &(Id, Action)| {
            let (name, token) = (format!("lock:{id}").into(), Token::from_value(&format!("token {id}")));
            (id, Request { action, name, token, ttl: Duration::from_secs(id) })
        };
        actions.iter().map(request).collect()
    }

    fn watched(ids: std::ops::RangeInclusive<Id>) -> Vec<(Id, Action)> {
        ids.flat_map(|id| [(id, RENEW), (id, Action::Watch)]).collect()
    }

    #[track_caller]
    fn share_a_call(actions: &[(Id, Action)], expected: usize) {
        assert_eq!(at_the_start(&batch(actions)).len(), expected, "{actions:?}");
    }

    #[test]
    fn what_stands_one_after_the_other_shares_a_call() {
        share_a_call(&[], 0);
        share_a_call(&watched(1..=3), 0);
        share_a_call(&watched(1..=4), 8);
        share_a_call(&watched(1..=17), 32);
        share_a_call(&[1, 2, 3, 4, 5].map(|id| (id, RENEW)), 5);
        // What a look is about, and what comes in between, keeps its place.
        share_a_call(&[watched(1..=4), vec![(9, Action::Watch)], watched(5..=8)].concat(), 8);
        share_a_call(&[watched(1..=4), vec![(9, Action::Release)], watched(5..=8)].concat(), 8);
        share_a_call(&[vec![(9, Action::Watch)], watched(1..=4)].concat(), 0);
        share_a_call(&[watched(1..=4), vec![(4, Action::Watch)]].concat(), 8);
        // What shortens a lock says so, which the shared call cannot.
        let shortens = Action::Renew { nth: 1, shortens: true };
        share_a_call(&[watched(1..=4), vec![(9, shortens)], watched(5..=8)].concat(), 8);
    }

    #[test]
    fn each_with_its_token_and_its_ttl() {
        let mut command = Cmd::new();
        write(&mut command, &batch(&watched(1..=2)));
        let words = ["2", "lock:1", "lock:2", "token 1", "1000", "token 2", "2000"];
        let mut expected = Cmd::new();
        expected.arg(&words);
        assert_eq!(command.get_packed_command(), expected.get_packed_command());
    }

    const ACTIONS: [Action; 4] = [RENEW, Action::Watch, RENEW, RENEW];

    fn error(words: &str) -> Value {
        redis::parse_redis_value(format!("-{words}\r\n").as_bytes()).unwrap_or(Value::Nil)
    }

    #[test]
    fn each_has_an_answer_of_its_own() {
        let answer = |values| {
            let values = Vec::from(values).into_iter().map(Value::Int).collect();
            answers(&ACTIONS, Some(Value::Okay), Value::Array(values))
        };
        assert_eq!(answer([1, 0, 1]), [Reply::Done, Reply::Done, Reply::NotHeld, Reply::Done]);
        assert_eq!(answer([0, 1, -1]), [Reply::NotHeld, Reply::NotHeld, Reply::Done, Reply::NotHeld]);
        assert_eq!(answer([-1, 0, 1]), [Reply::NotHeld, Reply::Free, Reply::NotHeld, Reply::Done]);
    }

    #[test]
    fn an_error_of_the_call_is_everybodys() {
        let said = |words| answers(&ACTIONS, Some(Value::Okay), error(words));
        let later = |words: &str| vec![Reply::Refused(Refusal::Transient(words.into())); 4];
        assert_eq!(said("LOADING Redis is loading"), later("LOADING Redis is loading"));
        assert_eq!(said("READONLY You can't write"), later("READONLY You can't write"));
        assert_eq!(said("BUSY Redis is busy"), later("BUSY Redis is busy"));
        // Asked again, alone: it may be about one of them.
        let alone = vec![Reply::Refused(Refusal::NoScript); 4];
        assert_eq!(said("NOSCRIPT No matching script"), alone);
        assert_eq!(said("NOPERM No permissions to access a key"), alone);
        // Too few answers are none.
        for answer in [Value::Array(vec![Value::Int(1)]), Value::Nil] {
            let answers = answers(&ACTIONS, None, answer);
            assert!(answers.iter().all(|reply| matches!(reply, Reply::Refused(Refusal::Permanent(_)))));
        }
    }

    #[test]
    fn what_cannot_be_watched_is_renewed_all_the_same() {
        let answer = Value::Array(vec![Value::Int(1), Value::Int(1), Value::Int(1)]);
        let answers = answers(&ACTIONS, Some(error("NOPERM no permission")), answer);
        let refused = Reply::Refused(Refusal::Permanent("NOPERM no permission".into()));
        assert_eq!(answers, [Reply::Done, refused, Reply::Done, Reply::Done]);
    }
}
