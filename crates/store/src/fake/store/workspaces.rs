//! Workspaces of the fake store.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use codehub_domain::{
    ArchiveKey, ArchiveRecord, Desired, Epoch, Operation, Phase, Status, Timestamp, UserId, Workspace,
    WorkspaceId,
    audit::Act,
    desired::{self, Answer},
    event::{Actor, HistoryEntry, Transition},
    gc::{self, GcRow, Item},
    intent::{self, Once, shown_change},
    limits::{LimitHit, Limits, RunningWorkspace, needs_a_place, takes_a_place},
    recovery::{self, Recovery, RecoveryRefusal},
    slug,
    ttl::{self, TtlPolicy},
};

use super::Step;
use crate::{
    Ask, Asked, Change, Created, Due, Edit, Expired, GcClaim, ListFilter, ListOrder, NewWorkspace, Page,
    Reading, Recovered, Result, Saved, StoreError, belongs_to, is_active, trail,
};

impl Step<'_> {
    pub(super) fn create(
        &mut self,
        by: &Act,
        new: NewWorkspace,
        limits: Limits,
        actor: Actor,
    ) -> Result<Created> {
        self.existing(new.owner)?;
        if new.desired == Desired::Deleted || self.state.workspaces.contains_key(&new.id) {
            return Err(StoreError::Failed("a constraint of the table workspaces".into()));
        }
        if let Some(once) = &new.once {
            let before = self.state.creations.get(&(new.owner, once.key.clone()));
            let since = Once::since(self.now);
            if let Some((request, id, _)) = before.filter(|(_, _, at)| *at >= since) {
                return Ok(match self.state.workspaces.get(id) {
                    Some(workspace) if *request == once.request => {
                        Created::Already(Box::new(workspace.clone()))
                    }
                    _ => Created::KeyTaken,
                });
            }
        }
        let once = new.once.clone();
        let from_archive = new.from_archive;
        let mut workspace = intent::created(new, String::new(), self.now);
        if takes_a_place(&workspace)
            && let Some(hit) = self.limit_hit(&workspace, limits)
        {
            return Ok(Created::LimitReached(hit));
        }
        if from_archive.is_some_and(|key| self.state.claims.contains_key(&Item::Archive(key))) {
            return Ok(Created::ArchiveGone);
        }
        let siblings = self.living().filter(|other| other.owner == workspace.owner);
        let taken = siblings.map(|other| other.slug.clone()).collect();
        workspace.slug = slug::free(&slug::suggested_by(&workspace.name), &taken);
        self.append(workspace.id, &[intent::created_entry(from_archive, actor)]);
        self.audit(by, &trail::workspace_created(&workspace, from_archive));
        self.tell(Change::Updated { workspace: workspace.id, owner: workspace.owner });
        self.tell(Change::Wake);
        if let Some(Once { key, request }) = once {
            self.state.creations.insert((workspace.owner, key), (request, workspace.id, self.now));
        }
        self.state.workspaces.insert(workspace.id, workspace.clone());
        Ok(Created::Created(Box::new(workspace)))
    }

    fn living(&self) -> impl Iterator<Item = &Workspace> {
        self.state.workspaces.values().filter(|found| found.deleted_at.is_none())
    }

    fn limit_hit(&self, asking: &Workspace, limits: Limits) -> Option<LimitHit> {
        let others =
            || self.state.workspaces.values().filter(|other| other.id != asking.id && takes_a_place(other));
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let of_user = others().filter(|other| other.owner == asking.owner).count();
        let scope = limits.admit(count(of_user), count(others().count())).err()?;
        Some(LimitHit { scope, running: self.running_of(asking.owner) })
    }

    pub(super) fn running_of(&self, owner: UserId) -> Vec<RunningWorkspace> {
        self.state
            .workspaces
            .values()
            .filter(|found| found.owner == owner && found.deleted_at.is_none())
            .filter(|found| takes_a_place(found))
            .map(|found| RunningWorkspace { id: found.id, name: found.name.clone() })
            .collect()
    }

    pub(super) fn home_size(&self, id: WorkspaceId) -> Option<u64> {
        let key = self.state.workspaces.get(&id)?.status.archive_key?;
        self.state.archives.get(&key).map(|record| record.uncompressed)
    }

    pub(super) fn list(&self, filter: &ListFilter) -> Page<Workspace> {
        let query = filter.query.as_ref().map(|text| text.to_lowercase());
        let has = |found: &Workspace, text: &str| {
            [&found.name, &found.description].iter().any(|field| field.to_lowercase().contains(text))
        };
        let mut matches: Vec<_> = self
            .state
            .workspaces
            .values()
            .rev()
            .filter(|found| found.deleted_at.is_none())
            .filter(|found| filter.owner.is_none_or(|owner| found.owner == owner))
            .filter(|found| filter.phase.is_none_or(|phase| found.status.phase == phase))
            .filter(|found| query.as_ref().is_none_or(|text| has(found, text)))
            .filter(|found| filter.label.as_ref().is_none_or(|label| label.matches(&found.labels)))
            .collect();
        let runs =
            |found: &Workspace| found.status.phase == Phase::Running || found.desired == Desired::Running;
        let used = |found: &Workspace| Reverse((runs(found), found.last_access_at, found.id));
        let owner = |found: &Workspace| self.state.users.get(&found.owner).map(|row| row.name_key.clone());
        match filter.order {
            ListOrder::Newest => {}
            ListOrder::Used => matches.sort_by_key(|found| used(found)),
            ListOrder::Name => matches.sort_by_key(|found| (found.name.to_lowercase(), found.id)),
            ListOrder::Size => {
                matches
                    .sort_by_key(|found| Reverse((self.home_size(found.id).unwrap_or_default(), found.id)));
            }
            ListOrder::Owner => matches.sort_by_key(|found| (owner(found), used(found))),
        }
        let rest = matches.iter().filter(|found| filter.before.is_none_or(|before| found.id < before));
        let rest = rest.skip(filter.skip as usize);
        let mut page = page(rest.map(|found| (*found).clone()), matches.len(), filter.limit);
        page.total = page.total.filter(|total| *total <= Page::<Workspace>::COUNTED.into());
        page
    }

    pub(super) fn edit(&mut self, by: &Act, id: WorkspaceId, edit: Edit) -> Option<Workspace> {
        let found = self.state.workspaces.get_mut(&id).filter(|found| found.deleted_at.is_none())?;
        let Some(after) = intent::edited(found, edit, self.now) else { return Some(found.clone()) };
        let entry = trail::workspace_edited(found, &after);
        *found = after.clone();
        self.audit(by, &entry);
        self.tell(Change::Updated { workspace: id, owner: after.owner });
        Some(after)
    }

    pub(super) fn ask(&mut self, by: &Act, id: WorkspaceId, ask: Ask<'_>) -> Asked {
        let Ask { desired: wanted, edit, limits, actor, reason } = ask;
        let Some(before) = self.state.workspaces.get(&id).cloned() else {
            return Asked::NotFound;
        };
        let answer = desired::ask(&before, wanted);
        if let Answer::Refuse(refusal) = answer {
            return Asked::Refused(refusal);
        }
        if answer == Answer::Change
            && wanted == Desired::Running
            && let Some(hit) = self.limit_hit(&before, limits)
        {
            return Asked::LimitReached(hit);
        }
        let after = intent::granted(&before, edit, wanted, self.now);
        self.state.workspaces.insert(id, after.clone());
        for entry in trail::asked(&before, &after, wanted, answer == Answer::Change, reason) {
            self.audit(by, &entry);
        }
        if after.revision != before.revision {
            self.tell(match after.deleted_at {
                Some(_) => Change::Deleted { workspace: id, owner: after.owner },
                None => Change::Updated { workspace: id, owner: after.owner },
            });
        }
        if answer == Answer::Already {
            return Asked::Already(Box::new(after));
        }
        self.append(id, &[intent::granted_entry(&after, actor, reason)]);
        self.tell(Change::Wake);
        Asked::Changed(Box::new(after))
    }

    pub(super) fn recover(
        &mut self,
        by: &Act,
        id: WorkspaceId,
        wanted: Recovery,
        desired: Option<Desired>,
        limits: Limits,
        actor: Actor,
    ) -> Recovered {
        let Some(mut workspace) =
            self.state.workspaces.get(&id).filter(|found| found.deleted_at.is_none()).cloned()
        else {
            return Recovered::NotFound;
        };
        if wanted.restore_from.is_some_and(|key| !belongs_to(key, &workspace)) {
            return Recovered::NotFound;
        }
        let before = workspace.clone();
        let entry = match recovery::recover(&workspace.status, wanted) {
            Ok(next) => {
                let entry = intent::recovered_entry(&workspace.status, &next, wanted, actor);
                workspace.status = next;
                entry
            }
            Err(refusal) => return Recovered::Refused(refusal),
        };
        if recovery::relies_on(id, &workspace.status)
            .is_some_and(|home| self.state.claims.contains_key(&home))
        {
            return Recovered::Refused(RecoveryRefusal::BeingDeleted);
        }
        // Checked first: nothing happens by halves.
        let wanted_to_be = Workspace { desired: desired.unwrap_or(workspace.desired), ..workspace.clone() };
        if wanted_to_be.desired == Desired::Running
            && needs_a_place(&before, &wanted_to_be)
            && let Some(hit) = self.limit_hit(&workspace, limits)
        {
            return Recovered::LimitReached(hit);
        }
        touch(&mut workspace, self.now);
        self.append(id, &[entry]);
        self.tell(Change::Updated { workspace: id, owner: workspace.owner });
        self.tell(Change::Wake);
        self.state.workspaces.insert(id, workspace.clone());
        if let Some(desired) = desired {
            self.ask(by, id, Ask::with_recovery(desired, limits, actor));
        }
        self.audit(by, &trail::recovered(&workspace, wanted));
        Recovered::Recovered(Box::new(self.state.workspaces.get(&id).cloned().unwrap_or(workspace)))
    }

    pub(super) fn history_page(
        &self,
        id: WorkspaceId,
        before: Option<i64>,
        limit: u32,
    ) -> Page<HistoryEntry> {
        let all = self.state.history.get(&id).map(Vec::as_slice).unwrap_or_default();
        let rest = all.iter().rev().filter(|entry| before.is_none_or(|before| entry.id < before));
        page(rest.cloned(), all.len(), limit)
    }

    pub(super) fn counts(&self) -> BTreeMap<Phase, u64> {
        let mut counts = BTreeMap::new();
        for found in self.state.workspaces.values().filter(|found| found.deleted_at.is_none()) {
            *counts.entry(found.status.phase).or_default() += 1;
        }
        counts
    }

    pub(super) fn due(&self, due: Due) -> Reading {
        let mut chosen: BTreeMap<WorkspaceId, &Workspace> = BTreeMap::new();
        let mut rest = Vec::new();
        for found in self.state.workspaces.values() {
            let running = due != Due::Active && found.status.phase == Phase::Running;
            if is_active(found) || running {
                chosen.insert(found.id, found);
            } else if found.status.phase != Phase::Deleted {
                rest.push(found);
            }
        }
        if let Due::Full { also_oldest } = due {
            rest.sort_by_key(|found| (found.status.observed_at, found.id));
            let oldest = usize::try_from(also_oldest).unwrap_or(usize::MAX);
            chosen.extend(rest.into_iter().take(oldest).map(|found| (found.id, found)));
        }
        Reading { now: self.now, workspaces: chosen.into_values().cloned().collect() }
    }

    pub(super) fn save(
        &mut self,
        epoch: Epoch,
        read: &Workspace,
        next: &Status,
        transitions: &[Transition],
        archive: Option<&ArchiveRecord>,
    ) -> Result<Saved> {
        if !self.leads(epoch) {
            return Ok(Saved::Fenced);
        }
        let part_being_deleted = archive.and_then(|archive| self.part_being_deleted(archive));
        let Some(found) = self.state.workspaces.get_mut(&read.id) else {
            return Ok(Saved::Gone);
        };
        if found.revision != read.revision || found.status.operation != read.status.operation {
            return Ok(Saved::Changed);
        }
        if next.phase == Phase::Error && next.operation != Operation::None {
            return Err(StoreError::Failed("a constraint of the table workspaces".into()));
        }
        if let Some(part) = part_being_deleted {
            return Err(StoreError::Failed(format!("its part {part} is being deleted")));
        }
        if let Some(archive) = archive {
            self.state.archives.insert(archive.key, archive.clone());
        }
        let shown = found.deleted_at.is_none() && shown_change(&found.status, next);
        let owner = found.owner;
        found.status = next.clone();
        touch(found, self.now);
        let revision = found.revision;
        self.append(read.id, transitions);
        if shown {
            self.tell(Change::Updated { workspace: read.id, owner });
        }
        Ok(Saved::Saved(revision))
    }

    pub(super) fn observed(&mut self, epoch: Epoch, ids: &[WorkspaceId]) -> bool {
        let leads = self.leads(epoch);
        if leads {
            for id in ids {
                if let Some(found) = self.state.workspaces.get_mut(id) {
                    found.status.observed_at = Some(self.now);
                }
            }
        }
        leads
    }

    pub(super) fn access_sync(&mut self, epoch: Epoch, seen: &[(WorkspaceId, Timestamp)]) -> bool {
        let leads = self.leads(epoch);
        if leads {
            for (id, at) in seen {
                if let Some(found) = self.state.workspaces.get_mut(id) {
                    found.last_access_at = found.last_access_at.max(*at);
                }
            }
        }
        leads
    }

    pub(super) fn ttl_expire(&mut self, epoch: Epoch, policy: &TtlPolicy) -> Vec<Expired> {
        if !self.leads(epoch) {
            return Vec::new();
        }
        let now = self.now;
        let expired: Vec<_> = self
            .state
            .workspaces
            .values()
            .filter_map(|found| ttl::expired(found, policy, now).map(|to| Expired { id: found.id, to }))
            .collect();
        for Expired { id, to } in &expired {
            let Some(found) = self.state.workspaces.get_mut(id) else { continue };
            let seconds = match to {
                Desired::Standby => found.standby_ttl_seconds.unwrap_or(policy.standby_seconds),
                Desired::Running | Desired::Archived | Desired::Deleted => {
                    found.archive_ttl_seconds.unwrap_or(policy.archive_seconds)
                }
            };
            want(found, *to, now);
            let (owner, entry) = (found.owner, intent::expired_entry(found.status.phase, *to, seconds));
            self.append(*id, &[entry]);
            self.tell(Change::Updated { workspace: *id, owner });
        }
        if !expired.is_empty() {
            self.tell(Change::Wake);
        }
        expired
    }

    pub(super) fn ttl_next(&self, policy: &TtlPolicy) -> Option<Timestamp> {
        let expiries = self.state.workspaces.values().filter_map(|found| ttl::expiry(found, policy));
        expiries.map(|expiry| expiry.acts_at).min()
    }

    pub(super) fn gc_rows(&self) -> Vec<GcRow> {
        let row = |found: &Workspace| GcRow {
            id: found.id,
            phase: found.status.phase,
            operation: found.status.operation,
            deleted: found.deleted_at.is_some(),
            truth: found.status.home.truth,
            generation: found.status.home.generation,
            archive_key: found.status.archive_key,
            op_id: found.status.op_id,
        };
        self.state.workspaces.values().map(row).collect()
    }

    pub(super) fn claim(&mut self, epoch: Epoch, item: Item) -> GcClaim {
        if !self.leads(epoch) {
            return GcClaim::Fenced;
        }
        if self.gc_rows().iter().any(|row| gc::refers(row, item)) {
            return GcClaim::InUse;
        }
        let mut claimed = GcClaim::Claimed;
        if let Item::Archive(key) = item {
            self.state.archives.remove(&key);
            if self.has_parts_in(key) {
                claimed = GcClaim::HoldsParts;
            }
        }
        self.state.claims.insert(item, self.now);
        claimed
    }

    /// Whether an archive that has a record has parts in the object under this key.
    fn has_parts_in(&self, key: ArchiveKey) -> bool {
        self.state.archives.values().any(|record| record.needs().any(|part| part == key))
    }

    /// One of the objects that hold parts of an archive which may be going.
    pub(super) fn part_being_deleted(&self, record: &ArchiveRecord) -> Option<ArchiveKey> {
        let going = |part: &ArchiveKey| {
            self.state.claims.contains_key(&Item::Archive(*part)) && !self.has_parts_in(*part)
        };
        record.needs().find(going)
    }
}

pub(super) fn touch(workspace: &mut Workspace, now: Timestamp) {
    workspace.updated_at = now;
    workspace.revision += 1;
}

fn want(workspace: &mut Workspace, desired: Desired, now: Timestamp) {
    workspace.desired = desired;
    workspace.desired_changed_at = now;
    touch(workspace, now);
}

pub(super) fn page<T>(mut rest: impl Iterator<Item = T>, total: usize, limit: u32) -> Page<T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let items = rest.by_ref().take(limit).collect();
    Page { items, more: rest.next().is_some(), total: Some(total as u64) }
}

/// Whole seconds later, never past the end of time.
pub(super) fn later(at: Timestamp, seconds: u32) -> Timestamp {
    codehub_domain::retry::saturating_add(at, Duration::from_secs(seconds.into()))
}
