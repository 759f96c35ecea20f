//! The connection before this one. Requests that were sent over it may arrive long after the engine
//! has given it up, and an acquire that arrives after its release would take a lock that no caller
//! releases. So the next connection first has the server close it, where access rules allow that.
//! Not through a unix socket: its clients share one address, and after a restart of the server
//! another client may have the same number.

use std::sync::{Arc, Mutex, PoisonError};

/// Shared by the connections to a node, which follow one another.
#[derive(Clone, Default)]
pub(crate) struct StaleConnection(Arc<Mutex<Option<Client>>>);

/// The identity of a connection on its server. The number alone is not enough: the server may have
/// restarted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Client {
    pub(crate) id: String,
    /// The address of our end, as the server sees it.
    pub(crate) address: String,
}

impl StaleConnection {
    pub(crate) fn get(&self) -> Option<Client> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, client: Option<Client>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }
}

impl Client {
    /// Reads the answer to `CLIENT INFO`. `None` for a unix socket.
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
    fn a_connection_is_identified_by_number_and_address() {
        let client = Client::read("id=7 addr=10.0.0.1:5000 laddr=10.0.0.2:6379 fd=8 name=\n");
        assert_eq!(client, Some(Client { id: "7".into(), address: "10.0.0.1:5000".into() }));
        assert_eq!(Client::read("id=7 addr=/run/redis.sock:0 laddr=/run/redis.sock:0 fd=8"), None);
        assert_eq!(Client::read("nonsense"), None);
    }
}
