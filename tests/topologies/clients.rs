//! A client of the crate `redis` in place of an address: the manager talks to the server that the
//! client talks to, as the same user, in the same database. `tls` has the encrypted ones.

#[cfg(unix)]
use std::path::Path;

use kit::{LIMIT, RedisServer, unique};
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisConnectionInfo};
use redlocked::{Address, LockError, LockManager};

const PASSWORD: &str = "p@:/ä?#%25,[+ \t&=\\";

/// What a service has in its configuration.
fn info(addr: ConnectionAddr, settings: RedisConnectionInfo) -> ConnectionInfo {
    addr.into_connection_info().unwrap().set_redis_settings(settings)
}

fn tcp(server: &RedisServer) -> ConnectionAddr {
    ConnectionAddr::Tcp("127.0.0.1".to_owned(), server.port())
}

/// The keys in the database that the client uses, while a lock is held through its address.
#[track_caller]
fn keys_while_locked(client: &Client) -> Vec<String> {
    let locks = LockManager::builder(client).prefix("of:").connect_blocking().unwrap();
    let guard = locks.lock("client").acquire_blocking().unwrap();
    let keys = redis::cmd("KEYS").arg("of:client").query(&mut client.get_connection().unwrap()).unwrap();
    guard.release_blocking().unwrap();
    keys
}

/// A server whose user `default` has no rights.
fn with_a_user(name: &str) -> RedisServer {
    let server = RedisServer::start();
    let mut test = server.client();
    let rules = [&format!(">{PASSWORD}"), "on", "~*", "&*", "+@all"].map(str::to_owned);
    redis::cmd("ACL").arg("SETUSER").arg(name).arg(&rules).exec(&mut test).unwrap();
    redis::cmd("ACL").arg("SETUSER").arg("default").arg("-@all").exec(&mut test).unwrap();
    server
}

#[test]
fn a_password_may_have_each_character() {
    let server = RedisServer::start();
    let set = redis::cmd("CONFIG").arg("SET").arg("requirepass").arg(PASSWORD).exec(&mut server.client());
    set.unwrap();
    let client = Client::open(info(tcp(&server), RedisConnectionInfo::default().set_password(PASSWORD)));
    assert_eq!(keys_while_locked(&client.unwrap()), ["of:client"]);
}

#[test]
fn a_user_and_its_database_are_the_clients() {
    let name = "shop@:/ä%";
    let server = with_a_user(name);
    let settings = RedisConnectionInfo::default().set_username(name).set_password(PASSWORD).set_db(3);
    let client = Client::open(info(tcp(&server), settings)).unwrap();
    assert_eq!(keys_while_locked(&client), ["of:client"]);
    let elsewhere = info(tcp(&server), client.get_connection_info().redis_settings().clone().set_db(0));
    let mut elsewhere = Client::open(elsewhere).unwrap().get_connection().unwrap();
    let guard = LockManager::connect_blocking(&client).unwrap().lock("k").acquire_blocking().unwrap();
    let there: Vec<String> = redis::cmd("KEYS").arg("lock:k").query(&mut elsewhere).unwrap();
    assert_eq!(there, Vec::<String>::new(), "database 0 has no lock of database 3");
    drop(guard);
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_the_clients() {
    let directory = std::env::temp_dir().join(unique("redis %2F+sock"));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("redis.sock");
    let server = RedisServer::start_with(&["--unixsocket".to_owned(), path.display().to_string()]);
    let settings = RedisConnectionInfo::default().set_db(3);
    let client = Client::open(info(ConnectionAddr::Unix(path.clone()), settings)).unwrap();
    assert_eq!(keys_while_locked(&client), ["of:client"]);

    let set = redis::cmd("CONFIG").arg("SET").arg("requirepass").arg(PASSWORD).exec(&mut server.client());
    set.unwrap();
    let settings = RedisConnectionInfo::default().set_username("default").set_password(PASSWORD);
    let client = Client::open(info(ConnectionAddr::Unix(path), settings)).unwrap();
    assert_eq!(keys_while_locked(&client), ["of:client"]);
    std::fs::remove_dir_all(directory).unwrap();

    let relative = info(ConnectionAddr::Unix(Path::new("redis.sock").into()), RedisConnectionInfo::default());
    refused(relative, "does not start with `/`");
}

#[tokio::test]
async fn three_clients_are_a_quorum() {
    let servers = [(); 3].map(|()| RedisServer::durable());
    let [first, second, third] = servers.each_ref().map(|server| Client::open(server.url()).unwrap());
    let builder = LockManager::builder(first).node(&second).node(third.get_connection_info());
    let locks = builder.connect().await.unwrap();
    let guard = locks.lock("k").wait(LIMIT).acquire().await.unwrap();
    let holding = servers.iter().filter(|server| server.keys().contains(&"lock:k".to_owned())).count();
    assert!(holding >= 2, "{holding} servers have the lock");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn each_form_of_a_client_is_an_address() {
    let server = RedisServer::start();
    let client = Client::open(server.url()).unwrap();
    let by_text = LockManager::connect(server.url()).await.unwrap();
    let guard = by_text.lock("k").acquire().await.unwrap();
    let info = client.get_connection_info();
    for address in
        [Address::from(&client), client.clone().into(), info.into(), info.clone().into(), server.url().into()]
    {
        let locks = LockManager::connect(address).await.unwrap();
        assert!(locks.lock("k").acquire().await.is_err_and(|error| error.is_busy()));
    }
    guard.release().await.unwrap();
}

#[track_caller]
fn refused(info: ConnectionInfo, why: &str) {
    let error = LockManager::connect_blocking(info).map(drop).unwrap_err();
    assert!(matches!(error, LockError::InvalidUrl { .. }), "{error:?}");
    assert!(error.to_string().contains(why) && !error.to_string().contains("s3cret"), "{error}");
}

#[test]
fn what_an_address_cannot_say_of_a_client_is_refused() {
    let settings = RedisConnectionInfo::default().set_username("shop").set_password("s3cret");
    let addr = |host: &str| ConnectionAddr::Tcp(host.to_owned(), 6379);
    let insecure = ConnectionAddr::TcpTls { host: "h".to_owned(), port: 1, insecure: true, tls_params: None };
    refused(info(insecure, settings.clone()), "`insecure`");
    for host in ["a/b", "a,redis://b", "a@b", "a:1", "a\tb", "fe80::1%eth0", ""] {
        refused(info(addr(host), settings.clone()), "host");
    }
}

#[test]
fn no_password_of_a_client_is_shown() {
    let settings = RedisConnectionInfo::default().set_username("shop").set_password("s3cret");
    let addr = ConnectionAddr::Tcp("::1".to_owned(), 7);
    let builder = LockManager::builder(info(addr.clone(), settings.clone()));
    let address = Address::from(info(addr, settings));
    assert_eq!(format!("{address:?}"), "Address(\"redis://[::1]:7/0\")");
    assert!(!format!("{builder:?}").contains("s3cret"));
}
