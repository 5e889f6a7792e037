//! What the coordinator reads and writes of workspaces.

use codehub_domain::{
    ArchiveRecord, Desired, Epoch, Status, Timestamp, Workspace, WorkspaceId, event::Transition,
    ttl::TtlPolicy,
};

use super::theme;
use crate::Result;

/// Which workspaces a tick of the controller looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Those with work to do ([`codehub_domain::intent::is_active`]).
    Active,
    /// Those with work to do, everything RUNNING, and this many of those looked at longest ago. Not among these:
    /// what is deleted and gone.
    Full { also_oldest: u32 },
}

/// A consistent reading, with the clock it was read by.
#[derive(Debug, Clone)]
pub struct Reading {
    pub now: Timestamp,
    pub workspaces: Vec<Workspace>,
}

/// What became of a controller's write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saved {
    /// The row's new revision.
    Saved(i64),
    /// Somebody else wrote in between: read again, decide again.
    Changed,
    /// The row does not exist.
    Gone,
    /// The writer does not lead any more: stop everything.
    Fenced,
}

/// A workspace whose TTL ran out, and what it now wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    pub id: WorkspaceId,
    pub to: Desired,
}

theme! {
    /// What the coordinator reads and writes of workspaces. Every write is fenced by the leader's epoch.
    Reconciling, reconciling {
        /// Ordered by id. What is DELETED is not looked at any more: should an instance of it reappear, the
        /// listing of all instances shows it; volumes and archives are the garbage collector's.
        async fn workspaces_due(&self, due: Due) -> Result<Reading>;
        /// Saves `next` over the row as it was `read`: compare-and-swap on revision and operation, with its
        /// history, in one transaction. `archive` is what the key that has just become the home's is from now on
        /// held against.
        async fn workspace_save_archived(
            &self,
            epoch: Epoch,
            read: &Workspace,
            next: &Status,
            history: &[Transition],
            archive: Option<&ArchiveRecord>,
        ) -> Result<Saved>;
        /// Notes that these were looked at and nothing had changed (`observed_at` only: no revision, no
        /// event). `false` when fenced.
        async fn workspaces_observed(&self, epoch: Epoch, ids: &[WorkspaceId]) -> Result<bool>;
        /// `last_access_at = greatest(old, new)` in bulk; no revision, no event. `false` when fenced.
        async fn access_sync(&self, epoch: Epoch, seen: &[(WorkspaceId, Timestamp)]) -> Result<bool>;
        /// One conditional statement per TTL decides and writes; the same rule as
        /// [`codehub_domain::ttl::expired`]. Nothing expires when fenced. Ordered by id.
        async fn ttl_expire(&self, epoch: Epoch, policy: &TtlPolicy) -> Result<Vec<Expired>>;
        /// When the next TTL may be acted on (strictly after it), by the database's clock; `None` when none
        /// is running.
        async fn ttl_next(&self, policy: &TtlPolicy) -> Result<Option<Timestamp>>;
    }
}
