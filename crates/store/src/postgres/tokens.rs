//! Tokens for programs. Only hashes of their secrets are here.

use codehub_domain::{
    SessionId, TokenId, UserId,
    user::{ApiToken, User},
};

use super::{
    PostgresStore, Result,
    row::{self, SqlRow as _, user_columns},
    write::Write,
};
use crate::USE_NOTED_EVERY_MICROS;

pub(super) async fn create(
    store: &PostgresStore,
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
    let now = write.now().await?;
    let end = expires_in_seconds.map(|seconds| row::later(now, seconds));
    sqlx::query(
        "INSERT INTO api_tokens (id, user_id, name, secret_hash, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(id.as_uuid())
    .bind(user.as_uuid())
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

/// Whose session it is, while it lasts. The user stays as they are until this transaction ends: whoever ends their
/// sessions locks the user first, and then finds what was made here. In that order, so that neither waits for both.
async fn user_of_session(write: &mut Write, id: SessionId) -> Result<Option<UserId>> {
    let user: Option<uuid::Uuid> = sqlx::query_scalar(
        "SELECT id FROM users
         WHERE id = (SELECT user_id FROM sessions WHERE id = $1) AND NOT disabled AND deleted_at IS NULL
         FOR KEY SHARE",
    )
    .bind(id.as_uuid())
    .fetch_optional(write.connection())
    .await?;
    let lasts: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM sessions WHERE id = $1 AND expires_at > codehub_now())",
    )
    .bind(id.as_uuid())
    .fetch_one(write.connection())
    .await?;
    Ok(user.filter(|_| lasts).map(UserId::from_uuid))
}

pub(super) async fn use_by_secret(
    store: &PostgresStore,
    secret_hash: &[u8],
) -> Result<Option<(ApiToken, User)>> {
    let found = sqlx::query(concat!(
        "SELECT api_tokens.id, api_tokens.name, api_tokens.created_at, api_tokens.expires_at,
             api_tokens.last_used_at, ",
        user_columns!(),
        ", coalesce(api_tokens.last_used_at, 0) + $2 <= codehub_now() AS stale
         FROM api_tokens JOIN users ON users.id = api_tokens.user_id
         WHERE api_tokens.secret_hash = $1
           AND (api_tokens.expires_at IS NULL OR api_tokens.expires_at > codehub_now())
           AND NOT users.disabled AND users.deleted_at IS NULL"
    ))
    .bind(secret_hash)
    .bind(USE_NOTED_EVERY_MICROS)
    .fetch_optional(&store.pool)
    .await?;
    let Some(found) = found else {
        return Ok(None);
    };
    let user = row::user(&found)?;
    let mut token = row::token(&found, user.id)?;
    if found.flag("stale")? {
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
async fn note_use(store: &PostgresStore, id: TokenId) -> Result<Option<i64>> {
    Ok(sqlx::query_scalar(
        "UPDATE api_tokens SET last_used_at = codehub_now() WHERE id = $1 RETURNING last_used_at",
    )
    .bind(id.as_uuid())
    .fetch_optional(&store.pool)
    .await?)
}

/// Newest first; those that have expired stay visible until somebody deletes them.
pub(super) async fn list(store: &PostgresStore, user: UserId) -> Result<Vec<ApiToken>> {
    let rows = sqlx::query(
        "SELECT id, name, created_at, expires_at, last_used_at FROM api_tokens
         WHERE user_id = $1 ORDER BY id DESC",
    )
    .bind(user.as_uuid())
    .fetch_all(&store.pool)
    .await?;
    rows.iter().map(|found| row::token(found, user)).collect()
}

pub(super) async fn delete(store: &PostgresStore, user: UserId, id: TokenId) -> Result<bool> {
    let done = sqlx::query("DELETE FROM api_tokens WHERE id = $1 AND user_id = $2")
        .bind(id.as_uuid())
        .bind(user.as_uuid())
        .execute(&store.pool)
        .await?;
    Ok(done.rows_affected() > 0)
}
