//! A shop with actix-web. Start as many as you like, on as many machines: none of them sells a
//! piece twice.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1/ cargo run -p redlocked-web --bin actix_shop -- 127.0.0.1:3000
//! redis-cli SET left:hat 10
//! curl -i -X POST http://127.0.0.1:3000/purchase/hat
//! ```

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::env;
use std::error::Error;
use std::net::TcpListener;

use actix_web::error::{ErrorBadGateway, ErrorGone};
use actix_web::web::{Data, Path, post};
use actix_web::{App, HttpServer};
use redis::AsyncCommands;
use redlocked::{LockManager, distributed_lock};

struct Shop {
    locks: LockManager,
    stock: redis::Client,
}

/// Sells one piece. Over all instances of the shop, one request at a time runs this for
/// an article.
#[distributed_lock(key = "stock:{sku}", wait = "1s", manager = shop.locks)]
async fn purchase(shop: Data<Shop>, sku: Path<String>) -> actix_web::Result<String> {
    let connection = shop.stock.get_multiplexed_async_connection().await;
    let mut stock = connection.map_err(ErrorBadGateway)?;
    let left = stock.get(format!("left:{sku}")).await;
    let left: Option<u32> = left.map_err(ErrorBadGateway)?;
    let left = left.and_then(|left| left.checked_sub(1));
    let left = left.ok_or_else(|| ErrorGone("sold out"))?;
    let () = stock.set(format!("left:{sku}"), left).await.map_err(ErrorBadGateway)?;
    Ok(format!("{left} left"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("REDIS_URL")?;
    let builder = LockManager::builder(url.as_str()).prefix("shop:").max_waiters(64);
    let locks = builder.connect().await?;
    // Once, outside of the function that makes the workers: they share the manager.
    let shop = Data::new(Shop { locks, stock: redis::Client::open(url)? });
    let app = move || {
        let app = App::new().app_data(shop.clone());
        app.route("/purchase/{sku}", post().to(purchase))
    };

    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    Ok(HttpServer::new(app).workers(2).listen(listener)?.run().await?)
}
