//! Without the feature `testing`, no manager is controlled by a test, and none obeys its clock.

use std::sync::Arc;

use super::command::Command;
use super::topology::Deployment;
use crate::base::host;

pub(crate) struct Tested(());

impl Tested {
    pub(super) fn of(deployment: &Deployment) -> Option<Self> {
        deployment.is_in_memory().then_some(Self(()))
    }

    /// Asked for each call: a manager may be older than the runtime of a test.
    pub(crate) fn is_beside_a_paused_clock(&self) -> bool {
        let Self(()) = self;
        host::clock_stands_still()
    }

    pub(super) fn on_sent(&self, _: &Command) {
        let Self(()) = self;
    }

    pub(crate) fn on_acquired(&self, _: &Arc<str>) {
        let Self(()) = self;
    }
}
