//! Names to which a test gives addresses: a resolver of the machine may have no name with two of
//! them. Not part of the public API.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

static NAMES: Mutex<BTreeMap<String, Vec<IpAddr>>> = Mutex::new(BTreeMap::new());

/// Gives the name these addresses, in this order, for all connections of this process from now on.
pub fn set_addresses(name: &str, addresses: &[IpAddr]) {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.insert(name.to_owned(), addresses.to_vec());
}

/// Returns the addresses that a test has given to the name.
pub(super) fn addresses(name: &str) -> Option<Vec<IpAddr>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
}
