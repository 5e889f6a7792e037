//! The history of a workspace: appended to in the transaction that makes it, never changed.

use codehub_domain::{
    Timestamp, WorkspaceId,
    event::{HistoryEntry, Transition},
};

use super::{SqlStore, SqlWrite, Statements, args, page};
use crate::{
    Page, Result,
    row::{self, SqlRow as _},
};

pub(super) async fn append(
    write: &mut impl SqlWrite,
    id: WorkspaceId,
    now: Timestamp,
    transitions: &[Transition],
) -> Result<()> {
    for Transition { from, to, operation, reason, actor } in transitions {
        write
            .run(
                "INSERT INTO workspace_events
                     (workspace_id, at, from_phase, to_phase, operation, reason, actor)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                args![id, now, *from, *to, *operation, reason.stored(), actor.to_string()],
            )
            .await?;
    }
    Ok(())
}

pub(super) async fn latest<S: SqlStore>(store: &S, limit: u32) -> Result<Vec<(WorkspaceId, HistoryEntry)>> {
    const LATEST: &str = "SELECT id, workspace_id, at, from_phase, to_phase, operation, reason, actor
         FROM workspace_events ORDER BY id DESC LIMIT $1";
    let rows = store.select(LATEST, args![limit]).await?;
    let entry = |found: &S::Row| {
        Ok((WorkspaceId::from_uuid(found.uuid("workspace_id")?), row::history_entry(found)?))
    };
    rows.iter().map(entry).collect()
}

pub(super) async fn page_of<S: SqlStore>(
    store: &S,
    id: WorkspaceId,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<HistoryEntry>> {
    let mut read = store.read().await?;
    let counting = "SELECT count(*) AS total FROM workspace_events WHERE workspace_id = $1";
    let total = row::count(&read.one(counting, args![id]).await?, "total")?;
    let rows = read
        .all(
            "SELECT id, at, from_phase, to_phase, operation, reason, actor FROM workspace_events
             WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3"
                .into(),
            args![id, before.unwrap_or(i64::MAX), i64::from(limit) + 1],
        )
        .await?;
    page(&rows, limit, Some(total), row::history_entry)
}
