//! The attribute above and below attributes of other crates.

use super::*;

mod rustc;
mod spans;
mod tasks;
mod traits;
mod web;
