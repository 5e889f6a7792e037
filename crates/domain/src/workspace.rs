//! The workspace and its three axes: what exists ([`Phase`]), what the owner wants ([`Desired`]),
//! what is being done about the difference ([`Operation`]).

use serde::{Deserialize, Serialize};

use crate::{
    ArchiveKey, Failure, Generation, HomeCtx, OpId, Timestamp, Truth, UserId, VolumeKey, WorkspaceId,
    activity::ActivityMode, condition::Conditions, labels::Labels, named::named_enum,
};

pub use crate::named::UnknownName;

named_enum! {
    /// What exists of a workspace.
    Phase, "phase" {
        /// New: nothing exists yet.
        Pending => "PENDING",
        /// Only the archive exists.
        Archived => "ARCHIVED",
        /// The home is on a volume, nothing runs.
        Standby => "STANDBY",
        /// The IDE is reachable.
        Running => "RUNNING",
        /// A policy is violated or an operation failed; waits for recovery.
        Error => "ERROR",
        /// Deleted, but a container or volume is still there.
        Deleting => "DELETING",
        /// Gone. Its archives are the garbage collector's.
        Deleted => "DELETED",
    }
}

named_enum! {
    /// What the owner wants. PENDING cannot be asked for.
    Desired, "desired state" {
        Running => "RUNNING",
        Standby => "STANDBY",
        Archived => "ARCHIVED",
        Deleted => "DELETED",
    }
}

impl Desired {
    /// The phase in which this wish is fulfilled.
    pub const fn phase(self) -> Phase {
        match self {
            Self::Running => Phase::Running,
            Self::Standby => Phase::Standby,
            Self::Archived => Phase::Archived,
            Self::Deleted => Phase::Deleted,
        }
    }
}

named_enum! {
    /// What is being done. One at a time per workspace, never pre-empted.
    Operation, "operation" {
        None => "NONE",
        Provisioning => "PROVISIONING",
        CreateEmptyArchive => "CREATE_EMPTY_ARCHIVE",
        Restoring => "RESTORING",
        Starting => "STARTING",
        Stopping => "STOPPING",
        Archiving => "ARCHIVING",
        Deleting => "DELETING",
    }
}

/// How far an operation that moves bytes has come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes so far.
    pub done: u64,
    /// Bytes expected; an estimate.
    pub total: u64,
    /// Bytes per second, over the last report.
    pub rate: u64,
}

impl Progress {
    /// How long the rest takes at this rate; unknown while nothing moves.
    pub fn remaining_seconds(&self) -> Option<u64> {
        let left = self.total.saturating_sub(self.done);
        (self.rate > 0).then(|| left.div_ceil(self.rate))
    }
}

/// A workspace as the database holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Workspace {
    /// Never changes.
    pub id: WorkspaceId,
    /// Whose it is; never changes.
    pub owner: UserId,
    /// For people; need not be unique.
    pub name: String,
    /// Unique among the owner's living workspaces ([`crate::slug`]); empty for one that a version before
    /// slugs has made, until the next start.
    pub slug: String,
    /// What the owner sorts it by.
    pub labels: Labels,
    /// One line for lists.
    pub description: String,
    /// The owner's notes.
    pub memo: String,
    /// The image it runs, where the runtime has images.
    pub image_ref: String,
    /// `users/{owner}/workspaces/{id}/home`: where a home lives, whatever stores it.
    pub home_store_key: String,
    /// The workspace's own TTLs in seconds; `None` is the deployment's default, 0 is never.
    pub standby_ttl_seconds: Option<u32>,
    /// Its own archive TTL; `None` is the deployment's default, 0 is never.
    pub archive_ttl_seconds: Option<u32>,
    /// What counts as being in use; `None` is the deployment's default.
    pub activity_mode: Option<ActivityMode>,
    /// The target state: what its owner or a TTL wants.
    pub desired: Desired,
    /// When the target state was last set to another.
    pub desired_changed_at: Timestamp,
    /// When it was deleted; then nobody sees it any more.
    pub deleted_at: Option<Timestamp>,
    /// The last activity that the database knows of.
    pub last_access_at: Timestamp,
    /// The end of the longest keep-awake lease, which may have passed.
    pub held_until: Option<Timestamp>,
    /// What is and what is being done; only the controller writes it.
    pub status: Status,
    /// When it was created.
    pub created_at: Timestamp,
    /// When anything but activity last changed.
    pub updated_at: Timestamp,
    /// Grows with every write a reader could notice. Saving a status compares it, and event streams
    /// use it to tell newer from older.
    pub revision: i64,
}

/// The columns that only the controller writes (and recovery, which is its own compare-and-swap).
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// What was last observed, condition by condition.
    pub conditions: Conditions,
    /// When it was last observed.
    pub observed_at: Option<Timestamp>,
    /// What exists.
    pub phase: Phase,
    /// When the phase last changed.
    pub phase_changed_at: Timestamp,
    /// What is being done.
    pub operation: Operation,
    /// When the operation began.
    pub op_started_at: Option<Timestamp>,
    /// When the operation last got anywhere: began, tried again, or moved bytes. Deadlines count
    /// from here.
    pub op_moved_at: Option<Timestamp>,
    /// Names the operation; saved before its first action.
    pub op_id: Option<OpId>,
    /// The newest complete archive, or the one it begins with.
    pub archive_key: Option<ArchiveKey>,
    /// Why the last try failed; a terminal reason comes with phase ERROR.
    pub error: Option<Failure>,
    /// How many tries in a row failed for that reason.
    pub error_count: u32,
    /// Not before this is it tried again.
    pub next_retry_at: Option<Timestamp>,
    /// Where the true copy of the home is.
    pub home: HomeCtx,
    /// How far the transfer under way is.
    pub progress: Option<Progress>,
    /// Which backend of this deployment (`docker-1`; by default named like its kind) has the instance, and
    /// which the home; empty until something exists.
    pub instance_backend: String,
    /// What keeps its volumes.
    pub storage_backend: String,
}

impl Status {
    /// A new workspace: nothing exists, nothing is known.
    pub fn new(now: Timestamp) -> Self {
        Self {
            conditions: Conditions::default(),
            observed_at: None,
            phase: Phase::Pending,
            phase_changed_at: now,
            operation: Operation::None,
            op_started_at: None,
            op_moved_at: None,
            op_id: None,
            archive_key: None,
            error: None,
            error_count: 0,
            next_retry_at: None,
            home: HomeCtx::default(),
            progress: None,
            instance_backend: String::new(),
            storage_backend: String::new(),
        }
    }

    /// A new workspace whose home is an archive that is there already, its own or another's.
    pub fn from_archive(key: ArchiveKey, now: Timestamp) -> Self {
        let home = HomeCtx { truth: Truth::Archive, ..HomeCtx::default() };
        Self { archive_key: Some(key), home, ..Self::new(now) }
    }

    /// In ERROR by a failure that only a person may clear.
    pub fn failed(&self) -> bool {
        self.error.as_ref().is_some_and(|failure| failure.reason.is_terminal())
    }

    pub(crate) fn take_operation(&mut self, operation: Operation, now: Timestamp) {
        self.operation = operation;
        self.op_started_at = Some(now);
        self.op_moved_at = Some(now);
        self.progress = None;
    }

    /// Nothing is under way any more. The id of the last operation stays: its archive may exist.
    pub(crate) fn leave_operation(&mut self) {
        self.operation = Operation::None;
        self.op_started_at = None;
        self.op_moved_at = None;
        self.progress = None;
    }

    pub(crate) fn forget_failure(&mut self) {
        self.error = None;
        self.error_count = 0;
        self.next_retry_at = None;
    }
}

impl Workspace {
    /// The name of one generation of its volume.
    pub fn volume(&self, generation: Generation) -> VolumeKey {
        VolumeKey { owner: self.owner, workspace: self.id, generation }
    }

    /// Where the archive of the operation under way goes.
    pub fn op_archive_key(&self) -> Option<ArchiveKey> {
        self.status.op_id.map(|op| ArchiveKey::of(self.id, op))
    }

    /// Where the home of this workspace is kept, below the root of its store.
    pub fn home_store_key_of(owner: UserId, id: WorkspaceId) -> String {
        format!("users/{owner}/workspaces/{id}/home")
    }
}
