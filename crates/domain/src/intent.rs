//! What people's writes make of a workspace: the row after a creation, an edit or a granted wish, and the
//! line of history that goes with it. Every store calls these inside its transaction.

use crate::{
    ArchiveKey, Desired, Operation, Phase, Status, Timestamp, UserId, Workspace, WorkspaceId,
    activity::ActivityMode,
    event::{Actor, Reason, Transition},
    labels::Labels,
    recovery::Recovery,
};

/// What the creator of a workspace decides.
#[derive(Debug, Clone)]
pub struct NewWorkspace {
    pub id: WorkspaceId,
    pub owner: UserId,
    pub name: String,
    pub description: String,
    pub memo: String,
    pub image_ref: String,
    pub desired: Desired,
    pub standby_ttl_seconds: Option<u32>,
    pub archive_ttl_seconds: Option<u32>,
    /// Begin with this home instead of an empty one.
    pub from_archive: Option<ArchiveKey>,
    pub activity_mode: Option<ActivityMode>,
    pub labels: Labels,
    /// Whoever sends this again means the same workspace.
    pub once: Option<Once>,
}

/// How a creation that is sent again is recognised, for a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// A hash of what the creator calls it; their own.
    pub key: String,
    /// A hash of all that was asked for: another creation cannot have the same key.
    pub request: String,
}

impl Once {
    /// Creations before this moment are not recognised any more.
    pub fn since(now: Timestamp) -> Timestamp {
        now.checked_sub(jiff::SignedDuration::from_hours(24)).unwrap_or(now)
    }
}

/// What an owner may edit; `None` leaves it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    pub name: Option<String>,
    pub description: Option<String>,
    pub memo: Option<String>,
    /// `Some(None)` goes back to the deployment's default.
    pub standby_ttl_seconds: Option<Option<u32>>,
    pub archive_ttl_seconds: Option<Option<u32>>,
    pub activity_mode: Option<Option<ActivityMode>>,
    /// All of them: a label that is not named goes.
    pub labels: Option<Labels>,
}

/// A workspace as it begins. `slug` is free among the owner's living workspaces.
pub fn created(new: NewWorkspace, slug: String, now: Timestamp) -> Workspace {
    Workspace {
        id: new.id,
        owner: new.owner,
        home_store_key: Workspace::home_store_key_of(new.owner, new.id),
        name: new.name,
        slug,
        labels: new.labels,
        description: new.description,
        memo: new.memo,
        image_ref: new.image_ref,
        standby_ttl_seconds: new.standby_ttl_seconds,
        archive_ttl_seconds: new.archive_ttl_seconds,
        activity_mode: new.activity_mode,
        desired: new.desired,
        desired_changed_at: now,
        deleted_at: None,
        last_access_at: now,
        held_until: None,
        status: new
            .from_archive
            .map_or_else(|| Status::new(now), |archive| Status::from_archive(archive, now)),
        created_at: now,
        updated_at: now,
        revision: 1,
    }
}

/// The row after an edit; `None` where the edit changes nothing.
pub fn edited(before: &Workspace, edit: Edit, now: Timestamp) -> Option<Workspace> {
    let mut after = before.clone();
    let Edit { name, description, memo, standby_ttl_seconds, archive_ttl_seconds, activity_mode, labels } =
        edit;
    after.name = name.unwrap_or(after.name);
    after.description = description.unwrap_or(after.description);
    after.memo = memo.unwrap_or(after.memo);
    after.standby_ttl_seconds = standby_ttl_seconds.unwrap_or(after.standby_ttl_seconds);
    after.archive_ttl_seconds = archive_ttl_seconds.unwrap_or(after.archive_ttl_seconds);
    after.activity_mode = activity_mode.unwrap_or(after.activity_mode);
    after.labels = labels.unwrap_or(after.labels);
    if after == *before {
        return None;
    }
    after.updated_at = now;
    after.revision += 1;
    Some(after)
}

/// The row once `desired` has been granted, or was wanted already, and the edit is made. Wanting what already
/// runs is activity, and that alone is no revision.
pub fn granted(before: &Workspace, edit: Edit, desired: Desired, now: Timestamp) -> Workspace {
    let mut after = edited(before, edit, now).unwrap_or_else(|| before.clone());
    if desired == Desired::Running {
        after.last_access_at = after.last_access_at.max(now);
    }
    if before.desired != desired {
        after.desired = desired;
        after.desired_changed_at = now;
        after.deleted_at = (desired == Desired::Deleted).then_some(now);
        after.updated_at = now;
        after.revision = before.revision + 1;
    }
    after
}

/// The first line of a workspace's history.
pub fn created_entry(from_archive: Option<ArchiveKey>, actor: Actor) -> Transition {
    let reason = from_archive.map_or(Reason::Created, Reason::CreatedFromArchive);
    Transition { from: Phase::Pending, to: Phase::Pending, operation: Operation::None, reason, actor }
}

/// A line of history about what somebody wants: the phase stays what it is.
pub fn granted_entry(workspace: &Workspace, actor: Actor, reason: &Reason) -> Transition {
    let Status { phase, operation, .. } = workspace.status;
    Transition { from: phase, to: phase, operation, reason: reason.clone(), actor }
}

/// A line of history about a recovery that was granted.
pub fn recovered_entry(before: &Status, next: &Status, recovery: Recovery, actor: Actor) -> Transition {
    let reason = match recovery {
        Recovery { restore_from: Some(key), .. } => Reason::RecoveryFromArchive(key),
        Recovery { restore_from: None, accept_data_loss: true, .. } => Reason::RecoveryAcceptingLoss,
        Recovery { restore_from: None, accept_data_loss: false, .. } => Reason::RecoveryRequested,
    };
    Transition { from: before.phase, to: next.phase, operation: next.operation, reason, actor }
}

/// A line of history about a TTL that ran out.
pub fn expired_entry(phase: Phase, to: Desired, ttl_seconds: u32) -> Transition {
    let reason = match to {
        Desired::Standby => Reason::TtlStandby(ttl_seconds),
        Desired::Running | Desired::Archived | Desired::Deleted => Reason::TtlArchive(ttl_seconds),
    };
    Transition { from: phase, to: phase, operation: Operation::None, reason, actor: Actor::Ttl }
}

/// Whether the controller has something to do for this workspace without looking at the world: an operation
/// is under way, or a wish is not fulfilled and does not wait for a person.
pub fn is_active(workspace: &Workspace) -> bool {
    let status = &workspace.status;
    let settled = status.phase == workspace.desired.phase();
    let waits_for_a_person =
        status.phase == Phase::Error && status.failed() && workspace.deleted_at.is_none();
    status.operation != Operation::None || !(settled || waits_for_a_person)
}

/// Whether people would see a difference between two statuses of a workspace.
pub fn shown_change(before: &Status, after: &Status) -> bool {
    let reason = |status: &Status| status.error.as_ref().map(|failure| failure.reason);
    before.phase != after.phase
        || before.operation != after.operation
        || before.progress != after.progress
        || reason(before) != reason(after)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{ErrorReason, Failure, Progress};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn workspace(desired: Desired) -> Workspace {
        let new = NewWorkspace {
            id: WorkspaceId::from_uuid(Uuid::from_u128(1)),
            owner: UserId::from_uuid(Uuid::from_u128(2)),
            name: "work".into(),
            description: String::new(),
            memo: String::new(),
            image_ref: String::new(),
            desired,
            standby_ttl_seconds: Some(60),
            archive_ttl_seconds: None,
            from_archive: None,
            once: None,
            activity_mode: None,
            labels: Labels::default(),
        };
        created(new, "work".into(), at(1))
    }

    #[test]
    fn an_edit_that_changes_nothing_is_none() {
        let before = workspace(Desired::Standby);
        for (edit, changes) in [
            (Edit::default(), false),
            (Edit { name: Some("work".into()), ..Edit::default() }, false),
            (Edit { standby_ttl_seconds: Some(Some(60)), ..Edit::default() }, false),
            (Edit { labels: Some(Labels::default()), ..Edit::default() }, false),
            (Edit { name: Some("other".into()), ..Edit::default() }, true),
            (Edit { standby_ttl_seconds: Some(None), ..Edit::default() }, true),
            (Edit { activity_mode: Some(Some(ActivityMode::Connections)), ..Edit::default() }, true),
        ] {
            let after = edited(&before, edit.clone(), at(2));
            assert_eq!(after.is_some(), changes, "{edit:?}");
            if let Some(after) = after {
                assert_eq!((after.revision, after.updated_at), (2, at(2)));
                assert_eq!(after.slug, before.slug, "a slug outlives its name");
            }
        }
    }

    #[test]
    fn a_granted_wish() {
        let rename = || Edit { name: Some("other".into()), ..Edit::default() };
        for (had, desired, edit, revision, accessed) in [
            (Desired::Standby, Desired::Standby, Edit::default(), 1, 1),
            (Desired::Running, Desired::Running, Edit::default(), 1, 2),
            (Desired::Running, Desired::Running, rename(), 2, 2),
            (Desired::Standby, Desired::Running, Edit::default(), 2, 2),
            (Desired::Standby, Desired::Archived, rename(), 2, 1),
        ] {
            let after = granted(&workspace(had), edit, desired, at(2));
            assert_eq!((after.desired, after.revision), (desired, revision), "{had} {desired}");
            assert_eq!(after.last_access_at, at(accessed), "{had} {desired}");
            assert_eq!(after.desired_changed_at, at(if had == desired { 1 } else { 2 }), "{had} {desired}");
        }
        let gone = granted(&workspace(Desired::Running), Edit::default(), Desired::Deleted, at(2));
        assert_eq!(gone.deleted_at, Some(at(2)));
    }

    #[test]
    fn what_is_active() {
        let terminal = Some(ErrorReason::DataLost);
        let transient = Some(ErrorReason::ActionFailed);
        for (phase, operation, error, desired, active) in [
            (Phase::Pending, Operation::None, None, Desired::Running, true),
            (Phase::Running, Operation::None, None, Desired::Running, false),
            (Phase::Running, Operation::Stopping, None, Desired::Running, true),
            (Phase::Standby, Operation::None, None, Desired::Running, true),
            (Phase::Error, Operation::None, terminal, Desired::Running, false),
            (Phase::Error, Operation::None, terminal, Desired::Deleted, true),
            (Phase::Error, Operation::None, transient, Desired::Running, true),
            (Phase::Standby, Operation::None, terminal, Desired::Standby, false),
        ] {
            let mut row = granted(&workspace(Desired::Standby), Edit::default(), desired, at(2));
            row.status.phase = phase;
            row.status.operation = operation;
            row.status.error = error.map(|reason| Failure::new(reason, "for the test"));
            assert_eq!(is_active(&row), active, "{phase} {operation} {error:?} {desired}");
        }
    }

    #[test]
    fn what_people_would_see() {
        let before = Status::new(at(1));
        let changed = |change: fn(&mut Status)| {
            let mut after = before.clone();
            change(&mut after);
            shown_change(&before, &after)
        };
        assert!(!changed(|_| ()));
        assert!(!changed(|next| next.observed_at = Some(at(9))));
        assert!(!changed(|next| next.error_count = 3));
        assert!(changed(|next| next.phase = Phase::Standby));
        assert!(changed(|next| next.operation = Operation::Starting));
        assert!(changed(|next| next.progress = Some(Progress { done: 1, total: 2, rate: 3 })));
        assert!(changed(|next| next.error = Some(Failure::new(ErrorReason::Timeout, "late"))));
    }

    #[test]
    fn the_history_says_which_ttl_ran_out() {
        let entry = expired_entry(Phase::Running, Desired::Standby, 600);
        assert_eq!((entry.reason, entry.actor), (Reason::TtlStandby(600), Actor::Ttl));
        let entry = expired_entry(Phase::Standby, Desired::Archived, 60);
        assert_eq!(entry.reason, Reason::TtlArchive(60));
    }
}
