//! What one asks of a workspace: start, stop, archive, recover.

use std::{sync::Arc, time::Duration};

use axum::{Json, Router, extract::State, routing::post};
use codehub_domain::{Desired, Workspace, WorkspaceId, audit::AuditAction, recovery::Recovery};
use http::StatusCode;
use serde::Deserialize;
use utoipa::{IntoResponses, OpenApi, ToSchema};

use super::{
    error::{ErrorBody, Result},
    extract::{self, CurrentUser, PathId},
    fields,
    view::{DesiredName, WorkspaceView},
    wait::{self, WaitQuery},
    workspaces::view,
};
use crate::{app::App, auth::Identity, service};

#[derive(OpenApi)]
#[openapi(paths(start, stop, archive, recover))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/workspaces/{id}/start", post(start))
        .route("/workspaces/{id}/stop", post(stop))
        .route("/workspaces/{id}/archive", post(archive))
        .route("/workspaces/{id}/recover", post(recover))
}

type Answer = Result<(StatusCode, Json<WorkspaceView>)>;

/// These take no body; one that is sent anyway must be an empty object.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Who asks, for which workspace, and how long they wait: all that these three are told.
type Asked = (
    State<Arc<App>>,
    CurrentUser,
    PathId<WorkspaceId>,
    extract::Params<WaitQuery>,
    extract::OptionalJson<Nothing>,
);

/// What they answer, for the documentation.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes answers, and is none")]
enum Wanted {
    /// Wanted; with `wait`, where it has come to
    #[response(status = 202)]
    Accepted(Box<WorkspaceView>),
    /// FORBIDDEN: it belongs to another user
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// NOT_FOUND
    #[response(status = 404)]
    NotFound(ErrorBody),
    /// INVALID_STATE: an operation is under way, or ERROR
    #[response(status = 409)]
    InvalidState(ErrorBody),
}

async fn ask(
    (State(app), CurrentUser(me), PathId(id), extract::Params(wait), _): Asked,
    desired: Desired,
) -> Answer {
    let wait = wait.duration()?;
    let action = AuditAction::of_desired(desired);
    service::find_to(&app, &me, id, service::access_for(desired), action).await?;
    let workspace = service::ask(&app, &me, id, desired, &service::requested(desired)).await?;
    accepted(&app, &me, workspace, wait).await
}

async fn accepted(app: &App, me: &Identity, workspace: Workspace, wait: Duration) -> Answer {
    let workspace = wait::arrived(app, workspace, wait).await?;
    Ok((StatusCode::ACCEPTED, Json(view(app, &me.user, &workspace).await?)))
}

/// Start
///
/// desired_state RUNNING. Counts as activity, also when it is already wanted. The owner only.
#[utoipa::path(post, path = "/workspaces/{id}/start", tag = "workspaces", params(("id" = String, Path, description = "The workspace"), WaitQuery), responses(
    Wanted,
    (status = 429, description = "LIMIT_EXCEEDED: `details.running` lists one's own running workspaces", body = ErrorBody),
))]
async fn start(asked: Asked) -> Answer {
    ask(asked, Desired::Running).await
}

/// Stop
///
/// desired_state STANDBY. Ends what still runs of a workspace in ERROR, too: that recovers it to STANDBY. The owner
/// or an administrator.
#[utoipa::path(post, path = "/workspaces/{id}/stop", tag = "workspaces", params(("id" = String, Path, description = "The workspace"), WaitQuery), responses(Wanted))]
async fn stop(asked: Asked) -> Answer {
    ask(asked, Desired::Standby).await
}

/// Archive
///
/// desired_state ARCHIVED: stopped, packed away, and its volume removed. The owner or an administrator.
#[utoipa::path(post, path = "/workspaces/{id}/archive", tag = "workspaces", params(("id" = String, Path, description = "The workspace"), WaitQuery), responses(Wanted))]
async fn archive(asked: Asked) -> Answer {
    ask(asked, Desired::Archived).await
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RecoverBody {
    /// Go back to this archive: a key from `/workspaces/{id}/archives`.
    #[serde(default)]
    restore_from: Option<String>,
    /// Give up what is lost (or, with `restore_from`, what is newer).
    #[serde(default)]
    accept_data_loss: bool,
    /// What it is to be from now on: RUNNING (the owner only), STANDBY or ARCHIVED. As it was, unless said.
    #[serde(default)]
    #[schema(value_type = Option<DesiredName>)]
    desired_state: Option<String>,
}

/// Recover
///
/// Clears the error and lets reality decide again; desired_state stays, unless another one is asked for with it:
/// all of it, or nothing. A lost home needs a choice: `restore_from` or `accept_data_loss`. The owner or an
/// administrator.
#[utoipa::path(post, path = "/workspaces/{id}/recover", tag = "workspaces", params(("id" = String, Path, description = "The workspace"), WaitQuery), request_body = RecoverBody, responses(
    (status = 202, description = "Recovering; with `wait`, where it has come to", body = WorkspaceView),
    (status = 400, description = "INVALID_REQUEST: no such archive, no such state", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: not in ERROR, or a choice is missing (the message names the ways out)", body = ErrorBody),
    (status = 429, description = "LIMIT_EXCEEDED: it was to run, and `details.running` lists one's own running workspaces", body = ErrorBody),
))]
async fn recover(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
    extract::Params(wait): extract::Params<WaitQuery>,
    extract::OptionalJson(body): extract::OptionalJson<RecoverBody>,
) -> Answer {
    let wait = wait.duration()?;
    let recovery = Recovery {
        restore_from: fields::archive_key("restore_from", body.restore_from.as_deref())?,
        accept_data_loss: body.accept_data_loss,
        ..Recovery::default()
    };
    let desired = body.desired_state.as_deref().map(fields::desired_state).transpose()?;
    let (access, action) = (service::access_for_recovery(desired), AuditAction::WorkspaceRecovered);
    service::find_to(&app, &me, id, access, action).await?;
    let workspace = service::recover(&app, &me, id, recovery, desired).await?;
    accepted(&app, &me, workspace, wait).await
}
