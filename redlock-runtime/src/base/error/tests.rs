//! One error of each kind, and what holds for all of them.

use super::example::{USUAL, of_kind};
use super::*;

const KINDS: [LockErrorKind; 23] = [
    LockErrorKind::Busy,
    LockErrorKind::TimedOut,
    LockErrorKind::TickTaken,
    LockErrorKind::Deadlock,
    LockErrorKind::QueueFull,
    LockErrorKind::Lost,
    LockErrorKind::Fenced,
    LockErrorKind::Store,
    LockErrorKind::KeyReused,
    LockErrorKind::Interrupted,
    LockErrorKind::Undecodable,
    LockErrorKind::NotStored,
    LockErrorKind::NotReplicated,
    LockErrorKind::Unavailable,
    LockErrorKind::Misconfigured,
    LockErrorKind::ManagerClosed,
    LockErrorKind::ShutdownIncomplete,
    LockErrorKind::InvalidKey,
    LockErrorKind::InvalidRequest,
    LockErrorKind::InvalidSetting,
    LockErrorKind::InvalidUrl,
    LockErrorKind::NotConfigured,
    LockErrorKind::NotLocked,
];

/// A word that is in every text of a sample.
pub(crate) const SECRET: &str = "customer-7";

/// One error of each kind.
pub(crate) fn samples() -> impl Iterator<Item = LockError> {
    KINDS.into_iter().map(|kind| of_kind(kind, SECRET.into(), SECRET))
}

#[test]
fn each_error_has_a_kind_of_its_own_that_is_called_like_it() {
    let mut names = Vec::new();
    for (kind, error) in KINDS.into_iter().zip(samples()) {
        assert_eq!(error.kind(), kind);
        let variant = format!("{kind:?}");
        assert_eq!(format!("{error:#?}"), format!("{variant}(\n    {},\n)", error.with_sources()));
        let mut name = String::new();
        for letter in variant.chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        assert_eq!((kind.as_str(), kind.to_string()), (name.as_str(), name.clone()));
        assert!(!names.contains(&name), "{name} twice");
        names.push(name);
    }
}

#[test]
fn debug_is_the_message_because_main_and_unwrap_print_it() {
    for error in samples() {
        let shown = format!("{error:?}");
        let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        assert_eq!(shown, format!("{error}{source}"));
        assert_eq!(format!("{:?}", Err::<(), _>(&error)), format!("Err({shown})"));
    }
}

#[test]
fn each_error_that_is_about_a_key_names_it_and_two_name_the_holder() {
    for error in samples() {
        let kind = error.kind();
        let has_no_key = matches!(
            kind,
            LockErrorKind::ShutdownIncomplete
                | LockErrorKind::InvalidSetting
                | LockErrorKind::InvalidUrl
                | LockErrorKind::NotConfigured
                | LockErrorKind::NotLocked
        );
        assert_eq!(error.key(), (!has_no_key).then_some(SECRET), "{kind}");
        let holder = error.holder().map(Holder::name);
        // Who has run a tick may hold its lock no longer.
        let is_held = error.is_busy() && kind != LockErrorKind::TickTaken;
        assert_eq!(holder, is_held.then_some(Some(SECRET)), "{kind}");
    }
    let (key, reason) = (None, "shut down");
    assert_eq!(LockError::ManagerClosed { key, reason }.key(), None);
}

#[test]
fn trying_again_is_proposed_where_it_may_help() {
    let second = Some(Duration::from_secs(1));
    for error in samples() {
        let expected = match error.kind() {
            LockErrorKind::Busy | LockErrorKind::TimedOut => Some(USUAL),
            LockErrorKind::QueueFull | LockErrorKind::NotReplicated | LockErrorKind::Unavailable => second,
            _ => None,
        };
        assert_eq!(error.retry_after(), expected, "{error:?}");
    }
}

#[test]
fn a_busy_lock_is_expected_to_be_free_after_a_usual_hold_and_never_after_its_lease() {
    let told = |usual: Option<u64>, lease: Option<u64>| {
        let [usual_hold, expires_in] = [usual, lease].map(|time| time.map(Duration::from_millis));
        let holder = Holder { expires_in, usual_hold, ..Holder::default() };
        let busy = LockError::Busy { key: "k".into(), holder: holder.into() };
        assert_eq!(busy.holder().and_then(Holder::expires_in), expires_in);
        busy.retry_after().map(|after| after.as_millis())
    };
    for (usual, lease, after) in [
        (Some(2_000), Some(30_000), 2_000),
        (Some(2_000), Some(1_500), 1_500),
        (Some(2_000), None, 2_000),
        (None, Some(30_000), 1_000),
        (None, Some(300), 300),
        (None, None, 1_000),
        (Some(0), Some(30_000), 10),
        (Some(0), Some(4), 4),
        (Some(u64::MAX), Some(0), 0),
    ] {
        assert_eq!(told(usual, lease), Some(after), "{usual:?} {lease:?}");
    }
}

/// A place for it is on the stack of every call that can fail.
#[test]
fn an_error_is_small() {
    assert!(size_of::<LockError>() <= 48, "{} bytes", size_of::<LockError>());
}

#[test]
fn a_message_says_whether_waiting_helps() {
    let key: Arc<str> = "k".into();
    let outage = LockError::unavailable(&key, "connection refused");
    let wrong = LockError::misconfigured(&key, "wrong password");
    let closed = LockError::closed(&key, "shut down");
    assert_eq!(outage.to_string(), "`k` is unavailable: connection refused");
    assert_eq!(wrong.to_string(), "`k` is unavailable, and a retry does not help: wrong password");
    assert_eq!(closed.to_string(), "`k` is unavailable: shut down");
    let without_key = LockError::Misconfigured { key: None, reason: "wrong password".into() };
    assert_eq!(without_key.to_string(), "wrong password");
    assert!([outage, wrong, closed].iter().all(|error| !error.is_busy()));
    let incomplete = LockError::ShutdownIncomplete { stopped: 1, unreleased: 0 };
    let (held, left) = ("1 lock still held", "0 locks not released: each is free when its TTL has expired");
    assert_eq!(incomplete.to_string(), format!("the shutdown timed out with {held}; {left}"));
}

#[test]
fn only_the_error_of_a_store_has_a_source_and_it_keeps_its_type() {
    for error in samples() {
        let source = error.source().map(<dyn Error>::is::<fmt::Error>);
        assert_eq!(source, (error.kind() == LockErrorKind::Store).then_some(true), "{error}");
        assert_eq!(error.clone(), error);
    }
}
