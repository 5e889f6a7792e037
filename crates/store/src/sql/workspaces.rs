//! Workspaces as people make, read and edit them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use codehub_domain::{
    Desired, Phase, Timestamp, UserId, Workspace, WorkspaceId,
    audit::Act,
    change::Change,
    event::{Actor, HistoryEntry},
    gc::Item,
    intent::{self, Edit, NewWorkspace, Once},
    limits::{LimitHit, Limits, RunningWorkspace, takes_a_place},
    recovery::Recovery,
};

use super::{
    Bind, Lock, SqlStore, SqlWrite, Statements, Value, args, ask, audit, garbage, history, json, page,
    people, recover, slugs, timed,
};
use crate::{
    Ask, Asked, Created, ListFilter, ListOrder, Page, Recovered, Result, Workspaces,
    row::{self, SqlRow as _, workspace_columns},
    trail,
};

#[async_trait]
impl<S: SqlStore> Workspaces for S {
    async fn workspace_create(
        &self,
        by: &Act,
        new: NewWorkspace,
        limits: Limits,
        actor: Actor,
    ) -> Result<Created> {
        timed::<S, _>("workspace_create", create(self, by, new, limits, actor)).await
    }

    async fn workspace_get(&self, id: WorkspaceId) -> Result<Option<Workspace>> {
        timed::<S, _>("workspace_get", async {
            self.select(GET, args![id]).await?.first().map(row::workspace).transpose()
        })
        .await
    }

    async fn workspaces_get(&self, ids: &[WorkspaceId]) -> Result<Vec<Workspace>> {
        timed::<S, _>("workspaces_get", async {
            let rows = self.select(GET_MANY, args![ids]).await?;
            rows.iter().map(row::workspace).collect()
        })
        .await
    }

    async fn workspace_list(&self, filter: &ListFilter) -> Result<Page<Workspace>> {
        timed::<S, _>("workspace_list", list(self, filter)).await
    }

    async fn workspace_edit(&self, by: &Act, id: WorkspaceId, edit: Edit) -> Result<Option<Workspace>> {
        timed::<S, _>("workspace_edit", async {
            let mut write = self.write().await?;
            let Some(before) = get_living(&mut write, id).await? else { return Ok(None) };
            let Some(after) = intent::edited(&before, edit, write.now().await?) else {
                return Ok(Some(before));
            };
            put(&mut write, &after).await?;
            write.changed(Change::Updated { workspace: id, owner: after.owner });
            audit::append(&mut write, by, &trail::workspace_edited(&before, &after)).await?;
            write.commit().await?;
            Ok(Some(after))
        })
        .await
    }

    async fn workspace_edit_and_ask(&self, by: &Act, id: WorkspaceId, ask: Ask<'_>) -> Result<Asked> {
        timed::<S, _>("workspace_ask", ask::ask(self, by, id, ask)).await
    }

    async fn workspace_recover(
        &self,
        by: &Act,
        id: WorkspaceId,
        recovery: Recovery,
        desired: Option<Desired>,
        limits: Limits,
        actor: Actor,
    ) -> Result<Recovered> {
        timed::<S, _>("workspace_recover", recover::recover(self, by, id, recovery, desired, limits, actor))
            .await
    }

    async fn workspace_history(
        &self,
        id: WorkspaceId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Page<HistoryEntry>> {
        timed::<S, _>("workspace_history", history::page_of(self, id, before, limit)).await
    }

    async fn history_latest(&self, limit: u32) -> Result<Vec<(WorkspaceId, HistoryEntry)>> {
        timed::<S, _>("history_latest", history::latest(self, limit)).await
    }

    async fn workspaces_running_of(&self, owner: UserId) -> Result<Vec<RunningWorkspace>> {
        timed::<S, _>("workspaces_running_of", async {
            self.select(RUNNING_OF, args![owner]).await?.iter().map(row::running).collect()
        })
        .await
    }

    async fn workspace_counts(&self) -> Result<BTreeMap<Phase, u64>> {
        timed::<S, _>("workspace_counts", async {
            let sql = "SELECT phase, count(*) AS n FROM workspaces WHERE deleted_at IS NULL GROUP BY phase";
            let rows = self.select(sql, args![]).await?;
            rows.iter().map(|found| Ok((row::parsed(found, "phase")?, row::count(found, "n")?))).collect()
        })
        .await
    }
}

const GET: &str = concat!("SELECT ", workspace_columns!(), " FROM workspaces WHERE id = $1");

const GET_LOCKED: &str =
    concat!("SELECT ", workspace_columns!(), " FROM workspaces WHERE id = $1 FOR NO KEY UPDATE");

const GET_MANY: &str =
    concat!("SELECT ", workspace_columns!(), " FROM workspaces WHERE id = ANY ($1) ORDER BY id");

/// What `takes_place` says, without those in ERROR of which nothing runs
/// ([`codehub_domain::limits::takes_a_place`]).
macro_rules! takes_place {
    () => {
        "takes_place AND (phase <> 'ERROR' OR error_reason IS NULL OR coalesce(
             conditions -> 'infra.container_ready' ->> 'reason', 'NotFound') NOT IN ('NotFound', 'Ended'))"
    };
}

/// Without deleted ones: they may take a place for another moment, but nobody can stop them.
const RUNNING_OF: &str = concat!(
    "SELECT id, name FROM workspaces WHERE ",
    takes_place!(),
    " AND owner_user_id = $1 AND deleted_at IS NULL ORDER BY id"
);

pub(crate) const COUNT_PLACES: &str = concat!(
    "SELECT count(*) FILTER (WHERE owner_user_id = $1) AS of_user, count(*) AS in_all
     FROM workspaces WHERE ",
    takes_place!(),
    " AND id <> $2"
);

async fn create<S: SqlStore>(
    store: &S,
    by: &Act,
    new: NewWorkspace,
    limits: Limits,
    actor: Actor,
) -> Result<Created> {
    let mut write = store.write().await?;
    people::existing(&mut write, new.owner).await?;
    let now = write.now().await?;
    if let Some(once) = &new.once
        && let Some(before) = created_before(&mut write, &new, once, now).await?
    {
        return Ok(before);
    }
    let from_archive = new.from_archive;
    let mut workspace = intent::created(new, String::new(), now);
    if takes_a_place(&workspace)
        && let Some(hit) = limit_hit(&mut write, workspace.id, workspace.owner, limits).await?
    {
        return Ok(Created::LimitReached(hit));
    }
    if let Some(key) = from_archive
        && garbage::is_claimed(&mut write, Item::Archive(key)).await?
    {
        return Ok(Created::ArchiveGone);
    }
    workspace.slug = slugs::free_for(&mut write, workspace.owner, &workspace.name).await?;
    insert(&mut write, &workspace).await?;
    let entry = intent::created_entry(from_archive, actor);
    history::append(&mut write, workspace.id, workspace.created_at, &[entry]).await?;
    write.changed(Change::Updated { workspace: workspace.id, owner: workspace.owner });
    write.changed(Change::Wake);
    audit::append(&mut write, by, &trail::workspace_created(&workspace, from_archive)).await?;
    write.commit().await?;
    Ok(Created::Created(Box::new(workspace)))
}

/// Writes down that this is created, or finds what was. Two at once wait for each other here.
async fn created_before(
    write: &mut impl SqlWrite,
    new: &NewWorkspace,
    once: &Once,
    now: Timestamp,
) -> Result<Option<Created>> {
    let sql = "DELETE FROM creations WHERE owner_user_id = $1 AND created_at < $2";
    write.run(sql, args![new.owner, Once::since(now)]).await?;
    let sql = "INSERT INTO creations (owner_user_id, key, request, workspace_id, created_at)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT (owner_user_id, key) DO NOTHING";
    let key = once.key.as_str();
    if write.run(sql, args![new.owner, key, once.request.as_str(), new.id, now]).await? > 0 {
        return Ok(None);
    }
    let sql = "SELECT request FROM creations WHERE owner_user_id = $1 AND key = $2";
    let found = write.one(sql, args![new.owner, key]).await?;
    if found.text("request")? != once.request {
        return Ok(Some(Created::KeyTaken));
    }
    let sql = concat!(
        "SELECT ",
        workspace_columns!(),
        " FROM workspaces WHERE id = (SELECT workspace_id FROM creations WHERE owner_user_id = $1 AND key = $2)"
    );
    let workspace = row::workspace(&write.one(sql, args![new.owner, key]).await?)?;
    Ok(Some(Created::Already(Box::new(workspace))))
}

/// What begins the same in every new row (nothing is known yet) stands in the statement.
async fn insert(write: &mut impl SqlWrite, workspace: &Workspace) -> Result<()> {
    let status = &workspace.status;
    write
        .run(
            "INSERT INTO workspaces (id, owner_user_id, name, name_key, slug, labels, description,
                 description_key, memo, image_ref, home_store_key, standby_ttl_seconds, archive_ttl_seconds, activity_mode,
                 desired_state, desired_changed_at, last_access_at, conditions, phase, phase_changed_at,
                 operation, archive_key, home_ctx, created_at, updated_at, revision, error_count,
                 instance_backend, storage_backend)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
                 $20, $21, $22, $23, $24, $25, $26, 0, '', '')",
            args![
                workspace.id,
                workspace.owner,
                &workspace.name,
                workspace.name.to_lowercase(),
                &workspace.slug,
                json(&workspace.labels)?,
                &workspace.description,
                workspace.description.to_lowercase(),
                &workspace.memo,
                &workspace.image_ref,
                &workspace.home_store_key,
                workspace.standby_ttl_seconds,
                workspace.archive_ttl_seconds,
                workspace.activity_mode,
                workspace.desired,
                workspace.desired_changed_at,
                workspace.last_access_at,
                json(&status.conditions)?,
                status.phase,
                status.phase_changed_at,
                status.operation,
                status.archive_key,
                json(&status.home)?,
                workspace.created_at,
                workspace.updated_at,
                workspace.revision,
            ],
        )
        .await?;
    Ok(())
}

/// The limit that one more running workspace of `owner` would break. The workspace that asks is not in
/// its own way. Whoever else adds one waits until this transaction has ended.
pub(super) async fn limit_hit(
    write: &mut impl SqlWrite,
    asking: WorkspaceId,
    owner: UserId,
    limits: Limits,
) -> Result<Option<LimitHit>> {
    if limits == Limits::NONE {
        return Ok(None);
    }
    write.lock(Lock::Limits).await?;
    let counted = write.one(COUNT_PLACES, args![owner, asking]).await?;
    match limits.admit(row::number(&counted, "of_user")?, row::number(&counted, "in_all")?) {
        Ok(()) => Ok(None),
        Err(scope) => {
            let rows = write.all(RUNNING_OF.into(), args![owner]).await?;
            let running = rows.iter().map(row::running).collect::<Result<_>>()?;
            Ok(Some(LimitHit { scope, running }))
        }
    }
}

/// The row as it is once everybody before has finished with it; nobody else writes it until this
/// transaction ends.
pub(super) async fn get_locked(write: &mut impl SqlWrite, id: WorkspaceId) -> Result<Option<Workspace>> {
    write.first(GET_LOCKED, args![id]).await?.as_ref().map(row::workspace).transpose()
}

/// [`get_locked`], of a workspace that is not deleted.
pub(super) async fn get_living(write: &mut impl SqlWrite, id: WorkspaceId) -> Result<Option<Workspace>> {
    Ok(get_locked(write, id).await?.filter(|found| found.deleted_at.is_none()))
}

/// Writes whatever people decide about a workspace. What the controller decides is not touched.
pub(super) async fn put(write: &mut impl SqlWrite, workspace: &Workspace) -> Result<()> {
    write
        .run(
            "UPDATE workspaces SET name = $2, name_key = $3, description = $4, memo = $5,
                 standby_ttl_seconds = $6, archive_ttl_seconds = $7, activity_mode = $8, desired_state = $9,
                 desired_changed_at = $10, deleted_at = $11, last_access_at = $12, updated_at = $13,
                 revision = $14, labels = $15, description_key = $16
             WHERE id = $1",
            args![
                workspace.id,
                &workspace.name,
                workspace.name.to_lowercase(),
                &workspace.description,
                &workspace.memo,
                workspace.standby_ttl_seconds,
                workspace.archive_ttl_seconds,
                workspace.activity_mode,
                workspace.desired,
                workspace.desired_changed_at,
                workspace.deleted_at,
                workspace.last_access_at,
                workspace.updated_at,
                workspace.revision,
                json(&workspace.labels)?,
                workspace.description.to_lowercase(),
            ],
        )
        .await?;
    Ok(())
}

/// Ids are UUIDv7: descending ids are newest first.
const fn ordering(order: ListOrder) -> &'static str {
    match order {
        ListOrder::Newest => "id DESC",
        ListOrder::Used => "takes_place DESC, last_access_at DESC, id DESC",
        ListOrder::Name => "name_key, id",
        ListOrder::Size => {
            "coalesce((SELECT uncompressed FROM archives WHERE archives.key = workspaces.archive_key), 0) DESC, id DESC"
        }
        ListOrder::Owner => {
            "(SELECT username_key FROM users WHERE users.id = workspaces.owner_user_id), takes_place DESC, \
             last_access_at DESC, id DESC"
        }
    }
}

/// By age or by use a page costs what is on it and what it skips, however many there are; the total is counted only
/// as far as it is cheap.
async fn list<S: SqlStore>(store: &S, filter: &ListFilter) -> Result<Page<Workspace>> {
    let mut narrowed = Narrowed::by(filter);
    let mut read = store.read().await?;
    let most = u64::from(Page::<Workspace>::COUNTED);
    let counting = format!(
        "SELECT count(*) AS total FROM (SELECT 1 AS one FROM workspaces WHERE {} LIMIT {}) AS counted",
        narrowed.conditions,
        most + 1,
    );
    let counted = read.all(counting.into(), narrowed.args.clone()).await?;
    let total = counted.first().map(|found| row::count(found, "total")).transpose()?;
    if let Some(before) = filter.before {
        narrowed.and("id < ?", before);
    }
    let paging = format!(
        "SELECT {} FROM workspaces WHERE {} ORDER BY {} LIMIT {} OFFSET {}",
        workspace_columns!(),
        narrowed.conditions,
        ordering(filter.order),
        u64::from(filter.limit) + 1,
        filter.skip,
    );
    let rows = read.all(paging.into(), narrowed.args).await?;
    page(&rows, filter.limit, total.filter(|total| *total <= most), row::workspace)
}

/// The conditions of a list and the values in them.
struct Narrowed {
    conditions: String,
    args: Vec<Value>,
}

impl Narrowed {
    fn by(filter: &ListFilter) -> Self {
        let mut narrowed = Self { conditions: "deleted_at IS NULL".into(), args: Vec::new() };
        if let Some(owner) = filter.owner {
            narrowed.and("owner_user_id = ?", owner);
        }
        if let Some(phase) = filter.phase {
            narrowed.and("phase = ?", phase);
        }
        if let Some(text) = &filter.query {
            narrowed.and("(strpos(name_key, ?) > 0 OR strpos(description_key, ?) > 0)", text.to_lowercase());
        }
        if let Some(label) = &filter.label {
            narrowed.and("EXISTS (SELECT 1 FROM jsonb_each_text(labels) WHERE key = ?", &label.key);
            match &label.value {
                Some(value) => narrowed.and("value = ?)", value),
                None => narrowed.conditions.push(')'),
            }
        }
        narrowed
    }

    /// `?` is the value's number.
    fn and(&mut self, condition: &str, value: impl Bind) {
        self.args.push(value.bind());
        let number = format!("${}", self.args.len());
        self.conditions.push_str(" AND ");
        self.conditions.push_str(&condition.replace('?', &number));
    }
}
