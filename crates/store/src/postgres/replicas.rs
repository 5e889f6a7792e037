//! Which processes serve. Each notes itself every few seconds; one that has been silent is not shown, and
//! forgotten after a day.

use std::time::Duration;

use codehub_domain::Timestamp;

use super::{PostgresStore, Result, row};
use crate::{REPLICA_FORGOTTEN_AFTER, ReplicaNote, ReplicaSeen};

pub(super) async fn note(store: &PostgresStore, note: &ReplicaNote) -> Result<()> {
    sqlx::query(
        "INSERT INTO replicas (name, version, role, started_at, seen_at)
         VALUES ($1, $2, $3, codehub_now(), codehub_now())
         ON CONFLICT (name) DO UPDATE SET
             version = excluded.version, role = excluded.role, seen_at = excluded.seen_at",
    )
    .bind(&note.name)
    .bind(&note.version)
    .bind(&note.role)
    .execute(&store.pool)
    .await?;
    sqlx::query("DELETE FROM replicas WHERE seen_at < codehub_now() - $1")
        .bind(REPLICA_FORGOTTEN_AFTER.as_micros() as i64)
        .execute(&store.pool)
        .await?;
    Ok(())
}

/// Never back in time: answers may come late.
pub(super) async fn flushed(store: &PostgresStore, name: &str, ago: Duration) -> Result<()> {
    sqlx::query("UPDATE replicas SET flushed_at = greatest(flushed_at, codehub_now() - $2) WHERE name = $1")
        .bind(name)
        .bind(ago.as_micros() as i64)
        .execute(&store.pool)
        .await?;
    Ok(())
}

pub(super) async fn leave(store: &PostgresStore, name: &str) -> Result<()> {
    sqlx::query("DELETE FROM replicas WHERE name = $1").bind(name).execute(&store.pool).await?;
    Ok(())
}

pub(super) async fn list(store: &PostgresStore) -> Result<(Timestamp, Vec<ReplicaSeen>)> {
    let rows = sqlx::query(
        "SELECT name, version, role, started_at, seen_at, coalesce(flushed_at, started_at) AS flushed_at
         FROM replicas ORDER BY started_at, name",
    )
    .fetch_all(&store.pool)
    .await?;
    Ok((store.clock().await?, rows.iter().map(row::replica).collect::<Result<_>>()?))
}
