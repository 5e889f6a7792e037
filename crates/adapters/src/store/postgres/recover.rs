//! The way out of ERROR, by the domain's rule, in one transaction.

use codehub_domain::{
    WorkspaceId,
    event::Actor,
    recovery::{self, Recovery, RecoveryRefusal},
};

use super::{PostgresStore, Result, StoreError, controller, gc, history, workspaces};
use crate::store::{Recovered, belongs_to, values};

pub(super) async fn recover(
    store: &PostgresStore,
    id: WorkspaceId,
    wish: Recovery,
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
    let after = workspaces::get(write.connection(), id).await?.unwrap_or(before);
    write.wake().await?;
    write.commit().await?;
    Ok(Recovered::Recovered(Box::new(after)))
}
