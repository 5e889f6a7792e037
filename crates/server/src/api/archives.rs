//! The archives kept of a workspace.

use std::sync::Arc;

use axum::{Json, Router, extract::State, routing::get};
use codehub_domain::{ArchiveKey, Timestamp, WorkspaceId};
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ErrorBody, Result},
    extract::{CurrentUser, PathId},
    page::ListOf,
};
use crate::{
    app::App,
    service::{self, Access, Denied},
};

#[derive(OpenApi)]
#[openapi(paths(list))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/workspaces/{id}/archives", get(list))
}

/// A finished archive.
#[derive(Serialize, ToSchema)]
#[schema(as = Archive)]
struct ArchiveView {
    /// What `recover` takes as `restore_from`.
    #[schema(value_type = String)]
    key: ArchiveKey,
    /// Stored bytes.
    size: u64,
    created_at: Timestamp,
    /// The workspace's `archive_key`: what a start restores while it is archived.
    current: bool,
}

/// Archives of a workspace
///
/// Those kept, newest first; uploads that did not finish are none.
#[utoipa::path(get, path = "/workspaces/{id}/archives", tag = "workspaces", params(("id" = String, Path, description = "The workspace")), responses(
    (status = 200, description = "The archives", body = ListOf<ArchiveView>),
    (status = 403, description = "FORBIDDEN: somebody else's", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 503, description = "UPSTREAM_UNAVAILABLE: the archives cannot be reached", body = ErrorBody),
))]
async fn list(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
) -> Result<Json<ListOf<ArchiveView>>> {
    let workspace = service::find(&app, &me.user, id, Access::Manage).await?;
    let mut listed = app.backends.archives.list_of(id).await.map_err(|error| {
        tracing::warn!(workspace = %id, %error, "archives cannot be listed");
        Denied::Unreachable("the archives cannot be reached: try again".into())
    })?;
    listed.retain(|archive| archive.complete);
    // Operation ids grow with time, so this is newest first whatever the clocks of the storage say.
    listed.sort_unstable_by_key(|archive| std::cmp::Reverse(archive.key.op));
    let items = listed
        .into_iter()
        .map(|archive| ArchiveView {
            key: archive.key,
            size: archive.size,
            created_at: archive.modified_at,
            current: workspace.status.archive_key == Some(archive.key),
        })
        .collect();
    Ok(Json(ListOf::whole(items)))
}
