//! What an operator sees of a lock, for `serde`: the fields of the tool's `-o json`.
//!
//! A time is there twice: as text by RFC 3339 to the second, and, with `_epoch`, in seconds since
//! 1970. A duration is in milliseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_core::ser::{Serialize, SerializeStruct, Serializer};

use crate::base::error::Holder;
use crate::base::utc::rfc3339;
use crate::inspect::{LockInfo, Waiter};

/// Needs the feature `serde`.
impl Serialize for Holder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Holder", 8)?;
        fields.serialize_field("name", &self.name())?;
        fields.serialize_field("function", &self.function())?;
        fields.serialize_field("asked", &self.asked().map(rfc3339))?;
        fields.serialize_field("asked_epoch", &self.asked().map(epoch))?;
        fields.serialize_field("granted", &self.granted().map(rfc3339))?;
        fields.serialize_field("granted_epoch", &self.granted().map(epoch))?;
        fields.serialize_field("taken", &self.taken())?;
        fields.serialize_field("lease_left_ms", &self.expires_in().map(in_ms))?;
        fields.end()
    }
}

/// Needs the feature `serde`.
impl Serialize for Waiter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Waiter", 4)?;
        fields.serialize_field("name", &self.name())?;
        fields.serialize_field("function", &self.function())?;
        fields.serialize_field("asked", &self.asked().map(rfc3339))?;
        fields.serialize_field("asked_epoch", &self.asked().map(epoch))?;
        fields.end()
    }
}

/// Needs the feature `serde`.
impl Serialize for LockInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("LockInfo", 10)?;
        fields.serialize_field("key", self.key())?;
        fields.serialize_field("holder", self.holder())?;
        fields.serialize_field("inside", &self.inside())?;
        fields.serialize_field("taken", &self.taken())?;
        fields.serialize_field("limit", &self.limit())?;
        fields.serialize_field("limit_is_central", &self.has_central_limit())?;
        fields.serialize_field("holders", self.holders())?;
        fields.serialize_field("lease_left_ms", &self.holder().expires_in().map(in_ms))?;
        fields.serialize_field("waiters", &self.waiters())?;
        fields.serialize_field("queue", self.queue())?;
        fields.end()
    }
}

fn epoch(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
