//! The epoch: what makes a late loser harmless. Who may take it is decided by a lock ([`super::lease`]).

use codehub_domain::Epoch;
use sqlx::PgConnection;

use super::{PostgresStore, Result, row};
use crate::LeaderSeen;

pub(super) async fn take(store: &PostgresStore, holder: &str) -> Result<Epoch> {
    take_on(&mut *store.connection().await?, holder).await
}

/// Waits for writes of the leader before: theirs or ours, never both.
pub(super) async fn take_on(connection: &mut PgConnection, holder: &str) -> Result<Epoch> {
    let epoch: i64 = sqlx::query_scalar(
        "WITH beat AS (UPDATE leader_heartbeat SET beat_at = codehub_now())
         UPDATE leader SET epoch = epoch + 1, holder = $1, taken_at = codehub_now() RETURNING epoch",
    )
    .bind(holder)
    .fetch_one(connection)
    .await?;
    Ok(Epoch(epoch))
}

pub(super) async fn is_current(store: &PostgresStore, epoch: Epoch) -> Result<bool> {
    let current: i64 = sqlx::query_scalar("SELECT epoch FROM leader").fetch_one(&store.pool).await?;
    Ok(current == epoch.0)
}

pub(super) async fn seen(store: &PostgresStore) -> Result<Option<LeaderSeen>> {
    let found = sqlx::query("SELECT epoch, holder, taken_at FROM leader WHERE epoch > 0")
        .fetch_optional(&store.pool)
        .await?;
    found.as_ref().map(row::leader).transpose()
}
