//! Code that must compile, without warnings where a file denies them.

pub mod arguments;
pub mod async_trait;
mod attributes_are_kept;
mod every_option;
mod holding;
mod keys;
mod leaders;
pub mod lints;
mod many_keys;
mod older_async_trait_shape;
mod own_task;
mod readme;
mod renamed_crate;
mod return_types;
mod run_by_hand;
mod send;
mod shadowed_names;
mod spawned;
mod unsafe_and_extern_functions;
