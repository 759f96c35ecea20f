//! One server, one vote: under two names, in a list of nodes or in the DNS, it would count twice in a quorum.
//!
//! A server tells itself from all others by the id of its process (`run_id`). One that does not say is believed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The nodes of one quorum, while there is a connection to them.
#[derive(Default)]
pub(crate) struct ServerIdentities(Mutex<Claims>);

#[derive(Default)]
struct Claims {
    taken: BTreeMap<usize, Arc<Claim>>,
    /// Why a seat is empty: its server has another one.
    refused: BTreeMap<usize, Arc<str>>,
}

struct Claim {
    server: String,
    address: String,
}

/// The place of one address among those of the quorum.
#[derive(Clone)]
pub(crate) struct NodeIdentity {
    identities: Arc<ServerIdentities>,
    number: usize,
}

/// The right to vote, as long as the connection lasts.
pub(super) struct ClaimedIdentity {
    identity: NodeIdentity,
    claim: Arc<Claim>,
}

impl ServerIdentities {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why there is no connection now. If that is something else, nobody knows which server it would be.
    pub(crate) fn absent(&self, number: usize, reason: &str) {
        self.claims().refused.retain(|identity, refused| *identity != number || reason.contains(&**refused));
    }

    /// Why one of the addresses is no node of its own, if that is so.
    pub(crate) fn refused(&self) -> Option<Arc<str>> {
        self.claims().refused.values().next().cloned()
    }
}

impl NodeIdentity {
    pub(crate) fn new(identities: &Arc<ServerIdentities>, number: usize) -> Self {
        Self { identities: Arc::clone(identities), number }
    }

    pub(super) fn identities(&self) -> &Arc<ServerIdentities> {
        &self.identities
    }

    /// For the server with this id, at this address. The error names the other address.
    pub(super) fn take(&self, server: String, address: String) -> Result<ClaimedIdentity, Arc<str>> {
        let mut claims = self.identities.claims();
        let other =
            claims.taken.iter().find(|(number, other)| **number != self.number && other.server == server);
        if let Some((_, other)) = other {
            let reason: Arc<str> = format!(
                "Redis at {address} is the same server as that at {}: it has one vote",
                other.address
            )
            .into();
            claims.refused.insert(self.number, Arc::clone(&reason));
            return Err(reason);
        }
        claims.refused.remove(&self.number);
        let claim = Arc::new(Claim { server, address });
        claims.taken.insert(self.number, Arc::clone(&claim));
        drop(claims);
        Ok(ClaimedIdentity { identity: self.clone(), claim })
    }
}

impl Drop for ClaimedIdentity {
    fn drop(&mut self) {
        let mut claims = self.identity.identities.claims();
        // Not when the next connection has taken the seat over.
        if claims.taken.get(&self.identity.number).is_some_and(|claim| Arc::ptr_eq(claim, &self.claim)) {
            claims.taken.remove(&self.identity.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_goes_leaves_its_vote_to_its_other_name() {
        let identities = Arc::default();
        let [first, second] = [0, 1].map(|number| NodeIdentity::new(&identities, number));
        let take = |identity: &NodeIdentity, server: &str| {
            identity.take(server.to_owned(), format!("host-{}", identity.number))
        };
        let Ok(vote) = take(&first, "a") else { unreachable!() };
        let Err(reason) = take(&second, "a") else { unreachable!() };
        assert!(reason.contains("host-0") && reason.contains("host-1"), "{reason}");
        assert_eq!(identities.refused(), Some(reason));
        identities.absent(1, "cannot connect");
        assert!(identities.refused().is_none());
        assert!(take(&second, "a").is_err());
        drop(vote);
        assert!(take(&second, "a").is_ok() && identities.refused().is_none());
        assert!(take(&first, "b").is_ok());
    }

    #[test]
    fn a_seat_that_the_next_connection_took_over_is_kept_when_the_one_before_ends() {
        let identities = Arc::default();
        let [first, second] = [0, 1].map(|number| NodeIdentity::new(&identities, number));
        let take =
            |identity: &NodeIdentity| identity.take("a".to_owned(), format!("host-{}", identity.number));
        let before = take(&first);
        let now = take(&first);
        drop(before);
        assert!(now.is_ok() && take(&second).is_err());
    }
}
