//! The attribute of [`redlocked`](https://docs.rs/redlocked). Depend on that crate, which
//! re-exports it.
//!
//! This crate handles syntax only: it reads the attribute and the function below it, and writes one
//! call into the runtime.

mod attribute;
mod checks;
mod errors;
mod expand;
mod facade;
mod function;
mod key;
mod key_macro;
mod spans;
mod variables;

// A crate of procedural macros exports nothing else. The tests and the fuzzer build it as a library
// instead.
#[cfg(not(proc_macro))]
pub mod invariants;

#[cfg(test)]
mod tests;

#[cfg(proc_macro)]
use proc_macro::TokenStream;

// The facade runs its examples: for those of this crate, the runtime would be built once more.
#[cfg(proc_macro)]
#[cfg_attr(not(doctest), doc = include_str!("docs/distributed_lock.md"))]
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), item.into()).into()
}

/// `redlocked::key!` calls it, with the path of its crate before the arguments.
#[cfg(proc_macro)]
#[doc(hidden)]
#[proc_macro]
pub fn render_key(tokens: TokenStream) -> TokenStream {
    key_macro::expand(tokens.into()).into()
}
