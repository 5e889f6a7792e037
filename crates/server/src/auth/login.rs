//! Signing in and out.
//!
//! A wrong name and a wrong password are told alike and take equally long. Every try is counted;
//! how long one then waits is [`super::guessing`]'s to say. The count is looked at twice: before
//! waiting for a turn to hash (so that a flood costs nothing) and again when the turn has come (so
//! that many tries at once do not all slip through).

use std::{collections::HashSet, net::IpAddr};

use codehub_domain::{SessionId, UserId, audit::Act, user::User};
use codehub_store::{SessionEnd, StoreError, UserWithHash};
use http::HeaderMap;
use uuid::Uuid;

use codehub_proxy::client;

use super::{
    act, cookie,
    guessing::{Counted, Tries},
    secret, session_lifetime_seconds,
};
use crate::app::App;
use crate::passwords::HashError;

const MOST_COOKIES: usize = 256;
/// A browser has one; others were planted.
const MOST_DEVICES: usize = 8;

/// Why somebody is not signed in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("the username or the password is wrong")]
    Wrong,
    #[error("{}", too_many(*counted, *retry_after))]
    TooMany { counted: Counted, retry_after: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Hash(#[from] HashError),
}

/// How long to wait, and what to do instead.
fn too_many(counted: Counted, seconds: u64) -> String {
    match counted {
        Counted::Here => format!(
            "too many wrong passwords for this account from here: try again in {seconds} s, or sign in with a browser that you have signed in with before"
        ),
        Counted::Device => format!(
            "too many wrong passwords: try again in {seconds} s, or ask an administrator for a new password"
        ),
        Counted::Account => format!(
            "too many failed sign-ins for this account, so new browsers have to wait: try again in {seconds} s, use a browser you have signed in with before, or ask an administrator for a new password"
        ),
        Counted::Address => format!(
            "too many wrong passwords from this address: try again in {seconds} s; browsers that have signed in before do not wait"
        ),
    }
}

/// A new session and the secret that its cookie carries.
#[derive(Debug)]
pub struct SignedIn {
    pub user: User,
    pub secret: String,
    /// What the cookie is to carry by which this browser is known from now on.
    pub device: Option<String>,
}

/// Checks the password and opens a session; the one the request came with ends.
///
/// # Errors
/// Wrong, too often, or something does not work.
pub async fn login(
    app: &App,
    username: &str,
    password: &str,
    address: IpAddr,
    headers: &HeaderMap,
) -> Result<SignedIn, LoginError> {
    let by = act::of_request(headers, Some(address));
    let (UserWithHash { user, password_hash }, known) =
        checked(app, &by, username, password, address, headers).await?;
    end_sessions(app, &by, headers, SessionEnd::Revoked).await?;
    let device = secret::new_secret();
    let hash = secret::hash(&device);
    app.store().device_note(user.id, &hash, known.as_deref(), cookie::DEVICE_SECONDS).await?;
    let opened = SignedIn { device: Some(device), ..open_session(app, &by, user).await? };
    // Checking takes long enough for the password to change meanwhile, and the change ended only the sessions that were
    // there. Nobody has this one's secret yet, nor the device's.
    let now = app.store().user_by_name(username).await?;
    if !now.is_some_and(|now| now.user.id == opened.user.id && now.password_hash == password_hash) {
        end_secret(app, &by, &opened.secret, SessionEnd::Revoked).await?;
        return Err(LoginError::Wrong);
    }
    tracing::info!(user = %opened.user.id, "signed in");
    Ok(opened)
}

/// Whose password it is. Tries are counted.
///
/// # Errors
/// Wrong, too often, or something does not work.
pub async fn verify(
    app: &App,
    by: &Act,
    username: &str,
    password: &str,
    address: IpAddr,
    headers: &HeaderMap,
) -> Result<User, LoginError> {
    Ok(checked(app, by, username, password, address, headers).await?.0.user)
}

/// [`verify`], with the hash that the password was checked against, and what the browser's cookie hashes to where it is known.
async fn checked(
    app: &App,
    by: &Act,
    username: &str,
    password: &str,
    address: IpAddr,
    headers: &HeaderMap,
) -> Result<(UserWithHash, Option<Vec<u8>>), LoginError> {
    let user = app.store().user_by_name(username).await?.map(|found| found.user.id);
    let device = match user {
        Some(user) => known_device(app, user, headers).await?,
        None => None,
    };
    let address = client::counted_as(address);
    let tries = Tries::new(user, username, &address, device.as_deref());
    let blocked = async |counted, retry_after| {
        act::note_blocked_sign_in(app, by).await;
        Err(LoginError::TooMany { counted, retry_after })
    };
    if let Some((counted, seconds)) = tries.check(app.store()).await? {
        return blocked(counted, seconds).await;
    }
    let turn = app.passwords.turn().await?;
    if let Some((counted, seconds)) = tries.count(app.store()).await? {
        return blocked(counted, seconds).await;
    }
    let found = app.store().user_by_name(username).await?;
    let stored = found.as_ref().and_then(|found| found.password_hash.as_deref());
    let right = app.passwords.verify(turn, password, stored).await?;
    match found {
        Some(found) if right && !found.user.disabled => {
            tries.forgive(app.store()).await?;
            Ok((found, device))
        }
        found => {
            act::note_failed_sign_in(app, by, found.as_ref().map(|found| &found.user)).await;
            tracing::info!(%address, "a sign-in failed");
            Err(LoginError::Wrong)
        }
    }
}

/// What the cookie of the browser hashes to, if the user has signed in with it before.
///
/// # Errors
/// The store does not answer.
pub async fn known_device(
    app: &App,
    user: UserId,
    headers: &HeaderMap,
) -> Result<Option<Vec<u8>>, StoreError> {
    let possible = cookie::device_secrets(headers, app.config.is_https())
        .filter(|secret| secret.len() == secret::LENGTH)
        .take(MOST_DEVICES);
    for secret in possible {
        let hash = secret::hash(secret);
        if app.store().device_is_known(user, &hash).await? {
            return Ok(Some(hash.to_vec()));
        }
    }
    Ok(None)
}

/// A new session for somebody who has proved who they are.
///
/// # Errors
/// The store does not answer.
pub async fn open_session(app: &App, by: &Act, user: User) -> Result<SignedIn, StoreError> {
    let secret = secret::new_secret();
    let id = SessionId::from_uuid(Uuid::now_v7());
    let lifetime = session_lifetime_seconds(app);
    app.store().session_create(by, id, user.id, &secret::hash(&secret), lifetime).await?;
    Ok(SignedIn { user, secret, device: None })
}

/// What became of the sessions a request carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It carried none.
    Nothing,
    /// All that were there.
    Sessions,
    /// It carried cookies, and none of them is a session (any more): nothing can be said about another one.
    Unknown,
}

/// Ends every session the request carries. With several cookies nobody can tell which is the person's, and a planted
/// one must not save the others.
///
/// # Errors
/// The store does not answer.
pub async fn end_sessions(
    app: &App,
    by: &Act,
    headers: &HeaderMap,
    why: SessionEnd,
) -> Result<Ended, StoreError> {
    let mut ended = Ended::Nothing;
    let mut looked_up = HashSet::new();
    for secret in cookie::session_secrets(headers, app.config.is_https()) {
        // Only what can be one costs a look into the store, and browsers keep fewer cookies than this.
        let possible = secret.len() == secret::LENGTH && looked_up.len() < MOST_COOKIES;
        if possible && looked_up.insert(secret) && end_secret(app, by, secret, why).await? {
            ended = Ended::Sessions;
        } else if ended == Ended::Nothing {
            ended = Ended::Unknown;
        }
    }
    Ok(ended)
}

/// Whether there was such a session.
async fn end_secret(app: &App, by: &Act, secret: &str, why: SessionEnd) -> Result<bool, StoreError> {
    let found = app.store().session_use(&secret::hash(secret), session_lifetime_seconds(app)).await?;
    if let Some((session, _)) = &found {
        app.store().session_delete(by, session.id, why).await?;
    }
    Ok(found.is_some())
}
