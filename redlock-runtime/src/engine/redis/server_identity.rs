//! One server, one vote: under two names, in a list of nodes or in the DNS, it would count twice in a quorum.
//!
//! A server tells itself from all others by the id of its process (`run_id`). One that does not say is believed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The nodes of one quorum, while there is a connection to them.
#[derive(Default)]
pub(crate) struct Voters(Mutex<Seats>);

#[derive(Default)]
struct Seats {
    taken: BTreeMap<usize, Arc<Voter>>,
    /// Why a seat is empty: its server has another one.
    refused: BTreeMap<usize, Arc<str>>,
}

struct Voter {
    server: String,
    address: String,
}

/// The place of one address among those of the quorum.
#[derive(Clone)]
pub(crate) struct Seat {
    voters: Arc<Voters>,
    number: usize,
}

/// The right to vote, as long as the connection lasts.
pub(super) struct Vote {
    seat: Seat,
    voter: Arc<Voter>,
}

impl Voters {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why there is no connection now. If that is something else, nobody knows which server it would be.
    pub(crate) fn absent(&self, number: usize, reason: &str) {
        self.seats().refused.retain(|seat, refused| *seat != number || reason.contains(&**refused));
    }

    /// Why one of the addresses is no node of its own, if that is so.
    pub(crate) fn refused(&self) -> Option<Arc<str>> {
        self.seats().refused.values().next().cloned()
    }
}

impl Seat {
    pub(crate) fn new(voters: &Arc<Voters>, number: usize) -> Self {
        Self { voters: Arc::clone(voters), number }
    }

    pub(super) fn voters(&self) -> &Arc<Voters> {
        &self.voters
    }

    /// For the server with this id, at this address. The error names the other address.
    pub(super) fn take(&self, server: String, address: String) -> Result<Vote, Arc<str>> {
        let mut seats = self.voters.seats();
        let other =
            seats.taken.iter().find(|(number, other)| **number != self.number && other.server == server);
        if let Some((_, other)) = other {
            let reason: Arc<str> = format!(
                "Redis at {address} is the same server as that at {}: it has one vote",
                other.address
            )
            .into();
            seats.refused.insert(self.number, Arc::clone(&reason));
            return Err(reason);
        }
        seats.refused.remove(&self.number);
        let voter = Arc::new(Voter { server, address });
        seats.taken.insert(self.number, Arc::clone(&voter));
        drop(seats);
        Ok(Vote { seat: self.clone(), voter })
    }
}

impl Drop for Vote {
    fn drop(&mut self) {
        let mut seats = self.seat.voters.seats();
        // Not when the next connection has taken the seat over.
        if seats.taken.get(&self.seat.number).is_some_and(|voter| Arc::ptr_eq(voter, &self.voter)) {
            seats.taken.remove(&self.seat.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_goes_leaves_its_vote_to_its_other_name() {
        let voters = Arc::default();
        let [first, second] = [0, 1].map(|number| Seat::new(&voters, number));
        let take = |seat: &Seat, server: &str| seat.take(server.to_owned(), format!("host-{}", seat.number));
        let Ok(vote) = take(&first, "a") else { unreachable!() };
        let Err(reason) = take(&second, "a") else { unreachable!() };
        assert!(reason.contains("host-0") && reason.contains("host-1"), "{reason}");
        assert_eq!(voters.refused(), Some(reason));
        voters.absent(1, "cannot connect");
        assert!(voters.refused().is_none());
        assert!(take(&second, "a").is_err());
        drop(vote);
        assert!(take(&second, "a").is_ok() && voters.refused().is_none());
        assert!(take(&first, "b").is_ok());
    }

    #[test]
    fn a_seat_that_the_next_connection_took_over_is_kept_when_the_one_before_ends() {
        let voters = Arc::default();
        let [first, second] = [0, 1].map(|number| Seat::new(&voters, number));
        let take = |seat: &Seat| seat.take("a".to_owned(), format!("host-{}", seat.number));
        let before = take(&first);
        let now = take(&first);
        drop(before);
        assert!(now.is_ok() && take(&second).is_err());
    }
}
