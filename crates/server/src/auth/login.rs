//! Signing in and out.
//!
//! A wrong name and a wrong password are told alike and take equally long. Every failure is counted;
//! how long one then waits is [`super::backoff`]'s to say. The count is looked at twice: before
//! waiting for a turn to hash (so that a flood costs nothing) and again when the turn has come (so
//! that many tries at once do not all slip through).

use std::{collections::HashSet, net::IpAddr};

use codehub_domain::{SessionId, user::User};
use codehub_store::{Attempts, StoreError, UserWithHash};
use http::HeaderMap;
use uuid::Uuid;

use codehub_proxy::client;

use super::{backoff, cookie, secret, session_lifetime_seconds};
use crate::app::App;
use crate::passwords::HashError;

const MOST_COOKIES: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("the username or the password is wrong")]
    Wrong,
    #[error("too many attempts: try again in {retry_after} s")]
    TooMany { retry_after: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Hash(#[from] HashError),
}

/// A new session and the secret that its cookie carries.
#[derive(Debug)]
pub struct SignedIn {
    pub user: User,
    pub secret: String,
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
    let UserWithHash { user, password_hash } = checked(app, username, password, address).await?;
    end_sessions(app, headers).await?;
    let opened = open_session(app, user).await?;
    // Checking takes long enough for the password to change meanwhile, and the change ended only the sessions that were
    // there. Nobody has this one's secret yet.
    let now = app.store().user_by_name(username).await?;
    if !now.is_some_and(|now| now.user.id == opened.user.id && now.password_hash == password_hash) {
        end_secret(app, &opened.secret).await?;
        return Err(LoginError::Wrong);
    }
    tracing::info!(user = %opened.user.id, "signed in");
    Ok(opened)
}

/// Whose password it is. Failures are counted.
///
/// # Errors
/// Wrong, too often, or something does not work.
pub async fn verify(app: &App, username: &str, password: &str, address: IpAddr) -> Result<User, LoginError> {
    Ok(checked(app, username, password, address).await?.user)
}

/// [`verify`], with the hash that the password was checked against.
async fn checked(
    app: &App,
    username: &str,
    password: &str,
    address: IpAddr,
) -> Result<UserWithHash, LoginError> {
    let address = client::counted_as(address);
    let keys =
        Keys { account: backoff::account_key(username, &address), address: backoff::address_key(&address) };
    keys.check(app).await?;
    let turn = app.passwords.turn().await?;
    let before = keys.check(app).await?;
    let found = app.store().user_by_name(username).await?;
    let stored = found.as_ref().and_then(|found| found.password_hash.as_deref());
    let right = app.passwords.verify(turn, password, stored).await?;
    match found {
        Some(found) if right && !found.user.disabled => {
            keys.forgive(app, before).await?;
            Ok(found)
        }
        Some(_) | None => {
            app.store().attempts_fail(&keys.account, backoff::FORGET_AFTER_SECONDS).await?;
            app.store().attempts_fail(&keys.address, backoff::FORGET_AFTER_SECONDS).await?;
            tracing::info!(%address, "a sign-in failed");
            Err(LoginError::Wrong)
        }
    }
}

/// A new session for somebody who has proved who they are.
///
/// # Errors
/// The store does not answer.
pub async fn open_session(app: &App, user: User) -> Result<SignedIn, StoreError> {
    let secret = secret::new_secret();
    let id = SessionId::from_uuid(Uuid::now_v7());
    app.store().session_create(id, user.id, &secret::hash(&secret), session_lifetime_seconds(app)).await?;
    Ok(SignedIn { user, secret })
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
pub async fn end_sessions(app: &App, headers: &HeaderMap) -> Result<Ended, StoreError> {
    let mut ended = Ended::Nothing;
    let mut looked_up = HashSet::new();
    for secret in cookie::session_secrets(headers) {
        // Only what can be one costs a look into the store, and browsers keep fewer cookies than this.
        let possible = secret.len() == secret::LENGTH && looked_up.len() < MOST_COOKIES;
        if possible && looked_up.insert(secret) && end_secret(app, secret).await? {
            ended = Ended::Sessions;
        } else if ended == Ended::Nothing {
            ended = Ended::Unknown;
        }
    }
    Ok(ended)
}

/// Whether there was such a session.
async fn end_secret(app: &App, secret: &str) -> Result<bool, StoreError> {
    let found = app.store().session_use(&secret::hash(secret), session_lifetime_seconds(app)).await?;
    if let Some((session, _)) = &found {
        app.store().session_delete(session.id).await?;
    }
    Ok(found.is_some())
}

/// What failures are counted under.
struct Keys {
    account: String,
    address: String,
}

impl Keys {
    async fn check(&self, app: &App) -> Result<[Option<Attempts>; 2], LoginError> {
        let now = app.store().now().await?;
        let account = app.store().attempts_get(&self.account).await?;
        let address = app.store().attempts_get(&self.address).await?;
        match backoff::retry_after(account, now).max(backoff::retry_after(address, now)) {
            Some(retry_after) => Err(LoginError::TooMany { retry_after }),
            None => Ok([account, address]),
        }
    }

    /// A right password clears the account's count. The address's goes with it only when all of it
    /// was this account's: otherwise one valid account would buy unlimited guesses at the others.
    async fn forgive(&self, app: &App, [account, address]: [Option<Attempts>; 2]) -> Result<(), StoreError> {
        let failures = |attempts: Option<Attempts>| attempts.map_or(0, |attempts| attempts.failures);
        if account.is_some() {
            app.store().attempts_clear(&self.account).await?;
        }
        if address.is_some() && failures(account) >= failures(address) {
            app.store().attempts_clear(&self.address).await?;
        }
        Ok(())
    }
}
