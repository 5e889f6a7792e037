//! What was done, by whom, for administrators.

use std::sync::Arc;

use axum::{Json, Router, extract::State, routing::get};
use codehub_domain::{
    SessionId, Timestamp, TokenId, UserId,
    audit::{ActorKind, AuditAction, AuditActor, AuditEvent, AuditId, AuditOutcome},
};
use codehub_store::{ActorFilter, AuditFilter};
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ApiError, ErrorBody, Result},
    extract::{self, Admin},
    page::{self, ListOf},
};
use crate::app::App;

#[derive(OpenApi)]
#[openapi(paths(list))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/audit", get(list))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// At this time or after it (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<String>,
    /// Before this time (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<String>,
    /// A user's id or name (also what their tokens did), or `user`, `token`, `operator`, `system`, `anonymous`.
    actor: Option<String>,
    /// Such as `login.failed`.
    action: Option<String>,
    /// The id of a user, session, token or workspace, or the key of an archive.
    object: Option<String>,
    /// `ok`, `denied` or `failed`.
    outcome: Option<String>,
    /// How many at most; 50 unless said.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Who acted.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditActor)]
struct ActorView {
    #[schema(value_type = String, example = "user")]
    kind: ActorKind,
    #[schema(value_type = Option<String>, format = Uuid)]
    id: Option<UserId>,
    /// What they were called then.
    name: Option<String>,
    #[schema(value_type = Option<String>, format = Uuid)]
    session: Option<SessionId>,
    #[schema(value_type = Option<String>, format = Uuid)]
    token: Option<TokenId>,
}

impl From<AuditActor> for ActorView {
    fn from(actor: AuditActor) -> Self {
        let AuditActor { kind, id, name, session, token } = actor;
        Self { kind, id, name: said(name), session, token }
    }
}

/// What was acted on.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditObject)]
struct ObjectView {
    #[schema(example = "workspace")]
    kind: String,
    id: String,
    /// What it was called then.
    name: Option<String>,
}

/// What was changed, in words; never a secret.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditChanges)]
struct ChangesView {
    before: Option<String>,
    after: Option<String>,
}

/// Something that was done, or refused.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditEvent)]
struct EventView {
    #[schema(value_type = String, format = Uuid)]
    id: String,
    /// By the database's clock; the first time, where several are counted together.
    at: Timestamp,
    actor: ActorView,
    #[schema(example = "workspace.started")]
    action: String,
    object: Option<ObjectView>,
    #[schema(value_type = String, example = "ok")]
    outcome: AuditOutcome,
    /// Why not, or what else belongs to it.
    code: Option<String>,
    address: Option<String>,
    user_agent: Option<String>,
    request_id: Option<String>,
    /// The process that it happened in.
    replica: Option<String>,
    changes: Option<ChangesView>,
    /// How often within a minute: what is denied or fails again and again is one event.
    count: u64,
}

impl From<AuditEvent> for EventView {
    fn from(event: AuditEvent) -> Self {
        let (before, after) = (event.before, event.after);
        Self {
            id: event.id.to_string(),
            at: event.at,
            actor: event.actor.into(),
            action: event.action,
            object: event.object.map(|(kind, id, name)| ObjectView { kind, id, name: said(name) }),
            outcome: event.outcome,
            code: event.code,
            address: said(event.address),
            user_agent: said(event.user_agent),
            request_id: said(event.request_id),
            replica: said(event.replica),
            changes: (before.is_some() || after.is_some()).then_some(ChangesView { before, after }),
            count: event.count,
        }
    }
}

fn said(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// What was done
///
/// Who signed in, changed accounts, tokens and workspaces, or was refused; newest first. Kept by the database, written
/// together with what it tells of. Administrators only.
#[utoipa::path(get, path = "/audit", tag = "audit", params(ListQuery), responses(
    (status = 200, description = "A page of events", body = ListOf<EventView>),
    (status = 400, description = "INVALID_REQUEST: an unknown filter; the message says what is allowed", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: administrators only", body = ErrorBody),
))]
async fn list(
    State(app): State<Arc<App>>,
    _: Admin,
    extract::Params(query): extract::Params<ListQuery>,
) -> Result<Json<ListOf<EventView>>> {
    let filter = AuditFilter {
        from: time("from", query.from.as_deref())?,
        to: time("to", query.to.as_deref())?,
        actor: actor(&app, query.actor.as_deref()).await?,
        action: word::<AuditAction>("action", query.action.as_deref())?,
        object: query.object.filter(|object| !object.is_empty()),
        outcome: word::<AuditOutcome>("outcome", query.outcome.as_deref())?,
        before: page::parse_cursor::<AuditId>("audit", query.cursor.as_deref())?,
        limit: page::limit(query.limit.as_deref())?,
    };
    let page = app.store().audit_list(&filter).await?;
    let next_cursor = page.items.last().filter(|_| page.more).map(|last| page::cursor("audit", last.id));
    let items = page.items.into_iter().map(Into::into).collect();
    Ok(Json(ListOf { items, next_cursor, total: page.total }))
}

fn time(field: &'static str, text: Option<&str>) -> Result<Option<Timestamp>> {
    let wrong = |_| ApiError::invalid(field, "must be a time such as 2030-01-31T12:00:00Z");
    text.map(|text| text.parse().map_err(wrong)).transpose()
}

fn word<T: std::str::FromStr<Err: std::fmt::Display>>(
    field: &'static str,
    text: Option<&str>,
) -> Result<Option<T>> {
    text.map(|text| text.parse().map_err(|why: T::Err| ApiError::invalid(field, why.to_string()))).transpose()
}

async fn actor(app: &App, text: Option<&str>) -> Result<Option<ActorFilter>> {
    let Some(text) = text else { return Ok(None) };
    if let Ok(kind) = text.parse() {
        return Ok(Some(ActorFilter::Kind(kind)));
    }
    if let Ok(id) = text.parse() {
        return Ok(Some(ActorFilter::User(id)));
    }
    match app.store().user_by_name(text).await? {
        Some(found) => Ok(Some(ActorFilter::User(found.user.id))),
        None => {
            let kinds: Vec<_> = ActorKind::ALL.iter().map(|kind| kind.as_str()).collect();
            let why = format!("must be the id or the name of a user, or one of {}", kinds.join(", "));
            Err(ApiError::invalid("actor", why))
        }
    }
}
