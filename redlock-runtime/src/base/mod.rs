//! What every floor knows, and what knows nothing above it: keys, owners and tokens, leases and
//! their end, errors, the clock, the host on which a process runs, and telemetry.

pub(crate) mod alarm;
pub(crate) mod capabilities;
pub(crate) mod clock;
pub(crate) mod credentials;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod fence;
pub(crate) mod heartbeat;
pub(crate) mod host;
pub(crate) mod key;
pub(crate) mod lease;
pub(crate) mod limit;
pub(crate) mod one_or_many;
pub(crate) mod outcome;
pub(crate) mod owner;
pub(crate) mod span;
pub(crate) mod store_error;
pub(crate) mod telemetry;
pub(crate) mod tick;
pub(crate) mod token;
pub(crate) mod utc;
