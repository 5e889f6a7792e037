//! What the garbage collector must know, and what it has seen.

use std::collections::BTreeMap;

use codehub_domain::{
    Epoch, Timestamp,
    gc::{self, GcRow, Item},
};

use super::{
    Lock, PostgresStore, Result,
    row::{self, gc_rows, micros},
    write::Write,
};
use crate::{CLAIM_KEPT_MICROS, GcClaim, values};

pub(super) async fn rows(store: &PostgresStore) -> Result<Vec<GcRow>> {
    let rows = sqlx::query(concat!(gc_rows!(), " ORDER BY id")).fetch_all(&store.pool).await?;
    rows.iter().map(row::gc_row).collect()
}

/// Whoever wants it for a home meanwhile waits, and then finds the claim ([`is_claimed`]); whoever came
/// first is waited for, and found in its row.
pub(super) async fn claim(store: &PostgresStore, epoch: Epoch, item: Item) -> Result<GcClaim> {
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(GcClaim::Fenced);
    }
    write.lock(Lock::Claims).await?;
    let (workspace, archive) = values::may_refer(item);
    let rows = sqlx::query(concat!(gc_rows!(), " WHERE id = $1 OR archive_key = $2"))
        .bind(workspace.as_uuid())
        .bind(archive)
        .fetch_all(write.connection())
        .await?;
    for found in &rows {
        if gc::refers(&row::gc_row(found)?, item) {
            return Ok(GcClaim::InUse);
        }
    }
    sqlx::query(
        "INSERT INTO gc_claims (item, claimed_at) VALUES ($1, codehub_now())
         ON CONFLICT (item) DO UPDATE SET claimed_at = excluded.claimed_at",
    )
    .bind(item.to_string())
    .execute(write.connection())
    .await?;
    write.commit().await?;
    Ok(GcClaim::Claimed)
}

/// Nobody can claim anything before this transaction ends: what was free may become a home in it.
pub(super) async fn is_claimed(write: &mut Write, item: Item) -> Result<bool> {
    write.lock(Lock::Claims).await?;
    let found = sqlx::query("SELECT 1 FROM gc_claims WHERE item = $1")
        .bind(item.to_string())
        .fetch_optional(write.connection())
        .await?;
    Ok(found.is_some())
}

pub(super) async fn sightings(store: &PostgresStore) -> Result<BTreeMap<Item, Timestamp>> {
    let rows = sqlx::query("SELECT item, first_seen FROM gc_sightings").fetch_all(&store.pool).await?;
    rows.iter().map(|found| Ok((row::parsed(found, "item")?, row::at(found, "first_seen")?))).collect()
}

pub(super) async fn replace(
    store: &PostgresStore,
    epoch: Epoch,
    sightings: &BTreeMap<Item, Timestamp>,
) -> Result<bool> {
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(false);
    }
    let (items, times): (Vec<_>, Vec<_>) =
        sightings.iter().map(|(item, first_seen)| (item.to_string(), micros(*first_seen))).unzip();
    sqlx::query("DELETE FROM gc_sightings").execute(write.connection()).await?;
    sqlx::query("INSERT INTO gc_sightings (item, first_seen) SELECT * FROM unnest($1::TEXT[], $2::BIGINT[])")
        .bind(items)
        .bind(times)
        .execute(write.connection())
        .await?;
    sqlx::query(
        "DELETE FROM gc_claims
         WHERE claimed_at < codehub_now() - $1 AND item NOT IN (SELECT item FROM gc_sightings)",
    )
    .bind(CLAIM_KEPT_MICROS)
    .execute(write.connection())
    .await?;
    write.commit().await?;
    Ok(true)
}
