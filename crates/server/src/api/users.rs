//! People, for administrators.

use std::sync::Arc;

use axum::{Json, Router, extract::State, routing::get};
use codehub_domain::{
    TokenId, UserId,
    user::{Role, User},
};
use codehub_store::{UserChange, UserEdit};
use http::StatusCode;
use serde::Deserialize;
use utoipa::{OpenApi, ToSchema};
use uuid::Uuid;

use super::{
    error::{ApiError, Code, ErrorBody, Result},
    extract::{self, Admin, PathId, PathIds},
    page::{self, ListOf},
    tokens::TokenView,
    view::{RoleName, UserView},
};
use crate::app::App;
use codehub_domain::fields as rules;

#[derive(OpenApi)]
#[openapi(paths(list, create, show, edit, delete, list_tokens, delete_token))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/users", get(list).post(create))
        .route("/users/{id}", get(show).patch(edit).delete(delete))
        .route("/users/{id}/tokens", get(list_tokens))
        .route("/users/{id}/tokens/{token_id}", axum::routing::delete(delete_token))
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

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "username": "ann", "password": "correct horse battery", "role": "user" }))]
struct NewUser {
    /// 1 to 64 of a-z, A-Z, 0-9, `.`, `_`, `-`; told apart without case.
    username: String,
    /// 8 to 1024 characters.
    password: String,
    #[serde(default)]
    #[schema(value_type = Option<RoleName>)]
    role: Option<Role>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct EditUser {
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    #[schema(value_type = Option<RoleName>)]
    role: Option<Role>,
    /// A disabled account cannot sign in, and its tokens do not work. Its workspaces stay.
    #[serde(default)]
    disabled: Option<bool>,
}

/// List users
#[utoipa::path(get, path = "/users", tag = "users", params(ListQuery), responses(
    (status = 200, description = "All users", body = ListOf<UserView>),
    (status = 403, description = "FORBIDDEN: administrators only", body = ErrorBody),
))]
async fn list(
    State(app): State<Arc<App>>,
    _: Admin,
    extract::Params(query): extract::Params<ListQuery>,
) -> Result<Json<ListOf<UserView>>> {
    let limit = page::limit(query.limit.as_deref())?;
    let after = page::parse_cursor::<UserId>("users", query.cursor.as_deref())?;
    let page = app.store().user_list(after, limit).await?;
    let next_cursor = page.items.last().filter(|_| page.more).map(|last| page::cursor("users", last.id));
    let items = page.items.into_iter().map(Into::into).collect();
    Ok(Json(ListOf { items, next_cursor, total: page.total }))
}

/// Create a user
#[utoipa::path(post, path = "/users", tag = "users", request_body = NewUser, responses(
    (status = 201, description = "Created", body = UserView),
    (status = 400, description = "INVALID_REQUEST", body = ErrorBody),
    (status = 409, description = "NAME_TAKEN; INVALID_STATE: workspaces run without a sandbox, so there can only be one user (PROCESS_UNSANDBOXED_USERS)", body = ErrorBody),
))]
async fn create(
    State(app): State<Arc<App>>,
    Admin(me): Admin,
    extract::Json(new): extract::Json<NewUser>,
) -> Result<(StatusCode, Json<UserView>)> {
    rules::username(&new.username).map_err(|why| ApiError::invalid("username", why))?;
    rules::password(&new.password).map_err(|why| ApiError::invalid("password", why))?;
    if app.is_for_one_user() {
        return Err(ApiError::new(
            Code::InvalidState,
            "workspaces run without a sandbox on this server, so users could read and change each other's files: \
             install bubblewrap on the server, or allow it with PROCESS_UNSANDBOXED_USERS=many",
        ));
    }
    let hash = app.passwords.hash(&new.password).await?;
    let id = UserId::from_uuid(Uuid::now_v7());
    let role = new.role.unwrap_or(Role::User);
    let user = done(app.store().user_create(&me.act, id, &new.username, &hash, role).await?)?;
    Ok((StatusCode::CREATED, Json(user.into())))
}

/// Show a user
#[utoipa::path(get, path = "/users/{id}", tag = "users", params(("id" = String, Path, description = "The user")), responses(
    (status = 200, description = "The user", body = UserView),
    (status = 403, description = "FORBIDDEN: administrators only", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
))]
async fn show(State(app): State<Arc<App>>, _: Admin, PathId(id): PathId<UserId>) -> Result<Json<UserView>> {
    let user = app.store().user_get(id).await?.ok_or_else(|| ApiError::not_found("user"))?;
    Ok(Json(user.into()))
}

/// Edit a user
///
/// A new password, another role or disabling ends the user's sessions. A new password deletes their tokens. The last
/// enabled administrator stays one.
#[utoipa::path(patch, path = "/users/{id}", tag = "users", params(("id" = String, Path, description = "The user")), request_body = EditUser, responses(
    (status = 200, description = "The user afterwards", body = UserView),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: no administrator would be left", body = ErrorBody),
))]
async fn edit(
    State(app): State<Arc<App>>,
    Admin(me): Admin,
    PathId(id): PathId<UserId>,
    extract::Json(edit): extract::Json<EditUser>,
) -> Result<Json<UserView>> {
    let password_hash = match &edit.password {
        Some(password) => {
            rules::password(password).map_err(|why| ApiError::invalid("password", why))?;
            Some(app.passwords.hash(password).await?)
        }
        None => None,
    };
    let edit = UserEdit { password_hash, role: edit.role, disabled: edit.disabled, ..UserEdit::default() };
    Ok(Json(done(app.store().user_edit(&me.act, id, edit).await?)?.into()))
}

/// Delete a user
///
/// Only one who owns no workspaces: delete those first, or disable the user.
#[utoipa::path(delete, path = "/users/{id}", tag = "users", params(("id" = String, Path, description = "The user")), responses(
    (status = 204, description = "Deleted"),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
    (status = 409, description = "INVALID_STATE: owns workspaces, or is the last administrator", body = ErrorBody),
))]
async fn delete(
    State(app): State<Arc<App>>,
    Admin(me): Admin,
    PathId(id): PathId<UserId>,
) -> Result<StatusCode> {
    done(app.store().user_delete(&me.act, id).await?)?;
    Ok(StatusCode::NO_CONTENT)
}

/// List a user's tokens
#[utoipa::path(get, path = "/users/{id}/tokens", tag = "users", params(("id" = String, Path, description = "The user")), responses(
    (status = 200, description = "Their tokens, without the secrets; newest first", body = ListOf<TokenView>),
    (status = 403, description = "FORBIDDEN: administrators only", body = ErrorBody),
    (status = 404, description = "NOT_FOUND", body = ErrorBody),
))]
async fn list_tokens(
    State(app): State<Arc<App>>,
    _: Admin,
    PathId(id): PathId<UserId>,
) -> Result<Json<ListOf<TokenView>>> {
    app.store().user_get(id).await?.ok_or_else(|| ApiError::not_found("user"))?;
    let tokens = app.store().token_list(id).await?;
    Ok(Json(ListOf::whole(tokens.into_iter().map(Into::into).collect())))
}

/// Revoke a user's token
///
/// It stops working at once, and what was opened with it ends.
#[utoipa::path(delete, path = "/users/{id}/tokens/{token_id}", tag = "users", params(
    ("id" = String, Path, description = "The user"),
    ("token_id" = String, Path, description = "The token"),
), responses(
    (status = 204, description = "Revoked"),
    (status = 403, description = "FORBIDDEN: administrators only", body = ErrorBody),
    (status = 404, description = "NOT_FOUND: no such token of this user", body = ErrorBody),
))]
async fn delete_token(
    State(app): State<Arc<App>>,
    Admin(me): Admin,
    PathIds(id, token): PathIds<UserId, TokenId>,
) -> Result<StatusCode> {
    if !app.store().token_delete(&me.act, id, token).await? {
        return Err(ApiError::not_found("token of this user"));
    }
    tracing::info!(user = %id, %token, by = %me.user.id, "an administrator revoked a token");
    Ok(StatusCode::NO_CONTENT)
}

fn done(change: UserChange) -> Result<User> {
    match change {
        UserChange::Done(user) => Ok(user),
        UserChange::NotFound => Err(ApiError::not_found("user")),
        UserChange::NameTaken => Err(ApiError::new(Code::NameTaken, "this username is taken")),
        UserChange::LastAdmin => Err(ApiError::new(
            Code::InvalidState,
            "this is the last administrator who can sign in: make another user an administrator first",
        )),
        UserChange::OwnsWorkspaces(count) => Err(ApiError::new(
            Code::InvalidState,
            format!("the user still owns {count} workspace(s): delete those first, or disable the user"),
        )),
    }
}
