//! Files of a workspace's home, as they are: by the program inside, which never leaves the home.

use std::sync::{Arc, OnceLock};

use axum::{
    Json, Router,
    body::Body,
    extract::{RawQuery, Request, State},
    response::{IntoResponse, Response},
    routing::get,
};
use codehub_domain::WorkspaceId;
use codehub_proxy::activity::ActivityKind;
use futures::StreamExt as _;
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE},
};
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ApiError, ErrorBody, Result},
    extract::{CurrentUser, PathId},
    inside,
    revalidated::Revalidated,
};
use crate::app::App;

const LONGEST_PATH: usize = 12 * 1024;
const TAR: &str = "application/x-tar";

#[derive(OpenApi)]
#[openapi(paths(read, write))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/workspaces/{id}/files", get(read).put(write))
}

/// The one parameter, still encoded: a name need not be UTF-8.
fn path(query: Option<&str>) -> Result<&str> {
    let mut path = None;
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("path", value)) if path.is_none() => path = Some(value),
            _ => return Err(ApiError::invalid("path", "is the only parameter, once")),
        }
    }
    let path = path.ok_or_else(|| ApiError::invalid("path", "this parameter is missing"))?;
    if path.len() > LONGEST_PATH {
        return Err(ApiError::invalid("path", "is too long"));
    }
    Ok(path)
}

/// Read a file
///
/// A file of the home as it is, or a directory as a tar archive, streamed. What cannot be packed (unreadable entries,
/// sockets, devices) is listed in its last entry, `{name}.left-out.txt`, which is only there where there is any. `path` is relative to the home and
/// percent-encoded; links that lead out of the home are refused. The owner only.
#[utoipa::path(get, path = "/workspaces/{id}/files", tag = "exec", params(("id" = String, Path, description = "The workspace"), ("path" = String, Query, description = "Relative to the home")), responses(
    (status = 200, description = "Its bytes", content_type = "application/octet-stream"),
    (status = 400, description = "INVALID_REQUEST: path", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: somebody else's, outside of the home, or switched off", body = ErrorBody),
    (status = 404, description = "NOT_FOUND: no such workspace, or no such file", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: a pipe, socket or device, or the workspace has to be restarted", body = ErrorBody),
    (status = 503, description = "WORKSPACE_STANDBY: it sleeps; UPSTREAM_UNAVAILABLE", body = ErrorBody),
))]
async fn read(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    revalidated: Revalidated,
    PathId(id): PathId<WorkspaceId>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let workspace = inside::find(&app, &me, id).await?;
    let path = path(query.as_deref())?;
    let line = inside::line(&app, &me, workspace, false).await?;
    let answer = line.read_file(path).await.map_err(inside::failed)?;
    let headers = answer.headers();
    // Nothing else of what the workspace says about it is passed on.
    let is_tar = headers.get(CONTENT_TYPE).is_some_and(|kind| kind == TAR);
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let cell = app.activity.cell(id);
    let bytes = Body::new(answer.into_body()).into_data_stream().map(move |bytes| {
        let _open = &line;
        cell.record(ActivityKind::Http);
        bytes
    });
    let mut response = Response::new(revalidated.cutting(Arc::clone(&app), id, Body::from_stream(bytes)));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(if is_tar { TAR } else { "application/octet-stream" }),
    );
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}

/// A file that was written.
#[derive(Serialize, ToSchema)]
struct Written {
    /// Whether there was none of that name.
    created: bool,
}

/// Write a file
///
/// The body, as it is, becomes the file: whole or not at all, whatever happens meanwhile. Its directory must exist. `path`
/// is relative to the home and percent-encoded. The owner only.
#[utoipa::path(put, path = "/workspaces/{id}/files", tag = "exec", params(("id" = String, Path, description = "The workspace"), ("path" = String, Query, description = "Relative to the home")), request_body(content = String, content_type = "application/octet-stream"), responses(
    (status = 200, description = "It was replaced", body = Written),
    (status = 201, description = "It is new", body = Written),
    (status = 400, description = "INVALID_REQUEST: path; or the body broke off or has malformed chunks", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: somebody else's, outside of the home, read-only, or switched off", body = ErrorBody),
    (status = 404, description = "NOT_FOUND: no such workspace, or no such directory", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: a directory is there, or the workspace has to be restarted", body = ErrorBody),
    (status = 503, description = "WORKSPACE_STANDBY: it sleeps; UPSTREAM_UNAVAILABLE: also where its disk is full", body = ErrorBody),
))]
async fn write(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    revalidated: Revalidated,
    PathId(id): PathId<WorkspaceId>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response> {
    let workspace = inside::find(&app, &me, id).await?;
    let path = path(query.as_deref())?;
    let line = inside::line(&app, &me, workspace, false).await?;
    let cell = app.activity.cell(id);
    let broken = Arc::new(OnceLock::new());
    let told = Arc::clone(&broken);
    let bytes = request.into_body().into_data_stream().inspect(move |bytes| {
        cell.record(ActivityKind::Http);
        if let Err(error) = bytes {
            let _ = told.set(error.to_string());
        }
    });
    let written = async {
        line.write_file(path, Body::from_stream(bytes)).await.map_err(|error| match broken.get() {
            // Not the workspace's doing.
            Some(why) => ApiError::invalid("body", format!("broke off: {why}")),
            None => inside::failed(error),
        })
    };
    let created = revalidated.during(&app, id, written).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(Written { created })).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_path_is_named_and_nothing_else() {
        assert_eq!(path(Some("path=a%2Fb+c")), Ok("a%2Fb+c"));
        assert_eq!(path(Some("path=")), Ok(""));
        for wrong in [None, Some(""), Some("path=a&path=b"), Some("path=a&x=1"), Some("file=a"), Some("path")]
        {
            assert!(path(wrong).is_err(), "{wrong:?}");
        }
        assert!(path(Some(&format!("path={}", "x".repeat(LONGEST_PATH + 1)))).is_err());
    }
}
