//! A shop with axum. Start as many as you like, on as many machines: none of them sells a piece
//! twice.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1/ cargo run -p redlocked-web --bin axum_shop -- 127.0.0.1:3000
//! redis-cli SET left:hat 10
//! curl -i -X POST http://127.0.0.1:3000/purchase/hat
//! ```

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::env;
use std::error::Error;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Result;
use axum::routing::post;
use redis::AsyncCommands;
use redlocked::{LockManager, distributed_lock};
use tokio::net::TcpListener;

#[derive(Clone)]
struct Shop {
    locks: LockManager,
    stock: redis::Client,
}

/// Sells one piece. Over all instances of the shop, one request at a time runs this for
/// an article.
#[distributed_lock(key = "stock:{sku}", wait = "1s", manager = shop.locks)]
async fn purchase(State(shop): State<Shop>, Path(sku): Path<String>) -> Result<String> {
    let broken = |_| StatusCode::BAD_GATEWAY;
    let mut stock = shop.stock.get_multiplexed_async_connection().await.map_err(broken)?;
    let left: Option<u32> = stock.get(format!("left:{sku}")).await.map_err(broken)?;
    let Some(left) = left.and_then(|left| left.checked_sub(1)) else {
        return Err((StatusCode::GONE, "sold out").into());
    };
    let () = stock.set(format!("left:{sku}"), left).await.map_err(broken)?;
    Ok(format!("{left} left"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("REDIS_URL")?;
    let builder = LockManager::builder(url.as_str()).prefix("shop:").max_waiters(64);
    let locks = builder.connect().await?;
    let shop = Shop { locks, stock: redis::Client::open(url)? };
    let router = Router::new().route("/purchase/{sku}", post(purchase)).with_state(shop);

    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
