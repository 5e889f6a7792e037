//! Wishes: the one place where somebody's `desired_state` is written on request. The rule is the
//! domain's; this makes it hold while others ask too.

use codehub_domain::{
    Desired, Workspace, WorkspaceId,
    desired::{self, Answer},
    event::Actor,
    limits::Limits,
};

use super::{
    Result, SqliteStore, history,
    row::{self, micros},
    workspaces,
    write::Write,
};
use crate::store::{Asked, values};

pub(super) async fn ask(
    store: &SqliteStore,
    id: WorkspaceId,
    wish: Desired,
    limits: Limits,
    actor: Actor,
    reason: &str,
) -> Result<Asked> {
    let mut write = store.write().await?;
    let Some(workspace) = workspaces::get(write.connection(), id).await? else {
        return Ok(Asked::NotFound);
    };
    match desired::ask(&workspace, wish) {
        Answer::Refuse(refusal) => Ok(Asked::Refused(refusal)),
        Answer::Already if wish == Desired::Running => already_running(write, workspace).await,
        Answer::Already => Ok(Asked::Already(Box::new(workspace))),
        Answer::Change => {
            if wish == Desired::Running
                && let Some(hit) =
                    workspaces::limit_hit(write.connection(), id, workspace.owner, limits).await?
            {
                return Ok(Asked::LimitReached(hit));
            }
            change(write, workspace, wish, actor, reason).await
        }
    }
}

/// Wanting what already runs is activity, and nothing else.
async fn already_running(mut write: Write, mut workspace: Workspace) -> Result<Asked> {
    workspace.last_access_at = workspace.last_access_at.max(row::time(write.now)?);
    sqlx::query("UPDATE workspaces SET last_access_at = ?2 WHERE id = ?1")
        .bind(workspace.id.to_string())
        .bind(micros(workspace.last_access_at))
        .execute(write.connection())
        .await?;
    write.commit().await?;
    Ok(Asked::Already(Box::new(workspace)))
}

async fn change(
    mut write: Write,
    workspace: Workspace,
    wish: Desired,
    actor: Actor,
    reason: &str,
) -> Result<Asked> {
    let workspace = values::granted(workspace, wish, row::time(write.now)?);
    sqlx::query(
        "UPDATE workspaces SET desired_state = ?2, desired_changed_at = ?3, deleted_at = ?4,
             last_access_at = ?5, updated_at = ?6, revision = ?7
         WHERE id = ?1",
    )
    .bind(workspace.id.to_string())
    .bind(workspace.desired.as_str())
    .bind(micros(workspace.desired_changed_at))
    .bind(workspace.deleted_at.map(micros))
    .bind(micros(workspace.last_access_at))
    .bind(micros(workspace.updated_at))
    .bind(workspace.revision)
    .execute(write.connection())
    .await?;
    let entry = values::granted_entry(&workspace, actor, reason);
    history::append(&mut write, workspace.id, &[entry]).await?;
    if workspace.deleted_at.is_some() {
        write.deleted(workspace.id, workspace.owner);
    } else {
        write.updated(workspace.id, workspace.owner);
    }
    write.wake();
    write.commit().await?;
    Ok(Asked::Changed(Box::new(workspace)))
}
