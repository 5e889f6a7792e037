//! What the controller reads and writes. Every write is fenced by the leader's epoch.

use std::collections::BTreeMap;

use codehub_domain::{Epoch, Status, Workspace, WorkspaceId, event::Transition};
use sqlx::{postgres::PgRow, types::Json};

use super::{
    PostgresStore, Result, history,
    row::{self, micros, workspace_columns},
    workspaces,
    write::Write,
};
use crate::{Due, Reading, Saved};

pub(super) async fn due(store: &PostgresStore, due: Due) -> Result<Reading> {
    let mut read = store.read().await?;
    let now: i64 = sqlx::query_scalar("SELECT codehub_now()").fetch_one(&mut *read).await?;
    let mut found = BTreeMap::new();
    let mut add = |rows: Vec<PgRow>| -> Result<()> {
        for row in &rows {
            let workspace = row::workspace(row)?;
            found.insert(workspace.id, workspace);
        }
        Ok(())
    };
    add(sqlx::query(ACTIVE).fetch_all(&mut *read).await?)?;
    if let Due::Full { also_oldest } = due {
        add(sqlx::query(RUNNING).fetch_all(&mut *read).await?)?;
        add(sqlx::query(OLDEST).bind(i64::from(also_oldest)).fetch_all(&mut *read).await?)?;
    }
    read.commit().await?;
    Ok(Reading { now: row::time(now)?, workspaces: found.into_values().collect() })
}

pub(super) const ACTIVE: &str =
    concat!("SELECT ", workspace_columns!(), " FROM workspaces WHERE active ORDER BY id");

/// Through the index of those that take a place: what runs is among them.
pub(super) const RUNNING: &str =
    concat!("SELECT ", workspace_columns!(), " FROM workspaces WHERE takes_place AND phase = 'RUNNING'");

/// Never looked at comes first. Without those that are deleted and gone.
pub(super) const OLDEST: &str = concat!(
    "SELECT ",
    workspace_columns!(),
    " FROM workspaces WHERE NOT active AND phase <> 'RUNNING' AND phase <> 'DELETED'
      ORDER BY observed_at NULLS FIRST, id LIMIT $1"
);

pub(super) async fn save(
    store: &PostgresStore,
    epoch: Epoch,
    read: &Workspace,
    next: &Status,
    transitions: &[Transition],
) -> Result<Saved> {
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(Saved::Fenced);
    }
    let now = write.now().await?;
    if !update_status(&mut write, now, read, next).await? {
        return Ok(match workspaces::get(write.connection(), read.id).await? {
            None => Saved::Gone,
            Some(_) => Saved::Changed,
        });
    }
    history::append(&mut write, read.id, now, transitions).await?;
    write.commit().await?;
    Ok(Saved::Saved(read.revision + 1))
}

/// Writes `next` if the row is still the one that was read. Whether it did.
pub(super) async fn update_status(
    write: &mut Write,
    now: i64,
    read: &Workspace,
    next: &Status,
) -> Result<bool> {
    let done = sqlx::query(
        "UPDATE workspaces SET
             conditions = $4, observed_at = $5, phase = $6, phase_changed_at = $7, operation = $8,
             op_started_at = $9, op_moved_at = $10, op_id = $11, archive_key = $12, error_reason = $13,
             error_message = $14, error_count = $15, next_retry_at = $16, home_ctx = $17, progress = $18,
             instance_backend = $19, storage_backend = $20, updated_at = $21, revision = revision + 1
         WHERE id = $1 AND revision = $2 AND operation = $3",
    )
    .bind(read.id.as_uuid())
    .bind(read.revision)
    .bind(read.status.operation.as_str())
    .bind(Json(&next.conditions))
    .bind(next.observed_at.map(micros))
    .bind(next.phase.as_str())
    .bind(micros(next.phase_changed_at))
    .bind(next.operation.as_str())
    .bind(next.op_started_at.map(micros))
    .bind(next.op_moved_at.map(micros))
    .bind(next.op_id.map(|id| id.as_uuid()))
    .bind(next.archive_key.map(|key| key.to_string()))
    .bind(next.error.as_ref().map(|failure| failure.reason.as_str()))
    .bind(next.error.as_ref().map(|failure| failure.message.replace('\0', "\u{fffd}")))
    .bind(i64::from(next.error_count))
    .bind(next.next_retry_at.map(micros))
    .bind(Json(&next.home))
    .bind(next.progress.as_ref().map(Json))
    .bind(&next.instance_backend)
    .bind(&next.storage_backend)
    .bind(now)
    .execute(write.connection())
    .await?;
    Ok(done.rows_affected() == 1)
}

/// A row that somebody is writing just now is left for the next look: waiting for rows in any order could
/// end in a deadlock, and when it was last looked at is no secret worth one.
pub(super) async fn observed(store: &PostgresStore, epoch: Epoch, ids: &[WorkspaceId]) -> Result<bool> {
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(false);
    }
    let ids: Vec<_> = ids.iter().map(WorkspaceId::as_uuid).collect();
    sqlx::query(
        "UPDATE workspaces SET observed_at = codehub_now() FROM (
             SELECT id FROM workspaces WHERE id = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED
         ) AS free WHERE workspaces.id = free.id",
    )
    .bind(ids)
    .execute(write.connection())
    .await?;
    write.commit().await?;
    Ok(true)
}
