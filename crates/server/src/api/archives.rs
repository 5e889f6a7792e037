//! The archives kept of a workspace, and a look into them.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, RawQuery, State},
    response::Response,
    routing::get,
};
use codehub_archive::{ArchivedFile, FileKind};
use codehub_domain::{ArchiveKey, OpId, Timestamp, WorkspaceId};
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ApiError, Code, ErrorBody, Result},
    extract::{CurrentUser, PathId},
    page::{self, ListOf},
    revalidated::Revalidated,
};
use crate::{
    app::App,
    archived_http,
    auth::Identity,
    service::{
        self, Access,
        archives::{self, Unseen},
    },
};

#[derive(OpenApi)]
#[openapi(paths(list, files, file))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/workspaces/{id}/archives", get(list))
        .route("/workspaces/{id}/archives/{archive}/files", get(files))
        .route("/workspaces/{id}/archives/{archive}/file", get(file))
}

/// A finished archive.
#[derive(Serialize, ToSchema)]
#[schema(as = Archive)]
struct ArchiveView {
    /// What the paths below `archives/` take.
    #[schema(value_type = String)]
    id: OpId,
    /// What `recover` takes as `restore_from`, and a new workspace as `from_archive`.
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
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 503, description = "UPSTREAM_UNAVAILABLE: the archives cannot be reached", body = ErrorBody),
))]
async fn list(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
) -> Result<Json<ListOf<ArchiveView>>> {
    let workspace = service::find(&app, &me.user, id, Access::Manage).await?;
    let items = archives::kept(&app, id)
        .await?
        .into_iter()
        .map(|archive| ArchiveView {
            id: archive.key.op,
            key: archive.key,
            size: archive.size,
            created_at: archive.modified_at,
            current: workspace.status.archive_key == Some(archive.key),
        })
        .collect();
    Ok(Json(ListOf::whole(items)))
}

/// Something in an archived home.
#[derive(Serialize, ToSchema)]
#[schema(as = ArchivedFile)]
struct ArchivedFileView {
    /// For people: bytes that are no text are replaced.
    name: String,
    /// What `path` takes, percent-encoded already.
    path: String,
    #[schema(value_type = String, example = "file")]
    kind: &'static str,
    size: u64,
    /// Permissions, in octal.
    mode: String,
    modified_at: Option<Timestamp>,
    /// Where a link leads.
    target: Option<String>,
}

impl From<ArchivedFile> for ArchivedFileView {
    fn from(file: ArchivedFile) -> Self {
        Self {
            name: archived_http::text(archived_http::name(&file.path)).into_owned(),
            path: archived_http::encoded(&file.path),
            kind: match file.kind {
                FileKind::Directory => "directory",
                FileKind::File => "file",
                FileKind::Symlink => "symlink",
                FileKind::HardLink => "hardlink",
            },
            size: file.size,
            mode: format!("{:04o}", file.mode),
            modified_at: archived_http::modified_at(&file),
            target: (!file.target.is_empty()).then(|| archived_http::text(&file.target).into_owned()),
        }
    }
}

#[derive(Serialize, ToSchema)]
struct ArchivedFiles {
    items: Vec<ArchivedFileView>,
    /// Send it as `cursor` for the next page; null on the last one.
    next_cursor: Option<String>,
}

/// Names in a home are bytes, so this query is read as bytes.
#[derive(Default, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct FilesQuery {
    /// From the home down, without a leading slash; nothing is the home itself.
    #[param(value_type = Option<String>)]
    path: Vec<u8>,
    /// 1 to 200, 50 unless said.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// The `next_cursor` of the page before.
    #[param(value_type = Option<String>)]
    cursor: Option<Vec<u8>>,
}

impl FilesQuery {
    fn parse(raw: Option<&str>, pages: bool) -> Result<Self> {
        let mut query = Self::default();
        for (name, value) in archived_http::pairs(raw) {
            match name {
                "path" => query.path = archived_http::trimmed(value),
                "limit" if pages => query.limit = Some(String::from_utf8_lossy(&value).into_owned()),
                "cursor" if pages => query.cursor = Some(value),
                other => return Err(ApiError::invalid(other, "there is no such parameter")),
            }
        }
        Ok(query)
    }
}

/// Files of an archive
///
/// What is in one directory of an archived home, by name, without restoring it. Only the owner sees it.
#[utoipa::path(get, path = "/workspaces/{id}/archives/{archive}/files", tag = "workspaces", params(("id" = String, Path, description = "The workspace"), ("archive" = String, Path, description = "The archive's id"), FilesQuery), responses(
    (status = 200, description = "A page of the directory", body = ArchivedFiles),
    (status = 400, description = "INVALID_REQUEST: limit or cursor", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND: the workspace, the archive, or a directory of that path", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: archived before archives had a list of their files, or not the archive that was stored", body = ErrorBody),
    (status = 503, description = "UPSTREAM_UNAVAILABLE: the archives cannot be reached", body = ErrorBody),
))]
async fn files(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    Path(ids): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Json<ArchivedFiles>> {
    let key = own_archive(&app, &me, &ids).await?;
    let query = FilesQuery::parse(query.as_deref(), true)?;
    let limit = usize::try_from(page::limit(query.limit.as_deref())?).unwrap_or(usize::MAX);
    let found = archives::files(&app, &me.act, key, &query.path, query.cursor.as_deref(), limit).await?;
    let last = found.files.last().filter(|_| found.more);
    let next_cursor = last.map(|last| archived_http::encoded(archived_http::name(&last.path)));
    Ok(Json(ArchivedFiles { items: found.files.into_iter().map(Into::into).collect(), next_cursor }))
}

/// A file of an archive
///
/// Its bytes, without restoring the rest. Only the owner gets it. A connection that breaks off before
/// `Content-Length` is reached means that the archive could not be read to the end.
#[utoipa::path(get, path = "/workspaces/{id}/archives/{archive}/file", tag = "workspaces", params(("id" = String, Path, description = "The workspace"), ("archive" = String, Path, description = "The archive's id"), ("path" = String, Query, description = "From the home down, without a leading slash")), responses(
    (status = 200, description = "The file", body = String, content_type = "application/octet-stream"),
    (status = 400, description = "INVALID_REQUEST: a directory or a symbolic link", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND: the workspace, the archive, or a file of that path", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: archived before archives had a list of their files, or not the archive that was stored", body = ErrorBody),
    (status = 503, description = "UPSTREAM_UNAVAILABLE: the archives cannot be reached", body = ErrorBody),
))]
async fn file(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    revalidated: Revalidated,
    Path(ids): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let key = own_archive(&app, &me, &ids).await?;
    let query = FilesQuery::parse(query.as_deref(), false)?;
    let (file, stream) = archives::file(&app, &me.act, key, &query.path).await?;
    let answer = archived_http::attachment(&file, stream);
    Ok(answer.map(|body| revalidated.cutting(Arc::clone(&app), key.workspace, body)))
}

/// The archive, if this person owns the workspace it is of.
async fn own_archive(app: &App, me: &Identity, ids: &(String, String)) -> Result<ArchiveKey> {
    let id: WorkspaceId = ids.0.parse().map_err(|_| ApiError::not_found("workspace"))?;
    let op: OpId = ids.1.parse().map_err(|_| ApiError::not_found("archive"))?;
    Ok(archives::own(app, &me.user, id, op).await?.1)
}

impl From<Unseen> for ApiError {
    fn from(unseen: Unseen) -> Self {
        let message = unseen.to_string();
        match unseen {
            Unseen::Missing(what) => Self::not_found(what),
            Unseen::NoFile => Self::invalid("path", message),
            Unseen::NotListed | Unseen::Corrupted => Self::new(Code::InvalidState, message),
            Unseen::Denied(denied) => denied.into(),
        }
    }
}
