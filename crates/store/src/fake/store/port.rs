//! The port of the fake store, method by method.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use async_trait::async_trait;
use codehub_domain::{
    ArchiveKey, ArchiveRecord, Desired, Epoch, HoldId, OpId, Phase, SessionId, Status, Timestamp, TokenId,
    UserId, Workspace, WorkspaceId,
    activity::Hold,
    audit::{Act, AuditAction, AuditEntry, AuditEvent, AuditObject},
    event::{Actor, HistoryEntry, Transition},
    gc::{GcRow, Item},
    limits::{Limits, RunningWorkspace},
    ports::PortSettings,
    recovery::Recovery,
    ttl::TtlPolicy,
    user::{ApiToken, Role, Session, User},
};

use super::FakeStore;
use crate::{
    Adopted, Allowance, ArchiveRecords, Ask, Asked, Attempts, Audit, AuditFilter, BackendPart,
    CLAIM_KEPT_MICROS, Changes, Clock, Created, Credentials, DeviceLogin, DeviceRedeemed, Due, Edit, Expired,
    Garbage, GcClaim, Handover, Holds, LeaderSeen, Leadership, ListFilter, NewHold, NewWorkspace, Page,
    People, PortSaved, Ports, REPLICA_FORGOTTEN_AFTER, Reading, Reconciling, Recovered, Redeemed,
    ReplicaNote, ReplicaSeen, Result, Saved, SessionEnd, Settings, Store, Tried, UserChange, UserEdit,
    UserWithHash, WorkspaceOrigin, Workspaces,
};

#[async_trait]
impl Clock for FakeStore {
    async fn now(&self) -> Result<Timestamp> {
        self.run("now", |step| Ok(step.now))
    }
}

#[async_trait]
impl Leadership for FakeStore {
    async fn epoch_take(&self, holder: &str) -> Result<Epoch> {
        let _ = holder;
        self.run("epoch_take", |step| {
            step.state.epoch += 1;
            Ok(Epoch(step.state.epoch))
        })
    }

    async fn epoch_is_current(&self, epoch: Epoch) -> Result<bool> {
        self.run("epoch_is_current", |step| Ok(step.leads(epoch)))
    }

    async fn leader_seen(&self) -> Result<Option<LeaderSeen>> {
        self.run("leader_seen", |_| Ok(None))
    }

    async fn replica_note(&self, note: &ReplicaNote) -> Result<()> {
        self.run("replica_note", |step| {
            let ReplicaNote { name, version, role } = note.clone();
            let replicas = &mut step.state.replicas;
            let known = replicas.get(&name);
            let started_at = known.map_or(step.now, |known| known.started_at);
            let flushed_at = known.map_or(step.now, |known| known.flushed_at);
            let seen =
                ReplicaSeen { name: name.clone(), version, role, started_at, seen_at: step.now, flushed_at };
            replicas.insert(name, seen);
            let age = |seen: &ReplicaSeen| step.now.duration_since(seen.seen_at).unsigned_abs();
            replicas.retain(|_, seen| age(seen) <= REPLICA_FORGOTTEN_AFTER);
            Ok(())
        })
    }

    async fn replica_flushed(&self, name: &str, ago: Duration) -> Result<()> {
        self.run("replica_flushed", |step| {
            let until = step.now - ago;
            if let Some(seen) = step.state.replicas.get_mut(name) {
                seen.flushed_at = seen.flushed_at.max(until);
            }
            Ok(())
        })
    }

    async fn replica_leave(&self, name: &str) -> Result<()> {
        self.run("replica_leave", |step| {
            step.state.replicas.remove(name);
            Ok(())
        })
    }

    async fn replicas(&self) -> Result<(Timestamp, Vec<ReplicaSeen>)> {
        self.run("replicas", |step| {
            let mut seen: Vec<_> = step.state.replicas.values().cloned().collect();
            seen.sort_by_key(|seen| seen.started_at);
            Ok((step.now, seen))
        })
    }
}

#[async_trait]
impl Workspaces for FakeStore {
    async fn workspace_create(
        &self,
        by: &Act,
        new: NewWorkspace,
        limits: Limits,
        actor: Actor,
    ) -> Result<Created> {
        self.run("workspace_create", |step| step.create(by, new, limits, actor))
    }

    async fn workspace_get(&self, id: WorkspaceId) -> Result<Option<Workspace>> {
        self.run("workspace_get", |step| Ok(step.state.workspaces.get(&id).cloned()))
    }

    async fn workspaces_get(&self, ids: &[WorkspaceId]) -> Result<Vec<Workspace>> {
        self.run("workspaces_get", |step| {
            let ids: BTreeSet<_> = ids.iter().collect();
            Ok(ids.into_iter().filter_map(|id| step.state.workspaces.get(id).cloned()).collect())
        })
    }

    async fn workspace_list(&self, filter: &ListFilter) -> Result<Page<Workspace>> {
        self.run("workspace_list", |step| Ok(step.list(filter)))
    }

    async fn workspace_edit(&self, by: &Act, id: WorkspaceId, edit: Edit) -> Result<Option<Workspace>> {
        self.run("workspace_edit", |step| Ok(step.edit(by, id, edit)))
    }

    async fn workspace_edit_and_ask(&self, by: &Act, id: WorkspaceId, ask: Ask<'_>) -> Result<Asked> {
        self.run("workspace_ask", |step| Ok(step.ask(by, id, ask)))
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
        self.run("workspace_recover", |step| Ok(step.recover(by, id, recovery, desired, limits, actor)))
    }

    async fn workspace_history(
        &self,
        id: WorkspaceId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Page<HistoryEntry>> {
        self.run("workspace_history", |step| Ok(step.history_page(id, before, limit)))
    }

    async fn history_latest(&self, limit: u32) -> Result<Vec<(WorkspaceId, HistoryEntry)>> {
        self.run("history_latest", |step| {
            let of = |(id, entries): (&WorkspaceId, &Vec<HistoryEntry>)| {
                entries.iter().map(|entry| (*id, entry.clone())).collect::<Vec<_>>()
            };
            let mut all: Vec<_> = step.state.history.iter().flat_map(of).collect();
            all.sort_by_key(|(_, entry)| Reverse(entry.id));
            all.truncate(limit as usize);
            Ok(all)
        })
    }

    async fn workspaces_running_of(&self, owner: UserId) -> Result<Vec<RunningWorkspace>> {
        self.run("workspaces_running_of", |step| Ok(step.running_of(owner)))
    }

    async fn workspace_counts(&self) -> Result<BTreeMap<Phase, u64>> {
        self.run("workspace_counts", |step| Ok(step.counts()))
    }
}

#[async_trait]
impl Ports for FakeStore {
    async fn workspace_ports(&self, id: WorkspaceId) -> Result<Vec<PortSettings>> {
        self.run("workspace_ports", |step| Ok(step.ports(id)))
    }

    async fn workspace_port_put(
        &self,
        by: &Act,
        id: WorkspaceId,
        settings: PortSettings,
    ) -> Result<PortSaved> {
        self.run("workspace_port_put", |step| Ok(step.port_put(by, id, &settings)))
    }
}

#[async_trait]
impl Holds for FakeStore {
    async fn workspace_hold(&self, id: WorkspaceId, new: NewHold) -> Result<Option<(Workspace, Hold)>> {
        self.run("workspace_hold", |step| Ok(step.hold(id, new)))
    }

    async fn workspace_release(&self, id: WorkspaceId, hold: Option<HoldId>) -> Result<Option<Workspace>> {
        self.run("workspace_release", |step| Ok(step.release(id, hold)))
    }

    async fn workspace_holds(&self, id: WorkspaceId) -> Result<Vec<Hold>> {
        self.run("workspace_holds", |step| Ok(step.holds(id)))
    }
}

#[async_trait]
impl Reconciling for FakeStore {
    async fn workspaces_due(&self, due: Due) -> Result<Reading> {
        self.run("workspaces_due", |step| Ok(step.due(due)))
    }

    async fn workspace_save_archived(
        &self,
        epoch: Epoch,
        read: &Workspace,
        next: &Status,
        history: &[Transition],
        archive: Option<&ArchiveRecord>,
    ) -> Result<Saved> {
        self.run("workspace_save", |step| step.save(epoch, read, next, history, archive))
    }

    async fn workspaces_observed(&self, epoch: Epoch, ids: &[WorkspaceId]) -> Result<bool> {
        self.run("workspaces_observed", |step| Ok(step.observed(epoch, ids)))
    }

    async fn access_sync(&self, epoch: Epoch, seen: &[(WorkspaceId, Timestamp)]) -> Result<bool> {
        self.run("access_sync", |step| Ok(step.access_sync(epoch, seen)))
    }

    async fn ttl_expire(&self, epoch: Epoch, policy: &TtlPolicy) -> Result<Vec<Expired>> {
        self.run("ttl_expire", |step| Ok(step.ttl_expire(epoch, policy)))
    }

    async fn ttl_next(&self, policy: &TtlPolicy) -> Result<Option<Timestamp>> {
        self.run("ttl_next", |step| Ok(step.ttl_next(policy)))
    }
}

#[async_trait]
impl Garbage for FakeStore {
    async fn gc_rows(&self) -> Result<Vec<GcRow>> {
        self.run("gc_rows", |step| Ok(step.gc_rows()))
    }

    async fn gc_sightings(&self) -> Result<BTreeMap<Item, Timestamp>> {
        self.run("gc_sightings", |step| Ok(step.state.sightings.clone()))
    }

    async fn gc_sightings_replace(
        &self,
        epoch: Epoch,
        sightings: &BTreeMap<Item, Timestamp>,
    ) -> Result<bool> {
        self.run("gc_sightings_replace", |step| {
            let leads = step.leads(epoch);
            if leads {
                step.state.sightings = sightings.clone();
                let now = step.now.as_microsecond();
                step.state.claims.retain(|item, at| {
                    sightings.contains_key(item) || now - at.as_microsecond() <= CLAIM_KEPT_MICROS
                });
            }
            Ok(leads)
        })
    }

    async fn gc_claim(&self, epoch: Epoch, item: Item) -> Result<GcClaim> {
        self.run("gc_claim", |step| Ok(step.claim(epoch, item)))
    }
}

#[async_trait]
impl People for FakeStore {
    async fn user_create(
        &self,
        by: &Act,
        id: UserId,
        username: &str,
        password_hash: &str,
        role: Role,
    ) -> Result<UserChange> {
        self.run("user_create", |step| step.user_create(by, id, username, password_hash, role))
    }

    async fn user_create_first(
        &self,
        by: &Act,
        id: UserId,
        username: &str,
        password_hash: &str,
    ) -> Result<Option<User>> {
        self.run("user_create_first", |step| step.user_create_first(by, id, username, password_hash))
    }

    async fn user_get(&self, id: UserId) -> Result<Option<User>> {
        self.run("user_get", |step| Ok(step.user(id).cloned()))
    }

    async fn users_get(&self, ids: &[UserId]) -> Result<HashMap<UserId, User>> {
        self.run("users_get", |step| Ok(step.users(ids)))
    }

    async fn user_by_name(&self, username: &str) -> Result<Option<UserWithHash>> {
        self.run("user_by_name", |step| Ok(step.user_by_name(username)))
    }

    async fn user_list(&self, after: Option<UserId>, limit: u32) -> Result<Page<User>> {
        self.run("user_list", |step| Ok(step.user_list(after, limit)))
    }

    async fn user_edit(&self, by: &Act, id: UserId, edit: UserEdit) -> Result<UserChange> {
        self.run("user_edit", |step| Ok(step.user_edit(by, id, edit)))
    }

    async fn user_delete(&self, by: &Act, id: UserId) -> Result<UserChange> {
        self.run("user_delete", |step| Ok(step.user_delete(by, id)))
    }

    async fn user_count(&self) -> Result<u64> {
        self.run("user_count", |step| Ok(step.user_count() as u64))
    }
}

#[async_trait]
impl Credentials for FakeStore {
    async fn session_create(
        &self,
        by: &Act,
        id: SessionId,
        user: UserId,
        secret_hash: &[u8],
        lifetime_seconds: u32,
    ) -> Result<Session> {
        self.run("session_create", |step| step.session_create(by, id, user, secret_hash, lifetime_seconds))
    }

    async fn session_use(
        &self,
        secret_hash: &[u8],
        lifetime_seconds: u32,
    ) -> Result<Option<(Session, User)>> {
        self.run("session_use", |step| Ok(step.session_use(secret_hash, lifetime_seconds)))
    }

    async fn session_delete(&self, by: &Act, id: SessionId, why: SessionEnd) -> Result<()> {
        self.run("session_delete", |step| {
            step.session_delete(by, id, why);
            Ok(())
        })
    }

    async fn sessions_sweep(&self) -> Result<u64> {
        self.run("sessions_sweep", |step| Ok(step.sessions_sweep()))
    }

    async fn handover_create(
        &self,
        code_hash: &[u8],
        handover: &Handover,
        lifetime_seconds: u32,
    ) -> Result<bool> {
        self.run("handover_create", |step| Ok(step.handover_create(code_hash, handover, lifetime_seconds)))
    }

    async fn handover_redeem(
        &self,
        code_hash: &[u8],
        origin: WorkspaceOrigin,
        state: &[u8],
        secret_hash: &[u8],
    ) -> Result<Redeemed> {
        self.run("handover_redeem", |step| Ok(step.handover_redeem(code_hash, origin, state, secret_hash)))
    }

    async fn workspace_session_use(
        &self,
        secret_hash: &[u8],
        origin: WorkspaceOrigin,
        lifetime_seconds: u32,
    ) -> Result<Option<(Session, User)>> {
        self.run("workspace_session_use", |step| {
            Ok(step.workspace_session_use(secret_hash, origin, lifetime_seconds))
        })
    }

    async fn token_create(
        &self,
        by: &Act,
        id: TokenId,
        session: SessionId,
        name: &str,
        secret_hash: &[u8],
        expires_in_seconds: Option<u32>,
    ) -> Result<Option<ApiToken>> {
        self.run("token_create", |step| {
            step.token_create(by, id, session, name, secret_hash, expires_in_seconds)
        })
    }

    async fn device_login_create(
        &self,
        device_hash: &[u8],
        code_hash: &[u8],
        login: &DeviceLogin,
        lifetime_seconds: u32,
    ) -> Result<bool> {
        self.run("device_login_create", |step| {
            Ok(step.device_login_create(device_hash, code_hash, login, lifetime_seconds))
        })
    }

    async fn device_login_find(&self, code_hash: &[u8]) -> Result<Option<DeviceLogin>> {
        self.run("device_login_find", |step| Ok(step.device_login_find(code_hash)))
    }

    async fn device_login_decide(
        &self,
        by: &Act,
        code_hash: &[u8],
        session: SessionId,
        allow: bool,
    ) -> Result<bool> {
        self.run("device_login_decide", |step| Ok(step.device_login_decide(by, code_hash, session, allow)))
    }

    async fn device_login_redeem(
        &self,
        by: &Act,
        device_hash: &[u8],
        id: TokenId,
        secret_hash: &[u8],
        expires_in_seconds: u32,
    ) -> Result<DeviceRedeemed> {
        self.run("device_login_redeem", |step| {
            step.device_login_redeem(by, device_hash, id, secret_hash, expires_in_seconds)
        })
    }

    async fn token_use(&self, secret_hash: &[u8]) -> Result<Option<(ApiToken, User)>> {
        self.run("token_use", |step| Ok(step.token_use(secret_hash)))
    }

    async fn token_list(&self, user: UserId) -> Result<Vec<ApiToken>> {
        self.run("token_list", |step| Ok(step.token_list(user)))
    }

    async fn token_delete(&self, by: &Act, user: UserId, id: TokenId) -> Result<bool> {
        self.run("token_delete", |step| Ok(step.token_delete(by, user, id)))
    }

    async fn attempts_get(&self, key: &str) -> Result<Option<Attempts>> {
        self.run("attempts_get", |step| Ok(step.attempts_get(key)))
    }

    async fn device_note(
        &self,
        user: UserId,
        secret_hash: &[u8],
        instead_of: Option<&[u8]>,
        lifetime_seconds: u32,
    ) -> Result<()> {
        self.run("device_note", |step| step.device_note(user, secret_hash, instead_of, lifetime_seconds))
    }

    async fn device_is_known(&self, user: UserId, secret_hash: &[u8]) -> Result<bool> {
        self.run("device_is_known", |step| Ok(step.device_is_known(user, secret_hash)))
    }

    async fn attempts_check(&self, allowances: &[Allowance]) -> Result<Tried> {
        self.run("attempts_check", |step| Ok(step.attempts_check(allowances)))
    }

    async fn attempts_count(&self, allowances: &[Allowance]) -> Result<Tried> {
        self.run("attempts_count", |step| Ok(step.attempts_count(allowances)))
    }

    async fn attempts_take_back(&self, key: &str, tries: u32) -> Result<()> {
        self.run("attempts_take_back", |step| {
            step.attempts_take_back(key, tries);
            Ok(())
        })
    }

    async fn attempts_clear(&self, key: &str) -> Result<()> {
        self.run("attempts_clear", |step| {
            step.state.attempts.remove(key);
            Ok(())
        })
    }
}

#[async_trait]
impl Settings for FakeStore {
    async fn setting_get(&self, name: &str) -> Result<Option<String>> {
        self.run("setting_get", |step| Ok(step.state.settings.get(name).cloned()))
    }

    async fn setting_put(&self, name: &str, value: &str) -> Result<()> {
        self.run("setting_put", |step| {
            step.state.settings.insert(name.into(), value.into());
            Ok(())
        })
    }

    async fn setting_init(&self, name: &str, value: &str) -> Result<String> {
        self.run("setting_init", |step| {
            Ok(step.state.settings.entry(name.into()).or_insert_with(|| value.into()).clone())
        })
    }

    async fn setting_delete(&self, name: &str) -> Result<()> {
        self.run("setting_delete", |step| {
            step.state.settings.remove(name);
            Ok(())
        })
    }

    async fn backend_named(&self, part: BackendPart, kind: &str, name: &str) -> Result<u64> {
        self.run("backend_named", |step| {
            let now = format!("{kind} {name}");
            let noted = step.state.settings.insert(part.setting().into(), now.clone());
            let before = match BackendPart::called_before(kind, noted.as_deref()) {
                Some(before) if before != name => before,
                _ => return Ok(0),
            };
            let mut renamed = 0;
            for found in step.state.workspaces.values_mut() {
                let backend = match part {
                    BackendPart::Instances => &mut found.status.instance_backend,
                    BackendPart::Storage => &mut found.status.storage_backend,
                };
                if backend == before {
                    *backend = name.into();
                    found.revision += 1;
                    renamed += 1;
                }
            }
            Ok(renamed)
        })
    }
}

#[async_trait]
impl Audit for FakeStore {
    async fn audit_write(&self, by: &Act, entry: &AuditEntry) -> Result<()> {
        self.run("audit_write", |step| {
            step.audit(by, entry);
            Ok(())
        })
    }

    async fn audit_prune(
        &self,
        by: &Act,
        epoch: Epoch,
        before: Timestamp,
        at_most: u32,
    ) -> Result<Option<u64>> {
        self.run("audit_prune", |step| Ok(step.audit_prune(by, epoch, before, at_most)))
    }

    async fn audit_list(&self, filter: &AuditFilter) -> Result<Page<AuditEvent>> {
        self.run("audit_list", |step| Ok(step.audit_list(filter)))
    }
}

#[async_trait]
impl ArchiveRecords for FakeStore {
    async fn archive_record(&self, key: ArchiveKey) -> Result<Option<ArchiveRecord>> {
        self.run("archive_record", |step| Ok(step.state.archives.get(&key).cloned()))
    }

    async fn archive_keys(&self) -> Result<Vec<ArchiveKey>> {
        self.run("archive_keys", |step| Ok(step.state.archives.keys().copied().collect()))
    }

    async fn archive_parts(&self) -> Result<BTreeMap<ArchiveKey, BTreeSet<OpId>>> {
        self.run("archive_parts", |step| {
            let records = step.state.archives.values().filter(|record| !record.parts.is_empty());
            Ok(records.map(|record| (record.key, record.parts.iter().copied().collect())).collect())
        })
    }

    async fn home_sizes(&self, ids: &[WorkspaceId]) -> Result<BTreeMap<WorkspaceId, u64>> {
        self.run("home_sizes", |step| {
            Ok(ids.iter().filter_map(|id| Some((*id, step.home_size(*id)?))).collect())
        })
    }

    async fn archive_adopt(&self, by: &Act, epoch: Option<Epoch>, record: &ArchiveRecord) -> Result<Adopted> {
        self.run("archive_adopt", |step| {
            if epoch.is_some_and(|epoch| !step.leads(epoch)) {
                return Ok(Adopted::Fenced);
            }
            if !step.state.workspaces.contains_key(&record.key.workspace) {
                return Ok(Adopted::NoWorkspace);
            }
            if step.state.claims.contains_key(&Item::Archive(record.key)) {
                return Ok(Adopted::BeingDeleted);
            }
            if let Some(known) = step.state.archives.get(&record.key) {
                return Ok(Adopted::Known(known.clone()));
            }
            if step.part_being_deleted(record).is_some() {
                return Ok(Adopted::BeingDeleted);
            }
            step.state.archives.insert(record.key, record.clone());
            let entry = AuditEntry::ok(AuditAction::ArchiveAdopted, AuditObject::archive(record.key));
            step.audit(by, &entry.changing("", &format!("sha256 {}", record.sha256)));
            Ok(Adopted::Adopted)
        })
    }
}

#[async_trait]
impl Store for FakeStore {
    fn kind(&self) -> &'static str {
        "fake"
    }

    fn changes(&self) -> Changes {
        self.changes.subscribe()
    }
}
