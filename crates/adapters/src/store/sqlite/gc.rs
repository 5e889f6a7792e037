//! What the garbage collector must know, and what it has seen.

use std::collections::BTreeMap;

use codehub_domain::{
    Epoch, Timestamp,
    gc::{GcRow, Item},
};

use super::{
    Result, SqliteStore,
    row::{self, micros},
};

pub(super) async fn rows(store: &SqliteStore) -> Result<Vec<GcRow>> {
    let rows = sqlx::query(
        "SELECT id, phase, operation, deleted_at, home_ctx, archive_key, op_id FROM workspaces ORDER BY id",
    )
    .fetch_all(&store.readers)
    .await?;
    rows.iter().map(row::gc_row).collect()
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
    write.commit().await?;
    Ok(true)
}
