//! The metrics without the feature `metrics`: none.
#![expect(clippy::unused_self, reason = "with the feature they are used")]

use std::sync::Arc;

use crate::ground::owner::Origin;

pub(super) fn describe() {}

pub(super) fn reconnects() {}

#[derive(Clone, Debug, Default)]
pub(super) struct Call;

impl Call {
    pub(super) fn handed_over(&self, _by: &'static str) {}
}

#[derive(Debug)]
pub(super) struct Wait;

impl Wait {
    pub(super) fn called() -> Self {
        Self
    }

    pub(super) fn begins(&mut self, _origin: &Origin) -> Call {
        Call
    }

    pub(super) fn hold(&self) -> Hold {
        Hold
    }

    pub(super) fn joins(&mut self) {}

    pub(super) fn ends(&mut self, _outcome: &'static str) {}
}

pub(super) struct Lead;

impl Lead {
    pub(super) fn begins(_label: &Arc<str>, _term: u64) -> Self {
        Self
    }

    pub(super) fn ends(&self, _end: &'static str) {}
}

#[derive(Clone, Default)]
pub(super) struct Hold;

impl Hold {
    pub(super) fn ends(&self, _is_lost: bool, _reason: &'static str) {}
}

#[derive(Default)]
pub(super) struct HoldOfLease;

impl HoldOfLease {
    pub(super) fn get(&self) -> Hold {
        Hold
    }

    pub(super) fn set(&self, _hold: &Hold) {}

    pub(super) fn ends(&self, _is_lost: bool, _reason: &'static str) {}
}
