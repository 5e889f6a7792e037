//! The first run: creating the first administrator with the token the server printed.

use std::sync::Arc;

use axum::{Json, Router, extract::State, response::Response, routing::get};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::{
    auth::{SessionView, signed_in},
    error::{ErrorBody, Result},
    extract::{self, Acting, NotForeign},
};
use crate::{
    app::App,
    auth::{first_run, login},
};

#[derive(OpenApi)]
#[openapi(paths(is_needed, complete))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/setup", get(is_needed).post(complete))
}

#[derive(Serialize, ToSchema)]
struct SetupState {
    /// There is no user yet: the server's log has the link.
    needed: bool,
}

/// Is set-up needed
#[utoipa::path(get, path = "/setup", tag = "set-up", security(()), responses(
    (status = 200, description = "Whether there is still no user", body = SetupState),
))]
async fn is_needed(State(app): State<Arc<App>>) -> Result<Json<SetupState>> {
    Ok(Json(SetupState { needed: first_run::is_needed(&app).await? }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Setup {
    /// From the link `{base}/setup?token=…` that the server printed at start.
    token: String,
    username: String,
    password: String,
}

/// Create the first administrator
///
/// Works once, while there is no user, for whoever holds the token; signs them in.
#[utoipa::path(post, path = "/setup", tag = "set-up", security(()), request_body = Setup, responses(
    (status = 201, description = "Created and signed in", body = SessionView),
    (status = 400, description = "INVALID_REQUEST: username or password will not do", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: not the current token", body = ErrorBody),
    (status = 409, description = "SETUP_DONE", body = ErrorBody),
))]
async fn complete(
    State(app): State<Arc<App>>,
    _: NotForeign,
    Acting(by): Acting,
    extract::Json(setup): extract::Json<Setup>,
) -> Result<Response> {
    let user = first_run::complete(&app, &by, &setup.token, &setup.username, &setup.password).await?;
    Ok(signed_in(&app, StatusCode::CREATED, login::open_session(&app, &by, user).await?))
}
