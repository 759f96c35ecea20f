//! A shop with actix-web. Start as many as you like, on as many machines: none of them sells a piece twice.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1/ cargo run -p redlocked-web --bin actix_shop -- 127.0.0.1:3000
//! redis-cli SET left:hat 10
//! curl -i -X POST http://127.0.0.1:3000/purchase/hat
//! ```

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;
use std::net::TcpListener;

use actix_web::error::{ErrorBadGateway, ErrorGone};
use actix_web::web::{Data, Path, post};
use actix_web::{App, HttpServer};
use redlocked::{LockManager, distributed_lock};
use redlocked_web::Stock;

struct Shop {
    locks: LockManager,
    stock: Stock,
}

/// Sells one piece. Over all instances of the shop, one request at a time is in here for an article.
#[distributed_lock(key = "stock:{sku}", wait = "1s", manager = shop.locks)]
async fn purchase(shop: Data<Shop>, sku: Path<String>) -> actix_web::Result<String> {
    let left = shop.stock.left(&sku).await.map_err(ErrorBadGateway)?;
    if left == 0 {
        return Err(ErrorGone("sold out"));
    }
    shop.stock.set_left(&sku, left - 1).await.map_err(ErrorBadGateway)?;
    Ok(format!("{} left", left - 1))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = redlocked_web::address();
    let url = std::env::var("REDIS_URL")?;
    let locks = LockManager::builder(url.as_str()).max_waiters(64).connect().await?;
    let shop = Data::new(Shop { locks, stock: Stock::at(&url)? });

    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    let app = move || App::new().app_data(shop.clone()).route("/purchase/{sku}", post().to(purchase));
    Ok(HttpServer::new(app).workers(2).listen(listener)?.run().await?)
}
