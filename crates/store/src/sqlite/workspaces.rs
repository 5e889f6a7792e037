//! Workspaces as people make, read and edit them.

use std::collections::BTreeMap;

use codehub_domain::{
    Phase, UserId, Workspace, WorkspaceId,
    activity::ActivityMode,
    event::Actor,
    gc::Item,
    limits::{LimitHit, Limits, RunningWorkspace, takes_a_place},
};
use sqlx::{QueryBuilder, Row, Sqlite, SqliteConnection};

use super::{
    Result, SqliteStore, gc, history,
    row::{self, micros, to_json, workspace_columns},
    users,
};
use crate::{Created, Edit, ListFilter, NewWorkspace, Page, values};

pub(super) async fn create(
    store: &SqliteStore,
    new: NewWorkspace,
    limits: Limits,
    actor: Actor,
) -> Result<Created> {
    let mut write = store.write().await?;
    users::existing(&mut write, new.owner).await?;
    let now = row::time(write.now)?;
    let from_archive = new.from_archive;
    let workspace = values::created(new, now);
    if takes_a_place(&workspace)
        && let Some(hit) = limit_hit(write.connection(), workspace.id, workspace.owner, limits).await?
    {
        return Ok(Created::LimitReached(hit));
    }
    if let Some(key) = from_archive
        && gc::is_claimed(&mut write, Item::Archive(key)).await?
    {
        return Ok(Created::ArchiveGone);
    }
    insert(write.connection(), &workspace).await?;
    history::append(&mut write, workspace.id, &[values::created_entry(from_archive, actor)]).await?;
    write.updated(workspace.id, workspace.owner);
    write.wake();
    write.commit().await?;
    Ok(Created::Created(Box::new(workspace)))
}

async fn insert(connection: &mut SqliteConnection, workspace: &Workspace) -> Result<()> {
    let status = &workspace.status;
    sqlx::query(concat!(
        "INSERT INTO workspaces (",
        workspace_columns!(),
        ", name_key) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, NULL, ?12, ?13, NULL, ?14, ?15,
             ?16, NULL, NULL, NULL, ?23, NULL, NULL, 0, NULL, ?17, NULL, '', '', ?18, ?19, ?20, ?22, NULL, ?21)"
    ))
    .bind(workspace.id.to_string())
    .bind(workspace.owner.to_string())
    .bind(&workspace.name)
    .bind(&workspace.description)
    .bind(&workspace.memo)
    .bind(&workspace.image_ref)
    .bind(&workspace.home_store_key)
    .bind(workspace.standby_ttl_seconds)
    .bind(workspace.archive_ttl_seconds)
    .bind(workspace.desired.as_str())
    .bind(micros(workspace.desired_changed_at))
    .bind(micros(workspace.last_access_at))
    .bind(to_json(&status.conditions)?)
    .bind(status.phase.as_str())
    .bind(micros(status.phase_changed_at))
    .bind(status.operation.as_str())
    .bind(to_json(&status.home)?)
    .bind(micros(workspace.created_at))
    .bind(micros(workspace.updated_at))
    .bind(workspace.revision)
    .bind(workspace.name.to_lowercase())
    .bind(workspace.activity_mode.map(ActivityMode::as_str))
    .bind(status.archive_key.map(|key| key.to_string()))
    .execute(connection)
    .await?;
    Ok(())
}

/// What `takes_place` says, without those in ERROR of which nothing runs
/// ([`codehub_domain::limits::takes_a_place`]).
macro_rules! takes_place {
    () => {
        "takes_place = 1 AND (phase <> 'ERROR' OR error_reason IS NULL OR coalesce(
             json_extract(conditions, '$.\"infra.container_ready\".reason'), 'NotFound') NOT IN ('NotFound', 'Ended'))"
    };
}

/// The limit that one more running workspace of `owner` would break. The workspace that asks is not in
/// its own way.
pub(super) async fn limit_hit(
    connection: &mut SqliteConnection,
    asking: WorkspaceId,
    owner: UserId,
    limits: Limits,
) -> Result<Option<LimitHit>> {
    let of_user: u32 = sqlx::query_scalar(concat!(
        "SELECT count(*) FROM workspaces WHERE ",
        takes_place!(),
        " AND owner_user_id = ?1 AND id <> ?2"
    ))
    .bind(owner.to_string())
    .bind(asking.to_string())
    .fetch_one(&mut *connection)
    .await?;
    let in_all: u32 = sqlx::query_scalar(concat!(
        "SELECT count(*) FROM workspaces WHERE ",
        takes_place!(),
        " AND id <> ?1"
    ))
    .bind(asking.to_string())
    .fetch_one(&mut *connection)
    .await?;
    match limits.admit(of_user, in_all) {
        Ok(()) => Ok(None),
        Err(scope) => Ok(Some(LimitHit { scope, running: running_of(connection, owner).await? })),
    }
}

/// Without deleted ones: they may take a place for another moment, but nobody can stop them.
pub(super) async fn running_of(
    connection: &mut SqliteConnection,
    owner: UserId,
) -> Result<Vec<RunningWorkspace>> {
    let rows = sqlx::query(concat!(
        "SELECT id, name FROM workspaces WHERE ",
        takes_place!(),
        " AND owner_user_id = ?1 AND deleted_at IS NULL ORDER BY id"
    ))
    .bind(owner.to_string())
    .fetch_all(connection)
    .await?;
    rows.iter().map(row::running).collect()
}

pub(super) async fn get(connection: &mut SqliteConnection, id: WorkspaceId) -> Result<Option<Workspace>> {
    let found = sqlx::query(concat!("SELECT ", workspace_columns!(), " FROM workspaces WHERE id = ?1"))
        .bind(id.to_string())
        .fetch_optional(connection)
        .await?;
    found.as_ref().map(row::workspace).transpose()
}

pub(super) async fn get_many(store: &SqliteStore, ids: &[WorkspaceId]) -> Result<Vec<Workspace>> {
    let rows = sqlx::query(concat!(
        "SELECT ",
        workspace_columns!(),
        " FROM workspaces WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY id"
    ))
    .bind(to_json(&ids)?)
    .fetch_all(&store.readers)
    .await?;
    rows.iter().map(row::workspace).collect()
}

/// Ids are UUIDv7: descending ids are newest first.
pub(super) async fn list(store: &SqliteStore, filter: &ListFilter) -> Result<Page<Workspace>> {
    let mut read = store.read().await?;
    let mut query = QueryBuilder::new("SELECT count(*) AS total FROM workspaces WHERE deleted_at IS NULL");
    push_filter(&mut query, filter);
    let total: i64 = query.build().fetch_one(&mut *read).await?.try_get("total")?;

    let mut query = QueryBuilder::new(concat!(
        "SELECT ",
        workspace_columns!(),
        " FROM workspaces WHERE deleted_at IS NULL"
    ));
    push_filter(&mut query, filter);
    if let Some(before) = filter.before {
        query.push(" AND id < ").push_bind(before.to_string());
    }
    query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(filter.limit) + 1);
    let rows = query.build().fetch_all(&mut *read).await?;
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    Ok(Page {
        more: rows.len() > limit,
        items: rows.iter().take(limit).map(row::workspace).collect::<Result<_>>()?,
        total: row::count(total),
    })
}

fn push_filter(query: &mut QueryBuilder<Sqlite>, filter: &ListFilter) {
    if let Some(owner) = filter.owner {
        query.push(" AND owner_user_id = ").push_bind(owner.to_string());
    }
    if let Some(phase) = filter.phase {
        query.push(" AND phase = ").push_bind(phase.as_str());
    }
    if let Some(text) = &filter.query {
        query.push(" AND instr(name_key, ").push_bind(text.to_lowercase()).push(") > 0");
    }
}

pub(super) async fn edit(store: &SqliteStore, id: WorkspaceId, edit: Edit) -> Result<Option<Workspace>> {
    let mut write = store.write().await?;
    let Some(before) = get(write.connection(), id).await?.filter(|found| found.deleted_at.is_none()) else {
        return Ok(None);
    };
    let Some(after) = values::edited(&before, edit, row::time(write.now)?) else {
        return Ok(Some(before));
    };
    put(write.connection(), &after).await?;
    write.updated(id, after.owner);
    write.commit().await?;
    Ok(Some(after))
}

/// Writes whatever people decide about a workspace. What the controller decides is not touched.
pub(super) async fn put(connection: &mut SqliteConnection, workspace: &Workspace) -> Result<()> {
    sqlx::query(
        "UPDATE workspaces SET name = ?2, name_key = ?3, description = ?4, memo = ?5,
             standby_ttl_seconds = ?6, archive_ttl_seconds = ?7, activity_mode = ?8, desired_state = ?9,
             desired_changed_at = ?10, deleted_at = ?11, last_access_at = ?12, updated_at = ?13, revision = ?14
         WHERE id = ?1",
    )
    .bind(workspace.id.to_string())
    .bind(&workspace.name)
    .bind(workspace.name.to_lowercase())
    .bind(&workspace.description)
    .bind(&workspace.memo)
    .bind(workspace.standby_ttl_seconds)
    .bind(workspace.archive_ttl_seconds)
    .bind(workspace.activity_mode.map(ActivityMode::as_str))
    .bind(workspace.desired.as_str())
    .bind(micros(workspace.desired_changed_at))
    .bind(workspace.deleted_at.map(micros))
    .bind(micros(workspace.last_access_at))
    .bind(micros(workspace.updated_at))
    .bind(workspace.revision)
    .execute(connection)
    .await?;
    Ok(())
}

pub(super) async fn counts(store: &SqliteStore) -> Result<BTreeMap<Phase, u64>> {
    let rows =
        sqlx::query("SELECT phase, count(*) AS n FROM workspaces WHERE deleted_at IS NULL GROUP BY phase")
            .fetch_all(&store.readers)
            .await?;
    rows.iter().map(|found| Ok((row::parsed(found, "phase")?, row::count(row::get(found, "n")?)))).collect()
}
