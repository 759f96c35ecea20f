//! A shop with tonic. Start as many as you like, on as many machines: none of them sells a piece
//! twice.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1/ cargo run -p redlocked-web --bin tonic_shop -- 127.0.0.1:3000
//! redis-cli SET left:hat 10
//! grpcurl -plaintext -proto shop.proto -d '{"sku": "hat"}' 127.0.0.1:3000 shop.Shop/Purchase
//! ```

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]
#![allow(clippy::pedantic, unreachable_pub, unused_qualifications, reason = "what `tonic-prost-build` makes")]

use std::env;
use std::error::Error;

use proto::shop_server::ShopServer;
use proto::{Order, Sold};
use redis::AsyncCommands;
use redlocked::{LockManager, distributed_lock};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

mod proto {
    tonic::include_proto!("shop");
}

struct Shop {
    locks: LockManager,
    stock: redis::Client,
}

impl Shop {
    /// Sells one piece. Over all instances of the shop, one request at a time runs this
    /// for an article.
    #[distributed_lock(key = "stock:{sku}", wait = "1s", manager = self.locks)]
    async fn sell(&self, sku: &str) -> Result<Sold, Status> {
        let broken = |_| Status::unknown("the stock does not answer");
        let connection = self.stock.get_multiplexed_async_connection().await;
        let mut stock = connection.map_err(broken)?;
        let left: Option<u32> = stock.get(format!("left:{sku}")).await.map_err(broken)?;
        let left = left.and_then(|left| left.checked_sub(1));
        let left = left.ok_or_else(|| Status::not_found("sold out"))?;
        let () = stock.set(format!("left:{sku}"), left).await.map_err(broken)?;
        Ok(Sold { left })
    }
}

#[tonic::async_trait]
impl proto::shop_server::Shop for Shop {
    async fn purchase(&self, request: Request<Order>) -> Result<Response<Sold>, Status> {
        Ok(Response::new(self.sell(&request.into_inner().sku).await?))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("REDIS_URL")?;
    let builder = LockManager::builder(url.as_str()).prefix("shop:").max_waiters(64);
    let locks = builder.connect().await?;
    let shop = ShopServer::new(Shop { locks, stock: redis::Client::open(url)? });

    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let incoming = TcpIncoming::from(listener);
    Ok(Server::builder().add_service(shop).serve_with_incoming(incoming).await?)
}
