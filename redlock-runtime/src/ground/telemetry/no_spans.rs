//! The spans without the feature `tracing`: none.
#![expect(clippy::unused_self, reason = "with the feature they are used")]

use std::marker::PhantomData;
use std::time::Duration;

use super::log::Found;
use crate::ground::error::LockError;
use crate::ground::outcome::LostReason;
use crate::ground::owner::Origin;

pub(crate) struct Entered<'a>(PhantomData<&'a ()>);

#[derive(Clone, Debug, Default)]
pub(super) struct Call;

impl Call {
    pub(super) fn queued(&self, _in_front: u32) {}

    pub(super) fn waits_long(&self, _key: &str, _waited: Duration, _waiters_here: usize, _found: &Found<'_>) {
    }

    pub(super) fn long_wait_ended(&self, _key: &str, _waited: Duration, _outcome: &'static str) {}
}

#[derive(Debug)]
pub(super) struct Wait;

impl Wait {
    pub(super) fn called() -> Self {
        Self
    }

    pub(super) fn begins(&mut self, _keys: &[String], _origin: &Origin) -> Call {
        Call
    }

    pub(super) fn enter(&self) -> Entered<'_> {
        Entered(PhantomData)
    }

    pub(super) fn hold(&self, _fence: u64) -> Hold {
        Hold
    }

    pub(super) fn ends(&mut self, _outcome: &'static str) {}

    pub(super) fn fails(&mut self, _error: &LockError) {}
}

#[derive(Clone, Default)]
pub(super) struct Hold;

impl Hold {
    pub(super) fn on_lost(&self, _key: &str, _reason: LostReason) {}

    pub(super) fn body_span(&self) -> BodySpan {
        BodySpan
    }

    pub(super) fn ends(&self, _reason: LostReason) {}
}

pub(crate) struct BodySpan;

impl BodySpan {
    pub(crate) fn enter(&self) -> Entered<'_> {
        Entered(PhantomData)
    }
}

#[derive(Default)]
pub(super) struct HoldOfLease;

impl HoldOfLease {
    pub(super) fn get(&self) -> Hold {
        Hold
    }

    pub(super) fn set(&self, _hold: &Hold) {}

    pub(super) fn ends(&self, _reason: LostReason) {}
}
