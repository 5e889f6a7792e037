//! What a transaction makes of a row, whatever the dialect: the new values and the line of history that
//! goes with them. The rules themselves are the domain's; no SQL here.

use codehub_domain::{
    ArchiveKey, Desired, Operation, Phase, Status, Timestamp, Workspace, WorkspaceId,
    activity::Hold,
    event::{Actor, Reason, Transition},
    gc::Item,
    recovery::Recovery,
    user::User,
};

use super::{
    Edit, NewHold, NewWorkspace, Result, UserEdit, creation_reason, first_status, recovery_reason, row,
    ttl_reason,
};

/// A workspace as it begins.
pub(crate) fn created(new: NewWorkspace, now: Timestamp) -> Workspace {
    Workspace {
        id: new.id,
        owner: new.owner,
        home_store_key: Workspace::home_store_key_of(new.owner, new.id),
        name: new.name,
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
        status: first_status(new.from_archive, now),
        created_at: now,
        updated_at: now,
        revision: 1,
    }
}

pub(crate) fn created_entry(from_archive: Option<ArchiveKey>, actor: Actor) -> Transition {
    Transition {
        from: Phase::Pending,
        to: Phase::Pending,
        operation: Operation::None,
        reason: creation_reason(from_archive),
        actor,
    }
}

/// The row once `wish` has been granted, or was wanted already, and the edit is made. Wanting what already
/// runs is activity, and that alone is no revision.
pub(crate) fn granted(before: &Workspace, edit: Edit, wish: Desired, now: Timestamp) -> Workspace {
    let mut after = edited(before, edit, now).unwrap_or_else(|| before.clone());
    if wish == Desired::Running {
        after.last_access_at = after.last_access_at.max(now);
    }
    if before.desired != wish {
        after.desired = wish;
        after.desired_changed_at = now;
        after.deleted_at = (wish == Desired::Deleted).then_some(now);
        after.updated_at = now;
        after.revision = before.revision + 1;
    }
    after
}

/// A line of history about what somebody wants: the phase stays what it is.
pub(crate) fn granted_entry(workspace: &Workspace, actor: Actor, reason: &Reason) -> Transition {
    let status = &workspace.status;
    Transition {
        from: status.phase,
        to: status.phase,
        operation: status.operation,
        reason: reason.clone(),
        actor,
    }
}

pub(super) fn recovered_entry(before: &Status, next: &Status, wish: Recovery, actor: Actor) -> Transition {
    Transition {
        from: before.phase,
        to: next.phase,
        operation: next.operation,
        reason: recovery_reason(wish),
        actor,
    }
}

pub(super) fn expired_entry(phase: Phase, to: Desired, ttl_seconds: u32) -> Transition {
    Transition {
        from: phase,
        to: phase,
        operation: Operation::None,
        reason: ttl_reason(to, ttl_seconds),
        actor: Actor::Ttl,
    }
}

/// The row after an edit; `None` where the edit changes nothing.
pub(crate) fn edited(before: &Workspace, edit: Edit, now: Timestamp) -> Option<Workspace> {
    let mut after = before.clone();
    let Edit { name, description, memo, standby_ttl_seconds, archive_ttl_seconds, activity_mode } = edit;
    after.name = name.unwrap_or(after.name);
    after.description = description.unwrap_or(after.description);
    after.memo = memo.unwrap_or(after.memo);
    after.standby_ttl_seconds = standby_ttl_seconds.unwrap_or(after.standby_ttl_seconds);
    after.archive_ttl_seconds = archive_ttl_seconds.unwrap_or(after.archive_ttl_seconds);
    after.activity_mode = activity_mode.unwrap_or(after.activity_mode);
    if after == *before {
        return None;
    }
    after.updated_at = now;
    after.revision += 1;
    Some(after)
}

/// A lease that begins `now` (in microseconds).
pub(super) fn held(new: NewHold, now: i64) -> Result<Hold> {
    Ok(Hold {
        id: new.id,
        by: new.by,
        reason: new.reason,
        created_at: row::time(now)?,
        until: row::time(row::later(now, new.seconds))?,
    })
}

/// Only these rows can refer to a thing: the one it belongs to, and those whose home it is.
pub(super) fn may_refer(item: Item) -> (WorkspaceId, Option<String>) {
    match item {
        Item::Archive(key) => (key.workspace, Some(key.to_string())),
        Item::Volume { workspace, .. } => (workspace, None),
    }
}

/// The user after an edit, without the password.
pub(super) fn edited_user(before: &User, edit: &UserEdit) -> User {
    User {
        role: edit.role.unwrap_or(before.role),
        disabled: edit.disabled.unwrap_or(before.disabled),
        ..before.clone()
    }
}

/// Whether this account counts when we ask if anybody is left to administer.
pub(super) fn administers(user: &User) -> bool {
    user.is_admin() && !user.disabled
}
