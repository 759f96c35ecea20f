//! What `tonic-build` would make of this service, shortened; written out, so that no build needs `protoc`.
//!
//! ```protobuf
//! syntax = "proto3";
//! package shop;
//!
//! service Shop {
//!     rpc Purchase(Purchase) returns (Sold);
//! }
//! message Purchase { string sku = 1; }
//! message Sold { uint32 left = 1; }
//! ```

use std::convert::Infallible;
use std::sync::Arc;

use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Body, BoxFuture, Context, Poll, Service, StdError, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

const PURCHASE: &str = "/shop.Shop/Purchase";

/// The request for one piece.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Purchase {
    /// The article.
    #[prost(string, tag = "1")]
    pub sku: String,
}

/// The answer to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Sold {
    /// How many pieces are left.
    #[prost(uint32, tag = "1")]
    pub left: u32,
}

/// The service.
#[tonic::async_trait]
pub trait Shop: Send + Sync + 'static {
    /// Sells one piece.
    async fn purchase(&self, request: Request<Purchase>) -> Result<Response<Sold>, Status>;
}

/// Leads calls to a [`Shop`].
#[derive(Debug)]
pub struct ShopServer<T> {
    shop: Arc<T>,
}

impl<T> ShopServer<T> {
    /// For a server of tonic.
    pub fn new(shop: T) -> Self {
        Self { shop: Arc::new(shop) }
    }
}

impl<T> Clone for ShopServer<T> {
    fn clone(&self) -> Self {
        Self { shop: Arc::clone(&self.shop) }
    }
}

impl<T> NamedService for ShopServer<T> {
    const NAME: &'static str = "shop.Shop";
}

impl<T: Shop, B> Service<http::Request<B>> for ShopServer<T>
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        if request.uri().path() != PURCHASE {
            return Box::pin(async { Ok(Status::unimplemented("no such method").into_http()) });
        }
        let method = PurchaseMethod(Arc::clone(&self.shop));
        Box::pin(
            async move { Ok(tonic::server::Grpc::new(ProstCodec::default()).unary(method, request).await) },
        )
    }
}

struct PurchaseMethod<T>(Arc<T>);

impl<T: Shop> UnaryService<Purchase> for PurchaseMethod<T> {
    type Response = Sold;
    type Future = BoxFuture<Response<Sold>, Status>;

    fn call(&mut self, request: Request<Purchase>) -> Self::Future {
        let shop = Arc::clone(&self.0);
        Box::pin(async move { shop.purchase(request).await })
    }
}

/// Calls a [`Shop`] on another machine.
#[derive(Clone, Debug)]
pub struct ShopClient {
    grpc: tonic::client::Grpc<Channel>,
}

impl ShopClient {
    /// Connects to the server at `http://host:port`.
    ///
    /// # Errors
    ///
    /// The address cannot be used, or no server accepts the connection.
    pub async fn connect(address: String) -> Result<Self, tonic::transport::Error> {
        let channel = Endpoint::new(address)?.connect().await?;
        Ok(Self { grpc: tonic::client::Grpc::new(channel) })
    }

    /// Buys one piece.
    ///
    /// # Errors
    ///
    /// The status that the server answers with.
    pub async fn purchase(&mut self, sku: &str) -> Result<Sold, Status> {
        self.grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let request = Request::new(Purchase { sku: sku.to_owned() });
        let path = PathAndQuery::from_static(PURCHASE);
        let response = self.grpc.unary(request, path, ProstCodec::<Purchase, Sold>::default()).await?;
        Ok(response.into_inner())
    }
}
