//! What each archive of ours is.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use codehub_domain::{
    ArchiveKey, ArchiveRecord, Epoch, OpId, WorkspaceId,
    audit::{Act, AuditAction, AuditEntry, AuditObject},
    gc::Item,
};

use super::{SqlStore, SqlWrite, Statements, args, audit, garbage, timed};
use crate::{
    Adopted, ArchiveRecords, Result, StoreError,
    row::{self, SqlRow},
};

const GET: &str = "SELECT key, format, sha256, size, uncompressed, entries, index_sha256, parts FROM archives WHERE key = $1";

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

    async fn archive_parts(&self) -> Result<BTreeMap<ArchiveKey, BTreeSet<OpId>>> {
        timed::<S, _>("archive_parts", async {
            let rows = self.select("SELECT key, parts FROM archives WHERE parts <> ''", args![]).await?;
            rows.iter()
                .map(|found| Ok((row::parsed(found, "key")?, parts(found)?.into_iter().collect())))
                .collect()
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
            if part_being_deleted(&mut write, adopted).await?.is_some() {
                return Ok(Adopted::BeingDeleted);
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
    let ArchiveRecord { key, format, sha256, size, uncompressed, entries, index_sha256, parts } = record;
    // While it was being packed, what it was packed against kept them. Should that ever not hold, there is no such
    // archive, and the home stays where it is.
    if let Some(part) = part_being_deleted(write, record).await? {
        return Err(StoreError::Failed(format!("{key}: its part {part} is being deleted")));
    }
    let number = |number: u64| {
        i64::try_from(number).map_err(|_| StoreError::Failed(format!("{key}: {number} is too large")))
    };
    let now = write.now().await?;
    write
        .run(
            "INSERT INTO archives (key, workspace_id, op_id, format, sha256, size, uncompressed, entries,
                 index_sha256, recorded_at, parts)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
             ON CONFLICT (key) DO UPDATE SET format = excluded.format, sha256 = excluded.sha256,
                 size = excluded.size, uncompressed = excluded.uncompressed, entries = excluded.entries,
                 index_sha256 = excluded.index_sha256, recorded_at = excluded.recorded_at,
                 parts = excluded.parts",
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
                parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
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

/// One of the objects that hold parts of an archive which may be going. None is while an archive that has a record has
/// parts in it, whoever claimed it: see [`codehub_domain::gc`].
async fn part_being_deleted(write: &mut impl SqlWrite, record: &ArchiveRecord) -> Result<Option<ArchiveKey>> {
    for part in record.needs() {
        if garbage::is_claimed(write, Item::Archive(part)).await? && !has_parts_in(write, part).await? {
            return Ok(Some(part));
        }
    }
    Ok(None)
}

/// Whether an archive that has a record has parts in the object under this key.
pub(super) async fn has_parts_in(write: &mut impl SqlWrite, key: ArchiveKey) -> Result<bool> {
    let referring = "SELECT key FROM archives WHERE workspace_id = $1 AND parts LIKE $2 LIMIT 1";
    let found = write.first(referring, args![key.workspace, format!("%{}%", key.op)]).await?;
    Ok(found.is_some())
}

fn parts(found: &impl SqlRow) -> Result<Vec<OpId>> {
    let parse = |op: &str| {
        op.parse().map_err(|_| StoreError::Failed(format!("{op:?} in archives.parts is no operation")))
    };
    found.text("parts")?.split_whitespace().map(parse).collect()
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
        parts: parts(found)?,
    })
}
