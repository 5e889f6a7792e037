//! What a workspace listens on and what it uses, as the program inside says.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    routing::{get, put},
};
use codehub_domain::{
    WorkspaceId,
    audit::AuditAction,
    ports::{PortActivity, PortHost, PortScheme, PortSettings, Visibility},
};
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ApiError, Code, ErrorBody, Result},
    extract::{self, CurrentUser, PathId, PathIds},
    inside,
    page::ListOf,
};
use crate::{
    app::App,
    auth::Identity,
    lines::OpenLine,
    service::{self, Access},
};

#[derive(OpenApi)]
#[openapi(paths(ports, edit, usage))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/workspaces/{id}/ports", get(ports))
        .route("/workspaces/{id}/ports/{port}", put(edit))
        .route("/workspaces/{id}/usage", get(usage))
}

/// A port that something in the workspace listens on, or that its owner said something about.
#[derive(Serialize, ToSchema)]
#[schema(as = Port)]
pub(super) struct PortView {
    port: u16,
    /// Whether something listens there now.
    listening: bool,
    /// What the program calls itself; empty where that cannot be told.
    process: String,
    /// It listens on loopback addresses only, which is enough for `…/tcp/{port}` and for the browser.
    loopback_only: bool,
    /// Where it is opened in the browser; null where this server opens no ports, or not this one.
    url: Option<String>,
    label: String,
    /// How its program is spoken to: `http`, or `https` (whatever certificate it shows).
    #[schema(value_type = String)]
    scheme: PortScheme,
    /// Which address its program is told it was asked for by: `local` (`localhost` and the port, as development servers
    /// expect) or `public` (what the browser shows).
    #[schema(value_type = String)]
    host: PortHost,
    /// Who may open it: `owner` or `signed-in` (everybody with an account), as far as this server allows.
    #[schema(value_type = String)]
    visibility: Visibility,
    /// Whether people's requests to it keep the workspace awake: `requests` or `never`.
    #[schema(value_type = String)]
    activity: PortActivity,
}

impl From<service::ports::Port> for PortView {
    fn from(port: service::ports::Port) -> Self {
        let PortSettings { port: number, label, scheme, host, visibility, activity } = port.settings;
        Self {
            port: number,
            listening: port.listening,
            process: port.process,
            loopback_only: port.loopback_only,
            url: port.url,
            label,
            scheme,
            host,
            visibility,
            activity,
        }
    }
}

/// # Errors
/// Neither browsers nor programs get to ports on this server.
pub(super) fn may_list_ports(app: &App) -> Result<()> {
    if app.config.exec || app.config.ports.on {
        return Ok(());
    }
    Err(ApiError::new(Code::Forbidden, "this is switched off on this server (EXEC, PORTS)"))
}

/// What holds for a port. What is left out is as if nobody had ever said anything.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "label": "the shop", "visibility": "signed-in" }))]
struct PortEdit {
    /// At most 60 characters.
    #[serde(default)]
    label: String,
    /// `http` unless said.
    #[serde(default)]
    scheme: Option<String>,
    /// `local` unless said.
    #[serde(default)]
    host: Option<String>,
    /// `owner` unless said.
    #[serde(default)]
    visibility: Option<String>,
    /// `requests` unless said.
    #[serde(default)]
    activity: Option<String>,
}

fn word<T: std::str::FromStr<Err: std::fmt::Display>>(
    field: &'static str,
    said: Option<&str>,
    otherwise: T,
) -> Result<T> {
    let Some(said) = said else { return Ok(otherwise) };
    said.parse().map_err(|error| ApiError::invalid(field, format!("{error}")))
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
/// The TCP ports that something in the workspace listens on, without the IDE's own, and those that were said something
/// about; while it does not run only these. Looking is no activity. The owner only.
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
    let workspace = service::find_to(&app, &me, id, Access::Own, AuditAction::ExecStarted).await?;
    may_list_ports(&app)?;
    let listening = match inside::line(&app, &me, workspace, false).await {
        Ok(_line) => service::ports::listening(&app, id).await.map_err(inside::unavailable)?,
        Err(error) if error.code == Code::WorkspaceStandby => Vec::new(),
        Err(error) => return Err(error),
    };
    let said = app.store().workspace_ports(id).await?;
    let ports = service::ports::merged(&app, id, listening, &said);
    Ok(Json(ListOf::whole(ports.into_iter().map(Into::into).collect())))
}

/// Set up a port
///
/// What its program is told, who may open it in the browser, and what it is called. A port need not be in use for that.
/// Whoever may not open it any more is gone from it within two seconds. The owner only.
#[utoipa::path(put, path = "/workspaces/{id}/ports/{port}", tag = "exec", params(("id" = String, Path, description = "The workspace"), ("port" = u16, Path, description = "The port")), request_body = PortEdit, responses(
    (status = 200, description = "The port", body = PortView),
    (status = 400, description = "INVALID_REQUEST: an unknown word, a label that is too long, or 64 ports have settings already", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: somebody else's, or more than this server allows (PORTS, PORTS_DENIED, PORTS_SHARE_MAX)", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
))]
async fn edit(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathIds(id, port): PathIds<WorkspaceId, std::num::NonZeroU16>,
    extract::Json(PortEdit { label, scheme, host, visibility, activity }): extract::Json<PortEdit>,
) -> Result<Json<PortView>> {
    let settings = PortSettings {
        port: port.get(),
        label,
        scheme: word("scheme", scheme.as_deref(), PortScheme::Http)?,
        host: word("host", host.as_deref(), PortHost::Local)?,
        visibility: word("visibility", visibility.as_deref(), Visibility::Owner)?,
        activity: word("activity", activity.as_deref(), PortActivity::Requests)?,
    };
    Ok(Json(service::ports::put(&app, &me, id, settings).await?.into()))
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
