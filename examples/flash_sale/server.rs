//! One server: the shop behind axum, on a free port of 127.0.0.1; in a process of its own when
//! there is a Redis.

use std::io::{Write as _, stdout};

use axum::extract::State;
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use redlocked::LockManager;
use tokio::net::TcpListener;

use crate::Failure;
use crate::backend;
use crate::child::parent_gone;
use crate::diary::{Diary, Visit};
use crate::shop::{Sale, Shop, buy, buy_unlocked};
use crate::stock::Stock;

/// The argument with which this program starts itself as a server.
pub(crate) const COMMAND: &str = "serve";

/// The environment variable with the address of Redis. Every user of the machine could read an
/// argument.
pub(crate) const REDIS: &str = "FLASH_SALE_REDIS";

/// The route at which a server reports its visits.
pub(crate) const DIARY: &str = "/diary";

/// A server process: prints its address, and serves until stdin is closed.
pub(crate) async fn run(number: &str) -> Result<(), Failure> {
    let url = std::env::var(REDIS)?;
    let shop = Shop {
        server: number.parse()?,
        locks: LockManager::connect(&url).await?,
        stock: Stock::Redis(backend::connect(&url).await?),
        diary: Diary::default(),
    };
    let listener = listen().await?;
    writeln!(stdout(), "{}", listener.local_addr()?)?;
    tokio::select! {
        served = serve(listener, shop) => served,
        () = parent_gone() => Ok(()),
    }
}

pub(crate) async fn listen() -> Result<TcpListener, Failure> {
    Ok(TcpListener::bind("127.0.0.1:0").await?)
}

pub(crate) async fn serve(listener: TcpListener, shop: Shop) -> Result<(), Failure> {
    let routes = Router::new()
        .route(&format!("{}{{sku}}", Sale::Locked.route()), post(buy))
        .route(&format!("{}{{sku}}", Sale::Unlocked.route()), post(buy_unlocked))
        .route(DIARY, get(diary))
        .with_state(shop);
    // Answers are small: they must not wait for more bytes to fill a packet.
    let listener = listener.tap_io(|connection| {
        let _ = connection.set_nodelay(true);
    });
    Ok(axum::serve(listener, routes).await?)
}

async fn diary(State(shop): State<Shop>) -> Json<Vec<Visit>> {
    Json(shop.diary.take())
}
