//! Wishes: the one place where somebody's `desired_state` is written on request. The rule is the
//! domain's; this makes it hold while others ask too.

use codehub_domain::{
    Desired, Workspace, WorkspaceId,
    audit::Act,
    change::Change,
    desired::{self, Answer},
    intent,
};

use super::{SqlStore, SqlWrite, audit, history, workspaces};
use crate::{Ask, Asked, Result, trail};

pub(super) async fn ask<S: SqlStore>(store: &S, by: &Act, id: WorkspaceId, ask: Ask<'_>) -> Result<Asked> {
    let mut write = store.write().await?;
    let Some(workspace) = workspaces::get_locked(&mut write, id).await? else {
        return Ok(Asked::NotFound);
    };
    let asked = within(&mut write, by, workspace, ask).await?;
    if asked.granted().is_some() {
        write.commit().await?;
    }
    Ok(asked)
}

/// What [`ask`] does, inside a transaction that has locked the row: commit it only where the change is granted.
pub(super) async fn within(
    write: &mut impl SqlWrite,
    by: &Act,
    before: Workspace,
    ask: Ask<'_>,
) -> Result<Asked> {
    let Ask { desired, edit, limits, actor, reason } = ask;
    let answer = desired::ask(&before, desired);
    if let Answer::Refuse(refusal) = answer {
        return Ok(Asked::Refused(refusal));
    }
    if answer == Answer::Change
        && desired == Desired::Running
        && let Some(hit) = workspaces::limit_hit(write, before.id, before.owner, limits).await?
    {
        return Ok(Asked::LimitReached(hit));
    }
    let now = write.now().await?;
    let after = intent::granted(&before, edit, desired, now);
    if after != before {
        workspaces::put(write, &after).await?;
    }
    let (workspace, owner) = (after.id, after.owner);
    if after.deleted_at.is_some() {
        write.changed(Change::Deleted { workspace, owner });
    } else if after.revision != before.revision {
        write.changed(Change::Updated { workspace, owner });
    }
    for entry in trail::asked(&before, &after, desired, answer == Answer::Change, reason) {
        audit::append(write, by, &entry).await?;
    }
    if answer == Answer::Already {
        return Ok(Asked::Already(Box::new(after)));
    }
    let entry = intent::granted_entry(&after, actor, reason);
    history::append(write, workspace, now, &[entry]).await?;
    write.changed(Change::Wake);
    Ok(Asked::Changed(Box::new(after)))
}
