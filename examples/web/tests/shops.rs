//! Two instances of each shop on one Redis, and the clients of both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ::tonic::Code;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use kit::{LIMIT, RedisServer};
use redlocked::LockManager;
use redlocked_web::Order;
use redlocked_web::shop_client::ShopClient;
use tokio::task::JoinSet;

const PIECES: u32 = 20;
const BUYERS: u32 = 30;

/// As many as may wait for one lock, by the settings of the shops.
const WAITERS: u32 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Sold,
    SoldOut,
    InUse,
    TooManyWait,
    Unavailable,
    InvalidName,
}

/// The response that a client gets.
#[derive(Debug)]
struct Answer {
    outcome: Outcome,
    retry_after: Option<Duration>,
    text: String,
}

#[derive(Clone, Copy)]
enum Program {
    Http(&'static str),
    Grpc(&'static str),
}

const AXUM: Program = Program::Http(env!("CARGO_BIN_EXE_axum_shop"));
const ACTIX: Program = Program::Http(env!("CARGO_BIN_EXE_actix_shop"));
const TONIC: Program = Program::Grpc(env!("CARGO_BIN_EXE_tonic_shop"));

/// One instance, which ends with this value.
struct Instance {
    process: Child,
    at: Address,
}

#[derive(Clone)]
struct Address {
    program: Program,
    address: String,
}

impl Instance {
    fn start(program: Program, redis: &str) -> Self {
        let (Program::Http(path) | Program::Grpc(path)) = program;
        let mut command = Command::new(path);
        command.arg("127.0.0.1:0").env("REDIS_URL", redis).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("its address").to_owned();
        Self { process, at: Address { program, address } }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Address {
    async fn buy(&self, sku: &str) -> Answer {
        match self.program {
            Program::Http(_) => self.buy_over_http(sku).await,
            Program::Grpc(_) => self.buy_over_grpc(sku).await,
        }
    }

    async fn buy_over_http(&self, sku: &str) -> Answer {
        let stream = tokio::net::TcpStream::connect(&self.address).await.unwrap();
        let (mut client, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = hyper::Request::post(format!("/purchase/{sku}")).header("host", &self.address);
        let response = client.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        let outcome = match response.status().as_u16() {
            200 => Outcome::Sold,
            410 => Outcome::SoldOut,
            409 => Outcome::InUse,
            429 => Outcome::TooManyWait,
            503 => Outcome::Unavailable,
            400 => Outcome::InvalidName,
            other => panic!("{other}"),
        };
        let seconds = response.headers().get("retry-after").map(|value| value.to_str().unwrap().parse());
        let retry_after = seconds.map(|seconds| Duration::from_secs(seconds.unwrap()));
        let headers = format!("{:?}", response.headers());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer { outcome, retry_after, text: format!("{headers} {}", String::from_utf8_lossy(&body)) }
    }

    async fn buy_over_grpc(&self, sku: &str) -> Answer {
        let mut client = ShopClient::connect(format!("http://{}", self.address)).await.unwrap();
        let status = match client.purchase(Order { sku: sku.to_owned() }).await {
            Ok(sold) => {
                return Answer {
                    outcome: Outcome::Sold,
                    retry_after: None,
                    text: format!("{:?}", sold.into_inner()),
                };
            }
            Err(status) => status,
        };
        let outcome = match status.code() {
            Code::NotFound => Outcome::SoldOut,
            Code::Aborted => Outcome::InUse,
            Code::ResourceExhausted => Outcome::TooManyWait,
            Code::Unavailable => Outcome::Unavailable,
            Code::InvalidArgument => Outcome::InvalidName,
            other => panic!("{other:?}"),
        };
        let pushback = status.metadata().get("grpc-retry-pushback-ms");
        let milliseconds = pushback.map(|value| value.to_str().unwrap().parse().unwrap());
        Answer { outcome, retry_after: milliseconds.map(Duration::from_millis), text: format!("{status:?}") }
    }
}

fn in_time(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(2 * LIMIT, test).await.expect("it takes too long") });
}

fn no_piece_is_sold_twice(program: Program) {
    let redis = RedisServer::start();
    redis.run::<()>(&format!("SET left:hat {PIECES}"));
    let instances = [Instance::start(program, &redis.url()), Instance::start(program, &redis.url())];
    in_time(async {
        let mut buyers = JoinSet::new();
        for buyer in 0..BUYERS {
            let shop = instances[buyer as usize % 2].at.clone();
            buyers.spawn(async move {
                loop {
                    let answer = shop.buy("hat").await;
                    if answer.outcome != Outcome::InUse {
                        return answer.outcome;
                    }
                }
            });
        }
        let outcomes = buyers.join_all().await;
        let count = |outcome| outcomes.iter().filter(|other| **other == outcome).count();
        assert_eq!(count(Outcome::Sold), PIECES as usize, "{outcomes:?}");
        assert_eq!(count(Outcome::SoldOut), (BUYERS - PIECES) as usize, "{outcomes:?}");
    });
    assert_eq!(redis.run::<u32>("GET left:hat"), 0);
}

fn a_client_hears_when_to_come_again_and_nothing_of_the_service(program: Program) {
    let redis = RedisServer::start();
    redis.run::<()>(&format!("SET left:hat {PIECES}"));
    let shop = Instance::start(program, &redis.url());
    in_time(async {
        let locks = LockManager::builder(redis.url()).prefix("shop:").connect().await.unwrap();
        let guard = locks.lock("stock:hat").ttl(Duration::from_secs(20)).acquire().await.unwrap();
        let in_use = shop.at.buy("hat").await;
        assert_eq!(in_use.outcome, Outcome::InUse, "{in_use:?}");
        let after = in_use.retry_after.expect("when to come again");
        assert_eq!(after, Duration::from_secs(1), "it has sold none yet: {in_use:?}");

        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            let lock = locks.lock("stock:hat").wait(2 * LIMIT);
            waiters.spawn(async move { lock.acquire().await.map(drop) });
        }
        while locks.inspect("stock:hat").await.unwrap().is_none_or(|lock| lock.waiters() < WAITERS) {}
        let too_many = shop.at.buy("hat").await;
        assert_eq!(too_many.outcome, Outcome::TooManyWait, "{too_many:?}");
        assert_eq!(too_many.retry_after, Some(Duration::from_secs(1)), "{too_many:?}");

        let hidden = ["hat", "stock", &format!(":{}", redis.port()), &format!(":{}", std::process::id())];
        for answer in [in_use, too_many] {
            assert!(!hidden.iter().any(|word| answer.text.contains(word)), "{answer:?}");
        }
        waiters.shutdown().await;
        guard.release().await.unwrap();
        assert_eq!(shop.at.buy(&"x".repeat(2_000)).await.outcome, Outcome::InvalidName);
        assert_eq!(shop.at.buy("hat").await.outcome, Outcome::Sold);
    });
}

fn a_redis_that_is_down_makes_the_shop_unavailable_until_it_is_back(program: Program) {
    let mut redis = RedisServer::durable();
    redis.run::<()>(&format!("SET left:hat {PIECES}"));
    let shop = Instance::start(program, &redis.url());
    in_time(async {
        assert_eq!(shop.at.buy("hat").await.outcome, Outcome::Sold);
        redis.kill();
        let answer = shop.at.buy("hat").await;
        assert_eq!(answer.outcome, Outcome::Unavailable, "{answer:?}");
        assert_eq!(answer.retry_after, Some(Duration::from_secs(1)), "{answer:?}");
        assert!(!answer.text.contains(&format!(":{}", redis.port())), "{answer:?}");
        redis.restart();
        assert_eq!(shop.at.buy("hat").await.outcome, Outcome::Sold);
    });
}

macro_rules! shops {
    ($($framework:ident: $program:ident),* $(,)?) => {$(
        mod $framework {
            use super::*;

            #[test]
            fn no_piece_is_sold_twice() {
                super::no_piece_is_sold_twice($program);
            }

            #[test]
            fn a_client_hears_when_to_come_again_and_nothing_of_the_service() {
                super::a_client_hears_when_to_come_again_and_nothing_of_the_service($program);
            }

            #[test]
            fn a_redis_that_is_down_makes_the_shop_unavailable_until_it_is_back() {
                super::a_redis_that_is_down_makes_the_shop_unavailable_until_it_is_back($program);
            }
        }
    )*};
}

/// What a user pastes is what these tests run.
#[test]
fn the_page_shows_the_shops_whole() {
    let page = include_str!("../../../docs/web.md");
    for (name, program) in [
        ("axum_shop.rs", include_str!("../src/bin/axum_shop.rs")),
        ("actix_shop.rs", include_str!("../src/bin/actix_shop.rs")),
        ("tonic_shop.rs", include_str!("../src/bin/tonic_shop.rs")),
    ] {
        let (_, code) = program.split_once("\nuse ").unwrap();
        assert!(page.contains(&format!("```rust,no_run\nuse {code}```")), "{name} is not on the page");
    }
    for (name, text) in [
        ("build.rs", include_str!("../build.rs").split_once("\n\n").unwrap().1),
        ("shop.proto", include_str!("../proto/shop.proto")),
    ] {
        assert!(page.contains(text), "{name} is not on the page");
    }
}

shops! { axum: AXUM, actix: ACTIX, tonic: TONIC }
