//! Three small shops, one for each web framework, in `src/bin`: a package of its own, because the frameworks take long to
//! compile. Here is what the shops share.

mod grpc;
mod stock;

pub use grpc::{Purchase, Shop, ShopClient, ShopServer, Sold};
pub use stock::Stock;

/// The page of the docs with these shops, which needs the frameworks to compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/web.md")]
mod page {}
