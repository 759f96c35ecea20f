//! The receiving end of a channel that is looked at much more often than something arrives.

use std::task::{Context, Poll};

use tokio::sync::mpsc::UnboundedReceiver;

use super::when_woken::WhenWoken;

pub(super) struct Arrivals<T> {
    channel: UnboundedReceiver<T>,
    when_woken: WhenWoken,
}

impl<T> Arrivals<T> {
    pub(super) fn new(channel: UnboundedReceiver<T>) -> Self {
        Self { channel, when_woken: WhenWoken::default() }
    }

    /// True when a look would find nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.channel.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.channel.len()
    }

    /// Appends at most `limit` to `arrived`, and returns how many: none when the last sender is
    /// gone.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, arrived: &mut Vec<T>, limit: usize) -> Poll<usize> {
        self.when_woken.poll(cx, |cx| self.channel.poll_recv_many(cx, arrived, limit))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn no_more_arrive_than_wanted_and_the_end_is_seen() {
        let (sender, channel) = unbounded_channel();
        let mut arrivals = Arrivals::new(channel);
        let mut look = || {
            let mut arrived = Vec::new();
            let polled = arrivals.poll(&mut Context::from_waker(Waker::noop()), &mut arrived, 2);
            polled.map(|count| (count, arrived))
        };
        for round in 0..3 {
            assert!(look().is_pending());
            assert!(look().is_pending());
            let _ = sender.send(round);
            assert_eq!(look(), Poll::Ready((1, vec![round])));
        }
        assert!(look().is_pending());
        for number in 1..=3 {
            let _ = sender.send(number);
        }
        assert_eq!(look(), Poll::Ready((2, vec![1, 2])));
        assert_eq!(look(), Poll::Ready((1, vec![3])));
        assert!(look().is_pending());
        drop(sender);
        assert_eq!(look(), Poll::Ready((0, Vec::new())));
    }
}
