//! What happened to a workspace.

use std::sync::Arc;

use axum::{Json, Router, extract::State, routing::get};
use codehub_domain::{
    Operation, Phase, Timestamp, WorkspaceId,
    event::{HistoryEntry, Reason},
};
use serde::{Deserialize, Serialize};
use utoipa::{
    OpenApi, ToSchema,
    openapi::{Object, ObjectBuilder, Type},
};

use super::{
    error::{ErrorBody, Result},
    extract::{self, CurrentUser, PathId},
    page::{self, ListOf},
    view::{OperationName, PhaseName},
};
use crate::{
    app::App,
    service::{self, Access},
};

#[derive(OpenApi)]
#[openapi(paths(list))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/workspaces/{id}/history", get(list))
}

/// One transition.
#[derive(Serialize, ToSchema)]
#[schema(as = Transition)]
struct TransitionView {
    at: Timestamp,
    #[schema(value_type = PhaseName)]
    from: Phase,
    #[schema(value_type = PhaseName)]
    to: Phase,
    #[schema(value_type = OperationName)]
    operation: Operation,
    /// A sentence in English.
    reason: String,
    /// The reason for programs: does not change between versions. `other` is what a version wrote that this
    /// one does not know.
    #[schema(schema_with = reason_code)]
    reason_code: &'static str,
    /// `user:{id}`, `wake:{id}`, `controller`, `ttl` or `operator`.
    actor: String,
}

impl From<HistoryEntry> for TransitionView {
    fn from(entry: HistoryEntry) -> Self {
        let HistoryEntry { id: _, at, from, to, operation, reason, actor } = entry;
        Self { at, from, to, operation, reason: reason.to_string(), reason_code: reason.code(), actor }
    }
}

/// Every code that `reason_code` can have.
pub(super) fn reason_code() -> Object {
    let codes = Reason::CODES.iter().copied();
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes)).build()
}

/// Serializes a reason as its English sentence.
pub(super) fn sentence<S: serde::Serializer>(
    reason: &Reason,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(reason)
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
}

/// History of a workspace
///
/// Every transition, newest first.
#[utoipa::path(get, path = "/workspaces/{id}/history", tag = "workspaces", params(("id" = String, Path, description = "The workspace"), ListQuery), responses(
    (status = 200, description = "A page of transitions", body = ListOf<TransitionView>),
    (status = 403, description = "FORBIDDEN: it belongs to another user", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
))]
async fn list(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<WorkspaceId>,
    extract::Params(query): extract::Params<ListQuery>,
) -> Result<Json<ListOf<TransitionView>>> {
    let limit = page::limit(query.limit.as_deref())?;
    let before = page::parse_cursor::<i64>("history", query.cursor.as_deref())?;
    service::find(&app, &me.user, id, Access::Manage).await?;
    let page = app.store().workspace_history(id, before, limit).await?;
    let next_cursor = page.items.last().filter(|_| page.more).map(|last| page::cursor("history", last.id));
    let items = page.items.into_iter().map(Into::into).collect();
    Ok(Json(ListOf { items, next_cursor, total: page.total }))
}
