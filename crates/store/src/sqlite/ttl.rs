//! The TTLs: one conditional statement each decides and writes, so whoever lands first (a start, an
//! activity, the expiry) is seen by the other.
//!
//! Each statement is the domain's rule twice over: for workspaces with the deployment's TTL, and for
//! those with their own. Each half is answered by an index of its own.

use codehub_domain::{Desired, Epoch, Phase, Timestamp, UserId, WorkspaceId, ttl::TtlPolicy};
use sqlx::sqlite::SqliteRow;

use super::{Result, SqliteStore, history, row, write::Write};
use crate::{Expired, unseen_micros, values};

/// ?1 now, ?2 the deployment's TTL in seconds, ?3 what it waits for unseen activity, ?4 the epoch.
pub(super) const STANDBY: &str = "
    UPDATE workspaces
    SET desired_state = 'STANDBY', desired_changed_at = ?1, updated_at = ?1, revision = revision + 1
    WHERE (SELECT epoch FROM leader) = ?4 AND (
        (rests = 1 AND phase = 'RUNNING' AND standby_ttl_seconds IS NULL
            AND ?2 > 0 AND max(last_access_at, phase_changed_at, coalesce(held_until, 0)) < ?1 - ?2 * 1000000 - ?3)
        OR (rests = 1 AND phase = 'RUNNING' AND standby_ttl_seconds > 0
            AND max(last_access_at, phase_changed_at, coalesce(held_until, 0)) + standby_ttl_seconds * 1000000 < ?1 - ?3)
    )
    RETURNING id, owner_user_id, coalesce(standby_ttl_seconds, ?2) AS ttl";

pub(super) const ARCHIVE: &str = "
    UPDATE workspaces
    SET desired_state = 'ARCHIVED', desired_changed_at = ?1, updated_at = ?1, revision = revision + 1
    WHERE (SELECT epoch FROM leader) = ?4 AND (
        (rests = 1 AND phase = 'STANDBY' AND archive_ttl_seconds IS NULL
            AND ?2 > 0 AND phase_changed_at < ?1 - ?2 * 1000000 - ?3)
        OR (rests = 1 AND phase = 'STANDBY' AND archive_ttl_seconds > 0
            AND phase_changed_at + archive_ttl_seconds * 1000000 < ?1 - ?3)
    )
    RETURNING id, owner_user_id, coalesce(archive_ttl_seconds, ?2) AS ttl";

pub(super) async fn expire(store: &SqliteStore, epoch: Epoch, policy: &TtlPolicy) -> Result<Vec<Expired>> {
    let mut write = store.write().await?;
    let now = write.now;
    let stopped = sqlx::query(STANDBY)
        .bind(now)
        .bind(policy.standby_seconds)
        .bind(unseen_micros(policy))
        .bind(epoch.0)
        .fetch_all(write.connection())
        .await?;
    let archived = sqlx::query(ARCHIVE)
        .bind(now)
        .bind(policy.archive_seconds)
        .bind(0)
        .bind(epoch.0)
        .fetch_all(write.connection())
        .await?;
    let mut expired = Vec::with_capacity(stopped.len() + archived.len());
    for row in &stopped {
        expired.push(note(&mut write, row, Phase::Running, Desired::Standby).await?);
    }
    for row in &archived {
        expired.push(note(&mut write, row, Phase::Standby, Desired::Archived).await?);
    }
    if !expired.is_empty() {
        write.wake();
        write.commit().await?;
    }
    expired.sort_by_key(|expired| expired.id);
    Ok(expired)
}

async fn note(write: &mut Write, found: &SqliteRow, phase: Phase, to: Desired) -> Result<Expired> {
    let id: WorkspaceId = row::parsed(found, "id")?;
    let owner: UserId = row::parsed(found, "owner_user_id")?;
    let entry = values::expired_entry(phase, to, row::number(found, "ttl")?);
    history::append(write, id, &[entry]).await?;
    write.updated(id, owner);
    Ok(Expired { id, to })
}

/// The four indexes, the oldest of each. ?1 and ?2 the deployment's TTLs, ?3 the wait.
pub(super) const NEXT: &str = "
    SELECT min(at) FROM (
        SELECT min(max(last_access_at, phase_changed_at, coalesce(held_until, 0))) + ?1 * 1000000 + ?3 AS at FROM workspaces
        WHERE rests = 1 AND phase = 'RUNNING' AND standby_ttl_seconds IS NULL AND ?1 > 0
        UNION ALL
        SELECT min(max(last_access_at, phase_changed_at, coalesce(held_until, 0)) + standby_ttl_seconds * 1000000) + ?3
        FROM workspaces WHERE rests = 1 AND phase = 'RUNNING' AND standby_ttl_seconds > 0
        UNION ALL
        SELECT min(phase_changed_at) + ?2 * 1000000 FROM workspaces
        WHERE rests = 1 AND phase = 'STANDBY' AND archive_ttl_seconds IS NULL AND ?2 > 0
        UNION ALL
        SELECT min(phase_changed_at + archive_ttl_seconds * 1000000) FROM workspaces
        WHERE rests = 1 AND phase = 'STANDBY' AND archive_ttl_seconds > 0
    )";

pub(super) async fn next(store: &SqliteStore, policy: &TtlPolicy) -> Result<Option<Timestamp>> {
    let next: Option<i64> = sqlx::query_scalar(NEXT)
        .bind(policy.standby_seconds)
        .bind(policy.archive_seconds)
        .bind(unseen_micros(policy))
        .fetch_one(&store.readers)
        .await?;
    next.map(row::time).transpose()
}
