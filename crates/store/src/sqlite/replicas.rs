//! Which processes serve. With SQLite there is one at a time, but the next one sees the last.

use std::time::Duration;

use codehub_domain::Timestamp;

use super::{Result, SqliteStore, row};
use crate::{REPLICA_FORGOTTEN_AFTER, ReplicaNote, ReplicaSeen};

pub(super) async fn note(store: &SqliteStore, note: &ReplicaNote) -> Result<()> {
    let mut write = store.write().await?;
    let now = write.now;
    sqlx::query(
        "INSERT INTO replicas (name, version, role, started_at, seen_at) VALUES (?1, ?2, ?3, ?4, ?4)
         ON CONFLICT (name) DO UPDATE SET
             version = excluded.version, role = excluded.role, seen_at = excluded.seen_at",
    )
    .bind(&note.name)
    .bind(&note.version)
    .bind(&note.role)
    .bind(now)
    .execute(write.connection())
    .await?;
    sqlx::query("DELETE FROM replicas WHERE seen_at < ?1")
        .bind(now - REPLICA_FORGOTTEN_AFTER.as_micros() as i64)
        .execute(write.connection())
        .await?;
    write.commit().await
}

/// Never back in time: answers may come late.
pub(super) async fn flushed(store: &SqliteStore, name: &str, ago: Duration) -> Result<()> {
    let mut write = store.write().await?;
    let until = write.now - ago.as_micros() as i64;
    sqlx::query("UPDATE replicas SET flushed_at = max(coalesce(flushed_at, ?2), ?2) WHERE name = ?1")
        .bind(name)
        .bind(until)
        .execute(write.connection())
        .await?;
    write.commit().await
}

pub(super) async fn leave(store: &SqliteStore, name: &str) -> Result<()> {
    let mut write = store.write().await?;
    sqlx::query("DELETE FROM replicas WHERE name = ?1").bind(name).execute(write.connection()).await?;
    write.commit().await
}

pub(super) async fn list(store: &SqliteStore) -> Result<(Timestamp, Vec<ReplicaSeen>)> {
    let rows = sqlx::query(
        "SELECT name, version, role, started_at, seen_at, coalesce(flushed_at, started_at) AS flushed_at
         FROM replicas ORDER BY started_at, name",
    )
    .fetch_all(&store.readers)
    .await?;
    Ok((store.clock().await?, rows.iter().map(row::replica).collect::<Result<_>>()?))
}
