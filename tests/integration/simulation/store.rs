//! The store as one simulated process sees it: its calls take time, fail, lose their answers, and
//! stop when the process is frozen or killed. Also the watchman who notices when a leader that was
//! replaced still writes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use codehub_domain::{
    Desired, Epoch, HoldId, Phase, SessionId, Status, Timestamp, TokenId, UserId, Workspace, WorkspaceId,
    activity::Hold,
    event::{Actor, HistoryEntry, Transition},
    gc::{GcRow, Item},
    limits::{Limits, RunningWorkspace},
    recovery::Recovery,
    ttl::TtlPolicy,
    user::{ApiToken, Role, Session, User},
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
impl Store for ProcessStore {
    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn changes(&self) -> Changes {
        self.shared.store.changes()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.enter().await?;
        self.shared.store.now().await
    }

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

    async fn workspaces_due(&self, due: Due) -> Result<Reading> {
        self.enter().await?;
        let reading = self.shared.store.workspaces_due(due).await?;
        self.leave(reading).await
    }

    async fn workspace_save(
        &self,
        epoch: Epoch,
        read: &Workspace,
        next: &Status,
        history: &[Transition],
    ) -> Result<Saved> {
        self.enter().await?;
        let saved = self.shared.store.workspace_save(self.epoch(epoch), read, next, history).await?;
        if let Saved::Saved(_) = saved {
            self.wrote(epoch, "a status was saved");
            for it in history {
                let (id, from, to) = (codehub_runtime::fake::short(read.id), it.from, it.to);
                self.shared.world.note(format!("{id}: {from} -> {to} {} {}", it.operation, it.reason));
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

    // What people's processes do is not simulated: it happens, or it does not.

    async fn workspace_create(&self, new: NewWorkspace, limits: Limits, actor: Actor) -> Result<Created> {
        self.shared.store.workspace_create(new, limits, actor).await
    }

    async fn workspace_list(&self, filter: &ListFilter) -> Result<Page<Workspace>> {
        self.shared.store.workspace_list(filter).await
    }

    async fn workspace_edit(&self, id: WorkspaceId, edit: Edit) -> Result<Option<Workspace>> {
        self.shared.store.workspace_edit(id, edit).await
    }

    async fn workspace_edit_and_ask(&self, id: WorkspaceId, ask: Ask<'_>) -> Result<Asked> {
        self.shared.store.workspace_edit_and_ask(id, ask).await
    }

    async fn workspace_recover(
        &self,
        id: WorkspaceId,
        wish: Recovery,
        desired: Option<Desired>,
        limits: Limits,
        actor: Actor,
    ) -> Result<Recovered> {
        self.shared.store.workspace_recover(id, wish, desired, limits, actor).await
    }

    async fn workspace_hold(&self, id: WorkspaceId, new: NewHold) -> Result<Option<(Workspace, Hold)>> {
        self.shared.store.workspace_hold(id, new).await
    }

    async fn workspace_release(&self, id: WorkspaceId, hold: Option<HoldId>) -> Result<Option<Workspace>> {
        self.shared.store.workspace_release(id, hold).await
    }

    async fn workspace_holds(&self, id: WorkspaceId) -> Result<Vec<Hold>> {
        self.shared.store.workspace_holds(id).await
    }

    async fn workspace_history(
        &self,
        id: WorkspaceId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Page<HistoryEntry>> {
        self.shared.store.workspace_history(id, before, limit).await
    }

    async fn workspaces_running_of(&self, owner: UserId) -> Result<Vec<RunningWorkspace>> {
        self.shared.store.workspaces_running_of(owner).await
    }

    async fn workspace_counts(&self) -> Result<BTreeMap<Phase, u64>> {
        self.shared.store.workspace_counts().await
    }

    async fn user_create_first(
        &self,
        id: UserId,
        username: &str,
        password_hash: &str,
    ) -> Result<Option<User>> {
        self.shared.store.user_create_first(id, username, password_hash).await
    }

    async fn user_get(&self, id: UserId) -> Result<Option<User>> {
        self.shared.store.user_get(id).await
    }

    async fn users_get(&self, ids: &[UserId]) -> Result<HashMap<UserId, User>> {
        self.shared.store.users_get(ids).await
    }

    async fn user_by_name(&self, username: &str) -> Result<Option<UserWithHash>> {
        self.shared.store.user_by_name(username).await
    }

    async fn user_list(&self, after: Option<UserId>, limit: u32) -> Result<Page<User>> {
        self.shared.store.user_list(after, limit).await
    }

    async fn user_edit(&self, id: UserId, edit: UserEdit) -> Result<UserChange> {
        self.shared.store.user_edit(id, edit).await
    }

    async fn user_delete(&self, id: UserId) -> Result<UserChange> {
        self.shared.store.user_delete(id).await
    }

    async fn user_count(&self) -> Result<u64> {
        self.shared.store.user_count().await
    }

    async fn session_create(
        &self,
        id: SessionId,
        user: UserId,
        secret_hash: &[u8],
        lifetime_seconds: u32,
    ) -> Result<Session> {
        self.shared.store.session_create(id, user, secret_hash, lifetime_seconds).await
    }

    async fn session_use(
        &self,
        secret_hash: &[u8],
        lifetime_seconds: u32,
    ) -> Result<Option<(Session, User)>> {
        self.shared.store.session_use(secret_hash, lifetime_seconds).await
    }

    async fn session_delete(&self, id: SessionId) -> Result<()> {
        self.shared.store.session_delete(id).await
    }

    async fn sessions_sweep(&self) -> Result<u64> {
        self.shared.store.sessions_sweep().await
    }

    async fn token_create(
        &self,
        id: TokenId,
        by: SessionId,
        name: &str,
        secret_hash: &[u8],
        expires_in_seconds: Option<u32>,
    ) -> Result<Option<ApiToken>> {
        self.shared.store.token_create(id, by, name, secret_hash, expires_in_seconds).await
    }

    async fn token_use(&self, secret_hash: &[u8]) -> Result<Option<(ApiToken, User)>> {
        self.shared.store.token_use(secret_hash).await
    }

    async fn token_list(&self, user: UserId) -> Result<Vec<ApiToken>> {
        self.shared.store.token_list(user).await
    }

    async fn token_delete(&self, user: UserId, id: TokenId) -> Result<bool> {
        self.shared.store.token_delete(user, id).await
    }

    async fn attempts_get(&self, key: &str) -> Result<Option<Attempts>> {
        self.shared.store.attempts_get(key).await
    }

    async fn attempts_fail(&self, key: &str, forget_after_seconds: u32) -> Result<Attempts> {
        self.shared.store.attempts_fail(key, forget_after_seconds).await
    }

    async fn attempts_clear(&self, key: &str) -> Result<()> {
        self.shared.store.attempts_clear(key).await
    }

    async fn setting_get(&self, name: &str) -> Result<Option<String>> {
        self.shared.store.setting_get(name).await
    }

    async fn setting_put(&self, name: &str, value: &str) -> Result<()> {
        self.shared.store.setting_put(name, value).await
    }

    async fn setting_init(&self, name: &str, value: &str) -> Result<String> {
        self.shared.store.setting_init(name, value).await
    }

    async fn setting_delete(&self, name: &str) -> Result<()> {
        self.shared.store.setting_delete(name).await
    }

    async fn user_create(
        &self,
        id: UserId,
        username: &str,
        password_hash: &str,
        role: Role,
    ) -> Result<UserChange> {
        self.shared.store.user_create(id, username, password_hash, role).await
    }
}
