//! What the program in a workspace printed.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use codehub_domain::WorkspaceId;
use codehub_runtime::LogQuery;
use futures::{StreamExt as _, future::Either};
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use utoipa::OpenApi;

use super::{
    error::{ApiError, ErrorBody, Result},
    extract::{self, PathId},
    revalidated::Revalidated,
};
use crate::{
    app::App,
    service::{self, Access, Denied},
};

const TAIL_DEFAULT: usize = 1000;
const TAIL_MAX: usize = 100_000;

#[derive(OpenApi)]
#[openapi(paths(read))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/workspaces/{id}/logs", get(read))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct LogsQuery {
    /// The last so many lines; 1000 unless said.
    #[param(value_type = Option<u32>, minimum = 0, maximum = 100_000)]
    tail: Option<String>,
    /// `true`: go on with what is printed from now on.
    #[param(value_type = Option<bool>)]
    follow: Option<String>,
}

impl LogsQuery {
    fn parse(&self) -> Result<LogQuery> {
        let tail = match self.tail.as_deref() {
            None => TAIL_DEFAULT,
            Some(text) => text.parse().ok().filter(|tail| *tail <= TAIL_MAX).ok_or_else(|| {
                ApiError::invalid("tail", format!("must be a whole number from 0 to {TAIL_MAX}"))
            })?,
        };
        let follow = match self.follow.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(ApiError::invalid("follow", "must be true or false")),
        };
        Ok(LogQuery { tail, follow })
    }
}

/// Logs of a workspace
///
/// As printed, oldest first; also after the program has ended. A followed log ends with the connection, and when
/// whoever follows it may not any more.
#[utoipa::path(get, path = "/workspaces/{id}/logs", tag = "workspaces", params(("id" = String, Path, description = "The workspace"), LogsQuery), responses(
    (status = 200, description = "What was printed", body = String, content_type = "text/plain"),
    (status = 400, description = "INVALID_REQUEST: tail or follow", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 503, description = "UPSTREAM_UNAVAILABLE: the runtime does not answer", body = ErrorBody),
))]
async fn read(
    State(app): State<Arc<App>>,
    revalidated: Revalidated,
    PathId(id): PathId<WorkspaceId>,
    extract::Params(query): extract::Params<LogsQuery>,
) -> Result<Response> {
    let query = query.parse()?;
    service::find(&app, &revalidated.me.user, id, Access::Manage).await?;
    let logs = app.backends.instances.logs(id, query).await.map_err(|error| {
        tracing::warn!(workspace = %id, %error, "logs cannot be read");
        Denied::Unreachable("the logs cannot be read now: try again".into())
    })?;
    let allowed = if query.follow {
        Either::Left(Box::pin(revalidated.ended(Arc::clone(&app), Some(id))))
    } else {
        Either::Right(std::future::pending())
    };
    let shutdown = app.shutdown.clone().cancelled_owned();
    let body = Body::from_stream(logs.take_until(futures::future::select(Box::pin(shutdown), allowed)));
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}
