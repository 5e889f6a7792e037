//! Signing in a program: it asks here, somebody confirms it at `/device`, and it fetches its token here.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::post,
};
use codehub_store::DeviceRedeemed;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ApiError, Code, ErrorBody, Result},
    extract::{self, Acting, ClientAddress, NotForeign},
    tokens::CreatedToken,
    view::UserView,
};
use crate::{
    app::App,
    auth::device::{self, Begun, DeviceError},
};

#[derive(OpenApi)]
#[openapi(paths(begin, fetch))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/auth/device", post(begin)).route("/auth/device/token", post(fetch))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeviceLogin, example = json!({ "machine": "ann-laptop" }))]
struct Ask {
    /// What the machine is called: shown to whoever confirms it. 1 to 64 characters.
    machine: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = DeviceCode)]
struct Asked {
    /// The program's secret: fetches the token.
    device_code: String,
    /// What a person types or compares.
    user_code: String,
    /// Where they do: a path of this server's.
    verification_path: &'static str,
    /// The same with the code filled in, to be compared.
    verification_path_complete: String,
    expires_in_seconds: u32,
    /// How long to wait between two questions for the token.
    interval_seconds: u32,
}

/// Ask to be signed in
///
/// For programs without a browser. Somebody who is signed in opens `verification_path`, types the code (or compares it,
/// at `verification_path_complete`) and allows it; until then, for 10 minutes, the program asks for its token.
#[utoipa::path(post, path = "/auth/device", tag = "tokens", security(()), request_body = Ask, responses(
    (status = 201, description = "A code", body = Asked),
    (status = 400, description = "INVALID_REQUEST: machine", body = ErrorBody),
    (status = 429, description = "TOO_MANY_ATTEMPTS, with Retry-After", body = ErrorBody),
))]
async fn begin(
    State(app): State<Arc<App>>,
    _: NotForeign,
    ClientAddress(address): ClientAddress,
    extract::Json(Ask { machine }): extract::Json<Ask>,
) -> Result<(StatusCode, Json<Asked>)> {
    let Begun { device_code, user_code } = device::begin(&app, &machine, address).await?;
    let asked = Asked {
        verification_path_complete: format!("/device?code={user_code}"),
        device_code,
        user_code,
        verification_path: "/device",
        expires_in_seconds: device::LIFETIME_SECONDS,
        interval_seconds: device::INTERVAL_SECONDS,
    };
    Ok((StatusCode::CREATED, Json(asked)))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeviceCodeOnly)]
struct Fetch {
    device_code: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = DeviceToken)]
struct Fetched {
    #[serde(flatten)]
    token: CreatedToken,
    /// Whose it is.
    user: UserView,
}

/// Nobody has decided yet.
#[derive(Serialize, ToSchema)]
#[schema(as = DevicePending)]
struct Pending {
    /// Ask again after this long.
    interval_seconds: u32,
}

/// Fetch the token
///
/// Once. The token is an ordinary one and lasts 30 days.
#[utoipa::path(post, path = "/auth/device/token", tag = "tokens", security(()), request_body = Fetch, responses(
    (status = 200, description = "Allowed: the only time the token's secret is shown", body = Fetched),
    (status = 202, description = "Nobody has decided yet", body = Pending),
    (status = 403, description = "FORBIDDEN: denied", body = ErrorBody),
    (status = 404, description = "NOT_FOUND: expired, fetched already, or whoever allowed it has signed out", body = ErrorBody),
))]
async fn fetch(
    State(app): State<Arc<App>>,
    _: NotForeign,
    Acting(by): Acting,
    extract::Json(Fetch { device_code }): extract::Json<Fetch>,
) -> Result<Response> {
    let (secret, redeemed) = device::redeem(&app, &by, &device_code).await?;
    match redeemed {
        DeviceRedeemed::Minted(token, user) => {
            let token = CreatedToken { token: secret, view: token.into() };
            Ok(Json(Fetched { token, user: user.into() }).into_response())
        }
        DeviceRedeemed::Pending => {
            let pending = Pending { interval_seconds: device::INTERVAL_SECONDS };
            Ok((StatusCode::ACCEPTED, Json(pending)).into_response())
        }
        DeviceRedeemed::Denied => Err(ApiError::new(Code::Forbidden, "the sign-in was denied")),
        DeviceRedeemed::Unknown => {
            Err(ApiError::new(Code::NotFound, "the code has expired or was used: ask for a new one"))
        }
    }
}

impl From<DeviceError> for ApiError {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Machine => Self {
                details: Some(serde_json::json!({ "field": "machine" })),
                ..Self::new(Code::InvalidRequest, error.to_string())
            },
            DeviceError::Wait(seconds) => {
                Self { retry_after: Some(seconds), ..Self::new(Code::TooManyAttempts, error.to_string()) }
            }
            DeviceError::Store(error) => error.into(),
        }
    }
}
