//! Wishes: the one place where somebody's `desired_state` is written on request. The rule is the
//! domain's; this makes it hold while others ask too.

use codehub_domain::{
    Desired, Workspace, WorkspaceId,
    desired::{self, Answer},
};

use super::{PostgresStore, Result, history, row, workspaces, write::Write};
use crate::{Ask, Asked, values};

pub(super) async fn ask(store: &PostgresStore, id: WorkspaceId, ask: Ask<'_>) -> Result<Asked> {
    let mut write = store.write().await?;
    let Some(workspace) = workspaces::get_locked(&mut write, id).await? else {
        return Ok(Asked::NotFound);
    };
    let asked = within(&mut write, workspace, ask).await?;
    if asked.granted().is_some() {
        write.commit().await?;
    }
    Ok(asked)
}

/// The same inside a transaction that has read the row and locked it: commit it only where the wish is granted.
pub(super) async fn within(write: &mut Write, before: Workspace, ask: Ask<'_>) -> Result<Asked> {
    let Ask { wish, edit, limits, actor, reason } = ask;
    let answer = desired::ask(&before, wish);
    if let Answer::Refuse(refusal) = answer {
        return Ok(Asked::Refused(refusal));
    }
    if answer == Answer::Change
        && wish == Desired::Running
        && let Some(hit) = workspaces::limit_hit(write, before.id, before.owner, limits).await?
    {
        return Ok(Asked::LimitReached(hit));
    }
    let now = write.now().await?;
    let after = values::granted(&before, edit, wish, row::time(now)?);
    if after != before {
        workspaces::put(write.connection(), &after).await?;
    }
    if answer == Answer::Already {
        return Ok(Asked::Already(Box::new(after)));
    }
    let entry = values::granted_entry(&after, actor, reason);
    history::append(write, after.id, now, &[entry]).await?;
    Ok(Asked::Changed(Box::new(after)))
}
