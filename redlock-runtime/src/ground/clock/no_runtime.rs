//! Without the feature `testing`, every manager has the clock of the system.

use tokio::runtime::Handle;

use super::Moment;

/// There is none.
#[derive(Clone)]
pub(crate) enum RuntimeClock {}

impl RuntimeClock {
    pub(crate) fn of_caller() -> Option<Self> {
        None
    }

    pub(crate) fn now(&self) -> Moment {
        match *self {}
    }

    pub(crate) fn runtime(&self) -> Option<&Handle> {
        match *self {}
    }

    pub(crate) fn is_paused(&self) -> bool {
        match *self {}
    }

    pub(crate) fn on_blocked(&self) {
        match *self {}
    }

    pub(crate) fn on_running(&self) {
        match *self {}
    }

    pub(crate) fn on_ended(&self) {
        match *self {}
    }
}
