//! What the garbage collector must know, and what it has seen.

use std::collections::BTreeMap;

use codehub_domain::{
    Epoch, Timestamp,
    gc::{GcRow, Item},
};

use super::{
    PostgresStore, Result,
    row::{self, micros},
};

pub(super) async fn rows(store: &PostgresStore) -> Result<Vec<GcRow>> {
    let rows = sqlx::query(
        "SELECT id, phase, operation, deleted_at, home_ctx, archive_key, op_id FROM workspaces ORDER BY id",
    )
    .fetch_all(&store.pool)
    .await?;
    rows.iter().map(row::gc_row).collect()
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
    write.commit().await?;
    Ok(true)
}
