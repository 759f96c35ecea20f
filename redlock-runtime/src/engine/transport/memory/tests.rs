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

fn list() -> Request {
    let (action, name) = (Action::List { cursor: 0 }, Arc::from("*"));
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
