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
mod port;
pub mod postgres;
mod replica;
mod row;
mod rules;
mod sql_error;
pub mod sqlite;
pub(crate) mod values;
mod wishes;

pub use codehub_domain::change::Change;
pub use migrations::{MigrationStatus, PendingMigration};
pub use postgres::{Company, Lease, LeaseSeat, PostgresStore, Presence, Renewed};
pub(crate) use replica::REPLICA_FORGOTTEN_AFTER;
pub use replica::{LeaderSeen, ReplicaNote, ReplicaSeen};
pub(crate) use rules::*;
pub use rules::{belongs_to, is_active};
pub use sqlite::SqliteStore;
pub use wishes::{Ask, Asked, Recovered};

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use codehub_domain::{
    ArchiveKey, Desired, Epoch, HoldId, Phase, SessionId, Status, Timestamp, TokenId, UserId, Workspace,
    WorkspaceId,
    activity::{ActivityMode, Hold},
    event::{Actor, HistoryEntry, Reason, Transition},
    gc::{GcRow, Item},
    limits::{LimitHit, Limits, RunningWorkspace},
    recovery::Recovery,
    ttl::TtlPolicy,
    user::{ApiToken, Role, Session, User},
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

/// What the creator of a workspace decides.
#[derive(Debug, Clone)]
pub struct NewWorkspace {
    pub id: WorkspaceId,
    pub owner: UserId,
    pub name: String,
    pub description: String,
    pub memo: String,
    pub image_ref: String,
    pub desired: Desired,
    pub standby_ttl_seconds: Option<u32>,
    pub archive_ttl_seconds: Option<u32>,
    /// Begin with this home instead of an empty one.
    pub from_archive: Option<ArchiveKey>,
    pub activity_mode: Option<ActivityMode>,
}

/// A keep-awake lease that somebody asks for.
#[derive(Debug, Clone)]
pub struct NewHold {
    pub id: HoldId,
    pub by: UserId,
    pub seconds: u32,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Created {
    Created(Box<Workspace>),
    /// Nothing was created.
    LimitReached(LimitHit),
    /// Nor here: the archive it was to begin with is being deleted.
    ArchiveGone,
}

/// What became of the wish to delete something that nothing refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcClaim {
    /// Nothing refers to it, and from now on nothing can.
    Claimed,
    /// A workspace needs it.
    InUse,
    /// The collector does not lead any more: stop everything.
    Fenced,
}

/// What an owner may edit; `None` leaves it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    pub name: Option<String>,
    pub description: Option<String>,
    pub memo: Option<String>,
    /// `Some(None)` goes back to the deployment's default.
    pub standby_ttl_seconds: Option<Option<u32>>,
    pub archive_ttl_seconds: Option<Option<u32>>,
    pub activity_mode: Option<Option<ActivityMode>>,
}

/// Which workspaces a list shows.
#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    /// `None`: everybody's.
    pub owner: Option<UserId>,
    pub phase: Option<Phase>,
    /// Case-insensitive substring of the name.
    pub query: Option<String>,
    /// Newest first; only those created before this one.
    pub before: Option<WorkspaceId>,
    pub limit: u32,
}

#[derive(Debug, Clone)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// There are more after the last item.
    pub more: bool,
    /// All that match, without the page.
    pub total: u64,
}

/// Which workspaces a tick of the controller looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Those with work to do: an operation under way, or a wish that is not fulfilled and may be.
    Active,
    /// The same, plus everything RUNNING, plus this many of those looked at longest ago. Not among these:
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

/// Credentials of a user as stored.
#[derive(Debug, Clone)]
pub struct UserWithHash {
    pub user: User,
    pub password_hash: String,
}

#[derive(Debug, Clone, Default)]
pub struct UserEdit {
    pub password_hash: Option<String>,
    /// A new password leaves the tokens as they are. Only somebody who changes their own may say so.
    pub keep_tokens: bool,
    pub role: Option<Role>,
    pub disabled: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserChange {
    Done(User),
    NotFound,
    NameTaken,
    /// It would leave nobody who may administer.
    LastAdmin,
    /// The user still owns workspaces that are not deleted.
    OwnsWorkspaces(u64),
}

/// Failed logins of one key (an account-and-address, or an address).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    pub failures: u32,
    pub last_failure: Timestamp,
}

/// Changes since the subscription. A reader that falls behind is told so by the channel and reads the
/// current state instead.
pub type Changes = tokio::sync::broadcast::Receiver<Change>;

#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// `sqlite`, `postgres`: for people.
    fn kind(&self) -> &'static str;
    /// Answers when the database does; the database's clock.
    async fn now(&self) -> Result<Timestamp>;
    /// What is committed from now on, by this process (SQLite) or any (PostgreSQL).
    fn changes(&self) -> Changes;
    /// The last thing a process does with it. Not needed for safety; SQLite's file is then the whole database.
    async fn close(&self) {}

    // --- leadership ---

    /// Takes the lease: the epoch grows by one, and every older epoch is fenced from here on.
    async fn epoch_take(&self, holder: &str) -> Result<Epoch>;
    /// Whether `epoch` still leads. Asked immediately before anything is deleted.
    async fn epoch_is_current(&self, epoch: Epoch) -> Result<bool>;

    /// How replicas agree who leads; `None` where only one process can have the store anyway.
    fn lease_seat(&self, _holder: &str) -> Option<LeaseSeat> {
        None
    }
    /// Who took the lead last, whether or not it still lives; `None` where nobody ever did.
    async fn leader_seen(&self) -> Result<Option<LeaderSeen>> {
        Ok(None)
    }

    // --- replicas ---

    /// Says that this process may be beside the others ([`postgres::presence`](postgres)); `None` when
    /// one of them does not fit. A store that only one process can have always agrees.
    async fn presence_enter(&self, _company: Company) -> Result<Option<Presence>> {
        Ok(Some(Presence::default()))
    }
    /// Notes that this replica lives.
    async fn replica_note(&self, _note: &ReplicaNote) -> Result<()> {
        Ok(())
    }
    /// Notes that this replica has told everything about activity that it knew that long ago.
    async fn replica_flushed(&self, _name: &str, _ago: std::time::Duration) -> Result<()> {
        Ok(())
    }
    /// Forgets a replica that ends.
    async fn replica_leave(&self, _name: &str) -> Result<()> {
        Ok(())
    }
    /// Every replica that was noted within a day, with the clock to compare by. Oldest first.
    async fn replicas(&self) -> Result<(Timestamp, Vec<ReplicaSeen>)> {
        Ok((self.now().await?, Vec::new()))
    }

    // --- workspaces: people ---

    /// Creates the row (PENDING), with the limit checked in the same transaction, and that an archive to
    /// begin with is not claimed for deletion. The owner must exist.
    async fn workspace_create(&self, new: NewWorkspace, limits: Limits, actor: Actor) -> Result<Created>;
    /// The row, deleted or not.
    async fn workspace_get(&self, id: WorkspaceId) -> Result<Option<Workspace>>;
    /// Those of the ids that exist, deleted or not.
    async fn workspaces_get(&self, ids: &[WorkspaceId]) -> Result<Vec<Workspace>>;
    /// Without deleted ones.
    async fn workspace_list(&self, filter: &ListFilter) -> Result<Page<Workspace>>;
    /// `None` where it does not exist (any more). An edit that changes nothing is no revision.
    async fn workspace_edit(&self, id: WorkspaceId, edit: Edit) -> Result<Option<Workspace>>;
    /// The one way to change `desired_state`: [`codehub_domain::desired::ask`] and the limits, inside
    /// the transaction. Deleting also sets `deleted_at`; a wish to run sets `last_access_at` (which alone
    /// is no revision). One that was deleted answers `Refused(Gone)`.
    async fn workspace_ask(
        &self,
        id: WorkspaceId,
        wish: Desired,
        limits: Limits,
        actor: Actor,
        reason: &Reason,
    ) -> Result<Asked> {
        let edit = Edit::default();
        self.workspace_edit_and_ask(id, Ask { wish, edit, limits, actor, reason }).await
    }
    /// The same, and an edit with it. One transaction and at most one revision: a wish that is refused
    /// edits nothing; one that is already fulfilled edits all the same.
    async fn workspace_edit_and_ask(&self, id: WorkspaceId, ask: Ask<'_>) -> Result<Asked>;
    /// Applies [`codehub_domain::recovery::recover`] in one transaction. Not found is also a deleted
    /// workspace, and an archive that does not belong to it. What is claimed for deletion cannot become
    /// the home: `Refused(BeingDeleted)`. The desired state stays, unless another one is asked for with it,
    /// by the same rule as in [`Store::workspace_ask`]: both, or nothing.
    async fn workspace_recover(
        &self,
        id: WorkspaceId,
        wish: Recovery,
        desired: Option<Desired>,
        limits: Limits,
        actor: Actor,
    ) -> Result<Recovered>;
    /// A lease that keeps it awake: [`codehub_domain::ttl`] counts it as activity until it ends. `None`
    /// where the workspace does not exist (any more).
    async fn workspace_hold(&self, id: WorkspaceId, new: NewHold) -> Result<Option<(Workspace, Hold)>>;
    /// Gives one lease back, or all. `None` where there is none (any more).
    async fn workspace_release(&self, id: WorkspaceId, hold: Option<HoldId>) -> Result<Option<Workspace>>;
    /// Those that have not ended, the longest first.
    async fn workspace_holds(&self, id: WorkspaceId) -> Result<Vec<Hold>>;
    /// Newest first, older than `before` (an entry's id).
    async fn workspace_history(
        &self,
        id: WorkspaceId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Page<HistoryEntry>>;
    /// Those that take one of the places ([`codehub_domain::limits::takes_a_place`]), without deleted ones.
    async fn workspaces_running_of(&self, owner: UserId) -> Result<Vec<RunningWorkspace>>;
    /// Without deleted ones.
    async fn workspace_counts(&self) -> Result<BTreeMap<Phase, u64>>;

    // --- workspaces: the coordinator ---

    /// Ordered by id. What is DELETED is not looked at any more: should an instance of it reappear, the
    /// listing of all instances shows it; volumes and archives are the garbage collector's.
    async fn workspaces_due(&self, due: Due) -> Result<Reading>;
    /// Saves `next` over the row as it was `read`: compare-and-swap on revision and operation, fenced
    /// by `epoch`, with its history, in one transaction.
    async fn workspace_save(
        &self,
        epoch: Epoch,
        read: &Workspace,
        next: &Status,
        history: &[Transition],
    ) -> Result<Saved>;
    /// Notes that these were looked at and nothing had changed (`observed_at` only: no revision, no
    /// event). `false` when fenced.
    async fn workspaces_observed(&self, epoch: Epoch, ids: &[WorkspaceId]) -> Result<bool>;
    /// `last_access_at = greatest(old, new)` in bulk; no revision, no event. `false` when fenced.
    async fn access_sync(&self, epoch: Epoch, seen: &[(WorkspaceId, Timestamp)]) -> Result<bool>;
    /// One conditional statement per TTL decides and writes; the same rule as
    /// [`codehub_domain::ttl::expired`]. Nothing expires when fenced. Ordered by id.
    async fn ttl_expire(&self, epoch: Epoch, policy: &TtlPolicy) -> Result<Vec<Expired>>;
    /// When the next TTL may be acted on (strictly after it), by the database's clock; `None` when none is
    /// running.
    async fn ttl_next(&self, policy: &TtlPolicy) -> Result<Option<Timestamp>>;

    // --- garbage ---

    /// Every row the collector must know, deleted ones included.
    async fn gc_rows(&self) -> Result<Vec<GcRow>>;
    async fn gc_sightings(&self) -> Result<BTreeMap<Item, Timestamp>>;
    /// Replaces all sightings. `false` when fenced.
    async fn gc_sightings_replace(&self, epoch: Epoch, sightings: &BTreeMap<Item, Timestamp>)
    -> Result<bool>;
    /// Claims something for deletion, in one transaction with the question whether a row refers to it
    /// ([`codehub_domain::gc::refers`]). What is claimed stays claimed: creating or recovering a
    /// workspace from it is refused. Claiming again is fine.
    async fn gc_claim(&self, epoch: Epoch, item: Item) -> Result<GcClaim>;

    // --- people ---

    async fn user_create(
        &self,
        id: UserId,
        username: &str,
        password_hash: &str,
        role: Role,
    ) -> Result<UserChange>;
    /// Creates the first admin, only while there is no user at all; `None` otherwise.
    async fn user_create_first(
        &self,
        id: UserId,
        username: &str,
        password_hash: &str,
    ) -> Result<Option<User>>;
    async fn user_get(&self, id: UserId) -> Result<Option<User>>;
    async fn users_get(&self, ids: &[UserId]) -> Result<HashMap<UserId, User>>;
    /// Names are compared without case.
    async fn user_by_name(&self, username: &str) -> Result<Option<UserWithHash>>;
    /// Ordered by id.
    async fn user_list(&self, after: Option<UserId>, limit: u32) -> Result<Page<User>>;
    /// Never leaves the deployment without an enabled admin. A new password, a disabled account or
    /// another role ends the user's sessions; a new password deletes the tokens, unless
    /// [`UserEdit::keep_tokens`]; a disabled account's tokens stop working.
    async fn user_edit(&self, id: UserId, edit: UserEdit) -> Result<UserChange>;
    /// Only without living workspaces. Ends the user's sessions and tokens, and frees the name.
    async fn user_delete(&self, id: UserId) -> Result<UserChange>;
    async fn user_count(&self) -> Result<u64>;

    /// `secret_hash` is what the cookie's random secret hashes to.
    async fn session_create(
        &self,
        id: SessionId,
        user: UserId,
        secret_hash: &[u8],
        lifetime_seconds: u32,
    ) -> Result<Session>;
    /// The session and its enabled user, while it lasts. Each use moves its end, written at most once
    /// a minute so that reading does not always write (more often only where a lifetime is so short that
    /// it would matter).
    async fn session_use(&self, secret_hash: &[u8], lifetime_seconds: u32)
    -> Result<Option<(Session, User)>>;
    async fn session_delete(&self, id: SessionId) -> Result<()>;
    /// Removes sessions that have ended, and failed logins that are forgotten; how many sessions.
    async fn sessions_sweep(&self) -> Result<u64>;

    /// `by` is the session that asks for it: it must still be there in the same transaction, so that nothing is made
    /// behind a new password's back. `None` where it is not (any more).
    async fn token_create(
        &self,
        id: TokenId,
        by: SessionId,
        name: &str,
        secret_hash: &[u8],
        expires_in_seconds: Option<u32>,
    ) -> Result<Option<ApiToken>>;
    /// The token and its enabled user, while it is valid; notes the use (at most once a minute).
    async fn token_use(&self, secret_hash: &[u8]) -> Result<Option<(ApiToken, User)>>;
    /// Newest first, expired ones included.
    async fn token_list(&self, user: UserId) -> Result<Vec<ApiToken>>;
    /// `false` where the user has no such token.
    async fn token_delete(&self, user: UserId, id: TokenId) -> Result<bool>;

    async fn attempts_get(&self, key: &str) -> Result<Option<Attempts>>;
    /// Counts one more failure (a count older than `forget_after_seconds` starts again).
    async fn attempts_fail(&self, key: &str, forget_after_seconds: u32) -> Result<Attempts>;
    async fn attempts_clear(&self, key: &str) -> Result<()>;

    // --- the deployment ---

    async fn setting_get(&self, name: &str) -> Result<Option<String>>;
    async fn setting_put(&self, name: &str, value: &str) -> Result<()>;
    /// Writes only where there is none yet; what is there afterwards.
    async fn setting_init(&self, name: &str, value: &str) -> Result<String>;
    async fn setting_delete(&self, name: &str) -> Result<()>;
}

/// Times one method of the port under its name.
pub(crate) async fn timed<T>(query: &'static str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let started = std::time::Instant::now();
    let result = work.await;
    metrics::histogram!(metric::QUERY_SECONDS, "query" => query).record(started.elapsed().as_secs_f64());
    result
}

/// How far a reader of changes may fall behind before it reads everything again.
pub(crate) const CHANGES_BACKLOG: usize = 4096;
