//! The addresses of a host that has several: a headless service, round-robin DNS, IPv4 beside IPv6.
//! A server that cannot be used now may have one that can beside it, under another address of the
//! same name.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::clock::Moment;

/// The addresses of one round, in which a connection is sought. The next round begins where the last one ended.
#[derive(Clone, Default)]
pub(crate) struct Addresses {
    /// Those whose server could not be used, in any round; the one that was tried last is at the
    /// end.
    unusable: Arc<Mutex<Vec<SocketAddr>>>,
    round: Arc<Mutex<Round>>,
}

#[derive(Default)]
struct Round {
    /// How many the host had when it was looked up last.
    count: usize,
    /// The one that accepted last.
    reached: Option<SocketAddr>,
}

impl Addresses {
    /// Another round. Rounds may be under way at the same time.
    pub(crate) fn next_round(&self) -> Self {
        Self { unusable: Arc::clone(&self.unusable), round: Arc::default() }
    }

    /// In the order in which they are to be tried: as they were found, and then the unusable ones.
    pub(crate) fn in_order(&self, found: Vec<SocketAddr>) -> Vec<SocketAddr> {
        *locked(&self.round) = Round { count: found.len(), reached: None };
        let mut unusable = locked(&self.unusable);
        unusable.retain(|address| found.contains(address));
        let is_usable = |address: &SocketAddr| !unusable.contains(address);
        found.into_iter().filter(is_usable).chain(unusable.iter().copied()).collect()
    }

    pub(crate) fn reached(&self, address: SocketAddr) {
        locked(&self.round).reached = Some(address);
    }

    /// The host had more than one when it was looked up last.
    pub(crate) fn are_several(&self) -> bool {
        locked(&self.round).count > 1
    }

    /// Puts the address that accepted last behind the others. Returns how many there are in all.
    pub(crate) fn put_last(&self) -> usize {
        let mut round = locked(&self.round);
        if let Some(reached) = round.reached.take() {
            let mut unusable = locked(&self.unusable);
            unusable.retain(|address| *address != reached);
            unusable.push(reached);
        }
        round.count
    }

    /// Makes at most one attempt for each address, as long as another address may help. No attempt
    /// begins after `limit`.
    pub(crate) async fn try_each<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        limit: Duration,
        another_may_help: impl Fn(&E) -> bool,
        attempt: impl Fn() -> F,
    ) -> Result<T, E> {
        let (began, mut attempts) = (Moment::now(), 1);
        loop {
            match attempt().await {
                Err(error) if another_may_help(&error) => {
                    let count = self.put_last();
                    if attempts >= count || Moment::now().since(began) >= limit {
                        return Err(error);
                    }
                    attempts += 1;
                }
                outcome => return outcome,
            }
        }
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn three() -> Vec<SocketAddr> {
        [1, 2, 3].map(|last| SocketAddr::from(([10, 0, 0, last], 6379))).into()
    }

    /// Tries them with servers of which the one at `usable` can be used. Returns the outcome and
    /// those that were tried.
    async fn tried(
        addresses: &Addresses,
        usable: Option<usize>,
        may_help: bool,
    ) -> (Result<(), ()>, Vec<SocketAddr>) {
        let tried = Mutex::new(Vec::new());
        let outcome = addresses
            .try_each(
                LIMIT,
                |()| may_help,
                || async {
                    let address = addresses.in_order(three())[0];
                    addresses.reached(address);
                    locked(&tried).push(address);
                    if usable.is_some_and(|usable| address == three()[usable]) { Ok(()) } else { Err(()) }
                },
            )
            .await;
        (outcome, tried.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    #[tokio::test]
    async fn each_address_is_tried_once_and_the_next_connection_begins_with_the_one_that_was_usable() {
        let [a, b, c] = three()[..] else { unreachable!() };
        let addresses = Addresses::default();
        assert_eq!(tried(&addresses, Some(1), true).await, (Ok(()), vec![a, b]));
        assert_eq!(tried(&addresses, Some(1), true).await, (Ok(()), vec![b]));
        assert_eq!(tried(&addresses, None, true).await, (Err(()), vec![b, c, a]));
        assert_eq!(tried(&addresses, Some(0), true).await, (Ok(()), vec![b, c, a]));
    }

    #[tokio::test]
    async fn no_other_address_is_tried_where_none_helps() {
        let addresses = Addresses::default();
        assert_eq!(tried(&addresses, None, false).await, (Err(()), three()[..1].to_vec()));
    }

    #[test]
    fn rounds_at_the_same_time_put_last_what_each_has_reached() {
        let [a, b, c] = three()[..] else { unreachable!() };
        let one = Addresses::default();
        let other = one.next_round();
        for round in [&one, &other] {
            round.in_order(three());
            round.reached(a);
        }
        other.put_last();
        other.reached(other.in_order(three())[0]);
        one.put_last();
        assert_eq!(one.in_order(three()), [b, c, a]);
    }
}
