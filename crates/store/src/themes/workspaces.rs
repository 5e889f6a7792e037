//! Workspaces as people make, read and change them.

use std::collections::BTreeMap;

use codehub_domain::{
    Desired, HoldId, Phase, UserId, Workspace, WorkspaceId,
    activity::{Hold, NewHold},
    audit::Act,
    desired::Refusal,
    event::{Actor, HistoryEntry, Reason},
    intent::{Edit, NewWorkspace},
    labels::LabelFilter,
    limits::{LimitHit, Limits, RunningWorkspace},
    ports::PortSettings,
    recovery::{Recovery, RecoveryRefusal},
};

use super::theme;
use crate::Result;

/// What became of the wish for a new workspace.
#[derive(Debug, Clone, PartialEq)]
pub enum Created {
    Created(Box<Workspace>),
    /// It was created before, by the same request.
    Already(Box<Workspace>),
    /// Nothing was created: another request had the same key.
    KeyTaken,
    /// Nothing was created.
    LimitReached(LimitHit),
    /// Nothing was created: the archive it was to begin with is being deleted.
    ArchiveGone,
}

/// A wish for a desired state, and an edit with it: both, or nothing.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    pub desired: Desired,
    pub edit: Edit,
    pub limits: Limits,
    pub actor: Actor,
    /// For the history.
    pub reason: &'a Reason,
}

impl Ask<'static> {
    /// The wish for another desired state that comes with a recovery.
    pub(crate) fn with_recovery(desired: Desired, limits: Limits, actor: Actor) -> Self {
        Self { desired, edit: Edit::default(), limits, actor, reason: &Reason::RequestedWithRecovery }
    }
}

/// What became of a wish for another desired state.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    Changed(Box<Workspace>),
    /// It was already wanted. A wish to run still counts as activity.
    Already(Box<Workspace>),
    NotFound,
    Refused(Refusal),
    LimitReached(LimitHit),
}

impl Asked {
    /// The workspace as it is now, where the wish was granted.
    pub(crate) fn granted(&self) -> Option<&Workspace> {
        match self {
            Self::Changed(workspace) | Self::Already(workspace) => Some(workspace),
            Self::NotFound | Self::Refused(_) | Self::LimitReached(_) => None,
        }
    }
}

/// What became of a recovery.
#[derive(Debug, Clone, PartialEq)]
pub enum Recovered {
    Recovered(Box<Workspace>),
    NotFound,
    Refused(RecoveryRefusal),
    /// It was to run from now on, and there is no place.
    LimitReached(LimitHit),
}

/// What a list begins with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// The newest.
    #[default]
    Newest,
    /// What runs or is meant to, then what was used last.
    Used,
    /// By name, from A to Z.
    Name,
    /// The largest home, as far as it is known ([`super::ArchiveRecords::home_sizes`]).
    Size,
    /// By the owner's name, from A to Z; of each owner as [`ListOrder::Used`].
    Owner,
}

/// Which workspaces a list shows.
#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    /// `None`: everybody's.
    pub owner: Option<UserId>,
    pub phase: Option<Phase>,
    /// Case-insensitive substring of the name or the description.
    pub query: Option<String>,
    pub label: Option<LabelFilter>,
    pub order: ListOrder,
    /// Only those created before this one.
    pub before: Option<WorkspaceId>,
    /// How many of those that match are left out at the beginning.
    pub skip: u32,
    pub limit: u32,
}

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// There are more after the last item.
    pub more: bool,
    /// All that match, without the page; `None` where they are too many to count for every page
    /// ([`Page::COUNTED`]).
    pub total: Option<u64>,
}

impl<T> Page<T> {
    /// Lists of workspaces are counted up to here.
    pub const COUNTED: u32 = 1_000;
}

theme! {
    /// Workspaces as people make, read and change them. Every change is written to the audit trail with it.
    Workspaces, workspaces {
        /// Creates the row (PENDING), with the limit checked in the same transaction, and that an archive to
        /// begin with is not claimed for deletion. Its slug is made from the name. The owner must exist.
        async fn workspace_create(
            &self,
            by: &Act,
            new: NewWorkspace,
            limits: Limits,
            actor: Actor,
        ) -> Result<Created>;
        /// The row, deleted or not.
        async fn workspace_get(&self, id: WorkspaceId) -> Result<Option<Workspace>>;
        /// Those of the ids that exist, deleted or not.
        async fn workspaces_get(&self, ids: &[WorkspaceId]) -> Result<Vec<Workspace>>;
        /// Without deleted ones.
        async fn workspace_list(&self, filter: &ListFilter) -> Result<Page<Workspace>>;
        /// `None` where it does not exist (any more). An edit that changes nothing is no revision.
        async fn workspace_edit(&self, by: &Act, id: WorkspaceId, edit: Edit) -> Result<Option<Workspace>>;
        /// The one way to change `desired_state`: [`codehub_domain::desired::ask`] and the limits, inside
        /// the transaction, with an edit. At most one revision: a wish that is refused edits nothing; one
        /// that is already fulfilled edits all the same. Deleting also sets `deleted_at`; a wish to run sets
        /// `last_access_at` (which alone is no revision). One that was deleted answers `Refused(Gone)`.
        async fn workspace_edit_and_ask(&self, by: &Act, id: WorkspaceId, ask: Ask<'_>) -> Result<Asked>;
        /// Applies [`codehub_domain::recovery::recover`] in one transaction. Not found is also a deleted
        /// workspace, and an archive that does not belong to it. What is claimed for deletion cannot become
        /// the home: `Refused(BeingDeleted)`. The desired state stays, unless another one is asked for with
        /// it, by the same rule as in [`Workspaces::workspace_edit_and_ask`]: both, or nothing.
        async fn workspace_recover(
            &self,
            by: &Act,
            id: WorkspaceId,
            recovery: Recovery,
            desired: Option<Desired>,
            limits: Limits,
            actor: Actor,
        ) -> Result<Recovered>;
        /// Newest first, older than `before` (an entry's id).
        async fn workspace_history(
            &self,
            id: WorkspaceId,
            before: Option<i64>,
            limit: u32,
        ) -> Result<Page<HistoryEntry>>;
        /// The newest entries of everybody's history, newest first; also of deleted workspaces.
        async fn history_latest(&self, limit: u32) -> Result<Vec<(WorkspaceId, HistoryEntry)>>;
        /// Those that take one of the places ([`codehub_domain::limits::takes_a_place`]), without deleted
        /// ones.
        async fn workspaces_running_of(&self, owner: UserId) -> Result<Vec<RunningWorkspace>>;
        /// Without deleted ones.
        async fn workspace_counts(&self) -> Result<BTreeMap<Phase, u64>>;
    }
}

theme! {
    /// Keep-awake leases: [`codehub_domain::ttl`] counts each as activity until it ends.
    Holds, holds {
        /// Begins a lease. `None` where the workspace does not exist (any more).
        async fn workspace_hold(&self, id: WorkspaceId, new: NewHold) -> Result<Option<(Workspace, Hold)>>;
        /// Gives one lease back, or all. `None` where there is none (any more).
        async fn workspace_release(&self, id: WorkspaceId, hold: Option<HoldId>) -> Result<Option<Workspace>>;
        /// Those that have not ended, the longest first.
        async fn workspace_holds(&self, id: WorkspaceId) -> Result<Vec<Hold>>;
    }
}

/// What became of settings for a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortSaved {
    Saved,
    /// There is no such workspace (any more).
    NotFound,
    /// So many ports have settings of their own already ([`codehub_domain::ports::MOST_PORTS`]).
    TooMany,
}

theme! {
    /// What owners said about ports.
    Ports, ports {
        /// Those that something was said about, by port.
        async fn workspace_ports(&self, id: WorkspaceId) -> Result<Vec<PortSettings>>;
        /// Writes over what was said before. What holds without a row needs none, and leaves none.
        async fn workspace_port_put(&self, by: &Act, id: WorkspaceId, settings: PortSettings) -> Result<PortSaved>;
    }
}
