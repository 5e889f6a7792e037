//! Why a workspace is awake, and keeping it awake: what was seen, leases, and snoozing.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    routing::{delete, post},
};
use codehub_domain::{
    Desired, HoldId, Phase, Timestamp, UserId, Workspace, WorkspaceId,
    activity::{ActivityMode, Hold, SNOOZED},
    event::{HistoryEntry, Reason},
};
use codehub_store::StoreError;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ApiError, ErrorBody, Result},
    extract::{self, CurrentUser, PathId},
    fields, history,
    page::ListOf,
    view::ActivityModeName,
};
use crate::{
    app::App,
    auth::Identity,
    service::{self, Access, Denied},
};
use codehub_proxy::activity::{ActivityKind, Cell};

#[derive(OpenApi)]
#[openapi(paths(keep_awake, list, release_all, release, snooze))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/workspaces/{id}/keepalive", post(keep_awake).get(list).delete(release_all))
        .route("/workspaces/{id}/keepalive/{hold}", delete(release))
        .route("/workspaces/{id}/snooze", post(snooze))
}

/// Why a workspace is awake, or why it is not. Activity is what this server process has seen.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Activity)]
pub struct ActivityView {
    /// The mode in force: the workspace's own, or the deployment's.
    #[schema(value_type = ActivityModeName)]
    pub mode: ActivityMode,
    /// What keeps it awake: the newest activity, an open connection where those count, or a lease.
    pub active_because: Option<BecauseView>,
    /// When each kind was last seen: `http`, `connection`, `typing`, `terminal_output`, `browser_message`,
    /// `workspace_message`.
    pub last: BTreeMap<&'static str, Timestamp>,
    pub open_connections: u32,
    /// Leases that have not ended, the longest first.
    pub holds: Vec<HoldView>,
    /// When it will sleep unless something happens: `stops_at` of the workspace.
    pub sleeps_at: Option<Timestamp>,
    /// Of one that sleeps or is about to: who or what wanted it.
    pub stopped_because: Option<StoppedView>,
}

/// What kept a workspace awake last.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ActiveBecause)]
pub struct BecauseView {
    /// One of the kinds of `last`, `open_connection`, or `hold`.
    pub kind: &'static str,
    /// When it was seen; of a lease, when it ends.
    pub at: Timestamp,
    /// A sentence: "terminal output 12 s ago".
    pub text: String,
}

/// Why a workspace does not run.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = StoppedBecause)]
pub struct StoppedView {
    pub at: Timestamp,
    /// A sentence in English.
    #[schema(value_type = String)]
    #[serde(serialize_with = "history::sentence")]
    pub reason: Reason,
    /// The reason for programs, as in the history.
    #[schema(schema_with = history::reason_code)]
    pub reason_code: &'static str,
    /// As in the history.
    pub actor: String,
}

/// A keep-awake lease.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Hold)]
pub struct HoldView {
    #[schema(value_type = String, format = Uuid)]
    pub id: HoldId,
    #[schema(value_type = String, format = Uuid)]
    pub by: UserId,
    pub reason: String,
    pub created_at: Timestamp,
    pub until: Timestamp,
}

impl From<Hold> for HoldView {
    fn from(Hold { id, by, reason, created_at, until }: Hold) -> Self {
        Self { id, by, reason, created_at, until }
    }
}

/// Everything that is known about why this workspace is awake or asleep.
///
/// # Errors
/// The database does not answer.
pub async fn of(app: &App, workspace: &Workspace) -> std::result::Result<ActivityView, StoreError> {
    let now = app.store().now().await?;
    let holds = app.store().workspace_holds(workspace.id).await?;
    let cell = app.activity.peek(workspace.id);
    let mode = workspace.activity_mode.unwrap_or(app.config.activity.mode);
    let sleeps_at = app.expiry(workspace).filter(|it| it.to == Desired::Standby).map(|it| it.acts_at);
    let mut view = seen(workspace, cell.as_deref(), &holds, mode, now, sleeps_at);
    if workspace.desired != Desired::Running {
        let history = app.store().workspace_history(workspace.id, None, 20).await?;
        // A line that changes no phase and comes from no controller is somebody's wish; one about what has
        // never been anything yet is its creation.
        let is_wish = |line: &HistoryEntry| line.from == line.to && line.actor != "controller";
        let desired = history.items.into_iter().find(is_wish).filter(|line| line.from != Phase::Pending);
        view.stopped_because = desired.map(|line| StoppedView {
            at: line.at,
            reason_code: line.reason.code(),
            reason: line.reason,
            actor: line.actor,
        });
    }
    Ok(view)
}

/// What keeps a workspace awake and since or until when, from what this process has in memory: cheap enough for
/// every row of a list. `None` where it does not run, or nothing was seen yet.
pub fn awake_because(app: &App, workspace: &Workspace, now: Timestamp) -> Option<(&'static str, Timestamp)> {
    if workspace.status.phase != Phase::Running {
        return None;
    }
    if let Some(until) = workspace.held_until.filter(|until| *until > now) {
        return Some(("hold", until));
    }
    let cell = app.activity.peek(workspace.id)?;
    let mode = workspace.activity_mode.unwrap_or(app.config.activity.mode);
    if mode == ActivityMode::Connections && cell.open_sockets() > 0 {
        return Some(("open_connection", now));
    }
    let ages = ActivityKind::ALL.into_iter().filter_map(|kind| Some((kind, cell.age(kind)?)));
    let (kind, age) = ages.min_by_key(|(_, age)| *age)?;
    Some((kind.as_str(), now.checked_sub(jiff::SignedDuration::try_from(age).ok()?).ok()?))
}

fn seen(
    workspace: &Workspace,
    cell: Option<&Cell>,
    holds: &[Hold],
    mode: ActivityMode,
    now: Timestamp,
    sleeps_at: Option<Timestamp>,
) -> ActivityView {
    let ago = |age: Duration| now.saturating_sub(jiff::SignedDuration::try_from(age).unwrap_or_default());
    let ages: Vec<(ActivityKind, Duration)> =
        ActivityKind::ALL.into_iter().filter_map(|kind| Some((kind, cell?.age(kind)?))).collect();
    let last: BTreeMap<_, _> =
        ages.iter().filter_map(|(kind, age)| Some((kind.as_str(), ago(*age).ok()?))).collect();
    let newest = ages.iter().min_by_key(|(_, age)| *age);
    let open_connections = cell.map_or(0, Cell::open_sockets);
    let runs = workspace.status.phase == Phase::Running;
    let connected = mode == ActivityMode::Connections && open_connections > 0;

    let active_because = if !runs {
        None
    } else if let Some(hold) = holds.first() {
        let text = format!("kept awake: {}", hold.reason);
        Some(BecauseView { kind: "hold", at: hold.until, text })
    } else if connected {
        let text = format!("{open_connections} open");
        Some(BecauseView { kind: "open_connection", at: now, text: format!("connections: {text}") })
    } else {
        newest.and_then(|(kind, age)| {
            let text = format!("{} {} s ago", kind.as_str().replace('_', " "), age.as_secs());
            Some(BecauseView { kind: kind.as_str(), at: ago(*age).ok()?, text })
        })
    };
    ActivityView {
        mode,
        active_because,
        last,
        open_connections,
        holds: holds.iter().cloned().map(Into::into).collect(),
        sleeps_at,
        stopped_because: None,
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "seconds": 7200, "reason": "a long build" }))]
struct KeepAwake {
    /// At least 1; at most what the deployment allows (`ACTIVITY_MAX_HOLD`).
    seconds: u32,
    /// At most 200 characters.
    #[serde(default)]
    reason: String,
}

async fn take(
    app: &App,
    me: &Identity,
    id: WorkspaceId,
    KeepAwake { seconds, reason }: KeepAwake,
) -> Result<(StatusCode, Json<HoldView>)> {
    let max = service::longest_hold(app);
    if !(1..=max).contains(&seconds) {
        return Err(ApiError::invalid(
            "seconds",
            format!("must be 1 to {max}: this deployment allows no more"),
        ));
    }
    let reason = fields::hold_reason(&reason)?;
    let hold = service::hold(app, &me.user, id, seconds, reason).await?;
    Ok((StatusCode::CREATED, Json(hold.into())))
}

/// Keep awake
///
/// A lease: counts as activity until it ends or is given back, also over a restart of the server. The
/// owner only.
#[utoipa::path(post, path = "/workspaces/{id}/keepalive", tag = "activity", params(("id" = String, Path, description = "The workspace")), request_body = KeepAwake, responses(
    (status = 201, description = "The lease", body = HoldView),
    (status = 400, description = "INVALID_REQUEST: longer than allowed", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: it is not meant to run", body = ErrorBody),
    (status = 429, description = "LIMIT_EXCEEDED: it has 64 leases already", body = ErrorBody),
))]
async fn keep_awake(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
    extract::Json(body): extract::Json<KeepAwake>,
) -> Result<(StatusCode, Json<HoldView>)> {
    take(&app, &me, id, body).await
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Snooze {
    /// An hour unless said, or as long as the deployment allows.
    #[serde(default)]
    seconds: Option<u32>,
}

/// Snooze
///
/// Not yet: a lease of an hour. The owner only.
#[utoipa::path(post, path = "/workspaces/{id}/snooze", tag = "activity", params(("id" = String, Path, description = "The workspace")), request_body = Snooze, responses(
    (status = 201, description = "The lease", body = HoldView),
    (status = 400, description = "INVALID_REQUEST: longer than allowed", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: it is not meant to run", body = ErrorBody),
    (status = 429, description = "LIMIT_EXCEEDED: it has 64 leases already", body = ErrorBody),
))]
async fn snooze(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
    extract::OptionalJson(body): extract::OptionalJson<Snooze>,
) -> Result<(StatusCode, Json<HoldView>)> {
    match body.seconds {
        Some(seconds) => take(&app, &me, id, KeepAwake { seconds, reason: SNOOZED.into() }).await,
        None => Ok((StatusCode::CREATED, Json(service::snooze(&app, &me.user, id).await?.into()))),
    }
}

/// Leases
///
/// Those that have not ended, the longest first.
#[utoipa::path(get, path = "/workspaces/{id}/keepalive", tag = "activity", params(("id" = String, Path, description = "The workspace")), responses(
    (status = 200, description = "The leases", body = ListOf<HoldView>),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
))]
async fn list(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
) -> Result<Json<ListOf<HoldView>>> {
    service::find(&app, &me.user, id, Access::Manage).await?;
    let holds = app.store().workspace_holds(id).await?;
    Ok(Json(ListOf::whole(holds.into_iter().map(Into::into).collect())))
}

/// Give all leases back
///
/// The standby TTL begins now. The owner or an administrator.
#[utoipa::path(delete, path = "/workspaces/{id}/keepalive", tag = "activity", params(("id" = String, Path, description = "The workspace")), responses(
    (status = 204, description = "No lease is left"),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
))]
async fn release_all(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
) -> Result<StatusCode> {
    service::find(&app, &me.user, id, Access::Manage).await?;
    app.store().workspace_release(id, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a lease back
///
/// The owner or an administrator.
#[utoipa::path(delete, path = "/workspaces/{id}/keepalive/{hold}", tag = "activity", params(("id" = String, Path, description = "The workspace"), ("hold" = String, Path, description = "The lease")), responses(
    (status = 204, description = "It has ended"),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND: no such workspace, or the lease no longer exists", body = ErrorBody),
))]
async fn release(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    axum::extract::Path((id, hold)): axum::extract::Path<(String, String)>,
) -> Result<StatusCode> {
    let (Ok(id), Ok(hold)) = (id.parse::<WorkspaceId>(), hold.parse::<HoldId>()) else {
        return Err(Denied::NotFound.into());
    };
    service::find(&app, &me.user, id, Access::Manage).await?;
    match app.store().workspace_release(id, Some(hold)).await? {
        Some(_) => Ok(StatusCode::NO_CONTENT),
        None => Err(ApiError::new(super::error::Code::NotFound, "this lease no longer exists")),
    }
}
