//! The one truth about what people want and what was last seen, in SQLite or PostgreSQL; and beside it the
//! [`bus`], for what may be lost. Knows the rules of the domain and nothing of what runs where.
//!
//! Guarantees every implementation gives (the contract suite checks them):
//! - every method is one transaction: it happens whole or not at all;
//! - times come from the database's clock, never from the caller's;
//! - every controller write carries the leader's [`Epoch`] and changes nothing for a leader that has
//!   been replaced;
//! - after a commit that a reader could notice, [`Store::changes`] says so.

pub mod bus;
#[cfg(test)]
pub(crate) mod contract;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod metric;
mod migrations;
pub mod postgres;
mod replica;
mod row;
mod rules;
mod sql;
mod sql_error;
pub mod sqlite;
pub mod themes;
mod trail;

/// Every theme's methods, for whoever has a store by its own type instead of a `dyn Store`.
pub mod prelude {
    pub use crate::{
        ArchiveRecords as _, Audit as _, Clock as _, Credentials as _, Garbage as _, Holds as _,
        Leadership as _, People as _, Ports as _, Reconciling as _, Settings as _, Store as _,
        Workspaces as _,
    };
}

pub use codehub_domain::{
    activity::NewHold,
    change::Change,
    intent::{Edit, NewWorkspace, is_active},
    recovery::belongs_to,
    user::UserEdit,
};
pub use migrations::{MigrationStatus, PendingMigration};
pub use postgres::{Company, Lease, LeaseSeat, PostgresStore, Presence, Renewed};
pub(crate) use replica::REPLICA_FORGOTTEN_AFTER;
pub use replica::{LeaderSeen, ReplicaNote, ReplicaSeen};
pub(crate) use rules::{
    CHANGES_BACKLOG, CLAIM_KEPT_MICROS, KNOWN_DEVICES, USE_NOTED_EVERY_MICROS, WORKSPACE_SESSIONS,
    renews_after_micros,
};
pub use sqlite::SqliteStore;
pub use themes::*;

use async_trait::async_trait;
use codehub_domain::{
    Desired, Epoch, Status, Workspace, WorkspaceId,
    audit::Act,
    event::{Actor, Reason, Transition},
    limits::Limits,
};

/// Why the store could not answer. "No" is never an error here: outcomes say it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database does not answer, or is too busy: try again.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The disk under it is full.
    #[error("the database's disk is full: {0}")]
    Full(String),
    /// What is stored cannot be read, or the statement is wrong.
    #[error("the database failed: {0}")]
    Failed(String),
}

pub type Result<T> = std::result::Result<T, StoreError>;

/// Changes since the subscription. A reader that falls behind is told so by the channel and reads the
/// current state instead.
pub type Changes = tokio::sync::broadcast::Receiver<Change>;

/// All themes together, and what depends on the kind of database.
#[async_trait]
pub trait Store:
    Clock
    + Leadership
    + Workspaces
    + Holds
    + Ports
    + Reconciling
    + Garbage
    + People
    + Credentials
    + Settings
    + Audit
    + ArchiveRecords
{
    /// `sqlite`, `postgres`: for people.
    fn kind(&self) -> &'static str;
    /// What is committed from now on, by this process (SQLite) or any (PostgreSQL).
    fn changes(&self) -> Changes;
    /// The last thing a process does with it. Not needed for safety; SQLite's file is then the whole database.
    async fn close(&self) {}

    /// How replicas agree who leads; `None` where only one process can have the store anyway.
    fn lease_seat(&self, _holder: &str) -> Option<LeaseSeat> {
        None
    }
    /// Says that this process may be beside the others ([`postgres::presence`](postgres)); `None` when
    /// one of them does not fit. A store that only one process can have always agrees.
    async fn presence_enter(&self, _company: Company) -> Result<Option<Presence>> {
        Ok(Some(Presence::default()))
    }

    /// [`Workspaces::workspace_edit_and_ask`] without an edit.
    async fn workspace_ask(
        &self,
        by: &Act,
        id: WorkspaceId,
        desired: Desired,
        limits: Limits,
        actor: Actor,
        reason: &Reason,
    ) -> Result<Asked> {
        let edit = Edit::default();
        self.workspace_edit_and_ask(by, id, Ask { desired, edit, limits, actor, reason }).await
    }

    /// [`Reconciling::workspace_save_archived`] where no archive has become the home.
    async fn workspace_save(
        &self,
        epoch: Epoch,
        read: &Workspace,
        next: &Status,
        history: &[Transition],
    ) -> Result<Saved> {
        self.workspace_save_archived(epoch, read, next, history, None).await
    }
}
