//! Workspaces: list, create, show, edit, delete.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use axum::{
    Json, Router,
    extract::{FromRequestParts, State},
    http::request::Parts,
    routing::get,
};
use codehub_domain::{
    Desired, Phase, Workspace, WorkspaceId, audit::AuditAction, event::Reason, intent::Once, user::User,
};
use codehub_store::{Edit, ListFilter, NewWorkspace, StoreError};
use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};
use utoipa::{OpenApi, ToSchema};
use uuid::Uuid;

use super::{
    activity,
    error::{ApiError, ErrorBody, Result},
    extract::{self, CurrentUser, PathId},
    fields,
    page::{self, ListOf},
    view::{ActivityModeName, DesiredName, PhaseName, WorkspaceView},
    wait::{self, WaitQuery},
};
use crate::{
    app::App,
    service::{self, Access},
};

#[derive(OpenApi)]
#[openapi(paths(list, create, show, edit, delete))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/workspaces", get(list).post(create))
        .route("/workspaces/{id}", get(show).patch(edit).delete(delete))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// How many at most; 50 unless said.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    #[param(value_type = Option<PhaseName>)]
    phase: Option<String>,
    /// A part of the name; upper and lower case are the same.
    q: Option<String>,
    /// `key`: only those with this label; `key:value`: only those where it has this value.
    label: Option<String>,
    /// `true`: everybody's. Administrators only.
    #[param(value_type = Option<bool>)]
    all: Option<String>,
}

/// List workspaces
///
/// One's own, newest first; administrators may ask for everybody's.
#[utoipa::path(get, path = "/workspaces", tag = "workspaces", params(ListQuery), responses(
    (status = 200, description = "A page of workspaces", body = ListOf<WorkspaceView>),
    (status = 400, description = "INVALID_REQUEST: limit, cursor, phase or label", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: `all` is for administrators", body = ErrorBody),
))]
async fn list(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    extract::Params(query): extract::Params<ListQuery>,
) -> Result<Json<ListOf<WorkspaceView>>> {
    let all = match query.all.as_deref() {
        None | Some("false") => false,
        Some("true") if me.is_admin() => true,
        Some("true") => {
            return Err(service::Denied::Forbidden("only administrators may list all workspaces").into());
        }
        Some(_) => return Err(ApiError::invalid("all", "must be true or false")),
    };
    let phase = query.phase.as_deref().map(str::parse::<Phase>).transpose();
    let filter = ListFilter {
        owner: if all { None } else { Some(me.user.id) },
        phase: phase.map_err(|why| ApiError::invalid("phase", why))?,
        query: query.q.filter(|q| !q.is_empty()),
        label: fields::label_filter(query.label.as_deref())?,
        before: page::parse_cursor("workspaces", query.cursor.as_deref())?,
        limit: page::limit(query.limit.as_deref())?,
        ..ListFilter::default()
    };
    let page = app.store().workspace_list(&filter).await?;
    let next_cursor = page.items.last().filter(|_| page.more).map(|last| page::cursor("workspaces", last.id));
    let items = views(&app, &me.user, &page.items).await?;
    Ok(Json(ListOf { items, next_cursor, total: page.total }))
}

#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewWorkspace, example = json!({ "name": "fix-1234", "description": "The login page", "standby_ttl_seconds": 1800 }))]
struct Create {
    /// 1 to 255 characters after trimming, no control characters.
    name: String,
    /// At most 500 characters.
    #[serde(default)]
    description: String,
    /// At most 64 KiB.
    #[serde(default)]
    memo: String,
    /// The deployment's image unless said; others where RUNTIME_IMAGES_ALLOWED names them.
    #[serde(default)]
    image_ref: Option<String>,
    /// RUNNING unless said; not DELETED.
    #[serde(default)]
    #[schema(value_type = Option<DesiredName>)]
    desired_state: Option<String>,
    /// 0 is never; null or absent is the deployment's default.
    #[serde(default)]
    standby_ttl_seconds: Option<u32>,
    #[serde(default)]
    archive_ttl_seconds: Option<u32>,
    /// Begin with the home in this archive (a `key` of one's own workspace's archives) instead of an empty
    /// one. The archive and its workspace stay as they are.
    #[serde(default)]
    from_archive: Option<String>,
    /// Null or absent is the deployment's default.
    #[serde(default)]
    #[schema(value_type = Option<ActivityModeName>)]
    activity_mode: Option<String>,
    /// At most 32; keys of 1 to 63 characters of a-z, 0-9, `.`, `_`, `/` and `-`, values of at most 255.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// What a creation is called by its sender, so that it can be sent again.
struct IdempotencyKey(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let mut values = parts.headers.get_all("idempotency-key").iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return if parts.headers.contains_key("idempotency-key") {
                Err(ApiError::invalid("Idempotency-Key", "is there twice"))
            } else {
                Ok(Self(None))
            };
        };
        let key = value.to_str().ok().map(str::trim).filter(|key| (1..=255).contains(&key.len()));
        let wrong = || ApiError::invalid("Idempotency-Key", "must be 1 to 255 visible ASCII characters");
        key.map(|key| Self(Some(key.to_owned()))).ok_or_else(wrong)
    }
}

/// Create a workspace
///
/// With the header `Idempotency-Key` the same request can be sent again for a day: it answers with the workspace that the
/// first one created, as it is then. The same key with another request is refused.
#[utoipa::path(post, path = "/workspaces", tag = "workspaces", params(WaitQuery, ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters of the sender's choice")), request_body = Create, responses(
    (status = 201, description = "Created", body = WorkspaceView),
    (status = 400, description = "INVALID_REQUEST", body = ErrorBody),
    (status = 429, description = "LIMIT_EXCEEDED: `details.running` lists one's own running workspaces", body = ErrorBody),
))]
async fn create(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    extract::Params(query): extract::Params<WaitQuery>,
    IdempotencyKey(key): IdempotencyKey,
    extract::Json(create): extract::Json<Create>,
) -> Result<(StatusCode, Json<WorkspaceView>)> {
    let wait = query.duration()?;
    let hash =
        |text: &[u8]| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let once = key.map(|key| Once {
        key: hash(key.as_bytes()),
        request: hash(&serde_json::to_vec(&create).unwrap_or_default()),
    });
    let new = NewWorkspace {
        id: WorkspaceId::from_uuid(Uuid::now_v7()),
        owner: me.user.id,
        name: fields::name(&create.name)?,
        description: fields::description(create.description)?,
        memo: fields::memo(create.memo)?,
        image_ref: fields::image_ref(create.image_ref, &app.config.runtime)?,
        desired: create
            .desired_state
            .map_or(Ok(Desired::Running), |desired| fields::desired_state(&desired))?,
        standby_ttl_seconds: fields::standby_ttl(create.standby_ttl_seconds, &app.config.ttl)?,
        archive_ttl_seconds: fields::archive_ttl(create.archive_ttl_seconds, &app.config.ttl)?,
        from_archive: fields::archive_key("from_archive", create.from_archive.as_deref())?,
        activity_mode: fields::activity_mode(create.activity_mode.as_deref())?,
        labels: fields::labels(create.labels)?,
        once,
    };
    let workspace = service::create(&app, &me, new).await?;
    let workspace = wait::arrived(&app, workspace, wait).await?;
    Ok((StatusCode::CREATED, Json(view(&app, &me.user, &workspace).await?)))
}

/// Show a workspace
///
/// The owner's and, for looking after it, administrators'.
#[utoipa::path(get, path = "/workspaces/{id}", tag = "workspaces", params(("id" = String, Path, description = "The workspace"), WaitQuery), responses(
    (status = 200, description = "The workspace", body = WorkspaceView),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND: unknown or deleted", body = ErrorBody),
))]
async fn show(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
    extract::Params(query): extract::Params<WaitQuery>,
) -> Result<Json<WorkspaceView>> {
    let wait = query.duration()?;
    let workspace = service::find(&app, &me.user, id, Access::Manage).await?;
    let workspace = wait::arrived(&app, workspace, wait).await?;
    service::permit(&me.user, &workspace, Access::Manage)?;
    Ok(Json(view(&app, &me.user, &workspace).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EditWorkspace, example = json!({ "memo": "Deploy on Fridays? No.", "standby_ttl_seconds": null }))]
struct Patch {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    memo: Option<String>,
    /// RUNNING, STANDBY or ARCHIVED.
    #[serde(default)]
    #[schema(value_type = Option<DesiredName>)]
    desired_state: Option<String>,
    /// null goes back to the deployment's default.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    standby_ttl_seconds: Option<Option<u32>>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    archive_ttl_seconds: Option<Option<u32>>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<ActivityModeName>)]
    activity_mode: Option<Option<String>>,
    /// All of them: a label that is not named is removed.
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

/// Tells `null` from "not said".
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Edit a workspace
///
/// The owner only. All of it or nothing: a `desired_state` that is refused leaves the rest unchanged, too.
#[utoipa::path(patch, path = "/workspaces/{id}", tag = "workspaces", params(("id" = String, Path, description = "The workspace"), WaitQuery), request_body = Patch, responses(
    (status = 200, description = "The workspace afterwards", body = WorkspaceView),
    (status = 400, description = "INVALID_REQUEST", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: an operation is under way, or ERROR", body = ErrorBody),
    (status = 429, description = "LIMIT_EXCEEDED", body = ErrorBody),
))]
async fn edit(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
    extract::Params(query): extract::Params<WaitQuery>,
    extract::Json(patch): extract::Json<Patch>,
) -> Result<Json<WorkspaceView>> {
    let wait = query.duration()?;
    let ttl = &app.config.ttl;
    let edit = Edit {
        name: patch.name.as_deref().map(fields::name).transpose()?,
        description: patch.description.map(fields::description).transpose()?,
        memo: patch.memo.map(fields::memo).transpose()?,
        standby_ttl_seconds: patch
            .standby_ttl_seconds
            .map(|ttl_| fields::standby_ttl(ttl_, ttl))
            .transpose()?,
        archive_ttl_seconds: patch
            .archive_ttl_seconds
            .map(|ttl_| fields::archive_ttl(ttl_, ttl))
            .transpose()?,
        activity_mode: patch.activity_mode.map(|mode| fields::activity_mode(mode.as_deref())).transpose()?,
        labels: patch.labels.map(fields::labels).transpose()?,
    };
    let desired = patch.desired_state.as_deref().map(fields::desired_state).transpose()?;
    service::find_to(&app, &me, id, Access::Own, AuditAction::WorkspaceEdited).await?;
    let workspace = match desired {
        Some(desired) => service::edit_and_ask(&app, &me, id, edit, desired, &Reason::StateRequested).await?,
        None => service::edit(&app, &me, id, edit).await?,
    };
    let workspace = wait::arrived(&app, workspace, wait).await?;
    Ok(Json(view(&app, &me.user, &workspace).await?))
}

/// Delete a workspace
///
/// Ends it and removes its home; it is not archived first. The owner or an administrator.
#[utoipa::path(delete, path = "/workspaces/{id}", tag = "workspaces", params(("id" = String, Path, description = "The workspace"), WaitQuery), responses(
    (status = 204, description = "Deleted; what is left of it is being removed"),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: an operation is under way", body = ErrorBody),
))]
async fn delete(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
    extract::Params(query): extract::Params<WaitQuery>,
) -> Result<StatusCode> {
    let wait = query.duration()?;
    service::find_to(&app, &me, id, Access::Manage, AuditAction::WorkspaceDeleted).await?;
    let workspace =
        service::ask(&app, &me, id, Desired::Deleted, &service::requested(Desired::Deleted)).await?;
    wait::arrived(&app, workspace, wait).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// One workspace as the API shows it.
pub(super) async fn view(
    app: &App,
    me: &User,
    workspace: &Workspace,
) -> std::result::Result<WorkspaceView, StoreError> {
    let name = if workspace.owner == me.id {
        me.username.clone()
    } else {
        app.store().user_get(workspace.owner).await?.map(|user| user.username).unwrap_or_default()
    };
    let activity = Some(activity::of(app, workspace).await?);
    Ok(WorkspaceView { activity, ..WorkspaceView::of(workspace, &name, app) })
}

async fn views(
    app: &App,
    me: &User,
    workspaces: &[Workspace],
) -> std::result::Result<Vec<WorkspaceView>, StoreError> {
    let mut others: Vec<_> = workspaces.iter().map(|ws| ws.owner).filter(|id| *id != me.id).collect();
    others.sort_unstable();
    others.dedup();
    let owners = if others.is_empty() { HashMap::new() } else { app.store().users_get(&others).await? };
    let name_of = |workspace: &Workspace| {
        if workspace.owner == me.id {
            me.username.as_str()
        } else {
            owners.get(&workspace.owner).map_or("", |user| user.username.as_str())
        }
    };
    Ok(workspaces.iter().map(|ws| WorkspaceView::of(ws, name_of(ws), app)).collect())
}
