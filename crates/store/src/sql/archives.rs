//! What each archive of ours is.

use std::collections::BTreeMap;

use async_trait::async_trait;
use codehub_domain::{
    ArchiveKey, ArchiveRecord, Epoch, WorkspaceId,
    audit::{Act, AuditAction, AuditEntry, AuditObject},
    gc::Item,
};

use super::{SqlStore, SqlWrite, Statements, args, audit, garbage, timed};
use crate::{
    Adopted, ArchiveRecords, Result, StoreError,
    row::{self, SqlRow},
};

const GET: &str =
    "SELECT key, format, sha256, size, uncompressed, entries, index_sha256 FROM archives WHERE key = $1";

#[async_trait]
impl<S: SqlStore> ArchiveRecords for S {
    async fn archive_record(&self, key: ArchiveKey) -> Result<Option<ArchiveRecord>> {
        timed::<S, _>("archive_record", async {
            self.select(GET, args![key]).await?.first().map(record).transpose()
        })
        .await
    }

    async fn archive_keys(&self) -> Result<Vec<ArchiveKey>> {
        timed::<S, _>("archive_keys", async {
            let rows = self.select("SELECT key FROM archives ORDER BY key", args![]).await?;
            rows.iter().map(|found| row::parsed(found, "key")).collect()
        })
        .await
    }

    async fn home_sizes(&self, ids: &[WorkspaceId]) -> Result<BTreeMap<WorkspaceId, u64>> {
        timed::<S, _>("home_sizes", async {
            const SIZES: &str = "SELECT workspaces.id, uncompressed FROM workspaces
                 JOIN archives ON archives.key = workspaces.archive_key WHERE workspaces.id = ANY ($1)";
            let rows = self.select(SIZES, args![ids]).await?;
            let size = |found: &S::Row| {
                Ok((WorkspaceId::from_uuid(found.uuid("id")?), row::count(found, "uncompressed")?))
            };
            rows.iter().map(size).collect()
        })
        .await
    }

    async fn archive_adopt(
        &self,
        by: &Act,
        epoch: Option<Epoch>,
        adopted: &ArchiveRecord,
    ) -> Result<Adopted> {
        timed::<S, _>("archive_adopt", async {
            let mut write = self.write().await?;
            if let Some(epoch) = epoch
                && !write.leads(epoch).await?
            {
                return Ok(Adopted::Fenced);
            }
            let workspace = "SELECT id FROM workspaces WHERE id = $1 FOR KEY SHARE";
            if write.first(workspace, args![adopted.key.workspace]).await?.is_none() {
                return Ok(Adopted::NoWorkspace);
            }
            if garbage::is_claimed(&mut write, Item::Archive(adopted.key)).await? {
                return Ok(Adopted::BeingDeleted);
            }
            if let Some(known) = write.first(GET, args![adopted.key]).await? {
                return Ok(Adopted::Known(record(&known)?));
            }
            insert(&mut write, adopted).await?;
            let entry = AuditEntry::ok(AuditAction::ArchiveAdopted, AuditObject::archive(adopted.key));
            audit::append(&mut write, by, &entry.changing("", &format!("sha256 {}", adopted.sha256))).await?;
            write.commit().await?;
            Ok(Adopted::Adopted)
        })
        .await
    }
}

/// What has just been packed is right, whatever was adopted under its key before.
pub(super) async fn insert(write: &mut impl SqlWrite, record: &ArchiveRecord) -> Result<()> {
    let ArchiveRecord { key, format, sha256, size, uncompressed, entries, index_sha256 } = record;
    let number = |number: u64| {
        i64::try_from(number).map_err(|_| StoreError::Failed(format!("{key}: {number} is too large")))
    };
    let now = write.now().await?;
    write
        .run(
            "INSERT INTO archives (key, workspace_id, op_id, format, sha256, size, uncompressed, entries,
                 index_sha256, recorded_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (key) DO UPDATE SET format = excluded.format, sha256 = excluded.sha256,
                 size = excluded.size, uncompressed = excluded.uncompressed, entries = excluded.entries,
                 index_sha256 = excluded.index_sha256, recorded_at = excluded.recorded_at",
            args![
                *key,
                key.workspace,
                key.op,
                *format,
                sha256,
                number(*size)?,
                number(*uncompressed)?,
                number(*entries)?,
                index_sha256.as_deref(),
                now,
            ],
        )
        .await?;
    Ok(())
}

/// With the claim for its deletion: nothing goes back to it any more.
pub(super) async fn forget(write: &mut impl SqlWrite, key: ArchiveKey) -> Result<()> {
    write.run("DELETE FROM archives WHERE key = $1", args![key]).await?;
    Ok(())
}

fn record(found: &impl SqlRow) -> Result<ArchiveRecord> {
    Ok(ArchiveRecord {
        key: row::parsed(found, "key")?,
        format: row::number(found, "format")?,
        sha256: found.text("sha256")?.to_owned(),
        size: row::count(found, "size")?,
        uncompressed: row::count(found, "uncompressed")?,
        entries: row::count(found, "entries")?,
        index_sha256: found.maybe_text("index_sha256")?.map(str::to_owned),
    })
}
