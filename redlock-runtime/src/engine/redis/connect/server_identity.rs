//! One server has one vote: with two names, in the list of nodes or in the DNS, it would count
//! twice in a quorum.
//!
//! The `run_id` identifies a server. A server that does not tell it counts as another one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The servers of one quorum that are connected.
#[derive(Default)]
pub(crate) struct ServerIdentities(Mutex<Claims>);

#[derive(Default)]
struct Claims {
    taken: BTreeMap<usize, Arc<Claim>>,
    /// Nodes without a vote, because their server has the vote of another node.
    refused: BTreeMap<usize, Arc<str>>,
}

struct Claim {
    server: String,
    address: String,
}

/// The number of one address among those of the quorum.
#[derive(Clone)]
pub(crate) struct NodeIdentity {
    identities: Arc<ServerIdentities>,
    number: usize,
}

/// The right to vote, as long as the connection lasts.
pub(crate) struct ClaimedIdentity {
    identity: NodeIdentity,
    claim: Arc<Claim>,
}

impl ServerIdentities {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is no connection to a node, for this reason. Its refusal is void if the reason is
    /// another one.
    pub(crate) fn absent(&self, number: usize, reason: &str) {
        self.claims().refused.retain(|identity, refused| *identity != number || reason.contains(&**refused));
    }

    /// Why one of the addresses has no vote, if one has none.
    pub(crate) fn refused(&self) -> Option<Arc<str>> {
        self.claims().refused.values().next().cloned()
    }
}

impl NodeIdentity {
    pub(crate) fn new(identities: &Arc<ServerIdentities>, number: usize) -> Self {
        Self { identities: Arc::clone(identities), number }
    }

    pub(crate) fn identities(&self) -> &Arc<ServerIdentities> {
        &self.identities
    }

    /// For the server with this id, at this address. The error names the other address.
    pub(crate) fn take(&self, server: String, address: String) -> Result<ClaimedIdentity, Arc<str>> {
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
        // Not if the next connection has claimed it already.
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
    fn a_vote_that_the_next_connection_claimed_stays_when_the_one_before_ends() {
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
