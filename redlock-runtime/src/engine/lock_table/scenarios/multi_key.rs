//! Several keys in one call, which the server takes in their order until one is busy.

use std::time::Duration;

use tokio::sync::oneshot::{self, error::TryRecvError};

use crate::base::capabilities::Abilities;
use crate::base::clock::Moment;
use crate::base::error::Holder;
use crate::base::owner::Owner;
use crate::base::token::Token;
use crate::engine::EngineSettings;
use crate::engine::command::{AcquireOutcome, Ask, Command, WaitDeadline};
use crate::engine::lock_table::LockTable;
use crate::engine::multi_key::refuse_all;
use crate::engine::protocol::{Action, Id, Mode, Place, Refusal, Reply, Request, ServerTime, Verdict};

const TTL: Duration = Duration::from_secs(30);
const JOIN: Mode = Mode::Join { at_most: 10 };
const FIRST: Action = Action::Acquire(JOIN);

type Outcome = oneshot::Receiver<AcquireOutcome>;

fn next(after: Id) -> Action {
    Action::AcquireNext { mode: JOIN, after }
}

/// The repeated request for the first key, and for one behind another.
const AGAIN: Action = Action::Acquire(Mode::JoinAgain { at_most: 10 });

fn next_again(after: Id) -> Action {
    Action::AcquireNext { mode: Mode::JoinAgain { at_most: 10 }, after }
}

fn ask(key: &str, after: Option<Id>, now: Moment) -> (Box<Ask>, Outcome) {
    let (caller, outcome) = oneshot::channel();
    let ask = Box::new(Ask {
        after,
        deadline: WaitDeadline { started: now, one_try: false, gives_up_at: Some(now.after(100 * TTL)) },
        ..Ask::for_a_test(key, TTL, now, Some(caller))
    });
    (ask, outcome)
}

fn token(id: Id) -> Token {
    Token::from_value(&format!("token {id}"))
}

/// A table with one call for the keys `a`, `b` and `c`, as 1, 2 and 3.
struct MultiKeyCall {
    table: LockTable,
    now: Moment,
    outcomes: [Outcome; 3],
    said: [char; 3],
    sent: Vec<(Id, Request)>,
}

const HANDS_OVER: Abilities =
    Abilities { hands_over: true, tracks_changes: false, votes: false, may_evict: false };

impl MultiKeyCall {
    fn connected() -> Self {
        let mut table = LockTable::new(EngineSettings::for_a_test());
        table.connected(Moment::now(), HANDS_OVER);
        let mut call = Self::of(table);
        call.sends(&[(1, FIRST), (2, next(1)), (3, next(2))]);
        call
    }

    fn of(mut table: LockTable) -> Self {
        let now = Moment::now();
        let (asks, outcomes): (Vec<_>, Vec<_>) = [("a", None), ("b", Some(1)), ("c", Some(2))]
            .into_iter()
            .zip(1..)
            .map(|((key, after), id)| {
                let (ask, outcome) = ask(key, after, now);
                ((id, ask, token(id)), outcome)
            })
            .unzip();
        table.on_command(now, Command::AcquireAll { asks });
        let Ok(outcomes) = <[Outcome; 3]>::try_from(outcomes) else { unreachable!() };
        Self { table, now, outcomes, said: ['?'; 3], sent: Vec::new() }
    }

    /// Exactly these requests are sent, in this order.
    #[track_caller]
    fn sends(&mut self, expected: &[(Id, Action)]) {
        self.sent = self.table.outbox().take_all().collect();
        let sent: Vec<_> = self.sent.iter().map(|(id, request)| (*id, request.action)).collect();
        assert_eq!(sent, expected);
    }

    /// The last requests get these replies after this time.
    fn answers_after(&mut self, time: Duration, replies: Vec<Reply>) {
        let sent = self.now;
        self.now = self.now.after(time);
        assert_eq!(self.sent.len(), replies.len());
        for ((id, request), reply) in self.sent.drain(..).zip(replies) {
            self.table.reply(self.now, id, sent, &request, reply);
        }
    }

    fn answers(&mut self, replies: Vec<Reply>) {
        self.answers_after(Duration::ZERO, replies);
    }

    /// `+` held, `!` failed, `-` skipped, `?` no outcome yet, `x` the caller has gone
    #[track_caller]
    fn says(&mut self, expected: &str) {
        for (outcome, said) in self.outcomes.iter_mut().zip(&mut self.said) {
            *said = match outcome.try_recv() {
                Ok(AcquireOutcome::Held(..)) => '+',
                Ok(AcquireOutcome::Failed(_)) => '!',
                Ok(AcquireOutcome::Skipped | AcquireOutcome::Replayed) => '-',
                Err(TryRecvError::Closed) if *said == '?' => 'x',
                Err(_) => *said,
            };
        }
        assert_eq!(self.said.iter().collect::<String>(), expected);
    }
}

fn held() -> Reply {
    Reply::Acquire(Verdict::Granted { fence: 7 })
}

fn queued() -> Reply {
    let place = Some(Place { in_front: 0, at: ServerTime(1) });
    Reply::Acquire(Verdict::Busy {
        holder: Holder { owner: Some(Owner::read("host:1")), expires_in: Some(TTL), ..Holder::default() },
        place,
    })
}

fn refused_by(refusal: Refusal) -> Vec<Reply> {
    refuse_all(&Reply::Refused(refusal), 3)
}

#[test]
fn all_are_held() {
    let mut call = MultiKeyCall::connected();
    call.answers(vec![held(), held(), held()]);
    call.says("+++");
    call.sends(&[]);
}

#[test]
fn a_busy_key_is_waited_for_and_the_keys_behind_it_are_skipped() {
    let mut call = MultiKeyCall::connected();
    call.answers(vec![held(), queued(), Reply::Acquire(Verdict::Skipped)]);
    call.says("+?-");
    // Nothing is released, and the waiter is one like any other.
    call.sends(&[]);
    call.table.disconnected(call.now, "cut".into(), &[]);
    call.table.connected(call.now, HANDS_OVER);
    let sent: Vec<_> = call.table.outbox().take_all().collect();
    assert!(sent.iter().any(|(id, request)| *id == 2 && request.action == Action::Acquire(Mode::Rejoin)));
}

#[test]
fn a_call_whose_reply_was_lost_is_repeated_as_one_call() {
    let mut call = MultiKeyCall::connected();
    call.table.disconnected(call.now, "cut".into(), &[]);
    call.table.connected(call.now, HANDS_OVER);
    call.sends(&[(1, AGAIN), (2, next_again(1)), (3, next_again(2))]);
    call.answers(vec![held(), held(), held()]);
    call.says("+++");
}

#[test]
fn a_key_that_is_skipped_in_a_repeated_call_is_released() {
    let mut call = MultiKeyCall::connected();
    call.table.disconnected(call.now, "cut".into(), &[]);
    call.table.connected(call.now, HANDS_OVER);
    call.sends(&[(1, AGAIN), (2, next_again(1)), (3, next_again(2))]);
    // The call whose reply was lost may have taken more keys than this one.
    call.answers(vec![queued(), Reply::Acquire(Verdict::Skipped), Reply::Acquire(Verdict::Skipped)]);
    call.says("?--");
    call.sends(&[(2, Action::Release), (3, Action::Release)]);
}

#[test]
fn before_there_is_a_connection_the_keys_wait_together() {
    let mut call = MultiKeyCall::of(LockTable::new(EngineSettings::for_a_test()));
    call.sends(&[]);
    call.table.connected(call.now, HANDS_OVER);
    call.sends(&[(1, FIRST), (2, next(1)), (3, next(2))]);
}

#[test]
fn a_key_behind_an_abandoned_one_is_skipped_and_released() {
    let mut call = MultiKeyCall::connected();
    call.table.disconnected(call.now, "cut".into(), &[]);
    call.table.on_command(call.now, Command::Abandon { id: 2 });
    call.table.connected(call.now, HANDS_OVER);
    // The second key is being released, so the third has no key to go behind.
    call.sends(&[(1, AGAIN), (2, Action::Release), (3, Action::Release)]);
    call.says("?x-");
}

#[test]
fn a_forgotten_script_is_sent_again_for_all_keys() {
    let mut call = MultiKeyCall::connected();
    call.answers(refused_by(Refusal::NoScript));
    call.sends(&[(1, AGAIN), (2, next_again(1)), (3, next_again(2))]);
}

#[test]
fn a_permanent_refusal_is_reported_for_its_key() {
    let mut call = MultiKeyCall::connected();
    call.answers(refused_by(Refusal::Permanent("WRONGTYPE".into())));
    // The server may have stopped after some keys.
    call.sends(&[(1, AGAIN), (2, Action::Release), (3, Action::Release)]);
    call.says("?--");
    call.answers(vec![Reply::Refused(Refusal::Permanent("WRONGTYPE".into())), Reply::Done, Reply::NotHeld]);
    call.says("!--");
    // Also after the first.
    call.sends(&[(1, Action::Release)]);
    call.answers(vec![Reply::NotHeld]);
    assert!(call.table.is_idle());
}

#[test]
fn a_call_of_which_the_server_has_done_nothing_leaves_nothing_to_release() {
    for code in ["OOM", "NOPERM"] {
        let mut call = MultiKeyCall::connected();
        call.answers(refused_by(Refusal::Permanent(code.into())));
        call.sends(&[(1, AGAIN)]);
        call.answers(vec![Reply::Refused(Refusal::Permanent(code.into()))]);
        call.says("!--");
        call.sends(&[]);
        assert!(call.table.is_idle());
    }
    let mut call = MultiKeyCall::connected();
    call.answers(refused_by(Refusal::Transient("MISCONF".into())));
    call.says("?--");
    call.table.on_command(call.now, Command::Abandon { id: 1 });
    call.sends(&[]);
    assert!(call.table.is_idle());
}

#[test]
fn replies_that_took_longer_than_the_leases_are_no_locks() {
    for third in [held(), queued()] {
        let mut call = MultiKeyCall::connected();
        call.answers_after(TTL, vec![held(), held(), third]);
        call.says("?--");
        // The first key is released under its old token and asked for with a new one, alone.
        let actions: Vec<_> = call.table.outbox().take_all().map(|(_, request)| request.action).collect();
        assert_eq!(actions, [Action::Release, AGAIN, Action::Release, Action::Release]);
    }
}

#[test]
fn no_waiter_of_this_process_is_overtaken() {
    // Without a queue on the server, only the first of this process asks.
    let mut table = LockTable::new(EngineSettings::for_a_test());
    let now = Moment::now();
    table.connected(
        now,
        Abilities { hands_over: false, tracks_changes: false, votes: false, may_evict: false },
    );
    let (waits_for_b, _outcome) = ask("b", None, now);
    table.acquire(now, 9, waits_for_b, token(9));
    table.outbox().take_all().for_each(drop);
    let mut call = MultiKeyCall::of(table);
    call.sends(&[(1, FIRST)]);
    call.says("?--");
}
