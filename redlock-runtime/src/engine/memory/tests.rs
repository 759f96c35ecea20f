use tokio::sync::mpsc::unbounded_channel;

use super::*;

#[test]
fn a_lock_whose_min_hold_is_over_takes_no_room() {
    let node = MemoryNode::named("min-hold-is-over");
    let (inbox, _pushes) = unbounded_channel();
    let (start, ttl) = (Moment::now(), Duration::from_secs(1));
    for number in 0..10_000 {
        let now = start.after(number * ttl / 10);
        let (name, token) = (Arc::from(format!("lock:{number}")), Token::from_value("token"));
        for action in [Action::Acquire(Mode::OneTry), Action::ExpireLater] {
            let request = Request::new(action, Arc::clone(&name), token.clone(), ttl);
            node.execute(&request, &inbox, now);
        }
        assert!(node.execute(&list(), &inbox, now) != Reply::Page { cursor: 0, names: Vec::new() });
    }
    let locks = node.store.lock().unwrap_or_else(PoisonError::into_inner).locks.len();
    assert!(locks <= 100, "{locks} of 10,000");
}

#[test]
fn a_lock_tells_since_when_it_is_held_by_how_long_that_is() {
    let node = MemoryNode::named("since-when");
    let (start, (inbox, _pushes)) = (Moment::now(), unbounded_channel());
    let request =
        |action| Request::new(action, "k".into(), Token::from_value("token"), Duration::from_secs(60));
    node.execute(&request(Action::Acquire(Mode::OneTry)), &inbox, start);
    let granted = |now| match node.execute(&request(Action::Inspect), &inbox, now) {
        Reply::Found(Some(found)) => found.holder.granted.map_or(0, u64::from),
        _ => 0,
    };
    // The clock of the system has gone on by less than a second between the two.
    let (at_once, later) = (granted(start), granted(start.after(Duration::from_secs(10))));
    assert!(matches!(at_once - later, 9 | 10), "{at_once} and {later}");
}

#[test]
fn a_stuck_process_costs_one_claim() {
    const TTL: Duration = Duration::from_secs(30);
    const JOIN: Action = Action::Acquire(Mode::Join { at_most: 100 });
    const ONE_TRY: Action = Action::Acquire(Mode::OneTry);
    let request = |action, token: &str| Request::new(action, "k".into(), Token::from_value(token), TTL);
    for others in [vec!["other"], vec![]] {
        let node = MemoryNode::named("stuck");
        let (start, (inbox, _pushes)) = (Moment::now(), unbounded_channel());
        let (stuck, mut stucks_pushes) = unbounded_channel();
        let (other, mut others_pushes) = unbounded_channel();
        node.execute(&request(ONE_TRY, "holder"), &inbox, start);
        for token in ["first", "second"] {
            node.execute(&request(JOIN, token), &stuck, start);
        }
        for token in &others {
            node.execute(&request(JOIN, token), &other, start);
        }
        for number in 0..20 {
            let token = format!("third {number}");
            node.execute(&request(JOIN, &token), &stuck, start);
        }
        node.execute(&request(Action::Release, "holder"), &inbox, start);
        let newcomer = request(ONE_TRY, "newcomer");
        let early = node.execute(&newcomer, &inbox, start.after(CLAIM / 2));
        assert!(matches!(early, Reply::Acquire(Verdict::Busy { .. })));
        let late = node.execute(&newcomer, &inbox, start.after(CLAIM));
        assert_eq!(matches!(late, Reply::Acquire(Verdict::Granted { .. })), others.is_empty());
        let kinds = |pushes: &mut tokio::sync::mpsc::UnboundedReceiver<_>| {
            std::iter::from_fn(|| pushes.try_recv().ok())
                .filter_map(|event| match event {
                    ConnectionEvent::Push(push) => Some(push.kind),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        let [to_stuck, to_other] = [kinds(&mut stucks_pushes), kinds(&mut others_pushes)];
        let grants =
            |kinds: &[PushKind]| kinds.iter().filter(|kind| matches!(kind, PushKind::Granted { .. })).count();
        assert_eq!((grants(&to_stuck), grants(&to_other)), (1, others.len()));
        assert_eq!(to_stuck.last(), Some(&PushKind::PlaceLost), "it may only have been slow");
        let store = node.store();
        assert!(store.locks.values().all(|lock| lock.queue.is_empty()));
    }
}

#[test]
fn a_full_queue_that_loses_its_first_waiters_tells_those_that_are_the_first_two_then() {
    const TTL: Duration = Duration::from_secs(30);
    const JOIN: Action = Action::Acquire(Mode::Join { at_most: 4 });
    let request = |token: &str| Request::new(JOIN, "k".into(), Token::from_value(token), TTL);
    let node = MemoryNode::named("full");
    let [(here, _kept), (dead, ended), (lives, mut hints)] = [(); 3].map(|()| unbounded_channel());
    let start = Moment::now();
    for (token, inbox) in [("holder", &here), ("a", &dead), ("b", &dead), ("c", &lives), ("d", &lives)] {
        node.execute(&request(token), inbox, start);
    }
    drop(ended);
    let reply = node.execute(&request("e"), &here, start);
    assert!(matches!(reply, Reply::Acquire(Verdict::Busy { .. })), "{reply:?}");
    let told = std::iter::from_fn(|| hints.try_recv().ok()).filter_map(|event| match event {
        ConnectionEvent::Push(push) => Some((push.token, push.kind)),
        _ => None,
    });
    let hint = PushKind::Next { claim: TTL, at: server_time(start) };
    let hint_of = |token| (Token::from_value(token), hint);
    assert_eq!(told.collect::<Vec<_>>(), ["c", "d"].map(hint_of));
}

#[test]
fn a_first_waiter_without_room_that_does_not_answer_is_passed_over() {
    const TTL: Duration = Duration::from_secs(30);
    const JOIN: Action = Action::Acquire(Mode::Join { at_most: 100 });
    const AGAIN: Action = Action::Acquire(Mode::Again);
    let request = |action, token: &str, limit| Request {
        kind: Kind::of_limit(limit),
        ..Request::new(action, "k".into(), Token::from_value(token), TTL)
    };
    for answers in [true, false] {
        let node = MemoryNode::named("without-room");
        let start = Moment::now();
        let [(here, _kept), (writers, mut hints), (readers, _also_kept)] =
            [(); 3].map(|()| unbounded_channel());
        node.execute(&request(JOIN, "inside", Limit::NONE), &here, start);
        node.execute(&request(JOIN, "writer", Limit::ONE), &writers, start);
        let reader = |action, at| {
            let reply = node.execute(&request(action, "reader", Limit::NONE), &readers, at);
            match reply {
                Reply::Acquire(Verdict::Busy { holder, .. }) => Err(holder.expires_in),
                reply => Ok(matches!(reply, Reply::Acquire(verdict) if verdict.fence().is_some())),
            }
        };
        assert_eq!(reader(JOIN, start), Err(Some(CLAIM)));
        let hint = PushKind::Next { claim: Duration::ZERO, at: server_time(start) };
        let push = hints.try_recv();
        assert!(matches!(push, Ok(ConnectionEvent::Push(Push { kind, .. })) if kind == hint));
        let later = start.after(CLAIM / 2);
        if answers {
            node.execute(&request(AGAIN, "writer", Limit::ONE), &writers, later);
        }
        assert_eq!(reader(AGAIN, later), Err(Some(CLAIM / 2)));
        let later = start.after(CLAIM);
        assert_eq!(reader(AGAIN, later), if answers { Err(Some(CLAIM)) } else { Ok(true) });
        let waiting = node.store().locks.values().map(|lock| lock.queue.len()).sum::<usize>();
        assert_eq!(waiting, if answers { 2 } else { 0 });
    }
}

fn list() -> Request {
    let (action, name) = (Action::List { cursor: 0, what: Listed::Locks }, Arc::from("*"));
    Request::new(action, name, Token::empty(), Duration::ZERO)
}

#[test]
fn requests_that_follow_each_other_are_one_call() {
    const TTL: Duration = Duration::from_secs(30);
    const JOIN: Mode = Mode::Join { at_most: 10 };
    const FIRST: Action = Action::Acquire(JOIN);
    const RENEW: Action = Action::Renew { nth: 0, shortens: false };
    let next = |after| Action::AcquireNext { mode: JOIN, after };
    let held = || Reply::Acquire(Verdict::Granted { fence: 7 });
    let request = |action| Request::new(action, "k".into(), Token::empty(), TTL);
    let batch = [
        (1, request(FIRST)),
        (2, request(next(1))),
        (3, request(next(2))),
        (4, request(FIRST)),
        // It does not follow the request before it.
        (5, request(next(3))),
        (6, request(next(5))),
        (7, request(RENEW)),
        (8, request(next(7))),
    ];
    let lengths: Vec<_> = calls(&batch).map(<[_]>::len).collect();
    assert_eq!(lengths, [3, 1, 2, 1, 1]);
    let mut done = Vec::new();
    let replies = one_by_one(&batch, |request| {
        done.push(request.action);
        held()
    });
    assert_eq!(done, [FIRST, next(1), next(2), FIRST, RENEW]);
    assert_eq!(
        replies[4..],
        [
            Reply::Acquire(Verdict::Skipped),
            Reply::Acquire(Verdict::Skipped),
            held(),
            Reply::Acquire(Verdict::Skipped)
        ]
    );
}

/// A lock of a node of its own, driven by hand.
struct Driven {
    node: MemoryNode,
    now: Moment,
    inbox: Inbox,
    pushes: tokio::sync::mpsc::UnboundedReceiver<ConnectionEvent>,
}

impl Driven {
    const TTL: Duration = Duration::from_secs(30);

    fn new(name: &str) -> Self {
        let (inbox, pushes) = unbounded_channel();
        Self { node: MemoryNode::named(name), now: Moment::now(), inbox, pushes }
    }

    fn does(&self, action: Action, token: &str, permits: u32) -> Reply {
        let request = Request::new(action, "k".into(), Token::from_value(token), Self::TTL);
        self.node.execute(
            &Request { kind: Kind::of_limit(Limit::of(permits)), ..request },
            &self.inbox,
            self.now,
        )
    }

    /// `Ok` with the fencing token when it is inside, else how many it finds there.
    fn asks(&self, token: &str, permits: u32) -> Result<u64, u32> {
        match self.does(Action::Acquire(Mode::Join { at_most: 100 }), token, permits) {
            Reply::Acquire(Verdict::Granted { fence }) => Ok(fence),
            Reply::Acquire(Verdict::Busy { holder, .. }) => Err(holder.inside),
            other => unreachable!("{other:?}"),
        }
    }

    fn leaves(&self, token: &str, permits: u32) -> bool {
        self.does(Action::Release, token, permits) == Reply::Done
    }

    /// An operator ends it: what the node answers.
    fn revokes(&self, token: &str) -> Reply {
        let request = Request::new(Action::Release, "k".into(), Token::from_value(token), Self::TTL);
        let request = Request { release: Releases::AmongSeveral, ..request };
        self.node.execute(&request, &self.inbox, self.now)
    }

    /// The tokens that were let in since the last look, in this order.
    fn admitted(&mut self) -> Vec<String> {
        let granted = |event| match event {
            ConnectionEvent::Push(Push { token, kind: PushKind::Granted { .. }, .. }) => {
                Some(token.value().to_owned())
            }
            _ => None,
        };
        std::iter::from_fn(|| self.pushes.try_recv().ok()).filter_map(granted).collect()
    }

    fn inside(&self) -> u32 {
        match self.does(Action::Inspect, "", 1) {
            Reply::Found(Some(found)) => found.counted.map_or(0, |counted| counted.inside),
            _ => 0,
        }
    }
}

#[test]
fn readers_are_let_in_together_and_a_writer_alone_in_the_order_of_their_requests() {
    let mut lock = Driven::new("readers");
    let phase = lock.asks("reader 1", 0);
    assert!(phase.is_ok() && lock.asks("reader 2", 0) == phase, "readers share a fencing token");
    assert_eq!(lock.asks("writer", 1), Err(2));
    for late in ["reader 3", "reader 4"] {
        assert_eq!(lock.asks(late, 0), Err(2), "it does not pass the writer");
    }
    assert!(lock.leaves("reader 1", 0) && lock.admitted().is_empty());
    assert!(lock.leaves("reader 2", 0));
    assert_eq!(lock.admitted(), ["writer"]);
    assert!(lock.leaves("writer", 1));
    assert_eq!(lock.admitted(), ["reader 3", "reader 4"], "one release lets in all that fit");
    assert_eq!(lock.inside(), 2);
}

#[test]
fn the_smallest_number_of_permits_counts_until_it_has_left() {
    let mut lock = Driven::new("permits");
    assert!(lock.asks("of 5", 5).is_ok() && lock.asks("of 2", 2).is_ok());
    assert_eq!((lock.asks("next", 5), lock.asks("last", 5)), (Err(2), Err(2)));
    assert!(lock.leaves("of 2", 2));
    assert_eq!(lock.admitted(), ["next", "last"], "five may be inside again");
    assert_eq!(lock.inside(), 3);
}

#[test]
fn a_holder_that_is_killed_costs_its_own_ttl_and_nobody_elses() {
    let mut lock = Driven::new("killed");
    assert!(lock.asks("killed", 2).is_ok());
    lock.now = lock.now.after(Driven::TTL / 2);
    assert!(lock.asks("other", 2).is_ok());
    assert_eq!(lock.asks("next", 2), Err(2));
    lock.now = lock.now.after(Driven::TTL / 2);
    let again = lock.does(Action::Acquire(Mode::Again), "next", 2);
    assert!(matches!(again, Reply::Acquire(Verdict::Claimed { .. })), "{again:?}");
    let renewed = |token| lock.does(Action::Renew { nth: 0, shortens: false }, token, 2);
    assert_eq!(
        (renewed("killed"), renewed("other"), renewed("next")),
        (Reply::NotHeld, Reply::Done, Reply::Done)
    );
    assert!(!lock.leaves("killed", 2), "its late release lets nobody in");
    assert_eq!((lock.inside(), lock.admitted()), (2, Vec::new()));
}

#[test]
fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
    let mut lock = Driven::new("gives-up");
    assert!(lock.asks("reader 1", 0).is_ok());
    assert_eq!((lock.asks("writer", 1), lock.asks("reader 2", 0)), (Err(1), Err(1)));
    assert!(!lock.leaves("writer", 1));
    assert_eq!(lock.admitted(), ["reader 2"]);
}

#[test]
fn a_release_later_than_the_loss_lowers_nothing() {
    let lock = Driven::new("twice");
    assert!(lock.asks("one", 2).is_ok() && lock.asks("two", 2).is_ok());
    assert!(lock.leaves("one", 2) && !lock.leaves("one", 2));
    assert_eq!(lock.inside(), 1);
}

#[test]
fn a_force_release_ends_all_holders_and_lets_the_next_in() {
    let mut lock = Driven::new("forced");
    assert!(lock.asks("reader 1", 0).is_ok() && lock.asks("reader 2", 0).is_ok());
    assert_eq!(lock.asks("writer", 1), Err(2));
    let found = lock.does(Action::ForceRelease, "", 1);
    assert!(matches!(found, Reply::Found(Some(found)) if found.holder.inside == 2));
    let told = std::iter::from_fn(|| lock.pushes.try_recv().ok())
        .filter_map(|event| match event {
            ConnectionEvent::Push(Push { token, kind, .. }) => Some((token.value().to_owned(), kind)),
            _ => None,
        })
        .collect::<Vec<_>>();
    let is_told =
        |of: &str, is: fn(&PushKind) -> bool| told.iter().any(|(token, kind)| token == of && is(kind));
    let is_taken = |kind: &PushKind| *kind == PushKind::TakenAway;
    assert!(is_told("reader 1", is_taken) && is_told("reader 2", is_taken));
    assert!(is_told("writer", |kind| matches!(kind, PushKind::Granted { .. })));
}

#[test]
fn a_force_release_takes_the_lock_from_the_holder_that_it_names() {
    let lock = Driven::new("named");
    let names = |lock: &Driven| match lock.does(Action::Inspect, "", 1) {
        Reply::Found(Some(found)) => found.value.value().to_owned(),
        other => unreachable!("{other:?}"),
    };
    assert!(lock.asks("writer", 1).is_ok());
    let writer = names(&lock);
    for (name, is_held) in [("", false), (&*writer, false), ("another", true)] {
        assert!(lock.asks("writer", 1).is_ok());
        lock.does(Action::ForceRelease, name, 1);
        assert_eq!(lock.does(Action::Inspect, "", 1) != Reply::Found(None), is_held, "{name}");
    }
    assert!(lock.leaves("writer", 1) && lock.asks("reader", 0).is_ok());
    let phase = names(&lock);
    lock.does(Action::ForceRelease, &writer, 1);
    assert_eq!(lock.inside(), 1, "it names the holder before");
    lock.does(Action::ForceRelease, &phase, 1);
    assert_eq!(lock.inside(), 0);
}

#[test]
fn an_operator_ends_one_of_several_and_lets_in_those_that_fit() {
    let mut lock = Driven::new("revoked");
    assert!(lock.asks("one", 2).is_ok() && lock.asks("two", 2).is_ok());
    assert_eq!((lock.asks("next", 2), lock.asks("writer", 1)), (Err(2), Err(2)));
    assert_eq!(lock.revokes("one"), Reply::Done);
    assert_eq!(lock.inside(), 2);
    let told: Vec<_> = std::iter::from_fn(|| lock.pushes.try_recv().ok())
        .filter_map(|event| match event {
            ConnectionEvent::Push(Push { token, kind, .. }) => Some((token.value().to_owned(), kind)),
            _ => None,
        })
        .collect();
    assert!(told.contains(&("one".to_owned(), PushKind::Revoked)), "{told:?}");
    assert!(
        told.iter().any(|(of, kind)| of == "next" && matches!(kind, PushKind::Granted { .. })),
        "{told:?}"
    );
    assert!(told.iter().all(|(of, _)| of != "two"), "{told:?}");
    assert_eq!(lock.revokes("one"), Reply::NotHeld);
    assert!(lock.leaves("two", 2) && lock.leaves("next", 2));
    // The writer has it alone.
    assert_eq!((lock.admitted(), lock.revokes("writer")), (vec!["writer".to_owned()], Reply::NotHeld));
}

#[test]
fn a_process_that_is_stuck_with_readers_costs_one_claim() {
    let mut lock = Driven::new("stuck-readers");
    let (other, _others_pushes) = unbounded_channel();
    assert!(lock.asks("writer", 1).is_ok());
    for token in ["a", "b", "c"] {
        assert!(lock.asks(token, 2).is_err());
    }
    let join = Request::new(
        Action::Acquire(Mode::Join { at_most: 100 }),
        "k".into(),
        Token::from_value("other"),
        Driven::TTL,
    );
    let join = Request { kind: Kind::of_limit(Limit::of(2)), ..join };
    lock.node.execute(&join, &other, lock.now);
    assert!(lock.leaves("writer", 1));
    assert_eq!(lock.admitted(), ["a", "b"]);
    lock.now = lock.now.after(CLAIM);
    let again = Request { action: Action::Acquire(Mode::Again), ..join };
    let reply = lock.node.execute(&again, &other, lock.now);
    assert!(matches!(reply, Reply::Acquire(Verdict::Claimed { .. })), "{reply:?}");
    let lost = std::iter::from_fn(|| lock.pushes.try_recv().ok())
        .filter(|event| matches!(event, ConnectionEvent::Push(Push { kind: PushKind::PlaceLost, .. })))
        .count();
    assert!(lost > 0, "the stuck process may only have been slow");
}
