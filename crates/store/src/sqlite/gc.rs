//! What the garbage collector must know, and what it has seen.

use std::collections::BTreeMap;

use codehub_domain::{
    Epoch, Timestamp,
    gc::{self, GcRow, Item},
};

use super::{
    Result, SqliteStore,
    row::{self, gc_rows, micros},
    write::Write,
};
use crate::{CLAIM_KEPT_MICROS, GcClaim, values};

pub(super) async fn rows(store: &SqliteStore) -> Result<Vec<GcRow>> {
    let rows = sqlx::query(concat!(gc_rows!(), " ORDER BY id")).fetch_all(&store.readers).await?;
    rows.iter().map(row::gc_row).collect()
}

pub(super) async fn claim(store: &SqliteStore, epoch: Epoch, item: Item) -> Result<GcClaim> {
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(GcClaim::Fenced);
    }
    let (workspace, archive) = values::may_refer(item);
    let rows = sqlx::query(concat!(gc_rows!(), " WHERE id = ?1 OR archive_key = ?2"))
        .bind(workspace.to_string())
        .bind(archive)
        .fetch_all(write.connection())
        .await?;
    for found in &rows {
        if gc::refers(&row::gc_row(found)?, item) {
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
