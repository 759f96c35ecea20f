//! Above and below the attributes of others.

use super::*;

mod rustc;
mod spans;
mod tasks;
mod traits;
mod web;
