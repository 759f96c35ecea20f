//! Troubles of a server, during which it refuses some commands.

use super::errors::{self, Refusal, coded};
use super::flags::Flags;
use super::state::State;

/// Each is set by a test.
#[expect(clippy::struct_excessive_bools, reason = "each comes and goes alone")]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// It reads its data after a start: `LOADING`.
    pub loading: bool,
    /// A script runs on and on: `BUSY`.
    pub busy: bool,
    /// It could not save: `MISCONF` for writes.
    pub cannot_save: bool,
    /// It has reached `maxmemory` and evicts nothing: `OOM` for commands that may need more.
    pub out_of_memory: bool,
}

impl State {
    /// Why the command of a client is refused now, in the order in which servers check.
    pub(super) fn refuses(&self, command: Flags) -> Option<Refusal> {
        let Trouble { loading, busy, cannot_save, out_of_memory } = self.trouble;
        if out_of_memory && command.is(Flags::GROWS) {
            return Some(coded(errors::OUT_OF_MEMORY));
        }
        if cannot_save && command.is(Flags::WRITES.and(Flags::NEEDS_SAVES)) && self.is_primary() {
            return Some(errors::cannot_save(self.version));
        }
        if command.is(Flags::WRITES) {
            if self.lacks_replicas() {
                return Some(coded(errors::NO_REPLICAS));
            }
            if !self.is_primary() {
                return Some(coded(errors::READ_ONLY));
            }
        }
        if self.is_cut_off() && !command.is(Flags::STALE) {
            return Some(coded(errors::MASTER_DOWN));
        }
        if loading && !command.is(Flags::LOADING) {
            return Some(errors::loading(self.version));
        }
        (busy && !command.is(Flags::BUSY)).then(|| errors::busy(self.version))
    }

    /// Returns the refusal in the middle of a script, which an earlier check has let begin. A script that has
    /// called a command that writes goes on when memory is short.
    pub(super) fn refuses_in_script(&self, command: Flags, has_written: bool) -> Option<Refusal> {
        let Trouble { cannot_save, out_of_memory, .. } = self.trouble;
        if command.is(Flags::WRITES) {
            if !self.is_primary() {
                return Some(coded(errors::READ_ONLY));
            }
            if cannot_save {
                return Some(errors::cannot_save(self.version));
            }
            if self.version.is_7_or_later() && self.lacks_replicas() {
                return Some(coded(errors::NO_REPLICAS));
            }
        }
        if out_of_memory && !has_written && command.is(Flags::GROWS) {
            return Some(coded(errors::OUT_OF_MEMORY));
        }
        (self.is_cut_off() && !command.is(Flags::STALE)).then(|| coded(errors::MASTER_DOWN))
    }
}
