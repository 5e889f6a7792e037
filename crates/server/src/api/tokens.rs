//! Tokens for programs: `Authorization: Bearer chp_…` everywhere a session works.

use std::sync::Arc;

use axum::{Json, Router, extract::State, routing::get};
use codehub_domain::{Timestamp, TokenId, user::ApiToken};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};
use uuid::Uuid;

use super::{
    error::{ApiError, Code, ErrorBody, Result},
    extract::{self, CurrentUser, InSession, PathId},
    page::ListOf,
};
use crate::{app::App, auth::secret};
use codehub_domain::fields as rules;

const TEN_YEARS: u32 = 3650 * 24 * 3600;

#[derive(OpenApi)]
#[openapi(paths(list, create, delete))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/auth/tokens", get(list).post(create))
        .route("/auth/tokens/{id}", axum::routing::delete(delete))
}

/// A token, without its secret.
#[derive(Serialize, ToSchema)]
#[schema(as = Token)]
pub(super) struct TokenView {
    #[schema(value_type = String, format = Uuid)]
    id: TokenId,
    name: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

impl From<ApiToken> for TokenView {
    fn from(token: ApiToken) -> Self {
        let ApiToken { id, user: _, name, created_at, expires_at, last_used_at } = token;
        Self { id, name, created_at, expires_at, last_used_at }
    }
}

#[derive(Serialize, ToSchema)]
pub(super) struct CreatedToken {
    /// The secret: shown this once, and stored only as a hash.
    pub(super) token: String,
    #[serde(flatten)]
    pub(super) view: TokenView,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "name": "backup script", "expires_in_seconds": 86400 }))]
struct NewToken {
    /// For people to tell tokens apart; 1 to 100 characters.
    name: String,
    /// Without it the token lasts until it is deleted.
    #[serde(default)]
    expires_in_seconds: Option<u32>,
}

/// List one's tokens
#[utoipa::path(get, path = "/auth/tokens", tag = "tokens", responses(
    (status = 200, description = "One's own tokens", body = ListOf<TokenView>),
))]
async fn list(State(app): State<Arc<App>>, CurrentUser(me): CurrentUser) -> Result<Json<ListOf<TokenView>>> {
    let tokens = app.store().token_list(me.user.id).await?;
    Ok(Json(ListOf::whole(tokens.into_iter().map(Into::into).collect())))
}

/// Create a token
///
/// Only with a session: a token makes no other tokens, so one that is stolen cannot outlive its end.
#[utoipa::path(post, path = "/auth/tokens", tag = "tokens", request_body = NewToken, responses(
    (status = 201, description = "Created; the only time its secret is shown", body = CreatedToken),
    (status = 400, description = "INVALID_REQUEST", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: asked for with a token, or sent with the cookie by another site's page", body = ErrorBody),
))]
async fn create(
    State(app): State<Arc<App>>,
    InSession(session, me): InSession,
    extract::Json(new): extract::Json<NewToken>,
) -> Result<(StatusCode, Json<CreatedToken>)> {
    let name = new.name.trim();
    rules::token_name(name).map_err(|why| ApiError::invalid("name", why))?;
    if new.expires_in_seconds.is_some_and(|seconds| !(1..=TEN_YEARS).contains(&seconds)) {
        return Err(ApiError::invalid("expires_in_seconds", format!("must be from 1 to {TEN_YEARS}")));
    }
    let token = secret::new_token();
    let id = TokenId::from_uuid(Uuid::now_v7());
    let created = app
        .store()
        .token_create(&me.act, id, session, name, &secret::hash(&token), new.expires_in_seconds)
        .await?;
    // It ended between the question who asks and here.
    let created =
        created.ok_or_else(|| ApiError::new(Code::Unauthorized, "the session has ended: sign in again"))?;
    Ok((StatusCode::CREATED, Json(CreatedToken { token, view: created.into() })))
}

/// Delete a token
///
/// It stops working at once.
#[utoipa::path(delete, path = "/auth/tokens/{id}", tag = "tokens", params(("id" = String, Path, description = "The token")), responses(
    (status = 204, description = "Deleted"),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
))]
async fn delete(
    State(app): State<Arc<App>>,
    CurrentUser(me): CurrentUser,
    PathId(id): PathId<TokenId>,
) -> Result<StatusCode> {
    if app.store().token_delete(&me.act, me.user.id, id).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiError::not_found("token"))
    }
}
