//! The history of a workspace: appended to in the transaction that makes it, never changed.

use codehub_domain::{
    WorkspaceId,
    event::{HistoryEntry, Transition},
};

use super::{PostgresStore, Result, row, write::Write};
use crate::Page;

pub(super) async fn append(
    write: &mut Write,
    id: WorkspaceId,
    now: i64,
    transitions: &[Transition],
) -> Result<()> {
    for transition in transitions {
        sqlx::query(
            "INSERT INTO workspace_events (workspace_id, at, from_phase, to_phase, operation, reason, actor)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(id.as_uuid())
        .bind(now)
        .bind(transition.from.as_str())
        .bind(transition.to.as_str())
        .bind(transition.operation.as_str())
        .bind(transition.reason.stored())
        .bind(transition.actor.to_string())
        .execute(write.connection())
        .await?;
    }
    Ok(())
}

pub(super) async fn page(
    store: &PostgresStore,
    id: WorkspaceId,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<HistoryEntry>> {
    let mut read = store.read().await?;
    let total: i64 = sqlx::query_scalar("SELECT count(*) FROM workspace_events WHERE workspace_id = $1")
        .bind(id.as_uuid())
        .fetch_one(&mut *read)
        .await?;
    let rows = sqlx::query(
        "SELECT id, at, from_phase, to_phase, operation, reason, actor FROM workspace_events
         WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3",
    )
    .bind(id.as_uuid())
    .bind(before.unwrap_or(i64::MAX))
    .bind(i64::from(limit) + 1)
    .fetch_all(&mut *read)
    .await?;
    read.commit().await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Page {
        more: rows.len() > limit,
        items: rows.iter().take(limit).map(row::history_entry).collect::<Result<_>>()?,
        total: row::count(total),
    })
}
