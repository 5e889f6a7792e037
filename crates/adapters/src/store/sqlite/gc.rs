//! What the garbage collector must know, and what it has seen.

use std::collections::BTreeMap;

use codehub_domain::{
    Epoch, HomeCtx, Timestamp,
    gc::{self, GcRow, Item},
};
use sqlx::sqlite::SqliteRow;

use super::{
    Result, SqliteStore,
    row::{self, micros},
    write::Write,
};
use crate::store::{CLAIM_KEPT_MICROS, GcClaim};

macro_rules! gc_rows {
    () => {
        "SELECT id, phase, operation, deleted_at, home_ctx, archive_key, op_id FROM workspaces"
    };
}

pub(super) async fn rows(store: &SqliteStore) -> Result<Vec<GcRow>> {
    let rows = sqlx::query(concat!(gc_rows!(), " ORDER BY id")).fetch_all(&store.readers).await?;
    rows.iter().map(gc_row).collect()
}

fn gc_row(found: &SqliteRow) -> Result<GcRow> {
    let home: HomeCtx = row::json(found, "home_ctx")?;
    Ok(GcRow {
        id: row::parsed(found, "id")?,
        phase: row::parsed(found, "phase")?,
        operation: row::parsed(found, "operation")?,
        deleted: row::maybe_at(found, "deleted_at")?.is_some(),
        truth: home.truth,
        generation: home.generation,
        archive_key: row::maybe_parsed(found, "archive_key")?,
        op_id: row::maybe_parsed(found, "op_id")?,
    })
}

/// Only these rows can refer to it: the one it belongs to, and those whose home it is.
pub(super) async fn claim(store: &SqliteStore, epoch: Epoch, item: Item) -> Result<GcClaim> {
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(GcClaim::Fenced);
    }
    let (workspace, archive) = match item {
        Item::Archive(key) => (key.workspace, Some(key.to_string())),
        Item::Volume { workspace, .. } => (workspace, None),
    };
    let rows = sqlx::query(concat!(gc_rows!(), " WHERE id = ?1 OR archive_key = ?2"))
        .bind(workspace.to_string())
        .bind(archive)
        .fetch_all(write.connection())
        .await?;
    for found in &rows {
        if gc::refers(&gc_row(found)?, item) {
            return Ok(GcClaim::InUse);
        }
    }
    sqlx::query(
        "INSERT INTO gc_claims (item, claimed_at) VALUES (?1, ?2)
         ON CONFLICT (item) DO UPDATE SET claimed_at = excluded.claimed_at",
    )
    .bind(item.to_string())
    .bind(write.now)
    .execute(write.connection())
    .await?;
    write.commit().await?;
    Ok(GcClaim::Claimed)
}

pub(super) async fn is_claimed(write: &mut Write, item: Item) -> Result<bool> {
    let found = sqlx::query("SELECT 1 FROM gc_claims WHERE item = ?1")
        .bind(item.to_string())
        .fetch_optional(write.connection())
        .await?;
    Ok(found.is_some())
}

pub(super) async fn sightings(store: &SqliteStore) -> Result<BTreeMap<Item, Timestamp>> {
    let rows = sqlx::query("SELECT item, first_seen FROM gc_sightings").fetch_all(&store.readers).await?;
    rows.iter().map(|found| Ok((row::parsed(found, "item")?, row::at(found, "first_seen")?))).collect()
}

pub(super) async fn replace(
    store: &SqliteStore,
    epoch: Epoch,
    sightings: &BTreeMap<Item, Timestamp>,
) -> Result<bool> {
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(false);
    }
    sqlx::query("DELETE FROM gc_sightings").execute(write.connection()).await?;
    for (item, first_seen) in sightings {
        sqlx::query("INSERT INTO gc_sightings (item, first_seen) VALUES (?1, ?2)")
            .bind(item.to_string())
            .bind(micros(*first_seen))
            .execute(write.connection())
            .await?;
    }
    sqlx::query(
        "DELETE FROM gc_claims WHERE claimed_at < ?1 AND item NOT IN (SELECT item FROM gc_sightings)",
    )
    .bind(write.now.saturating_sub(CLAIM_KEPT_MICROS))
    .execute(write.connection())
    .await?;
    write.commit().await?;
    Ok(true)
}
