//! The way out of ERROR, by the domain's rule, in one transaction.

use codehub_domain::{
    Desired, WorkspaceId,
    audit::Act,
    change::Change,
    event::Actor,
    intent,
    limits::{Limits, needs_a_place},
    recovery::{self, Recovery, RecoveryRefusal, belongs_to},
};

use super::{SqlStore, SqlWrite, ask, audit, garbage, history, reconciling, workspaces};
use crate::{Ask, Asked, Recovered, Result, StoreError, trail};

pub(super) async fn recover<S: SqlStore>(
    store: &S,
    by: &Act,
    id: WorkspaceId,
    recovery: Recovery,
    desired: Option<Desired>,
    limits: Limits,
    actor: Actor,
) -> Result<Recovered> {
    let mut write = store.write().await?;
    let Some(before) = workspaces::get_living(&mut write, id).await? else {
        return Ok(Recovered::NotFound);
    };
    if recovery.restore_from.is_some_and(|key| !belongs_to(key, &before)) {
        return Ok(Recovered::NotFound);
    }
    let next = match recovery::recover(&before.status, recovery) {
        Ok(next) => next,
        Err(refusal) => return Ok(Recovered::Refused(refusal)),
    };
    if let Some(home) = recovery::relies_on(id, &next)
        && garbage::is_claimed(&mut write, home).await?
    {
        return Ok(Recovered::Refused(RecoveryRefusal::BeingDeleted));
    }
    let now = write.now().await?;
    if !reconciling::update_status(&mut write, now, &before, &next).await? {
        return Err(StoreError::Failed(format!("workspace {id} changed inside a transaction")));
    }
    let entry = intent::recovered_entry(&before.status, &next, recovery, actor);
    history::append(&mut write, id, now, &[entry]).await?;
    let mut after = workspaces::get_locked(&mut write, id).await?.unwrap_or_else(|| before.clone());
    if desired.is_none_or(|desired| desired == Desired::Running)
        && needs_a_place(&before, &after)
        && let Some(hit) = workspaces::limit_hit(&mut write, id, before.owner, limits).await?
    {
        return Ok(Recovered::LimitReached(hit));
    }
    if let Some(desired) = desired {
        let ask = Ask::with_recovery(desired, limits, actor);
        after = match ask::within(&mut write, by, after, ask).await? {
            Asked::Changed(after) | Asked::Already(after) => *after,
            Asked::LimitReached(hit) => return Ok(Recovered::LimitReached(hit)),
            Asked::NotFound | Asked::Refused(_) => return Ok(Recovered::NotFound),
        };
    }
    write.changed(Change::Updated { workspace: id, owner: after.owner });
    audit::append(&mut write, by, &trail::recovered(&after, recovery)).await?;
    // No column says that the controller should look.
    write.tell(Change::Wake).await?;
    write.commit().await?;
    Ok(Recovered::Recovered(Box::new(after)))
}
