//! Rules and words that every store shares, the fakes included.

use codehub_domain::{
    ArchiveKey, Desired, Operation, Phase, Status, Timestamp, Workspace, event::Actor, limits::Limits,
    recovery::Recovery, ttl::TtlPolicy,
};

use super::{Ask, Edit};

/// Whether the controller has something to do for this workspace without looking at the world: the
/// rule behind [`Due::Active`], as a value for the fakes and the tests.
pub fn is_active(workspace: &Workspace) -> bool {
    let status = &workspace.status;
    let settled = status.phase == workspace.desired.phase();
    let waits_for_a_person =
        status.phase == Phase::Error && status.failed() && workspace.deleted_at.is_none();
    status.operation != Operation::None || !(settled || waits_for_a_person)
}

/// Whether this workspace may go back to an archive: one of its own, or the one it was made from.
pub fn belongs_to(key: ArchiveKey, workspace: &Workspace) -> bool {
    key.workspace == workspace.id || workspace.status.archive_key == Some(key)
}

/// Whether people would see a difference: [`Change::Updated`] is sent for these.
pub(crate) fn shown_change(before: &Status, after: &Status) -> bool {
    let reason = |status: &Status| status.error.as_ref().map(|failure| failure.reason);
    before.phase != after.phase
        || before.operation != after.operation
        || before.progress != after.progress
        || reason(before) != reason(after)
}

/// What the history says about a TTL that ran out.
pub(crate) fn ttl_reason(to: Desired, ttl_seconds: u32) -> String {
    let span = span(ttl_seconds);
    match to {
        Desired::Standby => format!("no activity for {span}"),
        Desired::Running | Desired::Archived | Desired::Deleted => format!("on standby for {span}"),
    }
}

/// How long a TTL waits for activity that may not have been seen yet: in microseconds, and small enough to
/// be added to any time. Parts of a microsecond change nothing: times are whole ones, and "later than" is
/// strict.
pub(crate) fn unseen_micros(policy: &TtlPolicy) -> i64 {
    let end = Timestamp::MAX.as_microsecond();
    i64::try_from(policy.unseen_activity.as_micros()).unwrap_or(end).min(end)
}

/// The largest unit that says it exactly.
fn span(seconds: u32) -> String {
    let (n, unit) = match seconds {
        s if s > 0 && s.is_multiple_of(86_400) => (s / 86_400, "day"),
        s if s > 0 && s.is_multiple_of(3_600) => (s / 3_600, "hour"),
        s if s > 0 && s.is_multiple_of(60) => (s / 60, "minute"),
        s => (s, "second"),
    };
    format!("{n} {unit}{}", if n == 1 { "" } else { "s" })
}

/// What the history says about a recovery.
pub(crate) fn recovery_reason(wish: Recovery) -> String {
    match wish {
        Recovery { restore_from: Some(key), .. } => format!("recovery asked for, from archive {key}"),
        Recovery { restore_from: None, accept_data_loss: true, .. } => {
            "recovery asked for, accepting the loss".into()
        }
        Recovery { restore_from: None, accept_data_loss: false, .. } => "recovery asked for".into(),
    }
}

/// The wish for another desired state that comes with a recovery.
pub(crate) fn asked_with_recovery(wish: Desired, limits: Limits, actor: Actor) -> Ask<'static> {
    Ask { wish, edit: Edit::default(), limits, actor, reason: "asked for with the recovery" }
}

/// What the history says about the beginning of a workspace.
pub(crate) fn creation_reason(from_archive: Option<ArchiveKey>) -> String {
    from_archive.map_or_else(|| "created".into(), |key| format!("created from archive {key}"))
}

/// The status a new workspace begins with.
pub(crate) fn first_status(from_archive: Option<ArchiveKey>, now: Timestamp) -> Status {
    from_archive.map_or_else(|| Status::new(now), |key| Status::from_archive(key, now))
}

/// How long a claim outlives what it was made for: far longer than a deletion can hang.
pub(crate) const CLAIM_KEPT_MICROS: i64 = 7 * 86_400 * 1_000_000;

/// A session's end is moved, and a token's use noted, at most this often.
pub(crate) const USE_NOTED_EVERY_MICROS: i64 = 60_000_000;

/// How old a session's last renewal must be before a use renews it: a minute, or less where sessions are
/// so short that a minute would matter.
pub(crate) fn renews_after_micros(lifetime_seconds: u32) -> i64 {
    USE_NOTED_EVERY_MICROS.min(i64::from(lifetime_seconds) * 1_000_000 / 4)
}
