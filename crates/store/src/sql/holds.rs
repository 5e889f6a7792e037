//! Keep-awake leases. `workspaces.held_until` is the end of the longest one, written in the same
//! transaction, so that the TTL's one statement sees it.
//!
//! The workspace's row is locked first: whoever begins or ends a lease meanwhile waits, and then finds the
//! longest one anew.

use async_trait::async_trait;
use codehub_domain::{
    HoldId, Timestamp, Workspace, WorkspaceId,
    activity::{Hold, NewHold},
    change::Change,
};

use super::{SqlStore, SqlWrite, Statements, args, timed, workspaces};
use crate::{Holds, Result, row};

#[async_trait]
impl<S: SqlStore> Holds for S {
    async fn workspace_hold(&self, id: WorkspaceId, new: NewHold) -> Result<Option<(Workspace, Hold)>> {
        timed::<S, _>("workspace_hold", async {
            let mut write = self.write().await?;
            if workspaces::get_living(&mut write, id).await?.is_none() {
                return Ok(None);
            }
            let now = write.now().await?;
            let hold = new.begun(now);
            // Those that have ended are outlasted by the new one.
            write
                .run("DELETE FROM workspace_holds WHERE workspace_id = $1 AND until <= $2", args![id, now])
                .await?;
            write
                .run(
                    "INSERT INTO workspace_holds (id, workspace_id, user_id, reason, created_at, until)
                     VALUES ($1, $2, $3, $4, $5, $6)",
                    args![hold.id, id, hold.by, &hold.reason, hold.created_at, hold.until],
                )
                .await?;
            Ok(changed(write, id, now).await?.map(|workspace| (workspace, hold)))
        })
        .await
    }

    async fn workspace_release(&self, id: WorkspaceId, hold: Option<HoldId>) -> Result<Option<Workspace>> {
        timed::<S, _>("workspace_release", async {
            let mut write = self.write().await?;
            if workspaces::get_locked(&mut write, id).await?.is_none() {
                return Ok(None);
            }
            let now = write.now().await?;
            let given_back = write
                .run(
                    "DELETE FROM workspace_holds
                     WHERE workspace_id = $1 AND until > $2 AND ($3 IS NULL OR id = $3)",
                    args![id, now, hold],
                )
                .await?;
            if given_back == 0 {
                return Ok(None);
            }
            changed(write, id, now).await
        })
        .await
    }

    async fn workspace_holds(&self, id: WorkspaceId) -> Result<Vec<Hold>> {
        timed::<S, _>("workspace_holds", async {
            let rows = self
                .select(
                    "SELECT id, user_id, reason, created_at, until FROM workspace_holds
                     WHERE workspace_id = $1 AND until > codehub_now() ORDER BY until DESC, id",
                    args![id],
                )
                .await?;
            rows.iter().map(row::hold).collect()
        })
        .await
    }
}

/// The workspace was held until now at least, whatever has just begun or ended.
async fn changed(mut write: impl SqlWrite, id: WorkspaceId, now: Timestamp) -> Result<Option<Workspace>> {
    write
        .run(
            "UPDATE workspaces SET
                 held_until = (SELECT max(until) FROM workspace_holds WHERE workspace_id = $1),
                 last_access_at = greatest(last_access_at, $2), updated_at = $2, revision = revision + 1
             WHERE id = $1",
            args![id, now],
        )
        .await?;
    let Some(workspace) = workspaces::get_locked(&mut write, id).await? else { return Ok(None) };
    if workspace.deleted_at.is_none() {
        // Not every lease moves `held_until`.
        write.tell(Change::Updated { workspace: id, owner: workspace.owner }).await?;
    }
    write.commit().await?;
    Ok(Some(workspace))
}
