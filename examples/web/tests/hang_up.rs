//! A client that hangs up at each step of its request, and sends it again, is charged once: as a service of tower, and behind
//! axum, actix-web and tonic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use actix_web::web::{Data, Path};
use axum::extract::State;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use kit::{LIMIT, RedisServer, connect, runtime};
use redlocked::{LockError, LockManager, distributed_lock};
use redlocked_web::shop_client::ShopClient;
use redlocked_web::shop_server::{self, ShopServer};
use redlocked_web::{Order, Sold};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tower::{ServiceExt, service_fn};

/// How long a charge takes.
const TAKES: Duration = Duration::from_millis(60);

/// Each hangs up a little later than the one before, the last one behind its answer.
const CLIENTS: u32 = 60;

struct Bank {
    locks: LockManager,
    charges: AtomicU32,
}

impl Bank {
    #[distributed_lock(
        key = "{shop}:{order}",
        once = "24h",
        once_fingerprint = "{cents}",
        on_interrupted = "error",
        spawn,
        wait = LIMIT,
        manager = self.locks
    )]
    async fn charge(
        self: Arc<Self>,
        shop: &'static str,
        order: String,
        cents: u32,
    ) -> Result<u32, LockError> {
        self.charges.fetch_add(1, Ordering::Relaxed);
        sleep(TAKES).await;
        Ok(cents)
    }
}

async fn axum_charge(
    State(bank): State<Arc<Bank>>,
    order: axum::extract::Path<String>,
) -> Result<String, LockError> {
    bank.charge("axum", order.0, 500).await.map(|cents| cents.to_string())
}

async fn actix_charge(bank: Data<Bank>, order: Path<String>) -> actix_web::Result<String> {
    Ok(bank.into_inner().charge("actix", order.into_inner(), 500).await?.to_string())
}

struct Grpc(Arc<Bank>);

#[tonic::async_trait]
impl shop_server::Shop for Grpc {
    async fn purchase(&self, request: Request<Order>) -> Result<Response<Sold>, Status> {
        let left = Arc::clone(&self.0).charge("tonic", request.into_inner().sku, 500).await?;
        Ok(Response::new(Sold { left }))
    }
}

/// A request whose connection is closed when it is dropped.
async fn http(address: SocketAddr, order: String) -> Option<String> {
    let stream = tokio::net::TcpStream::connect(address).await.ok()?;
    let (mut client, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let asks = async {
        let request = hyper::Request::post(format!("/charge/{order}")).header("host", "shop");
        let answer = client.send_request(request.body(Empty::<Bytes>::new()).ok()?).await.ok()?;
        let is_ok = answer.status() == 200;
        let text = answer.into_body().collect().await.ok()?.to_bytes();
        is_ok.then(|| String::from_utf8_lossy(&text).into_owned())
    };
    tokio::select! {
        answer = asks => answer,
        _ = connection => None,
    }
}

async fn grpc(address: SocketAddr, order: String) -> Option<String> {
    let mut client = ShopClient::connect(format!("http://{address}")).await.ok()?;
    Some(client.purchase(Order { sku: order }).await.ok()?.into_inner().left.to_string())
}

async fn is_charged_once<F>(name: &str, bank: &Bank, ask: impl Fn(String) -> F)
where
    F: Future<Output = Option<String>> + Send + 'static,
{
    let before = bank.charges.load(Ordering::Relaxed);
    let mut clients = JoinSet::new();
    for order in 0..CLIENTS {
        let (first, again) = (ask(order.to_string()), ask(order.to_string()));
        clients.spawn(async move {
            let hung_up = timeout(Duration::from_millis(2) * order, first).await.is_err();
            assert_eq!(again.await.as_deref(), Some("500"), "order {order}");
            hung_up
        });
    }
    let hung_up = clients.join_all().await.into_iter().filter(|hung_up| *hung_up).count();
    assert!(hung_up > 10, "{name}: {hung_up}");
    assert_eq!(bank.charges.load(Ordering::Relaxed) - before, CLIENTS, "{name}: {hung_up} clients hung up");
}

#[test]
fn a_client_that_hangs_up_at_any_time_is_charged_once() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let bank = Arc::new(Bank { locks: connect(&server), charges: AtomicU32::new(0) });

        let of_tower = service_fn({
            let bank = Arc::clone(&bank);
            move |order: String| Arc::clone(&bank).charge("tower", order, 500)
        });
        let asks = |order| {
            let answer = of_tower.clone().oneshot(order);
            async move { answer.await.ok().map(|cents| cents.to_string()) }
        };
        is_charged_once("tower", &bank, asks).await;

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let route = axum::routing::post(axum_charge);
        let router = axum::Router::new().route("/charge/{order}", route).with_state(Arc::clone(&bank));
        tokio::spawn(async move { axum::serve(listener, router).await });
        is_charged_once("axum", &bank, |order| http(address, order)).await;

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = ShopServer::new(Grpc(Arc::clone(&bank)));
        let shop = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(shop.serve_with_incoming(TcpIncoming::from(listener)));
        is_charged_once("tonic", &bank, |order| grpc(address, order)).await;

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let data = Data::from(Arc::clone(&bank));
        std::thread::spawn(move || {
            let app = move || {
                let route = actix_web::web::post().to(actix_charge);
                actix_web::App::new().app_data(data.clone()).route("/charge/{order}", route)
            };
            let running =
                actix_web::HttpServer::new(app).workers(1).disable_signals().listen(listener).unwrap().run();
            runtime().block_on(running).unwrap();
        });
        is_charged_once("actix-web", &bank, |order| http(address, order)).await;
    });
}
