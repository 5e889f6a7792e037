//! The lease and its epoch. Who may ask for it is decided elsewhere (a file lock); the epoch is what
//! makes a late loser harmless.

use codehub_domain::Epoch;

use super::{Result, SqliteStore, row};
use crate::LeaderSeen;

pub(super) async fn take(store: &SqliteStore, holder: &str) -> Result<Epoch> {
    let mut write = store.write().await?;
    let now = write.now;
    let epoch: i64 =
        sqlx::query_scalar("UPDATE leader SET epoch = epoch + 1, holder = ?1, taken_at = ?2 RETURNING epoch")
            .bind(holder)
            .bind(now)
            .fetch_one(write.connection())
            .await?;
    write.commit().await?;
    Ok(Epoch(epoch))
}

pub(super) async fn is_current(store: &SqliteStore, epoch: Epoch) -> Result<bool> {
    let current: i64 = sqlx::query_scalar("SELECT epoch FROM leader").fetch_one(&store.readers).await?;
    Ok(current == epoch.0)
}

pub(super) async fn seen(store: &SqliteStore) -> Result<Option<LeaderSeen>> {
    let found = sqlx::query("SELECT epoch, holder, taken_at FROM leader WHERE epoch > 0")
        .fetch_optional(&store.readers)
        .await?;
    found.as_ref().map(row::leader).transpose()
}
