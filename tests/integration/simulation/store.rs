//! The store as one simulated process sees it: its calls take time, fail, lose their answers, and
//! stop when the process is frozen or killed. Also the watchman who notices when a leader that was
//! replaced still writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use codehub_domain::{
    ArchiveKey, ArchiveRecord, Desired, Epoch, OpId, Phase, Status, Timestamp, UserId, Workspace,
    WorkspaceId,
    audit::Act,
    event::{Actor, HistoryEntry, Transition},
    gc::{GcRow, Item},
    limits::{Limits, RunningWorkspace},
    recovery::Recovery,
    ttl::TtlPolicy,
};
use codehub_runtime::fake::{Gate, World};
use codehub_store::{fake::FakeClock, *};
use codehub_testing::let_time_pass;
use tokio::time::Instant;

/// What all processes share.
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: FakeClock,
    pub(super) began: Instant,
    pub(super) world: World,
    pub(super) newest_epoch: AtomicI64,
    /// How often the database fails a call.
    pub(super) trouble: std::sync::Mutex<f64>,
    /// Mutation: the store takes every epoch for the current one.
    pub(super) ignore_epoch: bool,
    /// Mutation: whatever is in the store of archives is taken for what was recorded.
    pub(super) trust_archives: bool,
}

impl Shared {
    /// The database's clock follows the virtual time.
    pub(super) fn tell_the_time(&self) {
        let start = Timestamp::from_second(1_767_225_600).unwrap();
        self.clock.set(start.checked_add(self.began.elapsed()).unwrap());
    }
}

pub(super) struct ProcessStore {
    pub(super) shared: Arc<Shared>,
    pub(super) gate: Gate,
}

impl ProcessStore {
    /// The store with the coordinator's themes as this process sees them, and the others as they are.
    pub(super) fn composed(self) -> Arc<dyn Store> {
        let seen = Arc::new(self);
        Arc::new(Composed {
            clock: seen.clone(),
            leadership: seen.clone(),
            reconciling: seen.clone(),
            garbage: seen.clone(),
            workspaces: seen.clone(),
            archive_records: seen.clone(),
            ..Composed::over(seen.shared.store.clone())
        })
    }

    async fn enter(&self) -> Result<()> {
        self.gate.pass().await;
        let_time_pass(Duration::from_millis(1 + self.shared.world.draw(5))).await;
        self.gate.pass().await;
        self.shared.tell_the_time();
        self.fault("before it was done")
    }

    async fn leave<T>(&self, answer: T) -> Result<T> {
        let lost = self.fault("and its answer was lost");
        self.gate.pass().await;
        lost.map(|()| answer)
    }

    fn fault(&self, when: &str) -> Result<()> {
        let trouble = *self.shared.trouble.lock().unwrap();
        if self.shared.world.chance(trouble) {
            return Err(StoreError::Unreachable(format!("simulated: it failed {when}")));
        }
        Ok(())
    }

    /// The epoch a write is made with.
    fn epoch(&self, mine: Epoch) -> Epoch {
        if self.shared.ignore_epoch { Epoch(self.shared.newest_epoch.load(SeqCst)) } else { mine }
    }

    /// A write with `mine` succeeded: was that leader still the leader?
    fn wrote(&self, mine: Epoch, what: &str) {
        let newest = self.shared.newest_epoch.load(SeqCst);
        if mine.0 != newest {
            self.shared.world.complain(format!("{what} by the leader of epoch {mine} during epoch {newest}"));
        }
    }
}

#[async_trait]
impl Clock for ProcessStore {
    async fn now(&self) -> Result<Timestamp> {
        self.enter().await?;
        self.shared.store.now().await
    }
}

#[async_trait]
impl Leadership for ProcessStore {
    async fn epoch_take(&self, holder: &str) -> Result<Epoch> {
        self.enter().await?;
        let epoch = self.shared.store.epoch_take(holder).await?;
        self.shared.newest_epoch.store(epoch.0, SeqCst);
        self.shared.world.note(format!("{holder} leads with epoch {epoch}"));
        self.leave(epoch).await
    }

    async fn epoch_is_current(&self, epoch: Epoch) -> Result<bool> {
        self.enter().await?;
        let current = self.shared.store.epoch_is_current(self.epoch(epoch)).await?;
        self.leave(current).await
    }

    async fn leader_seen(&self) -> Result<Option<LeaderSeen>> {
        self.shared.store.leader_seen().await
    }

    async fn replica_note(&self, note: &ReplicaNote) -> Result<()> {
        self.shared.store.replica_note(note).await
    }

    async fn replica_flushed(&self, name: &str, ago: Duration) -> Result<()> {
        self.shared.store.replica_flushed(name, ago).await
    }

    async fn replica_leave(&self, name: &str) -> Result<()> {
        self.shared.store.replica_leave(name).await
    }

    async fn replicas(&self) -> Result<(Timestamp, Vec<ReplicaSeen>)> {
        self.shared.store.replicas().await
    }
}

#[async_trait]
impl Reconciling for ProcessStore {
    async fn workspaces_due(&self, due: Due) -> Result<Reading> {
        self.enter().await?;
        let reading = self.shared.store.workspaces_due(due).await?;
        self.leave(reading).await
    }

    async fn workspace_save_archived(
        &self,
        epoch: Epoch,
        read: &Workspace,
        next: &Status,
        history: &[Transition],
        archive: Option<&ArchiveRecord>,
    ) -> Result<Saved> {
        self.enter().await?;
        let store = &self.shared.store;
        let saved = store.workspace_save_archived(self.epoch(epoch), read, next, history, archive).await?;
        if let Saved::Saved(_) = saved {
            self.wrote(epoch, "a status was saved");
            for it in history {
                let (id, from, to) = (codehub_runtime::fake::short(read.id), it.from, it.to);
                self.shared.world.note(format!("{id}: {from} -> {to} {} {}", it.operation, it.reason.code()));
            }
        }
        self.leave(saved).await
    }

    async fn workspaces_observed(&self, epoch: Epoch, ids: &[WorkspaceId]) -> Result<bool> {
        self.enter().await?;
        let done = self.shared.store.workspaces_observed(self.epoch(epoch), ids).await?;
        self.leave(done).await
    }

    async fn access_sync(&self, epoch: Epoch, seen: &[(WorkspaceId, Timestamp)]) -> Result<bool> {
        self.enter().await?;
        let done = self.shared.store.access_sync(self.epoch(epoch), seen).await?;
        self.leave(done).await
    }

    async fn ttl_expire(&self, epoch: Epoch, policy: &TtlPolicy) -> Result<Vec<Expired>> {
        self.enter().await?;
        let expired = self.shared.store.ttl_expire(self.epoch(epoch), policy).await?;
        for it in &expired {
            self.wrote(epoch, "a TTL ran out");
            self.shared.world.note(format!("{}: TTL -> {}", codehub_runtime::fake::short(it.id), it.to));
        }
        self.leave(expired).await
    }

    async fn ttl_next(&self, policy: &TtlPolicy) -> Result<Option<Timestamp>> {
        self.enter().await?;
        self.shared.store.ttl_next(policy).await
    }
}

#[async_trait]
impl Garbage for ProcessStore {
    async fn gc_rows(&self) -> Result<Vec<GcRow>> {
        self.enter().await?;
        let rows = self.shared.store.gc_rows().await?;
        self.leave(rows).await
    }

    async fn gc_sightings(&self) -> Result<BTreeMap<Item, Timestamp>> {
        self.enter().await?;
        self.shared.store.gc_sightings().await
    }

    async fn gc_sightings_replace(
        &self,
        epoch: Epoch,
        sightings: &BTreeMap<Item, Timestamp>,
    ) -> Result<bool> {
        self.enter().await?;
        let done = self.shared.store.gc_sightings_replace(self.epoch(epoch), sightings).await?;
        self.leave(done).await
    }

    async fn gc_claim(&self, epoch: Epoch, item: Item) -> Result<GcClaim> {
        self.enter().await?;
        let claim = self.shared.store.gc_claim(self.epoch(epoch), item).await?;
        if claim == GcClaim::Claimed {
            self.wrote(epoch, "something was claimed for deletion");
        }
        self.leave(claim).await
    }
}

#[async_trait]
impl ArchiveRecords for ProcessStore {
    async fn archive_record(&self, key: ArchiveKey) -> Result<Option<ArchiveRecord>> {
        self.enter().await?;
        let record = if self.shared.trust_archives {
            codehub_runtime::fake::recorded(&self.shared.world, key)
        } else {
            self.shared.store.archive_record(key).await?
        };
        self.leave(record).await
    }

    async fn archive_keys(&self) -> Result<Vec<ArchiveKey>> {
        self.enter().await?;
        self.shared.store.archive_keys().await
    }

    async fn archive_parts(&self) -> Result<BTreeMap<ArchiveKey, BTreeSet<OpId>>> {
        self.enter().await?;
        self.shared.store.archive_parts().await
    }

    async fn home_sizes(&self, ids: &[WorkspaceId]) -> Result<BTreeMap<WorkspaceId, u64>> {
        self.shared.store.home_sizes(ids).await
    }

    async fn archive_adopt(&self, by: &Act, epoch: Option<Epoch>, record: &ArchiveRecord) -> Result<Adopted> {
        self.enter().await?;
        let epoch_used = epoch.map(|epoch| self.epoch(epoch));
        let adopted = self.shared.store.archive_adopt(by, epoch_used, record).await?;
        if let (Adopted::Adopted, Some(epoch)) = (&adopted, epoch) {
            self.wrote(epoch, "an archive was adopted");
        }
        self.leave(adopted).await
    }
}

/// What people's processes do is not simulated: it happens, or it does not.
#[async_trait]
impl Workspaces for ProcessStore {
    async fn workspace_get(&self, id: WorkspaceId) -> Result<Option<Workspace>> {
        self.enter().await?;
        let workspace = self.shared.store.workspace_get(id).await?;
        self.leave(workspace).await
    }

    async fn workspaces_get(&self, ids: &[WorkspaceId]) -> Result<Vec<Workspace>> {
        self.enter().await?;
        let workspaces = self.shared.store.workspaces_get(ids).await?;
        self.leave(workspaces).await
    }

    async fn workspace_create(
        &self,
        by: &Act,
        new: NewWorkspace,
        limits: Limits,
        actor: Actor,
    ) -> Result<Created> {
        self.shared.store.workspace_create(by, new, limits, actor).await
    }

    async fn workspace_list(&self, filter: &ListFilter) -> Result<Page<Workspace>> {
        self.shared.store.workspace_list(filter).await
    }

    async fn workspace_edit(&self, by: &Act, id: WorkspaceId, edit: Edit) -> Result<Option<Workspace>> {
        self.shared.store.workspace_edit(by, id, edit).await
    }

    async fn workspace_edit_and_ask(&self, by: &Act, id: WorkspaceId, ask: Ask<'_>) -> Result<Asked> {
        self.shared.store.workspace_edit_and_ask(by, id, ask).await
    }

    async fn workspace_recover(
        &self,
        by: &Act,
        id: WorkspaceId,
        wish: Recovery,
        desired: Option<Desired>,
        limits: Limits,
        actor: Actor,
    ) -> Result<Recovered> {
        self.shared.store.workspace_recover(by, id, wish, desired, limits, actor).await
    }

    async fn workspace_history(
        &self,
        id: WorkspaceId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Page<HistoryEntry>> {
        self.shared.store.workspace_history(id, before, limit).await
    }

    async fn history_latest(&self, limit: u32) -> Result<Vec<(WorkspaceId, HistoryEntry)>> {
        self.shared.store.history_latest(limit).await
    }

    async fn workspaces_running_of(&self, owner: UserId) -> Result<Vec<RunningWorkspace>> {
        self.shared.store.workspaces_running_of(owner).await
    }

    async fn workspace_counts(&self) -> Result<BTreeMap<Phase, u64>> {
        self.shared.store.workspace_counts().await
    }
}
