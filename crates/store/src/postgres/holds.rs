//! Keep-awake leases. `workspaces.held_until` is the end of the longest one, written in the same
//! transaction, so that the TTL's one statement sees it.
//!
//! The workspace's row is locked first: whoever begins or ends a lease meanwhile waits, and then finds the
//! longest one anew.

use codehub_domain::{HoldId, Workspace, WorkspaceId, activity::Hold};

use super::{
    PostgresStore, Result,
    row::{self, micros},
    workspaces,
    write::Write,
};
use crate::{NewHold, values};

pub(super) async fn hold(
    store: &PostgresStore,
    id: WorkspaceId,
    new: NewHold,
) -> Result<Option<(Workspace, Hold)>> {
    let mut write = store.write().await?;
    if workspaces::get_locked(&mut write, id).await?.is_none_or(|found| found.deleted_at.is_some()) {
        return Ok(None);
    }
    let now = write.now().await?;
    let hold = values::held(new, now)?;
    // Those that have ended are outlasted by the new one.
    sqlx::query("DELETE FROM workspace_holds WHERE workspace_id = $1 AND until <= $2")
        .bind(id.as_uuid())
        .bind(now)
        .execute(write.connection())
        .await?;
    sqlx::query(
        "INSERT INTO workspace_holds (id, workspace_id, user_id, reason, created_at, until)
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(hold.id.as_uuid())
    .bind(id.as_uuid())
    .bind(hold.by.as_uuid())
    .bind(&hold.reason)
    .bind(micros(hold.created_at))
    .bind(micros(hold.until))
    .execute(write.connection())
    .await?;
    Ok(changed(write, id, now).await?.map(|workspace| (workspace, hold)))
}

pub(super) async fn release(
    store: &PostgresStore,
    id: WorkspaceId,
    hold: Option<HoldId>,
) -> Result<Option<Workspace>> {
    let mut write = store.write().await?;
    if workspaces::get_locked(&mut write, id).await?.is_none() {
        return Ok(None);
    }
    let now = write.now().await?;
    let given_back = sqlx::query(
        "DELETE FROM workspace_holds
         WHERE workspace_id = $1 AND until > $2 AND ($3::UUID IS NULL OR id = $3)",
    )
    .bind(id.as_uuid())
    .bind(now)
    .bind(hold.map(|hold| hold.as_uuid()))
    .execute(write.connection())
    .await?;
    if given_back.rows_affected() == 0 {
        return Ok(None);
    }
    changed(write, id, now).await
}

/// The workspace was held until now at least, whatever has just begun or ended.
async fn changed(mut write: Write, id: WorkspaceId, now: i64) -> Result<Option<Workspace>> {
    sqlx::query(
        "UPDATE workspaces SET held_until = (SELECT max(until) FROM workspace_holds WHERE workspace_id = $1),
             last_access_at = greatest(last_access_at, $2), updated_at = $2, revision = revision + 1
         WHERE id = $1",
    )
    .bind(id.as_uuid())
    .bind(now)
    .execute(write.connection())
    .await?;
    let Some(workspace) = workspaces::get(write.connection(), id).await? else { return Ok(None) };
    if workspace.deleted_at.is_none() {
        write.updated(id, workspace.owner).await?;
    }
    write.commit().await?;
    Ok(Some(workspace))
}

/// By the database's clock, those that have not ended.
pub(super) async fn running(store: &PostgresStore, id: WorkspaceId) -> Result<Vec<Hold>> {
    let rows = sqlx::query(
        "SELECT id, user_id, reason, created_at, until FROM workspace_holds
         WHERE workspace_id = $1 AND until > codehub_now() ORDER BY until DESC, id",
    )
    .bind(id.as_uuid())
    .fetch_all(&store.pool)
    .await?;
    rows.iter().map(row::hold).collect()
}
