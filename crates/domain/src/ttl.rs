//! When a workspace goes to sleep. The stores decide this in SQL, in one conditional statement; the
//! functions here are the same rule as a value, for the API (`stops_at`), the fakes and the tests
//! that hold the SQL to it.

use std::{fmt, time::Duration};

use crate::{Desired, Operation, Phase, Timestamp, Workspace, retry::saturating_add};

/// The deployment's TTLs. 0 is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlPolicy {
    /// A running workspace without activity for this long is stopped.
    pub standby_seconds: u32,
    /// A stopped workspace is archived after this long.
    pub archive_seconds: u32,
    /// Activity may be this old before the database sees it (one flush plus one sync): the standby
    /// TTL waits that much longer, so that recorded activity always wins.
    pub unseen_activity: Duration,
}

/// The TTLs that a workspace may choose for itself, in seconds. `Display` says them in English.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlBounds {
    /// The shortest.
    pub min: u32,
    /// The longest; 0 is no bound.
    pub max: u32,
}

impl TtlBounds {
    /// Whether a TTL is within the bounds. Never (0) is longer than any maximum, so it is allowed where there is none.
    pub fn allow(self, seconds: u32) -> bool {
        if seconds == 0 {
            self.max == 0
        } else {
            seconds >= self.min && (self.max == 0 || seconds <= self.max)
        }
    }
}

impl fmt::Display for TtlBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let min = self.min.max(1);
        if self.max == 0 {
            write!(f, "{min} seconds or more, or 0 for never")
        } else {
            write!(f, "{min} to {} seconds", self.max)
        }
    }
}

/// What a TTL will do, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// When the TTL runner acts, and so what people are told: the end of the TTL, plus the activity it may
    /// not have seen.
    pub acts_at: Timestamp,
    /// The target state that the TTL sets.
    pub to: Desired,
}

/// The next expiry of a workspace as it is now; `None` while nothing would expire.
pub fn expiry(workspace: &Workspace, policy: &TtlPolicy) -> Option<Expiry> {
    let status = &workspace.status;
    if workspace.deleted_at.is_some()
        || status.operation != Operation::None
        || workspace.desired.phase() != status.phase
    {
        return None;
    }
    let (from, ttl, grace, to) = match status.phase {
        Phase::Running => (
            workspace
                .last_access_at
                .max(status.phase_changed_at)
                .max(workspace.held_until.unwrap_or(Timestamp::UNIX_EPOCH)),
            workspace.standby_ttl_seconds.unwrap_or(policy.standby_seconds),
            policy.unseen_activity,
            Desired::Standby,
        ),
        Phase::Standby => (
            status.phase_changed_at,
            workspace.archive_ttl_seconds.unwrap_or(policy.archive_seconds),
            Duration::ZERO,
            Desired::Archived,
        ),
        Phase::Pending | Phase::Archived | Phase::Error | Phase::Deleting | Phase::Deleted => {
            return None;
        }
    };
    if ttl == 0 {
        return None;
    }
    let ends = saturating_add(from, Duration::from_secs(ttl.into()));
    Some(Expiry { acts_at: saturating_add(ends, grace), to })
}

/// Whether the TTL runner may act on it now.
pub fn expired(workspace: &Workspace, policy: &TtlPolicy, now: Timestamp) -> Option<Desired> {
    expiry(workspace, policy).filter(|expiry| now > expiry.acts_at).map(|expiry| expiry.to)
}
