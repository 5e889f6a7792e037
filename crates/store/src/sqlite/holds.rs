//! Keep-awake leases. `workspaces.held_until` is the end of the longest one, written in the same
//! transaction, so that the TTL's one statement sees it.

use codehub_domain::{HoldId, Workspace, WorkspaceId, activity::Hold};

use super::{
    Result, SqliteStore,
    row::{self, micros},
    workspaces,
    write::Write,
};
use crate::{NewHold, values};

pub(super) async fn hold(
    store: &SqliteStore,
    id: WorkspaceId,
    new: NewHold,
) -> Result<Option<(Workspace, Hold)>> {
    let mut write = store.write().await?;
    if workspaces::get(write.connection(), id).await?.is_none_or(|found| found.deleted_at.is_some()) {
        return Ok(None);
    }
    let hold = values::held(new, write.now)?;
    // Those that have ended are outlasted by the new one.
    sqlx::query("DELETE FROM workspace_holds WHERE workspace_id = ?1 AND until <= ?2")
        .bind(id.to_string())
        .bind(write.now)
        .execute(write.connection())
        .await?;
    sqlx::query(
        "INSERT INTO workspace_holds (id, workspace_id, user_id, reason, created_at, until)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )
    .bind(hold.id.to_string())
    .bind(id.to_string())
    .bind(hold.by.to_string())
    .bind(&hold.reason)
    .bind(micros(hold.created_at))
    .bind(micros(hold.until))
    .execute(write.connection())
    .await?;
    Ok(changed(write, id).await?.map(|workspace| (workspace, hold)))
}

pub(super) async fn release(
    store: &SqliteStore,
    id: WorkspaceId,
    hold: Option<HoldId>,
) -> Result<Option<Workspace>> {
    let mut write = store.write().await?;
    let given_back = sqlx::query(
        "DELETE FROM workspace_holds WHERE workspace_id = ?1 AND until > ?2 AND (?3 IS NULL OR id = ?3)",
    )
    .bind(id.to_string())
    .bind(write.now)
    .bind(hold.map(|hold| hold.to_string()))
    .execute(write.connection())
    .await?;
    if given_back.rows_affected() == 0 {
        return Ok(None);
    }
    changed(write, id).await
}

/// The workspace was held until now at least, whatever has just begun or ended.
async fn changed(mut write: Write, id: WorkspaceId) -> Result<Option<Workspace>> {
    sqlx::query(
        "UPDATE workspaces SET held_until = (SELECT max(until) FROM workspace_holds WHERE workspace_id = ?1),
             last_access_at = max(last_access_at, ?2), updated_at = ?2, revision = revision + 1
         WHERE id = ?1",
    )
    .bind(id.to_string())
    .bind(write.now)
    .execute(write.connection())
    .await?;
    let Some(workspace) = workspaces::get(write.connection(), id).await? else { return Ok(None) };
    write.updated(id, workspace.owner);
    write.commit().await?;
    Ok(Some(workspace))
}

/// By the clock, those that have not ended.
pub(super) async fn running(store: &SqliteStore, id: WorkspaceId) -> Result<Vec<Hold>> {
    let now = micros(store.clock().await?);
    let rows = sqlx::query(
        "SELECT id, user_id, reason, created_at, until FROM workspace_holds
         WHERE workspace_id = ?1 AND until > ?2 ORDER BY until DESC, id",
    )
    .bind(id.to_string())
    .bind(now)
    .fetch_all(&store.readers)
    .await?;
    rows.iter().map(row::hold).collect()
}
