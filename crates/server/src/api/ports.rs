//! What a workspace listens on and what it uses, as the program inside says.

use std::sync::Arc;

use axum::{Json, Router, extract::State, routing::get};
use codehub_domain::WorkspaceId;
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{Code, ErrorBody, Result},
    extract::{CurrentUser, PathId},
    inside,
    page::ListOf,
};
use crate::{app::App, auth::Identity, lines::OpenLine};

#[derive(OpenApi)]
#[openapi(paths(ports, usage))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/workspaces/{id}/ports", get(ports)).route("/workspaces/{id}/usage", get(usage))
}

/// A port that something in the workspace listens on.
#[derive(Serialize, ToSchema)]
#[schema(as = Port)]
struct PortView {
    port: u16,
    /// What the program calls itself; empty where that cannot be told.
    process: String,
    /// It listens on loopback addresses only, which is enough for `…/tcp/{port}`.
    loopback_only: bool,
}

/// What a workspace uses; null while it does not run.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = Usage)]
struct UsageView {
    /// Bytes of the home on its disk; counted at most once a minute.
    home_bytes: Option<u64>,
    /// Whether that is all of it: a home of very many files is not counted to the end.
    home_complete: Option<bool>,
    /// Bytes of memory of all its programs, without files that are kept in memory.
    memory_bytes: Option<u64>,
    processes: Option<u32>,
}

/// The line to a workspace, or `None` where it does not run.
async fn line(app: &App, me: &Identity, id: WorkspaceId) -> Result<Option<OpenLine>> {
    let workspace = inside::find(app, me, id).await?;
    match inside::line(app, me, workspace, false).await {
        Ok(line) => Ok(Some(line)),
        Err(error) if error.code == Code::WorkspaceStandby => Ok(None),
        Err(error) => Err(error),
    }
}

/// Ports
///
/// The TCP ports that something in the workspace listens on, without the IDE's own; none while it does not run. Looking
/// is no activity. The owner only.
#[utoipa::path(get, path = "/workspaces/{id}/ports", tag = "exec", params(("id" = String, Path, description = "The workspace")), responses(
    (status = 200, description = "The ports", body = ListOf<PortView>),
    (status = 403, description = "FORBIDDEN: somebody else's, or switched off", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: in ERROR, or started by a CodeHub that could not do this: restart it", body = ErrorBody),
    (status = 503, description = "UPSTREAM_UNAVAILABLE", body = ErrorBody),
))]
async fn ports(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
) -> Result<Json<ListOf<PortView>>> {
    let Some(line) = line(&app, &me, id).await? else { return Ok(Json(ListOf::whole(Vec::new()))) };
    let upstream = app.backends.instances.upstream(id).await.ok().flatten();
    let ide = upstream.and_then(|upstream| upstream.address.port()).map(|address| address.port());
    let found = line.ports().await.map_err(inside::failed)?;
    let found = found.into_iter().filter(|port| Some(port.port) != ide).map(|port| PortView {
        port: port.port,
        process: port.process,
        loopback_only: port.loopback_only,
    });
    Ok(Json(ListOf::whole(found.collect())))
}

/// Usage
///
/// What the workspace uses, by its own account. Looking is no activity. The owner only.
#[utoipa::path(get, path = "/workspaces/{id}/usage", tag = "exec", params(("id" = String, Path, description = "The workspace")), responses(
    (status = 200, description = "What it uses", body = UsageView),
    (status = 403, description = "FORBIDDEN: somebody else's, or switched off", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: in ERROR, or started by a CodeHub that could not do this: restart it", body = ErrorBody),
    (status = 503, description = "UPSTREAM_UNAVAILABLE", body = ErrorBody),
))]
async fn usage(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
) -> Result<Json<UsageView>> {
    let Some(line) = line(&app, &me, id).await? else { return Ok(Json(UsageView::default())) };
    let usage = line.usage().await.map_err(inside::failed)?;
    Ok(Json(UsageView {
        home_bytes: Some(usage.home_bytes),
        home_complete: Some(usage.home_complete),
        memory_bytes: Some(usage.memory_bytes),
        processes: Some(usage.processes),
    }))
}
