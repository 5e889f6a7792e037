//! The verbs: what people may do to workspaces, once, for the API, the dashboard, the proxy and the
//! command line alike. Each checks who asks, lets the store decide and save (the rules themselves are
//! the domain's), and says "no" in a way every caller can show.

pub mod archives;
mod home;
pub mod inside;
pub mod ports;

use codehub_domain::{
    Desired, HoldId, Operation, Phase, Workspace, WorkspaceId,
    activity::{Hold, MOST_HOLDS, SNOOZED},
    audit::{AuditAction, AuditObject},
    desired::Refusal,
    event::Reason,
    limits::{LimitHit, takes_a_place},
    observed::Seen,
    recovery::{Recovery, RecoveryRefusal, home_is_lost},
    user::User,
};
use codehub_store::{Ask, Asked, Created, Edit, NewHold, NewWorkspace, Recovered, StoreError, belongs_to};

use uuid::Uuid;

use crate::{
    app::App,
    auth::{Identity, act},
};

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    #[error("there is no such workspace")]
    NotFound,
    #[error("{0}")]
    Forbidden(&'static str),
    #[error("{0} is in progress: wait until it finishes")]
    Busy(Operation),
    #[error("the workspace is not running: start it first")]
    NotRunning,
    #[error("the workspace is in ERROR: recover it first")]
    NeedsRecovery,
    #[error("the workspace has {MOST_HOLDS} keep-awake leases already: give some of them back first")]
    TooManyHolds,
    #[error("{}", recovery_text(.0))]
    Recovery(RecoveryRefusal),
    #[error("{}", limit_text(.0))]
    Limit(LimitHit),
    #[error("{field}: {why}")]
    Invalid { field: &'static str, why: String },
    /// Something that has to answer first does not.
    #[error("{0}")]
    Unreachable(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn recovery_text(refusal: &RecoveryRefusal) -> &'static str {
    match refusal {
        RecoveryRefusal::NotInError => "the workspace is not in ERROR: there is nothing to recover from",
        RecoveryRefusal::HomeIsLost => {
            "the home directory is missing: choose an archive with restore_from, or start with an empty home directory by accept_data_loss"
        }
        RecoveryRefusal::WouldDropHome => {
            "the home directory is still on its volume and restoring an archive would discard it: recover without restore_from, or add accept_data_loss"
        }
        RecoveryRefusal::BeingDeleted => {
            "that copy of the home is being deleted: choose another archive with restore_from"
        }
    }
}

fn limit_text(hit: &LimitHit) -> String {
    use codehub_domain::limits::LimitScope;
    match hit.scope {
        LimitScope::User { limit } => {
            format!("you can run {limit} at once: stop another workspace first")
        }
        LimitScope::Global { limit } => {
            format!("this server's limit of {limit} running workspaces is reached: try again later")
        }
    }
}

/// What somebody wants to do with a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The owner only: work in it, start it, edit it.
    Own,
    /// The owner and administrators: look at it, stop it, recover it, delete it.
    Manage,
}

/// The living workspace, if this person may have that access to it.
///
/// # Errors
/// Unknown and deleted are the same; somebody else's is forbidden.
pub async fn find(app: &App, user: &User, id: WorkspaceId, access: Access) -> Result<Workspace, Denied> {
    let workspace = app.store().workspace_get(id).await?.ok_or(Denied::NotFound)?;
    permit(user, &workspace, access)?;
    Ok(workspace)
}

/// The same for somebody who is about to do this: that they may not is written down.
///
/// # Errors
/// As [`find`].
pub async fn find_to(
    app: &App,
    by: &Identity,
    id: WorkspaceId,
    access: Access,
    action: AuditAction,
) -> Result<Workspace, Denied> {
    let found = find(app, &by.user, id, access).await;
    if let Err(Denied::Forbidden(_)) = &found {
        act::note_denied(app, &by.act, action, Some(AuditObject::workspace(id, ""))).await;
    }
    found
}

/// The rule behind [`find`].
///
/// # Errors
/// The user may not do that with this workspace; where they may not even know of it, it is not found.
pub fn permit(user: &User, workspace: &Workspace, access: Access) -> Result<(), Denied> {
    if workspace.deleted_at.is_some() {
        return Err(Denied::NotFound);
    }
    if workspace.owner == user.id {
        return Ok(());
    }
    match access {
        Access::Manage if user.is_admin() => Ok(()),
        Access::Manage => Err(Denied::Forbidden("this workspace belongs to another user")),
        Access::Own => Err(Denied::Forbidden("only the owner may do this")),
    }
}

/// Creates a workspace; a refused one leaves nothing behind. An archive to begin with must be there, and
/// be one's own.
///
/// # Errors
/// The limit is reached, or the archive is not to be had.
pub async fn create(app: &App, by: &Identity, new: NewWorkspace) -> Result<Workspace, Denied> {
    if let Some(key) = new.from_archive {
        archives::source(app, &by.user, key).await?;
    }
    match app.store().workspace_create(&by.act, new, app.config.limits, by.actor()).await? {
        Created::Created(workspace) | Created::Already(workspace) => Ok(*workspace),
        Created::KeyTaken => {
            let why = "was sent before with another request: choose another key".into();
            Err(Denied::Invalid { field: "Idempotency-Key", why })
        }
        Created::LimitReached(hit) => Err(Denied::Limit(hit)),
        Created::ArchiveGone => Err(archives::gone("from_archive")),
    }
}

/// What the asked-for state asks of the one who asks.
pub const fn access_for(desired: Desired) -> Access {
    match desired {
        Desired::Running => Access::Own,
        Desired::Standby | Desired::Archived | Desired::Deleted => Access::Manage,
    }
}

/// What the history says of somebody who asked for this target state.
pub const fn requested(desired: Desired) -> Reason {
    match desired {
        Desired::Running => Reason::StartRequested,
        Desired::Standby => Reason::StopRequested,
        Desired::Archived => Reason::ArchiveRequested,
        Desired::Deleted => Reason::DeleteRequested,
    }
}

/// What a recovery asks of the one who asks: it is an administrator's, too, but starting is not.
pub fn access_for_recovery(desired: Option<Desired>) -> Access {
    desired.map_or(Access::Manage, access_for)
}

/// Asks for another desired state on somebody's behalf, after [`find`].
///
/// A stop ends what still runs of a workspace in ERROR, too: that is a recovery to STANDBY.
///
/// # Errors
/// Busy, in ERROR, gone, over the limit, or a choice is missing without which nothing may be ended.
pub async fn ask(
    app: &App,
    by: &Identity,
    id: WorkspaceId,
    desired: Desired,
    reason: &Reason,
) -> Result<Workspace, Denied> {
    match edit_and_ask(app, by, id, Edit::default(), desired, reason).await {
        // What still runs of one in ERROR takes a place, and whoever needs that place may end it.
        Err(Denied::NeedsRecovery) if desired == Desired::Standby && still_runs(app, id).await? => {
            recover(app, by, id, Recovery::default(), Some(desired)).await
        }
        answer => answer,
    }
}

async fn still_runs(app: &App, id: WorkspaceId) -> Result<bool, Denied> {
    Ok(app.store().workspace_get(id).await?.is_some_and(|found| takes_a_place(&found)))
}

/// Edits what an owner may edit, after [`find`].
///
/// # Errors
/// Gone meanwhile.
pub async fn edit(app: &App, by: &Identity, id: WorkspaceId, edit: Edit) -> Result<Workspace, Denied> {
    app.store().workspace_edit(&by.act, id, edit).await?.ok_or(Denied::NotFound)
}

/// Edits and asks at once: both, or nothing.
///
/// # Errors
/// As [`ask`].
pub async fn edit_and_ask(
    app: &App,
    by: &Identity,
    id: WorkspaceId,
    edit: Edit,
    desired: Desired,
    reason: &Reason,
) -> Result<Workspace, Denied> {
    let ask = Ask { desired, edit, limits: app.config.limits, actor: by.actor(), reason };
    match app.store().workspace_edit_and_ask(&by.act, id, ask).await? {
        Asked::Changed(workspace) | Asked::Already(workspace) => Ok(*workspace),
        Asked::NotFound | Asked::Refused(Refusal::Gone) => Err(Denied::NotFound),
        Asked::Refused(Refusal::Busy(operation)) => Err(Denied::Busy(operation)),
        Asked::Refused(Refusal::NeedsRecovery) => Err(Denied::NeedsRecovery),
        Asked::LimitReached(hit) => Err(Denied::Limit(hit)),
    }
}

/// How long "not yet" is.
const SNOOZE: u32 = 3600;

/// The longest lease this deployment allows, in seconds.
pub fn longest_hold(app: &App) -> u32 {
    u32::try_from(app.config.activity.max_hold.as_secs()).unwrap_or(u32::MAX)
}

/// Keeps a workspace awake for that long: the owner only, and only one that is meant to run and can.
///
/// # Errors
/// Somebody else's, gone, not meant to run, or in ERROR.
pub async fn hold(
    app: &App,
    user: &User,
    id: WorkspaceId,
    seconds: u32,
    reason: &str,
) -> Result<Hold, Denied> {
    let workspace = find(app, user, id, Access::Own).await?;
    if workspace.status.phase == Phase::Error {
        return Err(Denied::NeedsRecovery);
    }
    if workspace.desired != Desired::Running {
        return Err(Denied::NotRunning);
    }
    if app.store().workspace_holds(id).await?.len() >= MOST_HOLDS {
        return Err(Denied::TooManyHolds);
    }
    let new = NewHold { id: HoldId::from_uuid(Uuid::now_v7()), by: user.id, seconds, reason: reason.into() };
    let (_, hold) = app.store().workspace_hold(id, new).await?.ok_or(Denied::NotFound)?;
    Ok(hold)
}

/// Not yet: a lease of an hour, or of as long as the deployment allows.
///
/// # Errors
/// As [`hold`].
pub async fn snooze(app: &App, user: &User, id: WorkspaceId) -> Result<Hold, Denied> {
    hold(app, user, id, SNOOZE.min(longest_hold(app)), SNOOZED).await
}

/// Recovers from ERROR, after [`find`]. An archive to go back to must be this workspace's own, and
/// must really be there: better to refuse now than to lose the way back. What is wanted stays, unless
/// another desired state is asked for with it ([`access_for_recovery`]). A home that was lost is looked for
/// first: whoever has just put it back need not wait until somebody looks, and gives nothing up.
///
/// # Errors
/// Not in ERROR, a choice that is missing, an archive that is not there, over the limit, or nobody can see
/// whether the home is still lost.
pub async fn recover(
    app: &App,
    by: &Identity,
    id: WorkspaceId,
    recovery: Recovery,
    desired: Option<Desired>,
) -> Result<Workspace, Denied> {
    let workspace = app.store().workspace_get(id).await?.ok_or(Denied::NotFound)?;
    if let Some(key) = recovery.restore_from {
        const FIELD: &str = "restore_from";
        if !belongs_to(key, &workspace) {
            let why = "this archive belongs to another workspace".into();
            return Err(Denied::Invalid { field: FIELD, why });
        }
        archives::existing(app, FIELD, key).await?;
    }
    let home =
        if home_is_lost(&workspace.status) { home::look_for(app, &workspace).await } else { Seen::Unknown };
    let recovery = Recovery { home_found: home.is_there(), ..recovery };
    match app.store().workspace_recover(&by.act, id, recovery, desired, app.config.limits, by.actor()).await?
    {
        Recovered::Recovered(workspace) => Ok(*workspace),
        Recovered::NotFound => Err(Denied::NotFound),
        Recovered::Refused(RecoveryRefusal::HomeIsLost) if home.is_unknown() => Err(Denied::Unreachable(
            "the home directory was missing, and its storage is not responding now: try again".into(),
        )),
        Recovered::Refused(refusal) => Err(Denied::Recovery(refusal)),
        Recovered::LimitReached(hit) => Err(Denied::Limit(hit)),
    }
}
