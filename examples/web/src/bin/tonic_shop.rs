//! A shop with tonic. Start as many as you like, on as many machines: none of them sells a piece twice.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1/ cargo run -p redlocked-web --bin tonic_shop -- 127.0.0.1:3000
//! redis-cli SET left:hat 10
//! grpcurl -plaintext -proto shop.proto -d '{"sku": "hat"}' 127.0.0.1:3000 shop.Shop/Purchase
//! ```

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;

use redlocked::{LockManager, distributed_lock};
use redlocked_web::{Purchase, ShopServer, Sold, Stock};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

struct Shop {
    locks: LockManager,
    stock: Stock,
}

impl Shop {
    /// Sells one piece. Over all instances of the shop, one request at a time is in here for an article.
    #[distributed_lock(key = "stock:{sku}", wait = "1s", manager = self.locks)]
    async fn sell(&self, sku: &str) -> Result<Sold, Status> {
        let stock = |_| Status::unknown("the stock does not answer");
        let left = self.stock.left(sku).await.map_err(stock)?;
        if left == 0 {
            return Err(Status::not_found("sold out"));
        }
        self.stock.set_left(sku, left - 1).await.map_err(stock)?;
        Ok(Sold { left: left - 1 })
    }
}

#[tonic::async_trait]
impl redlocked_web::Shop for Shop {
    async fn purchase(&self, request: Request<Purchase>) -> Result<Response<Sold>, Status> {
        Ok(Response::new(self.sell(&request.into_inner().sku).await?))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = redlocked_web::address();
    let url = std::env::var("REDIS_URL")?;
    let locks = LockManager::builder(url.as_str()).max_waiters(64).connect().await?;
    let shop = Shop { locks, stock: Stock::at(&url)? };

    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let server = Server::builder().add_service(ShopServer::new(shop));
    Ok(server.serve_with_incoming(TcpIncoming::from(listener)).await?)
}
