//! The locks of a program on the server of its client, and writes through its pools.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use bb8_redis::{RedisConnectionManager, bb8};
use kit::RedisServer;
use redis::Client;
use redlocked::LockManager;

#[tokio::test]
async fn a_pool_writes_beside_the_lock_of_its_client() {
    let server = RedisServer::start();
    let client = Client::open(server.url()).unwrap();
    let locks = LockManager::builder(&client).prefix("shop:").connect().await.unwrap();
    let guard = locks.lock("account:7").acquire().await.unwrap();

    let manager = RedisConnectionManager::new(client.get_connection_info().clone()).unwrap();
    let pool = bb8::Pool::builder().build(manager).await.unwrap();
    guard.redis().set(&mut *pool.get().await.unwrap(), "balance:7", 42).await.unwrap();

    let manager = deadpool_redis::Manager::new(client.get_connection_info().clone()).unwrap();
    let pool = deadpool_redis::Pool::builder(manager).build().unwrap();
    let add = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    let mut connection = pool.get().await.unwrap();
    assert_eq!(guard.redis().eval::<i64>(&mut connection, add, &["balance:7"], 1).await.unwrap(), 43);
    let mut keys = server.keys();
    keys.sort();
    assert_eq!(keys, ["balance:7", "shop:account:7", "{balance:7}%fence:shop:account:7"]);
}

#[tokio::test]
async fn the_configuration_of_a_pool_is_an_address() {
    let server = RedisServer::start();
    let client = Client::open(server.url()).unwrap();
    let config = deadpool_redis::Config::from_connection_info(client.get_connection_info().clone());
    let info = redis::ConnectionInfo::from(config.connection.unwrap());
    let guard = LockManager::connect(info).await.unwrap().lock("k").acquire().await.unwrap();
    assert_eq!(server.keys(), ["lock:k"]);
    drop(guard);
}
