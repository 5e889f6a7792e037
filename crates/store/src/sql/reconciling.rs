//! What the controller reads and writes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use codehub_domain::{
    ArchiveRecord, Epoch, Status, Timestamp, Workspace, WorkspaceId, change::Change, event::Transition,
    intent::shown_change, ttl::TtlPolicy,
};

use super::{SqlStore, SqlWrite, Statements, access, archives, args, history, json, timed, ttl};
use crate::{
    Due, Expired, Reading, Reconciling, Result, Saved,
    row::{self, workspace_columns},
};

#[async_trait]
impl<S: SqlStore> Reconciling for S {
    async fn workspaces_due(&self, due: Due) -> Result<Reading> {
        timed::<S, _>("workspaces_due", async {
            let mut read = self.read().await?;
            let now = row::at(&read.one("SELECT codehub_now() AS now", args![]).await?, "now")?;
            let mut rows = read.all(ACTIVE.into(), args![]).await?;
            if let Due::Full { also_oldest } = due {
                rows.extend(read.all(RUNNING.into(), args![]).await?);
                rows.extend(read.all(OLDEST.into(), args![also_oldest]).await?);
            }
            let mut found = BTreeMap::new();
            for row in &rows {
                let workspace = row::workspace(row)?;
                found.insert(workspace.id, workspace);
            }
            Ok(Reading { now, workspaces: found.into_values().collect() })
        })
        .await
    }

    async fn workspace_save_archived(
        &self,
        epoch: Epoch,
        read: &Workspace,
        next: &Status,
        history: &[Transition],
        archive: Option<&ArchiveRecord>,
    ) -> Result<Saved> {
        timed::<S, _>("workspace_save", async {
            let mut write = self.write().await?;
            if !write.leads(epoch).await? {
                return Ok(Saved::Fenced);
            }
            let now = write.now().await?;
            if !update_status(&mut write, now, read, next).await? {
                let found = write.first("SELECT id FROM workspaces WHERE id = $1", args![read.id]).await?;
                return Ok(found.map_or(Saved::Gone, |_| Saved::Changed));
            }
            if let Some(archive) = archive {
                archives::insert(&mut write, archive).await?;
            }
            history::append(&mut write, read.id, now, history).await?;
            if read.deleted_at.is_none() && shown_change(&read.status, next) {
                write.changed(Change::Updated { workspace: read.id, owner: read.owner });
            }
            write.commit().await?;
            Ok(Saved::Saved(read.revision + 1))
        })
        .await
    }

    /// A row that somebody is writing just now is left for the next look: waiting for rows in any order
    /// could end in a deadlock, and when it was last looked at is no secret worth one.
    async fn workspaces_observed(&self, epoch: Epoch, ids: &[WorkspaceId]) -> Result<bool> {
        timed::<S, _>("workspaces_observed", async {
            let mut write = self.write().await?;
            if !write.leads(epoch).await? {
                return Ok(false);
            }
            let now = write.now().await?;
            write
                .run(
                    "UPDATE workspaces SET observed_at = $2 FROM (
                         SELECT id FROM workspaces WHERE id = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED
                     ) AS free WHERE workspaces.id = free.id",
                    args![ids, now],
                )
                .await?;
            write.commit().await?;
            Ok(true)
        })
        .await
    }

    async fn access_sync(&self, epoch: Epoch, seen: &[(WorkspaceId, Timestamp)]) -> Result<bool> {
        timed::<S, _>("access_sync", access::sync(self, epoch, seen)).await
    }

    async fn ttl_expire(&self, epoch: Epoch, policy: &TtlPolicy) -> Result<Vec<Expired>> {
        timed::<S, _>("ttl_expire", ttl::expire(self, epoch, policy)).await
    }

    async fn ttl_next(&self, policy: &TtlPolicy) -> Result<Option<Timestamp>> {
        timed::<S, _>("ttl_next", ttl::next(self, policy)).await
    }
}

pub(crate) const ACTIVE: &str =
    concat!("SELECT ", workspace_columns!(), " FROM workspaces WHERE active ORDER BY id");

/// Through the index of those that take a place: what runs is among them.
pub(crate) const RUNNING: &str =
    concat!("SELECT ", workspace_columns!(), " FROM workspaces WHERE takes_place AND phase = 'RUNNING'");

/// Never looked at comes first. Without those that are deleted and gone.
pub(crate) const OLDEST: &str = concat!(
    "SELECT ",
    workspace_columns!(),
    " FROM workspaces WHERE NOT active AND phase <> 'RUNNING' AND phase <> 'DELETED'
      ORDER BY observed_at NULLS FIRST, id LIMIT $1"
);

/// Writes `next` if the row is still the one that was read. Whether it did.
pub(super) async fn update_status(
    write: &mut impl SqlWrite,
    now: Timestamp,
    read: &Workspace,
    next: &Status,
) -> Result<bool> {
    let done = write
        .run(
            "UPDATE workspaces SET
                 conditions = $4, observed_at = $5, phase = $6, phase_changed_at = $7, operation = $8,
                 op_started_at = $9, op_moved_at = $10, op_id = $11, archive_key = $12, error_reason = $13,
                 error_message = $14, error_count = $15, next_retry_at = $16, home_ctx = $17, progress = $18,
                 instance_backend = $19, storage_backend = $20, failed = $21, updated_at = $22,
                 revision = revision + 1
             WHERE id = $1 AND revision = $2 AND operation = $3",
            args![
                read.id,
                read.revision,
                read.status.operation,
                json(&next.conditions)?,
                next.observed_at,
                next.phase,
                next.phase_changed_at,
                next.operation,
                next.op_started_at,
                next.op_moved_at,
                next.op_id,
                next.archive_key,
                next.error.as_ref().map(|failure| failure.reason.as_str()),
                next.error.as_ref().map(|failure| failure.message.as_str()),
                next.error_count,
                next.next_retry_at,
                json(&next.home)?,
                next.progress.as_ref().map(json).transpose()?,
                &next.instance_backend,
                &next.storage_backend,
                next.failed(),
                now,
            ],
        )
        .await?;
    Ok(done == 1)
}
