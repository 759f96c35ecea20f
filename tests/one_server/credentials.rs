//! Credentials that a function of the program gives: they change while locks are held, are late,
//! wrong, or missing.

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use kit::{LIMIT, RedisServer, Rewriter, SECOND, eventually};
use redlocked::{Credentials, LockError, LockErrorKind, LockManager, LockManagerBuilder, ReleaseOutcome};

const USER: &str = "ACL SETUSER shop on resetchannels allkeys allchannels allcommands";

/// What the function answers.
#[derive(Clone, Copy)]
enum Answer {
    Password(&'static str),
    /// The first at the next call, the second from then on.
    Passwords(&'static str, &'static str),
    Error,
    Panic,
    Silence,
}

#[derive(Clone)]
struct Store {
    answer: Arc<Mutex<Answer>>,
    asked: Arc<AtomicU32>,
}

impl Store {
    fn of(answer: Answer) -> Self {
        Self { answer: Arc::new(Mutex::new(answer)), asked: Arc::default() }
    }

    fn set(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    fn builder(&self, url: &str) -> LockManagerBuilder {
        let store = self.clone();
        LockManager::builder(url).io_timeout(SECOND / 2).credentials(move || {
            let store = store.clone();
            async move { store.next().await }
        })
    }

    async fn next(&self) -> io::Result<Credentials> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = *self.answer.lock().unwrap();
        match answer {
            Answer::Password(password) => Ok(Credentials::new("shop", password)),
            Answer::Passwords(first, second) => {
                self.set(Answer::Password(second));
                Ok(Credentials::new("shop", first))
            }
            Answer::Error => Err(io::Error::other("the vault is sealed")),
            Answer::Panic => panic!("the vault is gone"),
            Answer::Silence => pending().await,
        }
    }
}

/// A server with the user `shop` and this password, and its address without either.
fn server(password: &str) -> (RedisServer, String) {
    let server = RedisServer::start();
    let _: String = server.run(&format!("{USER} >{password}"));
    let url = format!("redis://127.0.0.1:{}/", server.port());
    (server, url)
}

/// The text of the error of connecting, of this kind.
#[track_caller]
fn refused(builder: LockManagerBuilder, kind: LockErrorKind) -> String {
    let start = Instant::now();
    let error = builder.connect_blocking().unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(start.elapsed() < 2 * SECOND, "{:?}: {error:?}", start.elapsed());
    let text = format!("{error} {error:?}");
    assert!(!text.contains("pass-") && !text.contains("shop"), "{text}");
    text
}

#[test]
fn locks_outlive_a_change_of_the_password_and_the_next_connection_has_the_new_one() {
    let (server, url) = server("pass-1");
    let store = Store::of(Answer::Password("pass-1"));
    let locks = store.builder(&url).connect_blocking().unwrap();
    let asked = store.asked();
    assert_eq!(asked, 1);
    let held = locks.lock("k").ttl(SECOND).acquire_blocking().unwrap();

    let _: String = server.run(&format!("{USER} resetpass >pass-2"));
    store.set(Answer::Password("pass-2"));
    let start = Instant::now();
    while start.elapsed() < 2 * SECOND {
        assert!(held.is_held(), "it is renewed over the connection that is open");
        thread::sleep(SECOND / 10);
    }
    assert_eq!(store.asked(), asked, "no connection was opened");

    let _: u32 = server.run("CLIENT KILL USER shop");
    drop(locks.lock("other").wait(LIMIT).acquire_blocking().unwrap());
    assert!(store.asked() > asked);
    assert_eq!(held.release_blocking().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_password_that_changes_between_the_answer_and_its_use_is_asked_for_again() {
    let (_server, url) = server("pass-2");
    let store = Store::of(Answer::Passwords("pass-1", "pass-2"));
    let locks = store.builder(&url).connect_blocking().unwrap();
    assert_eq!(store.asked(), 2);
    drop(locks.lock("k").acquire_blocking().unwrap());
}

#[test]
fn a_password_that_stays_wrong_is_misconfigured_until_it_is_right() {
    let (server, url) = server("pass-1");
    let store = Store::of(Answer::Password("pass-1"));
    let text = refused(Store::of(Answer::Password("pass-wrong")).builder(&url), LockErrorKind::Misconfigured);
    assert!(text.contains("`credentials`") && text.contains("WRONGPASS"), "{text}");

    let locks = store.builder(&url).connect_blocking().unwrap();
    let _: String = server.run(&format!("{USER} resetpass >pass-2"));
    let _: u32 = server.run("CLIENT KILL USER shop");
    eventually("the old password is refused", || {
        locks.lock("k").acquire_blocking().is_err_and(|error| error.kind() == LockErrorKind::Misconfigured)
    });
    store.set(Answer::Password("pass-2"));
    eventually("the new one is not", || locks.lock("k").acquire_blocking().is_ok());
}

#[test]
fn without_an_answer_the_server_is_unavailable_and_the_reason_is_told() {
    let (server, url) = server("pass-1");
    for (answer, words) in [
        (Answer::Error, "`credentials` failed: the vault is sealed"),
        (Answer::Panic, "`credentials` panicked"),
        (Answer::Silence, "`credentials` gave no answer within"),
    ] {
        let store = Store::of(answer);
        let text = refused(store.builder(&url), LockErrorKind::Unavailable);
        assert!(text.contains(words), "{text}");

        store.set(Answer::Password("pass-1"));
        let locks = store.builder(&url).connect_blocking().unwrap();
        let held = locks.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
        store.set(answer);
        let _: u32 = server.run("CLIENT KILL USER shop");
        let start = Instant::now();
        let error = locks.lock("other").acquire_blocking().unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());

        store.set(Answer::Password("pass-1"));
        drop(locks.lock("other").wait(LIMIT).acquire_blocking().unwrap());
        assert_eq!(held.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
}

#[test]
fn a_server_that_asks_again_is_answered_over_a_new_connection() {
    let (server, _) = server("pass-1");
    if server.is_before_7() && kit::skipped("the code of an error in a script is not at its start") {
        return;
    }
    // A server never does it to a connection that stays open. Proxies and managed servers do.
    let rewriter = Rewriter::of_answers(server.port(), "-WRONGTYPE Operation", "-NOAUTH Authenticate");
    let store = Store::of(Answer::Password("pass-1"));
    let locks = store.builder(&rewriter.url()).connect_blocking().unwrap();
    let asked = store.asked();
    let _: u32 = server.run("LPUSH lock:k x");
    let waiter = {
        let locks = locks.clone();
        thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().map(drop))
    };
    eventually("it has connected anew", || store.asked() > asked);
    let _: u32 = server.run("DEL lock:k");
    waiter.join().unwrap().unwrap();
}

#[test]
fn an_address_with_a_password_of_its_own_is_refused() {
    let store = Store::of(Answer::Password("pass-1"));
    for address in [
        "redis://:pass-0@127.0.0.1/",
        "redis://shop:pass-0@127.0.0.1/",
        "redis+cluster://shop:pass-0@127.0.0.1",
        "redis+sentinel://shop:pass-0@127.0.0.1/main",
        #[cfg(unix)]
        "redis+unix:///redis.sock?pass=pass-0",
    ] {
        let text = refused(store.builder(address), LockErrorKind::InvalidUrl);
        assert!(text.contains("leave them out"), "{text}");
    }
    assert_eq!(store.asked(), 0);
    let in_memory = LockManager::builder("memory://credentials")
        .credentials(async || Err::<Credentials, _>("not asked"))
        .connect_blocking()
        .unwrap();
    drop(in_memory.lock("k").acquire_blocking().unwrap());
}

#[test]
fn every_kind_of_connection_has_them() {
    let directory = std::env::temp_dir().join(kit::unique("credentials"));
    std::fs::create_dir_all(&directory).unwrap();
    let socket = directory.join("redis.sock");
    let server = RedisServer::start_with(&["--unixsocket".to_owned(), socket.display().to_string()]);
    let replica = RedisServer::start();
    let _: String = server.run("CONFIG SET repl-diskless-sync-delay 0");
    let _: String = replica.run(&format!("REPLICAOF 127.0.0.1 {}", server.port()));
    eventually("it replicates", || {
        replica.run::<String>("INFO replication").contains("master_link_status:up")
    });
    let _: String = server.run(&format!("{USER} >pass-1"));
    // From now on, nothing is done without a password.
    let _: String = server.run("ACL SETUSER default resetpass >pass-0");

    let store = Store::of(Answer::Password("pass-1"));
    let tcp = format!("redis://127.0.0.1:{}/", server.port());
    let mut builders = vec![store.builder(&tcp), store.builder(&tcp).io_timeout(LIMIT).replicas(1)];
    if cfg!(unix) {
        builders.push(store.builder(&format!("redis+unix://{}", socket.display())));
    }
    for builder in builders {
        let locks = builder.connect_blocking().unwrap();
        let guard = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
    let alone =
        LockManager::builder(&tcp).credentials(async || Ok::<_, io::Error>(Credentials::password("pass-0")));
    assert_eq!(alone.connect_blocking().unwrap().ping_blocking(), Ok::<(), LockError>(()));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_password_is_shown_nowhere() {
    let shown = format!("{:?} {:?}", Credentials::new("shop", "pass-1"), Credentials::password("pass-1"));
    assert!(shown.contains("shop") && !shown.contains("pass-"), "{shown}");
    let builder = Store::of(Answer::Password("pass-1")).builder("redis://127.0.0.1/");
    assert!(!format!("{builder:?}").contains("pass-"));
}
