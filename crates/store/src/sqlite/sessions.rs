//! Sessions in the browser. Only hashes of their secrets are here.

use codehub_domain::{
    SessionId, UserId,
    user::{Session, User},
};

use super::{
    Result, SqliteStore, now,
    row::{self, user_columns},
    users,
};
use crate::renews_after_micros;

pub(super) async fn create(
    store: &SqliteStore,
    id: SessionId,
    user: UserId,
    secret_hash: &[u8],
    lifetime_seconds: u32,
) -> Result<Session> {
    let mut write = store.write().await?;
    users::existing(&mut write, user).await?;
    let (now, end) = (write.now, row::later(write.now, lifetime_seconds));
    sqlx::query(
        "INSERT INTO sessions (id, user_id, secret_hash, created_at, expires_at, renewed_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?4)",
    )
    .bind(id.to_string())
    .bind(user.to_string())
    .bind(secret_hash)
    .bind(now)
    .bind(end)
    .execute(write.connection())
    .await?;
    write.commit().await?;
    Ok(Session { id, user, created_at: row::time(now)?, expires_at: row::time(end)? })
}

pub(super) async fn use_by_secret(
    store: &SqliteStore,
    secret_hash: &[u8],
    lifetime_seconds: u32,
) -> Result<Option<(Session, User)>> {
    let found = sqlx::query(concat!(
        "SELECT sessions.id, sessions.created_at, sessions.expires_at, ",
        user_columns!(),
        ", sessions.renewed_at + ?2 <= ",
        now!(),
        " AS stale FROM sessions JOIN users ON users.id = sessions.user_id
         WHERE sessions.secret_hash = ?1 AND sessions.expires_at > ",
        now!(),
        " AND users.disabled = 0 AND users.deleted_at IS NULL"
    ))
    .bind(secret_hash)
    .bind(renews_after_micros(lifetime_seconds))
    .fetch_optional(&store.readers)
    .await?;
    let Some(found) = found else {
        return Ok(None);
    };
    let user = row::user(&found)?;
    let mut session = row::session(&found, user.id)?;
    if row::get(&found, "stale")? {
        match renew(store, session.id, lifetime_seconds).await {
            Ok(Some(end)) => session.expires_at = row::time(end)?,
            Ok(None) => return Ok(None),
            // A session that cannot be prolonged just now (the disk is full) is still valid.
            Err(error) => tracing::warn!(%error, "a session could not be prolonged"),
        }
    }
    Ok(Some((session, user)))
}

/// The new end; `None` where the session ended meanwhile.
async fn renew(store: &SqliteStore, id: SessionId, lifetime_seconds: u32) -> Result<Option<i64>> {
    let mut write = store.write().await?;
    let now = write.now;
    let end = sqlx::query_scalar(
        "UPDATE sessions SET expires_at = ?2, renewed_at = ?3 WHERE id = ?1 AND expires_at > ?3
         RETURNING expires_at",
    )
    .bind(id.to_string())
    .bind(row::later(now, lifetime_seconds))
    .bind(now)
    .fetch_optional(write.connection())
    .await?;
    write.commit().await?;
    Ok(end)
}

pub(super) async fn delete(store: &SqliteStore, id: SessionId) -> Result<()> {
    let mut write = store.write().await?;
    let ended = sqlx::query("DELETE FROM sessions WHERE id = ?1 RETURNING user_id")
        .bind(id.to_string())
        .fetch_optional(write.connection())
        .await?;
    if let Some(ended) = ended {
        write.access(row::parsed(&ended, "user_id")?);
        write.commit().await?;
    }
    Ok(())
}

/// Also forgets old failed logins: they have the same enemy, a table that only grows.
pub(super) async fn sweep(store: &SqliteStore) -> Result<u64> {
    let mut write = store.write().await?;
    let now = write.now;
    let ended = sqlx::query("DELETE FROM sessions WHERE expires_at <= ?1 RETURNING user_id")
        .bind(now)
        .fetch_all(write.connection())
        .await?;
    for session in &ended {
        write.access(row::parsed(session, "user_id")?);
    }
    let forgotten = sqlx::query("DELETE FROM login_attempts WHERE forget_at <= ?1")
        .bind(now)
        .execute(write.connection())
        .await?;
    if !ended.is_empty() || forgotten.rows_affected() > 0 {
        write.commit().await?;
    }
    Ok(ended.len() as u64)
}
