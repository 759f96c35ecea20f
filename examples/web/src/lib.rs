//! Three small shops, one for each web framework, in `src/bin`: a package of its own, because the
//! frameworks take long to compile. `docs/web.md` shows them whole. Here is the client of the one
//! with tonic.

#![allow(
    missing_docs,
    clippy::pedantic,
    unreachable_pub,
    unused_qualifications,
    reason = "what `tonic-prost-build` makes"
)]

tonic::include_proto!("shop");

/// The page of the docs, whose code needs the frameworks to compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/web.md")]
mod page {}
