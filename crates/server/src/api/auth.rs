//! Signing in and out.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    response::{AppendHeaders, IntoResponse, Response},
    routing::{get, post},
};
use codehub_domain::{TokenId, user::User};
use codehub_store::{SessionEnd, UserChange, UserEdit};
use http::{HeaderMap, StatusCode, header::SET_COOKIE};
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::{
    error::{ApiError, ErrorBody, Result},
    extract::{self, Acting, ClientAddress, CurrentUser, NotForeign},
    view::UserView,
};
use crate::{
    app::App,
    auth::{
        AuthError, Via, cookie,
        login::{self, Ended, SignedIn},
        planted,
    },
};
use codehub_domain::fields as rules;

#[derive(OpenApi)]
#[openapi(paths(sign_in, sign_out, session, change_password))]
pub(super) struct Docs;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/auth/login", post(sign_in))
        .route("/auth/logout", post(sign_out))
        .route("/auth/session", get(session))
        .route("/auth/password", post(change_password))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "username": "ann", "password": "correct horse battery" }))]
struct Credentials {
    username: String,
    password: String,
}

/// Whoever is signed in.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionView {
    pub(super) user: UserView,
    /// The token the request was made with; absent where it was a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub(super) token_id: Option<TokenId>,
    /// The version of the server.
    pub(super) server_version: &'static str,
}

impl SessionView {
    fn of(user: User, via: Option<Via>) -> Self {
        let token_id = match via {
            Some(Via::Token(id)) => Some(id),
            Some(Via::Session(_)) | None => None,
        };
        Self { user: user.into(), token_id, server_version: env!("CARGO_PKG_VERSION") }
    }
}

/// The answer to a new session: who it is, and the cookie.
pub(super) fn signed_in(app: &App, status: StatusCode, signed_in: SignedIn) -> Response {
    let https = app.config.is_https();
    let cookie = cookie::set(&signed_in.secret, https);
    let device = signed_in.device.map(|device| [(SET_COOKIE, cookie::set_device(&device, https))]);
    let body = SessionView::of(signed_in.user, None);
    // Appended: the session's comes first.
    (status, AppendHeaders([(SET_COOKIE, cookie)]), device.map(AppendHeaders), Json(body)).into_response()
}

/// Sign in
///
/// Opens a session of 24 hours, sliding, and ends the one the request came with. After five wrong
/// tries waiting begins: 30 seconds, doubling up to 30 minutes. A browser that has signed in before (its cookie `device`)
/// is counted by itself, and waits less. The body is at most 16 KiB and has to come within 10 seconds.
#[utoipa::path(post, path = "/auth/login", tag = "sessions", security(()), request_body = Credentials, responses(
    (status = 200, description = "Signed in; the session is in the cookie `session` (`__Host-Http-session` by https)", body = SessionView),
    (status = 401, description = "UNAUTHORIZED: wrong username or password", body = ErrorBody),
    (status = 429, description = "TOO_MANY_ATTEMPTS, with Retry-After", body = ErrorBody),
))]
async fn sign_in(
    State(app): State<Arc<App>>,
    _: NotForeign,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    extract::Json(credentials): extract::Json<Credentials>,
) -> Result<Response> {
    let Credentials { username, password } = credentials;
    let session = login::login(&app, &username, &password, address, &headers).await?;
    let mut response = signed_in(&app, StatusCode::OK, session);
    // No page of ours signs in this way: in a browser it is somebody else's script or worker.
    planted::evict(response.headers_mut());
    Ok(response)
}

/// Sign out
///
/// Ends every session among the request's cookies. Succeeds without a cookie, too.
#[utoipa::path(post, path = "/auth/logout", tag = "sessions", security(()), responses(
    (status = 204, description = "Signed out"),
    (status = 401, description = "UNAUTHORIZED: no cookie is a current session, so nothing was ended", body = ErrorBody),
    (status = 403, description = "FORBIDDEN: sent by another site's page", body = ErrorBody),
))]
async fn sign_out(
    State(app): State<Arc<App>>,
    _: NotForeign,
    Acting(by): Acting,
    headers: HeaderMap,
) -> Result<Response> {
    let mut response = match login::end_sessions(&app, &by, &headers, SessionEnd::Logout).await? {
        Ended::Sessions | Ended::Nothing => StatusCode::NO_CONTENT.into_response(),
        Ended::Unknown => {
            let why = AuthError::Unauthorized("no cookie is a current session: nothing was ended");
            ApiError::from(why).into_response()
        }
    };
    cookie::clear(response.headers_mut(), &headers, "/api/v1/auth/logout", app.config.is_https());
    Ok(response)
}

/// Who am I
#[utoipa::path(get, path = "/auth/session", tag = "sessions", responses(
    (status = 200, description = "Whoever the cookie or token belongs to", body = SessionView),
    (status = 401, description = "UNAUTHORIZED", body = ErrorBody),
))]
async fn session(CurrentUser(identity): CurrentUser) -> Json<SessionView> {
    Json(SessionView::of(identity.user, Some(identity.via)))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PasswordChange {
    current_password: String,
    new_password: String,
    /// One's tokens are deleted with the old password, unless this is true.
    #[serde(default)]
    keep_tokens: bool,
}

/// Change one's own password
///
/// Ends all of one's sessions; the browser that asked gets a new one, and is the only one that stays known. Deletes one's tokens, too, unless `keep_tokens`
/// is true: whoever knew the old password may have made some. Wrong current passwords are counted like failed
/// sign-ins.
#[utoipa::path(post, path = "/auth/password", tag = "sessions", request_body = PasswordChange, responses(
    (status = 200, description = "Changed", body = SessionView),
    (status = 400, description = "INVALID_REQUEST: the new password will not do", body = ErrorBody),
    (status = 401, description = "UNAUTHORIZED: the current password is wrong", body = ErrorBody),
    (status = 429, description = "TOO_MANY_ATTEMPTS, with Retry-After", body = ErrorBody),
))]
async fn change_password(
    State(app): State<Arc<App>>,
    CurrentUser(identity): CurrentUser,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    extract::Json(change): extract::Json<PasswordChange>,
) -> Result<Response> {
    rules::password(&change.new_password).map_err(|why| ApiError::invalid("new_password", why))?;
    let by = &identity.act;
    login::verify(&app, by, &identity.user.username, &change.current_password, address, &headers).await?;
    let password_hash = Some(app.passwords.hash(&change.new_password).await?);
    let keep_device = login::known_device(&app, identity.user.id, &headers).await?;
    let edit =
        UserEdit { password_hash, keep_tokens: change.keep_tokens, keep_device, ..UserEdit::default() };
    match app.store().user_edit(by, identity.user.id, edit).await? {
        UserChange::Done(user) => match identity.via {
            Via::Session(_) => {
                let session = login::open_session(&app, &identity.act, user).await?;
                Ok(signed_in(&app, StatusCode::OK, session))
            }
            via @ Via::Token(_) => Ok(Json(SessionView::of(user, Some(via))).into_response()),
        },
        UserChange::NotFound
        | UserChange::NameTaken
        | UserChange::LastAdmin
        | UserChange::OwnsWorkspaces(_) => Err(ApiError::not_found("user")),
    }
}
