//! A shop with axum. Start as many as you like, on as many machines: none of them sells a piece twice.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1/ cargo run -p redlocked-web --bin axum_shop -- 127.0.0.1:3000
//! redis-cli SET left:hat 10
//! curl -i -X POST http://127.0.0.1:3000/purchase/hat
//! ```

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use redlocked::{LockManager, distributed_lock};
use redlocked_web::Stock;
use tokio::net::TcpListener;

#[derive(Clone)]
struct Shop {
    locks: LockManager,
    stock: Stock,
}

/// Sells one piece. Over all instances of the shop, one request at a time is in here for an article.
#[distributed_lock(key = "stock:{sku}", wait = "1s", manager = shop.locks)]
async fn purchase(State(shop): State<Shop>, Path(sku): Path<String>) -> axum::response::Result<String> {
    let left = shop.stock.left(&sku).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    if left == 0 {
        return Err((StatusCode::GONE, "sold out").into());
    }
    shop.stock.set_left(&sku, left - 1).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    Ok(format!("{} left", left - 1))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = redlocked_web::address();
    let url = std::env::var("REDIS_URL")?;
    let locks = LockManager::builder(url.as_str()).max_waiters(64).connect().await?;
    let shop = Shop { locks, stock: Stock::at(&url)? };

    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let router = Router::new().route("/purchase/{sku}", post(purchase)).with_state(shop);
    Ok(axum::serve(listener, router).await?)
}
