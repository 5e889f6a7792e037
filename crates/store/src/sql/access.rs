//! Activity, as the TTLs see it.

use std::collections::BTreeMap;

use codehub_domain::{Epoch, Timestamp, WorkspaceId};

use super::{Lock, SqlStore, SqlWrite, Statements, args, json};
use crate::Result;

/// One statement however many: activity is synced for everything that was used in the last minute.
pub(super) async fn sync<S: SqlStore>(
    store: &S,
    epoch: Epoch,
    seen: &[(WorkspaceId, Timestamp)],
) -> Result<bool> {
    let mut latest = BTreeMap::new();
    for (id, at) in seen {
        let known = latest.entry(id.to_string()).or_insert(i64::MIN);
        *known = at.as_microsecond().max(*known);
    }
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(false);
    }
    write.lock(Lock::Many).await?;
    write
        .run(
            "UPDATE workspaces SET last_access_at = seen.at
             FROM (SELECT key::UUID AS id, value::BIGINT AS at FROM jsonb_each_text($1)) AS seen
             WHERE workspaces.id = seen.id AND workspaces.last_access_at < seen.at",
            args![json(&latest)?],
        )
        .await?;
    write.commit().await?;
    Ok(true)
}
