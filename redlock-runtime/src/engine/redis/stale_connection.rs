//! The connection before this one. What was sent over it may still be on its way when it has long been given up here; and
//! a request for a lock that arrives behind its release would take it for nobody. So the next connection begins by having
//! the server close it, where access rules allow that. Not through a unix socket: all clients there have one address, and
//! the number alone may be another client's after a restart of the server.

use std::sync::{Arc, Mutex, PoisonError};

/// Shared by all connections to a node, which follow one another.
#[derive(Clone, Default)]
pub(crate) struct StaleConnection(Arc<Mutex<Option<Client>>>);

/// How a server tells a connection from any other. Its number alone would not do: the server may be another one by now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Client {
    pub(super) id: String,
    /// Ours, as the server sees it.
    pub(super) address: String,
}

impl StaleConnection {
    pub(crate) fn get(&self) -> Option<Client> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// There is another one now.
    pub(crate) fn set(&self, client: Option<Client>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }
}

impl Client {
    /// What `CLIENT INFO` answers. Through a unix socket all have the same address.
    pub(crate) fn read(info: &str) -> Option<Self> {
        let value = |name: &str| info.split(' ').find_map(|word| word.strip_prefix(name)).map(str::to_owned);
        let (id, address) = (value("id=")?, value("addr=")?);
        (!address.ends_with(":0")).then_some(Self { id, address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_told_from_others_by_number_and_address() {
        let client = Client::read("id=7 addr=10.0.0.1:5000 laddr=10.0.0.2:6379 fd=8 name=\n");
        assert_eq!(client, Some(Client { id: "7".into(), address: "10.0.0.1:5000".into() }));
        assert_eq!(Client::read("id=7 addr=/run/redis.sock:0 laddr=/run/redis.sock:0 fd=8"), None);
        assert_eq!(Client::read("nonsense"), None);
    }
}
