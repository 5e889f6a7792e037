//! The processes of a deployment, as the store knows them.

use std::time::Duration;

use codehub_domain::{Epoch, Timestamp};

/// What a serving process says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaNote {
    pub name: String,
    pub version: String,
    /// `all`, `api`, `coordinator`: for people.
    pub role: String,
}

/// A serving process as the others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSeen {
    pub name: String,
    pub version: String,
    pub role: String,
    pub started_at: Timestamp,
    pub seen_at: Timestamp,
    /// Whatever activity it saw before this has been told.
    pub flushed_at: Timestamp,
}

impl ReplicaSeen {
    /// A replica that has been silent for longer is not there.
    const SILENT_AFTER: Duration = Duration::from_secs(20);

    /// Whether it has been heard of recently enough.
    pub fn is_there(&self, now: Timestamp) -> bool {
        now.duration_since(self.seen_at).unsigned_abs() < Self::SILENT_AFTER
    }
}

/// A replica that has not been seen for this long is forgotten.
pub(crate) const REPLICA_FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Who took the lead last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderSeen {
    pub epoch: Epoch,
    pub holder: String,
    pub since: Timestamp,
}
