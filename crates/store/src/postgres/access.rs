//! Activity, as the TTLs see it.

use codehub_domain::{Epoch, Timestamp, WorkspaceId};

use super::{Lock, PostgresStore, Result, row::micros};

/// One statement however many: activity is synced for everything that was used in the last minute.
pub(super) async fn sync(
    store: &PostgresStore,
    epoch: Epoch,
    seen: &[(WorkspaceId, Timestamp)],
) -> Result<bool> {
    let (ids, times): (Vec<_>, Vec<_>) = seen.iter().map(|(id, at)| (id.as_uuid(), micros(*at))).unzip();
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(false);
    }
    write.lock(Lock::Many).await?;
    sqlx::query(
        "UPDATE workspaces SET last_access_at = seen.at
         FROM (SELECT id, max(at) AS at FROM unnest($1::UUID[], $2::BIGINT[]) AS s (id, at) GROUP BY id) AS seen
         WHERE workspaces.id = seen.id AND workspaces.last_access_at < seen.at",
    )
    .bind(ids)
    .bind(times)
    .execute(write.connection())
    .await?;
    write.commit().await?;
    Ok(true)
}
