//! Who is asking: a session cookie or a bearer token, looked up in the store.
//!
//! - [`password`]: Argon2id, a bounded number at once;
//! - [`secret`]: random secrets and the hashes that are stored of them;
//! - [`cookie`]: the cookies of sessions and known browsers, read and written;
//! - [`origin`]: whether a browser sent this from one of our own pages;
//! - [`client`]: from which address somebody comes, through trusted proxies only;
//! - [`guessing`]: how many passwords anybody may try;
//! - [`login`]: all of it together;
//! - [`device`]: programs that somebody signs in with a browser;
//! - [`planted`]: service workers that stand between a browser and us, evicted at sign-in;
//! - [`first_run`]: how the first administrator comes to be;
//! - [`rules`]: what a username and a password must look like.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use codehub_domain::{
    SessionId, Timestamp, TokenId,
    audit::{Act, AuditActor},
    event::Actor,
    user::{Role, User},
};
use codehub_proxy::front::Arrival;
use codehub_store::WorkspaceOrigin;
use http::{HeaderMap, header::AUTHORIZATION, request::Parts};

use crate::app::App;

pub mod act;
pub mod cookie;
pub mod device;
pub mod first_run;
pub mod guessing;
pub mod login;
pub mod origin;
pub mod planted;
pub mod secret;

pub use codehub_proxy::credential::runs_out;

/// Somebody who proved who they are.
#[derive(Debug, Clone)]
pub struct Identity {
    pub user: User,
    pub via: Via,
    /// When that will not do any more, unless it is prolonged: a session is by being used.
    pub until: Option<Instant>,
    /// The same for the audit trail, with where the request came from.
    pub act: Act,
}

impl Identity {
    /// Whether the caller is an administrator.
    pub fn is_admin(&self) -> bool {
        self.user.role == Role::Admin
    }

    /// As whom the history names them.
    pub fn actor(&self) -> Actor {
        Actor::User(self.user.id)
    }
}

/// How they proved it. A cookie is sent by browsers by themselves, so writes need more (same origin).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Session(SessionId),
    Token(TokenId),
}

/// Why a request is not let in.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Nothing, or nothing valid, was presented.
    #[error("{0}")]
    Unauthorized(&'static str),
    /// One of them was planted, and nobody can tell which.
    #[error(
        "the request carries several session cookies; open this server's page in the browser, which removes them, and sign in again"
    )]
    SeveralSessions,
    #[error(transparent)]
    Store(#[from] codehub_store::StoreError),
}

/// Finds out who sent these headers. A token, where there is one, is what counts: it was sent on
/// purpose.
///
/// # Errors
/// Nobody valid, or the store does not answer.
pub async fn identify(app: &App, headers: &HeaderMap) -> Result<Identity, AuthError> {
    identify_from(app, headers, None).await
}

/// [`identify`], for a request from this address.
///
/// # Errors
/// As [`identify`].
pub async fn identify_from(
    app: &App,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<Identity, AuthError> {
    let act = |actor| act::of_request(headers, address).by(actor);
    if let Some(token) = bearer(headers)? {
        let found = app.store().token_use(&secret::hash(token)).await?;
        let (token, user) = found.ok_or(AuthError::Unauthorized("token is invalid or expired"))?;
        let act = act(AuditActor::with_token(&user, token.id));
        return Ok(Identity {
            user,
            via: Via::Token(token.id),
            until: token.expires_at.and_then(moment),
            act,
        });
    }
    let secret = match cookie::session_secret(headers, app.config.is_https()) {
        cookie::SessionCookies::One(secret) => secret,
        cookie::SessionCookies::None => return Err(AuthError::Unauthorized("authentication required")),
        cookie::SessionCookies::Several => return Err(AuthError::SeveralSessions),
    };
    let lifetime = session_lifetime_seconds(app);
    let found = app.store().session_use(&secret::hash(secret), lifetime).await?;
    let (session, user) = found.ok_or(AuthError::Unauthorized("the session has ended: sign in again"))?;
    let act = act(AuditActor::in_session(&user, session.id));
    Ok(Identity { user, via: Via::Session(session.id), until: moment(session.expires_at), act })
}

/// Whose session at a workspace's own origin this is the secret of, for a request from this address. It is also a use of
/// the session it came from.
///
/// # Errors
/// As [`identify`].
pub async fn identify_entered(
    app: &App,
    secret: &str,
    origin: WorkspaceOrigin,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<Identity, AuthError> {
    let lifetime = session_lifetime_seconds(app);
    let found = app.store().workspace_session_use(&secret::hash(secret), origin, lifetime).await?;
    let (session, user) =
        found.ok_or(AuthError::Unauthorized("the session has ended: open the workspace again"))?;
    let act = act::of_request(headers, address).by(AuditActor::in_session(&user, session.id));
    Ok(Identity { user, via: Via::Session(session.id), until: moment(session.expires_at), act })
}

/// [`identify_from`] for a request of the application, whose connection then is that of somebody who is signed in.
///
/// # Errors
/// As [`identify`].
pub async fn identify_sender(app: &App, parts: &Parts) -> Result<Identity, AuthError> {
    let identity = identify_from(app, &parts.headers, Some(act::client_address(app, parts))).await?;
    if let Some(arrival) = parts.extensions.get::<Arrival>() {
        arrival.place.signed_in();
    }
    Ok(identity)
}

/// A time of the database's on this process's own clock; `None` where it will not live to see it.
fn moment(at: Timestamp) -> Option<Instant> {
    let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
    Instant::now().checked_add(left)
}

pub(crate) fn session_lifetime_seconds(app: &App) -> u32 {
    u32::try_from(app.config.auth.session_lifetime.as_secs()).unwrap_or(u32::MAX)
}

/// The bearer token, if the request says it has one.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, AuthError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(AuthError::Unauthorized("the request carries several Authorization headers"));
    }
    let wrong = AuthError::Unauthorized("the Authorization header must be `Bearer` and a token");
    let text = value.to_str().map_err(|_| AuthError::Unauthorized("the Authorization header is not text"))?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        // Another scheme may be meant for the program in a workspace (the proxy hands it on): it is
        // no token of ours, and a cookie beside it still counts.
        Some(_) => Ok(None),
        None => Err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_tokens_are_found_and_nothing_else() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            bearer(&headers).map(|token| token.map(str::to_owned)).map_err(|_| ())
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["Bearer chp_x"]), Ok(Some("chp_x".into())));
        assert_eq!(read(&["bearer chp_x"]), Ok(Some("chp_x".into())));
        assert_eq!(read(&["Basic dTpw"]), Ok(None));
        assert_eq!(read(&["chp_x"]), Err(()));
        assert_eq!(read(&["Bearer a", "Bearer b"]), Err(()));
    }
}
