//! Activity, as the TTLs see it.

use codehub_domain::{Epoch, Timestamp, WorkspaceId};

use super::{
    Result, SqliteStore,
    row::{micros, to_json},
};

/// One statement however many: activity is synced for everything that was used in the last minute.
pub(super) async fn sync(
    store: &SqliteStore,
    epoch: Epoch,
    seen: &[(WorkspaceId, Timestamp)],
) -> Result<bool> {
    let seen: Vec<_> = seen.iter().map(|(id, at)| (id, micros(*at))).collect();
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(false);
    }
    sqlx::query(
        "UPDATE workspaces SET last_access_at = seen.at
         FROM (SELECT value ->> 0 AS id, max(value ->> 1) AS at FROM json_each(?1) GROUP BY 1) AS seen
         WHERE workspaces.id = seen.id AND workspaces.last_access_at < seen.at",
    )
    .bind(to_json(&seen)?)
    .execute(write.connection())
    .await?;
    write.commit().await?;
    Ok(true)
}
