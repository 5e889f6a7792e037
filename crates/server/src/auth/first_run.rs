//! How the first administrator comes to be. There is no default password: while there is no user, the
//! server prints a link with a one-time token, or takes the administrator from its configuration.
//!
//! Of several servers each prints a link of its own: whichever log a person looks into, the link there
//! works, on any of them, until the first one is used. A server that has ended takes its link with it.

use anyhow::Context as _;
use codehub_domain::{UserId, audit::Act, user::User};
use codehub_store::StoreError;
use uuid::Uuid;

use super::{act, secret};
use crate::passwords::HashError;
use crate::{
    app::{self, App},
    config::Secret,
};
use codehub_domain::fields as rules;

/// The setting that holds the hash of the token that this replica has printed.
fn setting(replica: &str) -> String {
    format!("setup_token_hash/{replica}")
}

/// Why the first administrator was not made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("CodeHub has been set up already: sign in")]
    Done,
    #[error("this set-up link is invalid or was already used: the server's log has the current one")]
    WrongToken,
    #[error("{0}: {1}")]
    Invalid(&'static str, String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Hash(#[from] HashError),
}

/// What to tell the person at the terminal.
#[derive(Debug)]
pub enum FirstRun {
    /// There are users already.
    NotNeeded,
    /// The configured administrator was created.
    Created(User),
    /// Open this link. It replaces the one that this server printed before.
    Link(Secret),
    /// There is no user, and this server answers nobody: one that does has the link.
    Elsewhere,
}

/// Makes the first run possible, when it is one.
///
/// # Errors
/// The store does not answer, or the configured administrator cannot be created.
pub async fn prepare(app: &App) -> anyhow::Result<FirstRun> {
    if app.store().user_count().await? > 0 {
        app.store().setting_delete(&setting(&app::replica_name())).await?;
        return Ok(FirstRun::NotNeeded);
    }
    if let (Some(username), Some(password)) =
        (&app.config.auth.admin_username, &app.config.auth.admin_password)
    {
        let hash = app.passwords.hash(password.reveal()).await?;
        let id = UserId::from_uuid(Uuid::now_v7());
        let created = app.store().user_create_first(&act::system(), id, username, &hash).await;
        return Ok(match created.context("the configured administrator cannot be created")? {
            Some(user) => FirstRun::Created(user),
            None => FirstRun::NotNeeded,
        });
    }
    if !app.config.role.answers() {
        return Ok(FirstRun::Elsewhere);
    }
    let token = secret::new_secret();
    app.store().setting_put(&setting(&app::replica_name()), &secret::hash_text(&token)).await?;
    Ok(FirstRun::Link(Secret::new(format!("{}/setup?token={token}", app.config.public_base_url))))
}

/// Whether nobody has been created yet.
///
/// # Errors
/// The store does not answer.
pub async fn is_needed(app: &App) -> Result<bool, StoreError> {
    Ok(app.store().user_count().await? == 0)
}

/// Creates the first administrator for whoever holds the token. Works once.
///
/// # Errors
/// Done already, a wrong token, or a name or password that will not do.
pub async fn complete(
    app: &App,
    by: &Act,
    token: &str,
    username: &str,
    password: &str,
) -> Result<User, SetupError> {
    if !is_needed(app).await? {
        return Err(SetupError::Done);
    }
    let settings = settings(app).await?;
    if !is_printed(app, &settings, token).await? {
        return Err(SetupError::WrongToken);
    }
    rules::username(username).map_err(|why| SetupError::Invalid("username", why))?;
    rules::password(password).map_err(|why| SetupError::Invalid("password", why))?;
    let hash = app.passwords.hash(password).await?;
    let id = UserId::from_uuid(Uuid::now_v7());
    let user = app.store().user_create_first(by, id, username, &hash).await?.ok_or(SetupError::Done)?;
    for setting in settings {
        app.store().setting_delete(&setting).await?;
    }
    tracing::info!(user = %user.id, "the first administrator was created");
    Ok(user)
}

/// Where the tokens of this server, and of those beside it that live, are.
async fn settings(app: &App) -> Result<Vec<String>, StoreError> {
    let me = app::replica_name();
    let (now, noted) = app.store().replicas().await?;
    let others = noted.into_iter().filter(|replica| replica.name != me && replica.is_there(now));
    let mut settings = vec![setting(&me)];
    settings.extend(others.map(|replica| setting(&replica.name)));
    Ok(settings)
}

async fn is_printed(app: &App, settings: &[String], token: &str) -> Result<bool, StoreError> {
    for setting in settings {
        let stored = app.store().setting_get(setting).await?;
        if stored.is_some_and(|stored| secret::matches(token, &stored)) {
            return Ok(true);
        }
    }
    Ok(false)
}
