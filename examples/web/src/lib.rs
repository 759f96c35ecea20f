//! Three small shops, one for each web framework, in `src/bin`: a package of its own, because the frameworks take long to
//! compile. Here is what the shops share.

#![allow(clippy::print_stderr, reason = "programs that talk to their user")]

mod grpc;
mod stock;

use std::net::ToSocketAddrs;

pub use grpc::{Purchase, Shop, ShopClient, ShopServer, Sold};
pub use stock::Stock;

/// The page of the docs with these shops, which needs the frameworks to compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/web.md")]
mod page {}

/// The address of the command line, or one on this machine alone. Any other argument ends the program with 2.
#[must_use]
pub fn address() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [] => "127.0.0.1:3000".to_owned(),
        [address] if address.to_socket_addrs().is_ok() => address.clone(),
        words => {
            eprintln!("`{}` is not an address to listen at, such as 127.0.0.1:3000", words.join(" "));
            std::process::exit(2);
        }
    }
}
