//! Browsers that somebody has signed in with. Only hashes of their cookies are here.

use codehub_domain::UserId;

use super::{SqlStore, SqlWrite, Statements, args, people};
use crate::{KNOWN_DEVICES, Result, row::later};

pub(super) async fn note<S: SqlStore>(
    store: &S,
    user: UserId,
    secret_hash: &[u8],
    instead_of: Option<&[u8]>,
    lifetime_seconds: u32,
) -> Result<()> {
    let mut write = store.write().await?;
    people::existing(&mut write, user).await?;
    let now = write.now().await?;
    if let Some(before) = instead_of {
        write.run("DELETE FROM devices WHERE user_id = $1 AND secret_hash = $2", args![user, before]).await?;
    }
    write
        .run(
            "INSERT INTO devices (secret_hash, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (user_id, secret_hash) DO UPDATE SET expires_at = excluded.expires_at",
            args![secret_hash, user, now, later(now, lifetime_seconds)],
        )
        .await?;
    write
        .run(
            "DELETE FROM devices WHERE user_id = $1 AND secret_hash IN
                 (SELECT secret_hash FROM devices WHERE user_id = $1 AND secret_hash <> $2
                  ORDER BY expires_at DESC, secret_hash LIMIT 1000000 OFFSET $3)",
            args![user, secret_hash, i64::from(KNOWN_DEVICES) - 1],
        )
        .await?;
    write.commit().await
}

pub(super) async fn is_known<S: SqlStore>(store: &S, user: UserId, secret_hash: &[u8]) -> Result<bool> {
    let rows = store
        .select(
            "SELECT expires_at FROM devices
             WHERE user_id = $1 AND secret_hash = $2 AND expires_at > codehub_now()",
            args![user, secret_hash],
        )
        .await?;
    Ok(!rows.is_empty())
}

/// Forgets a user's browsers, but for the one to keep.
pub(super) async fn revoke(write: &mut impl SqlWrite, user: UserId, keep: Option<&[u8]>) -> Result<()> {
    // No hash is empty, so without one to keep all go.
    let keep = keep.unwrap_or_default();
    write.run("DELETE FROM devices WHERE user_id = $1 AND secret_hash <> $2", args![user, keep]).await?;
    Ok(())
}
