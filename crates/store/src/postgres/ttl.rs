//! The TTLs: one conditional statement each decides and writes, so whoever lands first (a start, an
//! activity, the expiry) is seen by the other: a statement that waited for a row looks at its conditions
//! again.
//!
//! Each statement is the domain's rule twice over: for workspaces with the deployment's TTL, and for
//! those with their own. Each half is answered by an index of its own.

use codehub_domain::{Desired, Epoch, Phase, Timestamp, ttl::TtlPolicy};
use sqlx::postgres::PgRow;

use super::{Lock, PostgresStore, Result, history, row, write::Write};
use crate::{Expired, unseen_micros, values};

/// $1 now, $2 the deployment's TTL in seconds, $3 what it waits for unseen activity.
pub(super) const STANDBY: &str = "
    UPDATE workspaces
    SET desired_state = 'STANDBY', desired_changed_at = $1, updated_at = $1, revision = revision + 1
    WHERE (rests AND phase = 'RUNNING' AND standby_ttl_seconds IS NULL
            AND $2 > 0 AND greatest(last_access_at, phase_changed_at, held_until) < $1 - $2 * 1000000 - $3)
        OR (rests AND phase = 'RUNNING' AND standby_ttl_seconds > 0
            AND greatest(last_access_at, phase_changed_at, held_until) + standby_ttl_seconds * 1000000 < $1 - $3)
    RETURNING id, coalesce(standby_ttl_seconds, $2) AS ttl";

pub(super) const ARCHIVE: &str = "
    UPDATE workspaces
    SET desired_state = 'ARCHIVED', desired_changed_at = $1, updated_at = $1, revision = revision + 1
    WHERE (rests AND phase = 'STANDBY' AND archive_ttl_seconds IS NULL
            AND $2 > 0 AND phase_changed_at < $1 - $2 * 1000000 - $3)
        OR (rests AND phase = 'STANDBY' AND archive_ttl_seconds > 0
            AND phase_changed_at + archive_ttl_seconds * 1000000 < $1 - $3)
    RETURNING id, coalesce(archive_ttl_seconds, $2) AS ttl";

pub(super) async fn expire(store: &PostgresStore, epoch: Epoch, policy: &TtlPolicy) -> Result<Vec<Expired>> {
    let mut write = store.write().await?;
    if !write.leads(epoch).await? {
        return Ok(Vec::new());
    }
    write.lock(Lock::Many).await?;
    let now = write.now().await?;
    let stopped = sqlx::query(STANDBY)
        .bind(now)
        .bind(i64::from(policy.standby_seconds))
        .bind(unseen_micros(policy))
        .fetch_all(write.connection())
        .await?;
    let archived = sqlx::query(ARCHIVE)
        .bind(now)
        .bind(i64::from(policy.archive_seconds))
        .bind(0_i64)
        .fetch_all(write.connection())
        .await?;
    let mut expired = Vec::with_capacity(stopped.len() + archived.len());
    for row in &stopped {
        expired.push(note(&mut write, now, row, Phase::Running, Desired::Standby).await?);
    }
    for row in &archived {
        expired.push(note(&mut write, now, row, Phase::Standby, Desired::Archived).await?);
    }
    write.commit().await?;
    expired.sort_by_key(|expired| expired.id);
    Ok(expired)
}

async fn note(write: &mut Write, now: i64, found: &PgRow, phase: Phase, to: Desired) -> Result<Expired> {
    let id = row::workspace_id(found)?;
    let entry = values::expired_entry(phase, to, row::number(found, "ttl")?);
    history::append(write, id, now, &[entry]).await?;
    Ok(Expired { id, to })
}

/// The four indexes, the oldest of each. $1 and $2 the deployment's TTLs, $3 the wait.
pub(super) const NEXT: &str = "
    SELECT min(at) FROM (
        SELECT min(greatest(last_access_at, phase_changed_at, held_until)) + $1 * 1000000 + $3 AS at FROM workspaces
        WHERE rests AND phase = 'RUNNING' AND standby_ttl_seconds IS NULL AND $1 > 0
        UNION ALL
        SELECT min(greatest(last_access_at, phase_changed_at, held_until) + standby_ttl_seconds * 1000000) + $3
        FROM workspaces WHERE rests AND phase = 'RUNNING' AND standby_ttl_seconds > 0
        UNION ALL
        SELECT min(phase_changed_at) + $2 * 1000000 FROM workspaces
        WHERE rests AND phase = 'STANDBY' AND archive_ttl_seconds IS NULL AND $2 > 0
        UNION ALL
        SELECT min(phase_changed_at + archive_ttl_seconds * 1000000) FROM workspaces
        WHERE rests AND phase = 'STANDBY' AND archive_ttl_seconds > 0
    ) AS ends";

pub(super) async fn next(store: &PostgresStore, policy: &TtlPolicy) -> Result<Option<Timestamp>> {
    let next: Option<i64> = sqlx::query_scalar(NEXT)
        .bind(i64::from(policy.standby_seconds))
        .bind(i64::from(policy.archive_seconds))
        .bind(unseen_micros(policy))
        .fetch_one(&store.pool)
        .await?;
    next.map(row::time).transpose()
}
