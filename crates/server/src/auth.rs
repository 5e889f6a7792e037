//! Who is asking: a session cookie or a bearer token, looked up in the store.

use codehub_domain::{SessionId, TokenId, user::User};
use http::HeaderMap;

use crate::app::App;

/// The cookie that carries a session.
pub const SESSION_COOKIE: &str = "session";

/// Somebody who proved who they are.
#[derive(Debug, Clone)]
pub struct Identity {
    pub user: User,
    pub via: Via,
}

/// How they proved it. A cookie is sent by browsers by themselves, so writes need more (same origin).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Session(SessionId),
    Token(TokenId),
}

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Nothing, or nothing valid, was presented.
    #[error("{0}")]
    Unauthorized(&'static str),
    #[error(transparent)]
    Store(#[from] codehub_adapters::store::StoreError),
}

/// Finds out who sent these headers.
///
/// # Errors
/// Nobody valid, or the store does not answer.
pub async fn identify(app: &App, headers: &HeaderMap) -> Result<Identity, AuthError> {
    let _ = (app, headers);
    Err(AuthError::Unauthorized("sign in first"))
}
