//! What the audit trail says of each act, the same for every store.

use codehub_domain::{
    ArchiveKey, Desired, SessionId, Timestamp, TokenId, UserId, Workspace,
    audit::{Act, AuditAction, AuditActor, AuditEntry, AuditObject},
    event::Reason,
    ports::PortSettings,
    recovery::Recovery,
    user::{User, UserEdit},
};

use crate::{DeviceLogin, SessionEnd};

/// What its owner says about a port of a workspace from now on.
pub(crate) fn port_edited(workspace: &Workspace, before: &PortSettings, after: &PortSettings) -> AuditEntry {
    let fields = |port: &PortSettings| {
        [
            ("label", port.label.clone()),
            ("host", port.host.to_string()),
            ("visibility", port.visibility.to_string()),
            ("activity", port.activity.to_string()),
        ]
    };
    let (was, is) = differing(fields(before), fields(after));
    AuditEntry::ok(AuditAction::PortEdited, AuditObject::workspace(workspace.id, &workspace.name))
        .with_code(&format!("port {}", after.port))
        .changing(&was, &is)
}

pub(crate) fn created(user: &User) -> AuditEntry {
    AuditEntry::ok(AuditAction::UserCreated, AuditObject::user(user))
        .changing("", &format!("role: {}", user.role))
}

pub(crate) fn deleted(user: &User) -> AuditEntry {
    AuditEntry::ok(AuditAction::UserDeleted, AuditObject::user(user))
}

/// An edit may be several things at once. A password is never shown, only that it is another one, and whose doing
/// that was.
pub(crate) fn edited(by: &Act, before: &User, after: &User, edit: &UserEdit) -> Vec<AuditEntry> {
    let entry = |action| AuditEntry::ok(action, AuditObject::user(after));
    let mut entries = Vec::new();
    if edit.password_hash.is_some() {
        let own = by.is_by(after.id);
        let action = if own { AuditAction::UserPasswordChanged } else { AuditAction::UserReset };
        let tokens = if edit.keep_tokens { "tokens kept" } else { "tokens deleted" };
        entries.push(entry(action).with_code(tokens));
    }
    match (before.disabled, after.disabled) {
        (false, true) => entries.push(entry(AuditAction::UserDisabled)),
        (true, false) => entries.push(entry(AuditAction::UserEnabled)),
        (false, false) | (true, true) => {}
    }
    let fields = |user: &User| {
        let word = |word: Option<&'static str>| word.unwrap_or("the browser's");
        [
            ("role", user.role.as_str()),
            ("language", word(user.language.map(codehub_domain::user::Language::as_str))),
            ("theme", word(user.theme.map(codehub_domain::user::Theme::as_str))),
        ]
    };
    let (was, is) = differing(fields(before), fields(after));
    if was != is {
        entries.push(entry(AuditAction::UserEdited).changing(&was, &is));
    }
    entries
}

/// Whoever signed in was nobody until then: the event is theirs.
pub(crate) fn signed_in(by: &Act, user: &User, session: SessionId) -> (Act, AuditEntry) {
    let entry = AuditEntry::ok(AuditAction::LoginOk, AuditObject::user(user));
    (by.by(AuditActor::in_session(user, session)), entry)
}

/// Whoever sends a session's cookie may end it: where nobody else is known to act, it is its person.
pub(crate) fn session_ended(
    by: &Act,
    user: Option<&User>,
    session: SessionId,
    why: SessionEnd,
) -> (Act, AuditEntry) {
    let action = match why {
        SessionEnd::Logout => AuditAction::Logout,
        SessionEnd::Revoked => AuditAction::SessionRevoked,
    };
    let entry = AuditEntry::ok(action, AuditObject::session(session));
    match user {
        Some(user) if by.actor.id.is_none() => (by.by(AuditActor::in_session(user, session)), entry),
        Some(_) | None => (by.clone(), entry),
    }
}

/// What was asked by a program is said by its machine's name and address.
pub(crate) fn device_decided(user: &User, login: &DeviceLogin, allow: bool) -> AuditEntry {
    let action = if allow { AuditAction::DeviceAllowed } else { AuditAction::DeviceDenied };
    let DeviceLogin { machine, address } = login;
    AuditEntry::ok(action, AuditObject::user(user))
        .changing("", &format!("machine: {machine}, address: {address}"))
}

pub(crate) fn minted(id: TokenId, name: &str, expires_at: Option<Timestamp>) -> AuditEntry {
    let end = expires_at.map_or_else(|| "never".into(), |end| end.to_string());
    AuditEntry::ok(AuditAction::TokenMinted, AuditObject::token(id, name))
        .changing("", &format!("expires: {end}"))
}

pub(crate) fn token_deleted(by: &Act, user: UserId, id: TokenId, name: &str) -> AuditEntry {
    let entry = AuditEntry::ok(AuditAction::TokenDeleted, AuditObject::token(id, name));
    if by.is_by(user) { entry } else { entry.changing(&format!("of user {user}"), "") }
}

fn of(action: AuditAction, workspace: &Workspace) -> AuditEntry {
    AuditEntry::ok(action, AuditObject::workspace(workspace.id, &workspace.name))
}

pub(crate) fn workspace_created(workspace: &Workspace, from: Option<ArchiveKey>) -> AuditEntry {
    let from = from.map(|key| format!("from archive {key}, "));
    let after = format!("{}target state: {}", from.unwrap_or_default(), workspace.desired);
    of(AuditAction::WorkspaceCreated, workspace).changing("", &after)
}

/// Names the fields; of what people write into memos and descriptions nothing is repeated.
pub(crate) fn workspace_edited(before: &Workspace, after: &Workspace) -> AuditEntry {
    let seconds = |ttl: Option<u32>| ttl.map_or_else(|| "default".into(), |ttl| format!("{ttl} s"));
    let mode = |workspace: &Workspace| workspace.activity_mode.map_or("default", |mode| mode.as_str());
    let fields = |workspace: &Workspace| {
        [
            ("name", workspace.name.clone()),
            ("standby_ttl", seconds(workspace.standby_ttl_seconds)),
            ("archive_ttl", seconds(workspace.archive_ttl_seconds)),
            ("activity_mode", mode(workspace).to_owned()),
        ]
    };
    let (was, mut is) = differing(fields(before), fields(after));
    for (field, changed) in [
        ("description", before.description != after.description),
        ("memo", before.memo != after.memo),
        ("labels", before.labels != after.labels),
    ] {
        if changed {
            is.push_str(if is.is_empty() { "" } else { ", " });
            is.push_str(field);
        }
    }
    of(AuditAction::WorkspaceEdited, after).changing(&was, &is)
}

/// A wish that was fulfilled already is none; an edit that came with it still is one.
pub(crate) fn asked(
    before: &Workspace,
    after: &Workspace,
    desired: Desired,
    changed: bool,
    reason: &Reason,
) -> Vec<AuditEntry> {
    let mut entries = Vec::new();
    let edited = workspace_edited(before, after);
    if edited.before.is_some() || edited.after.is_some() {
        entries.push(edited);
    }
    if changed {
        let wish = of(AuditAction::of_desired(desired), after);
        entries.push(
            wish.with_code(reason.code())
                .changing(&format!("target state: {}", before.desired), &format!("target state: {desired}")),
        );
    }
    entries
}

pub(crate) fn recovered(after: &Workspace, recovery: Recovery) -> AuditEntry {
    let mut how = Vec::new();
    if let Some(key) = recovery.restore_from {
        how.push(format!("from archive {key}"));
    }
    if recovery.accept_data_loss {
        how.push("accepting data loss".into());
    }
    of(AuditAction::WorkspaceRecovered, after).changing("", &how.join(", "))
}

/// The fields that are not the same, before and after.
fn differing<const N: usize, T: AsRef<str>>(
    before: [(&'static str, T); N],
    after: [(&'static str, T); N],
) -> (String, String) {
    let (mut was, mut is) = (Vec::new(), Vec::new());
    for ((field, before), (_, after)) in before.into_iter().zip(after) {
        if before.as_ref() != after.as_ref() {
            was.push(format!("{field}: {}", before.as_ref()));
            is.push(format!("{field}: {}", after.as_ref()));
        }
    }
    (was.join(", "), is.join(", "))
}

/// That events before that time are gone, and how many.
pub(crate) fn pruned(before: Timestamp, removed: u64) -> AuditEntry {
    AuditEntry::ok(AuditAction::AuditPruned, AuditObject::config())
        .changing("", &format!("{removed} events before {before}"))
}
