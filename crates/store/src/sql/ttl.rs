//! The TTLs: one conditional statement each decides and writes, so whoever lands first (a start, an
//! activity, the expiry) is seen by the other: a statement that waited for a row looks at its conditions
//! again.
//!
//! Each statement is the domain's rule twice over: for workspaces with the deployment's TTL, and for
//! those with their own. Each half is answered by an index of its own.

use codehub_domain::{
    Desired, Epoch, Phase, Timestamp, UserId, change::Change, intent::expired_entry, ttl::TtlPolicy,
};

use super::{Lock, SqlStore, SqlWrite, Statements, args, history};
use crate::{
    Expired, Result,
    row::{self, SqlRow},
};

/// $1 now, $2 the deployment's TTL in seconds, $3 what it waits for unseen activity.
pub(crate) const STANDBY: &str = "
    UPDATE workspaces
    SET desired_state = 'STANDBY', desired_changed_at = $1, updated_at = $1, revision = revision + 1
    WHERE (rests AND phase = 'RUNNING' AND standby_ttl_seconds IS NULL AND $2 > 0
            AND greatest(last_access_at, phase_changed_at, coalesce(held_until, 0)) < $1 - $2 * 1000000 - $3)
        OR (rests AND phase = 'RUNNING' AND standby_ttl_seconds > 0
            AND greatest(last_access_at, phase_changed_at, coalesce(held_until, 0))
                + standby_ttl_seconds * 1000000 < $1 - $3)
    RETURNING id, owner_user_id, coalesce(standby_ttl_seconds, $2) AS ttl";

pub(crate) const ARCHIVE: &str = "
    UPDATE workspaces
    SET desired_state = 'ARCHIVED', desired_changed_at = $1, updated_at = $1, revision = revision + 1
    WHERE (rests AND phase = 'STANDBY' AND archive_ttl_seconds IS NULL AND $2 > 0
            AND phase_changed_at < $1 - $2 * 1000000 - $3)
        OR (rests AND phase = 'STANDBY' AND archive_ttl_seconds > 0
            AND phase_changed_at + archive_ttl_seconds * 1000000 < $1 - $3)
    RETURNING id, owner_user_id, coalesce(archive_ttl_seconds, $2) AS ttl";

pub(super) async fn expire<S: SqlStore>(store: &S, epoch: Epoch, policy: &TtlPolicy) -> Result<Vec<Expired>> {
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(Vec::new());
    }
    write.lock(Lock::Many).await?;
    let now = write.now().await?;
    let mut expired = Vec::new();
    for (sql, from, to, seconds, wait) in [
        (STANDBY, Phase::Running, Desired::Standby, policy.standby_seconds, unseen_micros(policy)),
        (ARCHIVE, Phase::Standby, Desired::Archived, policy.archive_seconds, 0),
    ] {
        for found in write.all(sql.into(), args![now, seconds, wait]).await? {
            let id = row::workspace_id(&found)?;
            let owner = UserId::from_uuid(found.uuid("owner_user_id")?);
            let entry = expired_entry(from, to, row::number(&found, "ttl")?);
            history::append(&mut write, id, now, &[entry]).await?;
            write.changed(Change::Updated { workspace: id, owner });
            expired.push(Expired { id, to });
        }
    }
    if !expired.is_empty() {
        write.changed(Change::Wake);
        write.commit().await?;
    }
    expired.sort_by_key(|expired| expired.id);
    Ok(expired)
}

/// The four indexes, the oldest of each. $1 and $2 the deployment's TTLs, $3 the wait.
pub(crate) const NEXT: &str = "
    SELECT min(at) AS next FROM (
        SELECT min(greatest(last_access_at, phase_changed_at, coalesce(held_until, 0)))
            + $1 * 1000000 + $3 AS at
        FROM workspaces WHERE rests AND phase = 'RUNNING' AND standby_ttl_seconds IS NULL AND $1 > 0
        UNION ALL
        SELECT min(greatest(last_access_at, phase_changed_at, coalesce(held_until, 0))
            + standby_ttl_seconds * 1000000) + $3
        FROM workspaces WHERE rests AND phase = 'RUNNING' AND standby_ttl_seconds > 0
        UNION ALL
        SELECT min(phase_changed_at) + $2 * 1000000 FROM workspaces
        WHERE rests AND phase = 'STANDBY' AND archive_ttl_seconds IS NULL AND $2 > 0
        UNION ALL
        SELECT min(phase_changed_at + archive_ttl_seconds * 1000000) FROM workspaces
        WHERE rests AND phase = 'STANDBY' AND archive_ttl_seconds > 0
    ) AS ends";

pub(super) async fn next<S: SqlStore>(store: &S, policy: &TtlPolicy) -> Result<Option<Timestamp>> {
    let args = args![policy.standby_seconds, policy.archive_seconds, unseen_micros(policy)];
    let found = store.select(NEXT, args).await?;
    found.first().map_or(Ok(None), |row| row::maybe_at(row, "next"))
}

/// How long a TTL waits for activity that may not have been seen yet: in microseconds, and small enough to
/// be added to any time. Parts of a microsecond change nothing: times are whole ones, and "later than" is
/// strict.
pub(crate) fn unseen_micros(policy: &TtlPolicy) -> i64 {
    let end = Timestamp::MAX.as_microsecond();
    i64::try_from(policy.unseen_activity.as_micros()).unwrap_or(end).min(end)
}
