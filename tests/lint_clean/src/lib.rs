//! Every option and every shape of function, under the strictest lints that a user can turn on.
//!
//! A user who forbids a lint must not have to allow it because of the attribute. Clippy checks this
//! crate with the rest of the workspace; `cargo test` also reports the lints of rustc.
#![forbid(unsafe_code, unreachable_code)]
#![deny(warnings)]
#![deny(
    future_incompatible,
    keyword_idents,
    let_underscore,
    missing_docs,
    nonstandard_style,
    rust_2018_idioms,
    rust_2021_compatibility,
    rust_2024_compatibility,
    unused
)]
#![deny(
    absolute_paths_not_starting_with_crate,
    ambiguous_negative_literals,
    closure_returning_async_block,
    deprecated_in_future,
    explicit_outlives_requirements,
    ffi_unwind_calls,
    macro_use_extern_crate,
    meta_variable_misuse,
    missing_abi,
    missing_copy_implementations,
    missing_debug_implementations,
    non_ascii_idents,
    redundant_imports,
    redundant_lifetimes,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unnameable_types,
    unreachable_pub,
    unused_import_braces,
    unused_lifetimes,
    unused_macro_rules,
    unused_qualifications,
    unused_results,
    variant_size_differences
)]
#![deny(clippy::all, clippy::nursery, clippy::pedantic, clippy::restriction)]
#![allow(clippy::blanket_clippy_restriction_lints, reason = "all of them is the point")]
#![allow(
    clippy::arbitrary_source_item_ordering,
    clippy::impl_trait_in_params,
    clippy::implicit_return,
    clippy::missing_docs_in_private_items,
    clippy::missing_errors_doc,
    clippy::missing_inline_in_public_items,
    clippy::missing_trait_methods,
    clippy::must_use_candidate,
    clippy::question_mark_used,
    clippy::separated_literal_suffix,
    reason = "of how this crate is written: they fire without the attribute, too"
)]

pub mod keys;
pub mod methods;
pub mod options;
pub mod returns;
