//! What the controller reads and writes. Every write is fenced by the leader's epoch.

use std::collections::BTreeMap;

use codehub_domain::{Epoch, Status, Workspace, WorkspaceId, event::Transition};
use sqlx::sqlite::SqliteRow;

use super::{
    Result, SqliteStore, history, now,
    row::{self, micros, to_json, workspace_columns},
    workspaces,
    write::Write,
};
use crate::{Due, Reading, Saved, shown_change};

pub(super) async fn due(store: &SqliteStore, due: Due) -> Result<Reading> {
    let mut read = store.read().await?;
    let now: i64 = sqlx::query_scalar(concat!("SELECT ", now!())).fetch_one(&mut *read).await?;
    let mut found = BTreeMap::new();
    let mut add = |rows: Vec<SqliteRow>| -> Result<()> {
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
    Ok(Reading { now: row::time(now)?, workspaces: found.into_values().collect() })
}

pub(super) const ACTIVE: &str =
    concat!("SELECT ", workspace_columns!(), " FROM workspaces WHERE active = 1 ORDER BY id");

/// Through the index of those that take a place: what runs is among them.
pub(super) const RUNNING: &str =
    concat!("SELECT ", workspace_columns!(), " FROM workspaces WHERE takes_place = 1 AND phase = 'RUNNING'");

/// Never looked at comes first. Without those that are deleted and gone.
pub(super) const OLDEST: &str = concat!(
    "SELECT ",
    workspace_columns!(),
    " FROM workspaces WHERE active = 0 AND phase <> 'RUNNING' AND phase <> 'DELETED'
      ORDER BY observed_at, id LIMIT ?1"
);

pub(super) async fn save(
    store: &SqliteStore,
    epoch: Epoch,
    read: &Workspace,
    next: &Status,
    transitions: &[Transition],
) -> Result<Saved> {
    let mut write = store.write().await?;
    if !update_status(&mut write, Some(epoch), read, next).await? {
        return Ok(if !write.leads(epoch).await? {
            Saved::Fenced
        } else if workspaces::get(write.connection(), read.id).await?.is_none() {
            Saved::Gone
        } else {
            Saved::Changed
        });
    }
    history::append(&mut write, read.id, transitions).await?;
    if read.deleted_at.is_none() && shown_change(&read.status, next) {
        write.updated(read.id, read.owner);
    }
    write.commit().await?;
    Ok(Saved::Saved(read.revision + 1))
}

/// Writes `next` if the row is still the one that was read and, where an epoch is given, that epoch
/// leads. Whether it did.
pub(super) async fn update_status(
    write: &mut Write,
    epoch: Option<Epoch>,
    read: &Workspace,
    next: &Status,
) -> Result<bool> {
    let now = write.now;
    let done = sqlx::query(
        "UPDATE workspaces SET
             conditions = ?5, observed_at = ?6, phase = ?7, phase_changed_at = ?8, operation = ?9,
             op_started_at = ?10, op_moved_at = ?11, op_id = ?12, archive_key = ?13, error_reason = ?14,
             error_message = ?15, error_count = ?16, next_retry_at = ?17, home_ctx = ?18, progress = ?19,
             instance_backend = ?20, storage_backend = ?21, updated_at = ?22, revision = revision + 1
         WHERE id = ?1 AND revision = ?2 AND operation = ?3
           AND (?4 IS NULL OR (SELECT epoch FROM leader) = ?4)",
    )
    .bind(read.id.to_string())
    .bind(read.revision)
    .bind(read.status.operation.as_str())
    .bind(epoch.map(|epoch| epoch.0))
    .bind(to_json(&next.conditions)?)
    .bind(next.observed_at.map(micros))
    .bind(next.phase.as_str())
    .bind(micros(next.phase_changed_at))
    .bind(next.operation.as_str())
    .bind(next.op_started_at.map(micros))
    .bind(next.op_moved_at.map(micros))
    .bind(next.op_id.map(|id| id.to_string()))
    .bind(next.archive_key.map(|key| key.to_string()))
    .bind(next.error.as_ref().map(|failure| failure.reason.as_str()))
    .bind(next.error.as_ref().map(|failure| failure.message.as_str()))
    .bind(next.error_count)
    .bind(next.next_retry_at.map(micros))
    .bind(to_json(&next.home)?)
    .bind(next.progress.as_ref().map(to_json).transpose()?)
    .bind(&next.instance_backend)
    .bind(&next.storage_backend)
    .bind(now)
    .execute(write.connection())
    .await?;
    Ok(done.rows_affected() == 1)
}

pub(super) async fn observed(store: &SqliteStore, epoch: Epoch, ids: &[WorkspaceId]) -> Result<bool> {
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(false);
    }
    let now = write.now;
    sqlx::query("UPDATE workspaces SET observed_at = ?2 WHERE id IN (SELECT value FROM json_each(?1))")
        .bind(to_json(&ids)?)
        .bind(now)
        .execute(write.connection())
        .await?;
    write.commit().await?;
    Ok(true)
}
