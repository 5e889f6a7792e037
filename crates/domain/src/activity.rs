//! What keeps a workspace awake besides traffic: the mode in which it is told, and leases.

use std::time::Duration;

use crate::{HoldId, Timestamp, UserId, named::named_enum, retry::saturating_add};

named_enum! {
    /// What counts as being in use.
    ActivityMode, "activity mode" {
        /// Somebody or something works in it.
        Traffic => "traffic",
        /// A WebSocket is open.
        Connections => "connections",
    }
}

/// The reason of a lease that the "keep awake" button takes; other leases have their holder's own words.
pub const SNOOZED: &str = "snoozed";

/// How many leases a workspace has at most: a script that forgets to give its own back does not go on for ever.
pub const MOST_HOLDS: usize = 64;

/// A keep-awake lease: counts as activity until it ends or is given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Names the lease when it is given back.
    pub id: HoldId,
    /// Who took it.
    pub by: UserId,
    /// In the words of who took it, or [`SNOOZED`]. May be empty.
    pub reason: String,
    /// When it was taken.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub until: Timestamp,
}

/// A keep-awake lease that somebody asks for.
#[derive(Debug, Clone)]
pub struct NewHold {
    pub id: HoldId,
    pub by: UserId,
    pub seconds: u32,
    pub reason: String,
}

impl NewHold {
    /// The lease, if it begins `now`.
    pub fn begun(self, now: Timestamp) -> Hold {
        let until = saturating_add(now, Duration::from_secs(self.seconds.into()));
        Hold { id: self.id, by: self.by, reason: self.reason, created_at: now, until }
    }
}
