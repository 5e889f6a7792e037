//! The archives kept of a workspace, and a look into them.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, RawQuery, State},
    response::{IntoResponse, Response},
    routing::get,
};
use codehub_adapters::archive::{ArchiveError, ArchivedFile, FileKind};
use codehub_domain::{ArchiveKey, OpId, Timestamp, WorkspaceId};
use http::{
    HeaderValue,
    header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE},
};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ApiError, Code, ErrorBody, Result},
    extract::{CurrentUser, PathId},
    page::{self, ListOf},
};
use crate::{
    app::App,
    auth::Identity,
    service::{self, Access, Denied},
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
        let name = file.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let nanoseconds = i32::try_from(file.mtime_nanoseconds).unwrap_or(0);
        Self {
            name: String::from_utf8_lossy(name).into_owned(),
            path: percent_encode(&file.path, NON_ALPHANUMERIC).to_string(),
            kind: match file.kind {
                FileKind::Directory => "directory",
                FileKind::File => "file",
                FileKind::Symlink => "symlink",
                FileKind::HardLink => "hardlink",
            },
            size: file.size,
            mode: format!("{:04o}", file.mode),
            modified_at: Timestamp::new(file.mtime_seconds, nanoseconds).ok(),
            target: (!file.target.is_empty()).then(|| String::from_utf8_lossy(&file.target).into_owned()),
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
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
    /// The `next_cursor` of the page before.
    #[param(value_type = Option<String>)]
    cursor: Option<Vec<u8>>,
}

impl FilesQuery {
    fn parse(raw: Option<&str>, pages: bool) -> Result<Self> {
        let mut query = Self::default();
        for pair in raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value: Vec<u8> = percent_decode_str(&value.replace('+', " ")).collect();
            match name {
                "path" => query.path = value,
                "limit" if pages => query.limit = Some(String::from_utf8_lossy(&value).into_owned()),
                "cursor" if pages => query.cursor = Some(value),
                other => return Err(ApiError::invalid(other, "there is no such parameter")),
            }
        }
        while query.path.last() == Some(&b'/') {
            query.path.pop();
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
    (status = 403, description = "FORBIDDEN: somebody else's", body = ErrorBody),
    (status = 404, description = "NOT_FOUND: the workspace, the archive, or a directory of that path", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: archived before archives had a list of their files", body = ErrorBody),
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
    let found = app.backends.archives.files(&key, &query.path, query.cursor.as_deref(), limit).await;
    let found = found.map_err(|error| not_seen(key, &error))?;
    let found = found.ok_or_else(|| ApiError::not_found("directory in this archive"))?;
    let last = found.files.last().filter(|_| found.more);
    let next_cursor = last.map(|last| {
        let name = last.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        percent_encode(name, NON_ALPHANUMERIC).to_string()
    });
    Ok(Json(ArchivedFiles { items: found.files.into_iter().map(Into::into).collect(), next_cursor }))
}

/// A file of an archive
///
/// Its bytes, without restoring the rest. Only the owner gets it. A connection that breaks off before
/// `Content-Length` is reached means that the archive could not be read to the end.
#[utoipa::path(get, path = "/workspaces/{id}/archives/{archive}/file", tag = "workspaces", params(("id" = String, Path, description = "The workspace"), ("archive" = String, Path, description = "The archive's id"), ("path" = String, Query, description = "From the home down, without a leading slash")), responses(
    (status = 200, description = "The file", body = String, content_type = "application/octet-stream"),
    (status = 400, description = "INVALID_REQUEST: a directory or a symbolic link", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: somebody else's", body = ErrorBody),
    (status = 404, description = "NOT_FOUND: the workspace, the archive, or a file of that path", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: archived before archives had a list of their files", body = ErrorBody),
    (status = 503, description = "UPSTREAM_UNAVAILABLE: the archives cannot be reached", body = ErrorBody),
))]
async fn file(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    Path(ids): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let key = own_archive(&app, &me, &ids).await?;
    let query = FilesQuery::parse(query.as_deref(), false)?;
    let found = app.backends.archives.file(&key, &query.path).await.map_err(|error| not_seen(key, &error))?;
    let (file, stream) = found.ok_or_else(|| ApiError::not_found("file in this archive"))?;
    let stream = stream.ok_or_else(|| ApiError::invalid("path", "is a directory or a symbolic link"))?;
    let name = file.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = format!("attachment; filename*=UTF-8''{}", percent_encode(name, NON_ALPHANUMERIC));
    let disposition = HeaderValue::try_from(name).map_err(|error| ApiError::internal(&error))?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (CONTENT_LENGTH, HeaderValue::from(file.size)),
        (CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, Body::from_stream(stream)).into_response())
}

/// The archive, if this person owns the workspace it is of.
async fn own_archive(app: &App, me: &Identity, ids: &(String, String)) -> Result<ArchiveKey> {
    let id: WorkspaceId = ids.0.parse().map_err(|_| ApiError::not_found("workspace"))?;
    service::find(app, &me.user, id, Access::Own).await?;
    let op: OpId = ids.1.parse().map_err(|_| ApiError::not_found("archive"))?;
    Ok(ArchiveKey::of(id, op))
}

fn not_seen(key: ArchiveKey, error: &ArchiveError) -> ApiError {
    match error {
        ArchiveError::NotFound { .. } => ApiError::not_found("archive"),
        ArchiveError::NotListed => ApiError::new(
            Code::InvalidState,
            "this archive was made before archives had a list of their files: restore it to see them",
        ),
        error => {
            tracing::warn!(archive = %key, %error, "an archive cannot be looked into");
            Denied::Unreachable("the archive cannot be read now: try again".into()).into()
        }
    }
}
