//! What was done, by whom: written with the act, read by administrators.

use codehub_domain::{
    Epoch, Timestamp, UserId,
    audit::{Act, ActorKind, AuditAction, AuditEntry, AuditEvent, AuditId, AuditOutcome},
};

use super::{Page, theme};
use crate::Result;

/// Whose doings a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActorFilter {
    /// A user's, in the browser or by their tokens.
    User(UserId),
    Kind(ActorKind),
}

/// Which events a list shows.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// At this time or after it.
    pub from: Option<Timestamp>,
    /// Before this time.
    pub to: Option<Timestamp>,
    pub actor: Option<ActorFilter>,
    pub action: Option<AuditAction>,
    /// The id or key of what was acted on.
    pub object: Option<String>,
    pub outcome: Option<AuditOutcome>,
    /// Newest first; only those before this one.
    pub before: Option<AuditId>,
    pub limit: u32,
}

theme! {
    /// What was done. Whoever acts through another theme is written there, in the same transaction.
    Audit, audit {
        /// Writes down what no other method of the store does: a refusal, a failure, a look. One that is counted
        /// together with others ([`AuditEntry::folded`]) adds to the count of the one that is there.
        async fn audit_write(&self, by: &Act, entry: &AuditEntry) -> Result<()>;
        /// Removes events that happened before that time, at most so many at once, if this process leads with `epoch`;
        /// how many it were. `None`: it does not. That some were is an event, too.
        async fn audit_prune(&self, by: &Act, epoch: Epoch, before: Timestamp, at_most: u32) -> Result<Option<u64>>;
        /// Newest first. A page costs what is on it.
        async fn audit_list(&self, filter: &AuditFilter) -> Result<Page<AuditEvent>>;
    }
}
