//! The port, method by method, of a store that speaks SQL: each is timed under its name and answered by its
//! table's file. The same for every dialect: a module that has those files says `sql_port!`.

/// Implements [`super::Store`] for a store whose module has one file per table. What only that store can do
/// stands in the braces.
macro_rules! sql_port {
    ($store:ident, $kind:literal, { $($own:tt)* }) => {
        #[async_trait]
        impl Store for $store {
            fn kind(&self) -> &'static str {
                $kind
            }

            async fn now(&self) -> Result<Timestamp> {
                timed("now", self.clock()).await
            }

            fn changes(&self) -> Changes {
                self.changes.subscribe()
            }

            async fn close(&self) {
                Self::close(self).await;
            }

            async fn epoch_take(&self, holder: &str) -> Result<Epoch> {
                timed("epoch_take", leader::take(self, holder)).await
            }

            async fn epoch_is_current(&self, epoch: Epoch) -> Result<bool> {
                timed("epoch_is_current", leader::is_current(self, epoch)).await
            }

            async fn leader_seen(&self) -> Result<Option<LeaderSeen>> {
                timed("leader_seen", leader::seen(self)).await
            }

            async fn replica_note(&self, note: &ReplicaNote) -> Result<()> {
                timed("replica_note", replicas::note(self, note)).await
            }

            async fn replica_flushed(&self, name: &str, ago: std::time::Duration) -> Result<()> {
                timed("replica_flushed", replicas::flushed(self, name, ago)).await
            }

            async fn replica_leave(&self, name: &str) -> Result<()> {
                timed("replica_leave", replicas::leave(self, name)).await
            }

            async fn replicas(&self) -> Result<(Timestamp, Vec<ReplicaSeen>)> {
                timed("replicas", replicas::list(self)).await
            }

            async fn workspace_create(&self, new: NewWorkspace, limits: Limits, actor: Actor) -> Result<Created> {
                timed("workspace_create", workspaces::create(self, new, limits, actor)).await
            }

            async fn workspace_get(&self, id: WorkspaceId) -> Result<Option<Workspace>> {
                timed("workspace_get", async { workspaces::get(&mut *self.connection().await?, id).await }).await
            }

            async fn workspaces_get(&self, ids: &[WorkspaceId]) -> Result<Vec<Workspace>> {
                timed("workspaces_get", workspaces::get_many(self, ids)).await
            }

            async fn workspace_list(&self, filter: &ListFilter) -> Result<Page<Workspace>> {
                timed("workspace_list", workspaces::list(self, filter)).await
            }

            async fn workspace_edit(&self, id: WorkspaceId, edit: Edit) -> Result<Option<Workspace>> {
                timed("workspace_edit", workspaces::edit(self, id, edit)).await
            }

            async fn workspace_edit_and_ask(&self, id: WorkspaceId, ask: Ask<'_>) -> Result<Asked> {
                timed("workspace_ask", ask::ask(self, id, ask)).await
            }

            async fn workspace_recover(
                &self,
                id: WorkspaceId,
                wish: Recovery,
                desired: Option<Desired>,
                limits: Limits,
                actor: Actor,
            ) -> Result<Recovered> {
                timed("workspace_recover", recover::recover(self, id, wish, desired, limits, actor)).await
            }

            async fn workspace_hold(&self, id: WorkspaceId, new: NewHold) -> Result<Option<(Workspace, Hold)>> {
                timed("workspace_hold", holds::hold(self, id, new)).await
            }

            async fn workspace_release(&self, id: WorkspaceId, hold: Option<HoldId>) -> Result<Option<Workspace>> {
                timed("workspace_release", holds::release(self, id, hold)).await
            }

            async fn workspace_holds(&self, id: WorkspaceId) -> Result<Vec<Hold>> {
                timed("workspace_holds", holds::running(self, id)).await
            }

            async fn workspace_history(
                &self,
                id: WorkspaceId,
                before: Option<i64>,
                limit: u32,
            ) -> Result<Page<HistoryEntry>> {
                timed("workspace_history", events::page(self, id, before, limit)).await
            }

            async fn workspaces_running_of(&self, owner: UserId) -> Result<Vec<RunningWorkspace>> {
                timed("workspaces_running_of", async {
                    workspaces::running_of(&mut *self.connection().await?, owner).await
                })
                .await
            }

            async fn workspace_counts(&self) -> Result<BTreeMap<Phase, u64>> {
                timed("workspace_counts", workspaces::counts(self)).await
            }

            async fn workspaces_due(&self, due: Due) -> Result<Reading> {
                timed("workspaces_due", controller::due(self, due)).await
            }

            async fn workspace_save(
                &self,
                epoch: Epoch,
                read: &Workspace,
                next: &Status,
                history: &[Transition],
            ) -> Result<Saved> {
                timed("workspace_save", controller::save(self, epoch, read, next, history)).await
            }

            async fn workspaces_observed(&self, epoch: Epoch, ids: &[WorkspaceId]) -> Result<bool> {
                timed("workspaces_observed", controller::observed(self, epoch, ids)).await
            }

            async fn access_sync(&self, epoch: Epoch, seen: &[(WorkspaceId, Timestamp)]) -> Result<bool> {
                timed("access_sync", access::sync(self, epoch, seen)).await
            }

            async fn ttl_expire(&self, epoch: Epoch, policy: &TtlPolicy) -> Result<Vec<Expired>> {
                timed("ttl_expire", ttl::expire(self, epoch, policy)).await
            }

            async fn ttl_next(&self, policy: &TtlPolicy) -> Result<Option<Timestamp>> {
                timed("ttl_next", ttl::next(self, policy)).await
            }

            async fn gc_rows(&self) -> Result<Vec<GcRow>> {
                timed("gc_rows", gc::rows(self)).await
            }

            async fn gc_claim(&self, epoch: Epoch, item: Item) -> Result<GcClaim> {
                timed("gc_claim", gc::claim(self, epoch, item)).await
            }

            async fn gc_sightings(&self) -> Result<BTreeMap<Item, Timestamp>> {
                timed("gc_sightings", gc::sightings(self)).await
            }

            async fn gc_sightings_replace(
                &self,
                epoch: Epoch,
                sightings: &BTreeMap<Item, Timestamp>,
            ) -> Result<bool> {
                timed("gc_sightings_replace", gc::replace(self, epoch, sightings)).await
            }

            async fn user_create(
                &self,
                id: UserId,
                username: &str,
                password_hash: &str,
                role: Role,
            ) -> Result<UserChange> {
                timed("user_create", users::create(self, id, username, password_hash, role)).await
            }

            async fn user_create_first(
                &self,
                id: UserId,
                username: &str,
                password_hash: &str,
            ) -> Result<Option<User>> {
                timed("user_create_first", users::create_first(self, id, username, password_hash)).await
            }

            async fn user_get(&self, id: UserId) -> Result<Option<User>> {
                timed("user_get", async { users::get(&mut *self.connection().await?, id).await }).await
            }

            async fn users_get(&self, ids: &[UserId]) -> Result<HashMap<UserId, User>> {
                timed("users_get", users::get_many(self, ids)).await
            }

            async fn user_by_name(&self, username: &str) -> Result<Option<UserWithHash>> {
                timed("user_by_name", users::by_name(self, username)).await
            }

            async fn user_list(&self, after: Option<UserId>, limit: u32) -> Result<Page<User>> {
                timed("user_list", users::list(self, after, limit)).await
            }

            async fn user_edit(&self, id: UserId, edit: UserEdit) -> Result<UserChange> {
                timed("user_edit", users::edit(self, id, edit)).await
            }

            async fn user_delete(&self, id: UserId) -> Result<UserChange> {
                timed("user_delete", users::delete(self, id)).await
            }

            async fn user_count(&self) -> Result<u64> {
                timed("user_count", users::count(self)).await
            }

            async fn session_create(
                &self,
                id: SessionId,
                user: UserId,
                secret_hash: &[u8],
                lifetime_seconds: u32,
            ) -> Result<Session> {
                timed("session_create", sessions::create(self, id, user, secret_hash, lifetime_seconds)).await
            }

            async fn session_use(
                &self,
                secret_hash: &[u8],
                lifetime_seconds: u32,
            ) -> Result<Option<(Session, User)>> {
                timed("session_use", sessions::use_by_secret(self, secret_hash, lifetime_seconds)).await
            }

            async fn session_delete(&self, id: SessionId) -> Result<()> {
                timed("session_delete", sessions::delete(self, id)).await
            }

            async fn sessions_sweep(&self) -> Result<u64> {
                timed("sessions_sweep", sessions::sweep(self)).await
            }

            async fn token_create(
                &self,
                id: TokenId,
                by: SessionId,
                name: &str,
                secret_hash: &[u8],
                expires_in_seconds: Option<u32>,
            ) -> Result<Option<ApiToken>> {
                timed("token_create", tokens::create(self, id, by, name, secret_hash, expires_in_seconds)).await
            }

            async fn token_use(&self, secret_hash: &[u8]) -> Result<Option<(ApiToken, User)>> {
                timed("token_use", tokens::use_by_secret(self, secret_hash)).await
            }

            async fn token_list(&self, user: UserId) -> Result<Vec<ApiToken>> {
                timed("token_list", tokens::list(self, user)).await
            }

            async fn token_delete(&self, user: UserId, id: TokenId) -> Result<bool> {
                timed("token_delete", tokens::delete(self, user, id)).await
            }

            async fn attempts_get(&self, key: &str) -> Result<Option<Attempts>> {
                timed("attempts_get", attempts::get(self, key)).await
            }

            async fn attempts_fail(&self, key: &str, forget_after_seconds: u32) -> Result<Attempts> {
                timed("attempts_fail", attempts::fail(self, key, forget_after_seconds)).await
            }

            async fn attempts_clear(&self, key: &str) -> Result<()> {
                timed("attempts_clear", attempts::clear(self, key)).await
            }

            async fn setting_get(&self, name: &str) -> Result<Option<String>> {
                timed("setting_get", settings::get(self, name)).await
            }

            async fn setting_put(&self, name: &str, value: &str) -> Result<()> {
                timed("setting_put", settings::put(self, name, value)).await
            }

            async fn setting_init(&self, name: &str, value: &str) -> Result<String> {
                timed("setting_init", settings::init(self, name, value)).await
            }

            async fn setting_delete(&self, name: &str) -> Result<()> {
                timed("setting_delete", settings::delete(self, name)).await
            }

            $($own)*
        }
    };
}

pub(super) use sql_port;
