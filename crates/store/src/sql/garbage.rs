//! What the garbage collector must know, and what it has seen.

use std::collections::BTreeMap;

use async_trait::async_trait;
use codehub_domain::{
    Epoch, Timestamp,
    gc::{GcRow, Item, refers},
};

use super::{Lock, SqlStore, SqlWrite, Statements, archives, args, json, timed};
use crate::{CLAIM_KEPT_MICROS, Garbage, GcClaim, Result, row};

/// What the garbage collector reads of workspaces.
macro_rules! gc_rows {
    () => {
        "SELECT id, phase, operation, deleted_at, home_ctx, archive_key, op_id FROM workspaces"
    };
}

#[async_trait]
impl<S: SqlStore> Garbage for S {
    async fn gc_rows(&self) -> Result<Vec<GcRow>> {
        timed::<S, _>("gc_rows", async {
            let rows = self.select(concat!(gc_rows!(), " ORDER BY id"), args![]).await?;
            rows.iter().map(row::gc_row).collect()
        })
        .await
    }

    async fn gc_sightings(&self) -> Result<BTreeMap<Item, Timestamp>> {
        timed::<S, _>("gc_sightings", async {
            let rows = self.select("SELECT item, first_seen FROM gc_sightings", args![]).await?;
            rows.iter()
                .map(|found| Ok((row::parsed(found, "item")?, row::at(found, "first_seen")?)))
                .collect()
        })
        .await
    }

    async fn gc_sightings_replace(
        &self,
        epoch: Epoch,
        sightings: &BTreeMap<Item, Timestamp>,
    ) -> Result<bool> {
        timed::<S, _>("gc_sightings_replace", async {
            let mut write = self.write().await?;
            if !write.leads(epoch).await? {
                return Ok(false);
            }
            let all: BTreeMap<_, _> =
                sightings.iter().map(|(item, at)| (item.to_string(), at.as_microsecond())).collect();
            write.run("DELETE FROM gc_sightings", args![]).await?;
            write
                .run(
                    "INSERT INTO gc_sightings (item, first_seen)
                     SELECT key, value::BIGINT FROM jsonb_each_text($1)",
                    args![json(&all)?],
                )
                .await?;
            write
                .run(
                    "DELETE FROM gc_claims
                     WHERE claimed_at < codehub_now() - $1 AND item NOT IN (SELECT item FROM gc_sightings)",
                    args![CLAIM_KEPT_MICROS],
                )
                .await?;
            write.commit().await?;
            Ok(true)
        })
        .await
    }

    /// Whoever wants it for a home meanwhile waits, and then finds the claim ([`is_claimed`]); whoever came
    /// first is waited for, and found in its row.
    async fn gc_claim(&self, epoch: Epoch, item: Item) -> Result<GcClaim> {
        timed::<S, _>("gc_claim", async {
            let mut write = self.write().await?;
            if !write.leads(epoch).await? {
                return Ok(GcClaim::Fenced);
            }
            write.lock(Lock::Claims).await?;
            let (workspace, archive) = item.may_be_needed_by();
            let referring = concat!(gc_rows!(), " WHERE id = $1 OR archive_key = $2");
            for found in write.all(referring.into(), args![workspace, archive]).await? {
                if refers(&row::gc_row(&found)?, item) {
                    return Ok(GcClaim::InUse);
                }
            }
            let mut claimed = GcClaim::Claimed;
            if let Item::Archive(key) = item {
                archives::forget(&mut write, key).await?;
                if archives::has_parts_in(&mut write, key).await? {
                    claimed = GcClaim::HoldsParts;
                }
            }
            let now = write.now().await?;
            write
                .run(
                    "INSERT INTO gc_claims (item, claimed_at) VALUES ($1, $2)
                     ON CONFLICT (item) DO UPDATE SET claimed_at = excluded.claimed_at",
                    args![item.to_string(), now],
                )
                .await?;
            write.commit().await?;
            Ok(claimed)
        })
        .await
    }
}

/// Nobody can claim anything before this transaction ends: what was free may become a home in it.
pub(super) async fn is_claimed(write: &mut impl SqlWrite, item: Item) -> Result<bool> {
    write.lock(Lock::Claims).await?;
    let found = write.first("SELECT item FROM gc_claims WHERE item = $1", args![item.to_string()]).await?;
    Ok(found.is_some())
}
