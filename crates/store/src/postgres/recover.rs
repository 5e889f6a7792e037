//! The way out of ERROR, by the domain's rule, in one transaction.

use codehub_domain::{
    Desired, WorkspaceId,
    event::Actor,
    limits::{Limits, needs_a_place},
    recovery::{self, Recovery, RecoveryRefusal},
};

use super::{PostgresStore, Result, StoreError, ask, controller, gc, history, workspaces};
use crate::{Asked, Recovered, asked_with_recovery, belongs_to, values};

pub(super) async fn recover(
    store: &PostgresStore,
    id: WorkspaceId,
    wish: Recovery,
    desired: Option<Desired>,
    limits: Limits,
    actor: Actor,
) -> Result<Recovered> {
    let mut write = store.write().await?;
    let Some(before) =
        workspaces::get_locked(&mut write, id).await?.filter(|found| found.deleted_at.is_none())
    else {
        return Ok(Recovered::NotFound);
    };
    if wish.restore_from.is_some_and(|key| !belongs_to(key, &before)) {
        return Ok(Recovered::NotFound);
    }
    let next = match recovery::recover(&before.status, wish) {
        Ok(next) => next,
        Err(refusal) => return Ok(Recovered::Refused(refusal)),
    };
    if let Some(home) = recovery::relies_on(id, &next)
        && gc::is_claimed(&mut write, home).await?
    {
        return Ok(Recovered::Refused(RecoveryRefusal::BeingDeleted));
    }
    let now = write.now().await?;
    if !controller::update_status(&mut write, now, &before, &next).await? {
        return Err(StoreError::Failed(format!("workspace {id} changed inside a transaction")));
    }
    let entry = values::recovered_entry(&before.status, &next, wish, actor);
    history::append(&mut write, id, now, &[entry]).await?;
    let mut after = workspaces::get(write.connection(), id).await?.unwrap_or_else(|| before.clone());
    if desired.is_none_or(|desired| desired == Desired::Running)
        && needs_a_place(&before, &after)
        && let Some(hit) = workspaces::limit_hit(&mut write, id, before.owner, limits).await?
    {
        return Ok(Recovered::LimitReached(hit));
    }
    if let Some(desired) = desired {
        let ask = asked_with_recovery(desired, limits, actor);
        after = match ask::within(&mut write, after, ask).await? {
            Asked::Changed(after) | Asked::Already(after) => *after,
            Asked::LimitReached(hit) => return Ok(Recovered::LimitReached(hit)),
            Asked::NotFound | Asked::Refused(_) => return Ok(Recovered::NotFound),
        };
    }
    write.wake().await?;
    write.commit().await?;
    Ok(Recovered::Recovered(Box::new(after)))
}
