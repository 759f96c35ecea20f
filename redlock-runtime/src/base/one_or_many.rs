//! One value in place, or many on the heap: a single lock does not pay for requests of several
//! keys.

use std::future::Future;
use std::pin::Pin;
use std::slice;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

#[derive(Clone, Debug)]
pub(crate) enum OneOrMany<T> {
    One(T),
    /// Never exactly one.
    #[expect(clippy::box_collection, reason = "a thin pointer fits where the one value lies")]
    Many(Box<Vec<T>>),
}

impl<T> OneOrMany<T> {
    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Self::One(value) => slice::from_ref(value),
            Self::Many(values) => values,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            Self::One(value) => slice::from_mut(value),
            Self::Many(values) => values,
        }
    }

    pub(crate) fn map<U>(&self, mut change: impl FnMut(&T) -> U) -> OneOrMany<U> {
        match self {
            Self::One(value) => OneOrMany::One(change(value)),
            Self::Many(values) => OneOrMany::Many(Box::new(values.iter().map(change).collect())),
        }
    }
}

impl<T> From<Vec<T>> for OneOrMany<T> {
    fn from(values: Vec<T>) -> Self {
        match <[T; 1]>::try_from(values) {
            Ok([value]) => Self::One(value),
            Err(values) => Self::Many(Box::new(values)),
        }
    }
}

pin_project! {
    /// The future for one value in place, or a boxed one for many together.
    #[project = OneOrAllProjection]
    pub(crate) enum OneOrAll<F>
    where
        F: Future,
    {
        One { #[pin] future: F },
        All { future: Pin<Box<dyn Future<Output = F::Output> + Send + Sync>> },
    }
}

impl<F: Future> OneOrAll<F> {
    pub(crate) fn one(future: F) -> Self {
        Self::One { future }
    }

    pub(crate) fn all(future: impl Future<Output = F::Output> + Send + Sync + 'static) -> Self {
        Self::All { future: Box::pin(future) }
    }
}

impl<F: Future> Future for OneOrAll<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.project() {
            OneOrAllProjection::One { future } => future.poll(cx),
            OneOrAllProjection::All { future } => future.as_mut().poll(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_list_of_one_is_one() {
        assert!(matches!(OneOrMany::from(vec![1]), OneOrMany::One(1)));
        assert_eq!(OneOrMany::from(vec![1, 2]).map(|n| n + 1).as_slice(), [2, 3]);
        assert!(OneOrMany::<u8>::from(vec![]).as_slice().is_empty());
    }

    #[test]
    fn one_value_takes_no_more_room_than_alone() {
        assert_eq!(size_of::<OneOrMany<String>>(), size_of::<String>());
        assert_eq!(size_of::<OneOrMany<(u64, Arc<str>)>>(), size_of::<(u64, Arc<str>)>());
    }
}
