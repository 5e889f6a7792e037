//! Tokens for programs. Only hashes of their secrets are here.

use codehub_domain::{
    SessionId, TokenId, UserId,
    user::{ApiToken, User},
};

use super::{
    Result, SqliteStore, now,
    row::{self, user_columns},
    write::Write,
};
use crate::USE_NOTED_EVERY_MICROS;

pub(super) async fn create(
    store: &SqliteStore,
    id: TokenId,
    by: SessionId,
    name: &str,
    secret_hash: &[u8],
    expires_in_seconds: Option<u32>,
) -> Result<Option<ApiToken>> {
    let mut write = store.write().await?;
    let Some(user) = user_of_session(&mut write, by).await? else {
        return Ok(None);
    };
    let now = write.now;
    let end = expires_in_seconds.map(|seconds| row::later(now, seconds));
    sqlx::query(
        "INSERT INTO api_tokens (id, user_id, name, secret_hash, created_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )
    .bind(id.to_string())
    .bind(user.to_string())
    .bind(name)
    .bind(secret_hash)
    .bind(now)
    .bind(end)
    .execute(write.connection())
    .await?;
    write.commit().await?;
    Ok(Some(ApiToken {
        id,
        user,
        name: name.into(),
        created_at: row::time(now)?,
        expires_at: end.map(row::time).transpose()?,
        last_used_at: None,
    }))
}

/// Whose session it is, while it lasts.
async fn user_of_session(write: &mut Write, id: SessionId) -> Result<Option<UserId>> {
    let now = write.now;
    let found = sqlx::query(
        "SELECT users.id FROM sessions JOIN users ON users.id = sessions.user_id
         WHERE sessions.id = ?1 AND sessions.expires_at > ?2
           AND users.disabled = 0 AND users.deleted_at IS NULL",
    )
    .bind(id.to_string())
    .bind(now)
    .fetch_optional(write.connection())
    .await?;
    found.map(|found| row::parsed(&found, "id")).transpose()
}

pub(super) async fn use_by_secret(
    store: &SqliteStore,
    secret_hash: &[u8],
) -> Result<Option<(ApiToken, User)>> {
    let found = sqlx::query(concat!(
        "SELECT api_tokens.id, api_tokens.name, api_tokens.created_at, api_tokens.expires_at,
             api_tokens.last_used_at, ",
        user_columns!(),
        ", coalesce(api_tokens.last_used_at, 0) + ?2 <= ",
        now!(),
        " AS stale FROM api_tokens JOIN users ON users.id = api_tokens.user_id
         WHERE api_tokens.secret_hash = ?1
           AND (api_tokens.expires_at IS NULL OR api_tokens.expires_at > ",
        now!(),
        ") AND users.disabled = 0 AND users.deleted_at IS NULL"
    ))
    .bind(secret_hash)
    .bind(USE_NOTED_EVERY_MICROS)
    .fetch_optional(&store.readers)
    .await?;
    let Some(found) = found else {
        return Ok(None);
    };
    let user = row::user(&found)?;
    let mut token = row::token(&found, user.id)?;
    if row::get(&found, "stale")? {
        match note_use(store, token.id).await {
            Ok(Some(at)) => token.last_used_at = Some(row::time(at)?),
            Ok(None) => return Ok(None),
            // A token whose use cannot be noted just now is still valid.
            Err(error) => tracing::warn!(%error, "the use of a token could not be noted"),
        }
    }
    Ok(Some((token, user)))
}

/// `None` where the token was deleted meanwhile.
async fn note_use(store: &SqliteStore, id: TokenId) -> Result<Option<i64>> {
    let mut write = store.write().await?;
    let now = write.now;
    let at =
        sqlx::query_scalar("UPDATE api_tokens SET last_used_at = ?2 WHERE id = ?1 RETURNING last_used_at")
            .bind(id.to_string())
            .bind(now)
            .fetch_optional(write.connection())
            .await?;
    write.commit().await?;
    Ok(at)
}

/// Newest first; those that have expired stay visible until somebody deletes them.
pub(super) async fn list(store: &SqliteStore, user: UserId) -> Result<Vec<ApiToken>> {
    let rows = sqlx::query(
        "SELECT id, name, created_at, expires_at, last_used_at FROM api_tokens
         WHERE user_id = ?1 ORDER BY id DESC",
    )
    .bind(user.to_string())
    .fetch_all(&store.readers)
    .await?;
    rows.iter().map(|found| row::token(found, user)).collect()
}

pub(super) async fn delete(store: &SqliteStore, user: UserId, id: TokenId) -> Result<bool> {
    let mut write = store.write().await?;
    let done = sqlx::query("DELETE FROM api_tokens WHERE id = ?1 AND user_id = ?2")
        .bind(id.to_string())
        .bind(user.to_string())
        .execute(write.connection())
        .await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    write.access(user);
    write.commit().await?;
    Ok(true)
}
