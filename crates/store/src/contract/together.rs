//! An edit and a wish in one request: both, or nothing.

use crate::fake::by;
use codehub_domain::{
    Desired, Epoch, ErrorReason, Operation, Phase, Workspace,
    desired::Refusal,
    event::{Actor, Reason},
    limits::Limits,
    user::User,
};

use super::{Asked, Change, Harness, failure, op_id, workspace_id};
use crate::{Ask, Edit};

fn renamed(name: &str) -> Edit {
    Edit { name: Some(name.into()), archive_ttl_seconds: Some(Some(60)), ..Edit::default() }
}

async fn on_standby(harness: &Harness, user: &User, epoch: Epoch) -> Workspace {
    let made = harness.workspace(user.id, Desired::Standby).await;
    harness.put(epoch, made.id, |status| status.phase = Phase::Standby).await
}

pub(crate) async fn an_edit_and_a_wish_are_one_step(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let id = on_standby(harness, &user, epoch).await.id;
    let together = |edit, desired| {
        let (limits, actor) = (Limits::NONE, Actor::Operator);
        harness.store.workspace_edit_and_ask(
            by(),
            id,
            Ask { desired, edit, limits, actor, reason: &Reason::StateRequested },
        )
    };
    harness.pass(100).await;
    let before = harness.get(id).await;
    let mut changes = harness.changes().await;
    let asked = together(renamed("both"), Desired::Running).await.unwrap();
    let after = harness.get(id).await;
    assert_eq!(asked, Asked::Changed(Box::new(after.clone())));
    assert_eq!(
        (after.name.as_str(), after.archive_ttl_seconds, after.desired),
        ("both", Some(60), Desired::Running)
    );
    assert_eq!(after.revision, before.revision + 1, "one step");
    assert!(
        after.last_access_at > before.last_access_at && after.desired_changed_at > before.desired_changed_at
    );
    let updated = Change::Updated { workspace: id, owner: user.id };
    assert_eq!(harness.drain(&mut changes).await, [updated, Change::Wake]);
    let history = harness.store.workspace_history(id, None, 10).await.unwrap();
    assert_eq!((&history.items[0].reason, history.total), (&Reason::StateRequested, Some(2)));

    // What is wanted already is no reason not to edit.
    harness.pass(100).await;
    let after = harness.get(id).await;
    let asked = together(renamed("again"), Desired::Running).await.unwrap();
    let again = harness.get(id).await;
    assert_eq!(asked, Asked::Already(Box::new(again.clone())));
    assert_eq!((again.name.as_str(), again.revision), ("again", after.revision + 1));
    assert!(again.last_access_at > after.last_access_at, "it is activity");
    assert_eq!(again.desired_changed_at, after.desired_changed_at);
    assert_eq!(harness.drain(&mut changes).await, [updated], "nothing for the controller");
    assert_eq!(harness.store.workspace_history(id, None, 1).await.unwrap().total, Some(2));
}

pub(crate) async fn a_refused_wish_edits_nothing(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let one = Limits { running_per_user: 1, running_global: 0 };
    let together = |id, desired| {
        let (edit, actor) = (renamed("no"), Actor::Operator);
        harness.store.workspace_edit_and_ask(
            by(),
            id,
            Ask { desired, edit, limits: one, actor, reason: &Reason::StateRequested },
        )
    };
    assert_eq!(together(workspace_id(), Desired::Running).await.unwrap(), Asked::NotFound);

    let running = harness.workspace(user.id, Desired::Running).await;
    let limited = on_standby(harness, &user, epoch).await;
    let busy = harness
        .put(epoch, running.id, |status| {
            (status.operation, status.op_id) = (Operation::Starting, Some(op_id()));
        })
        .await;
    let failed = on_standby(harness, &user, epoch).await;
    let failed = harness
        .put(epoch, failed.id, |status| {
            (status.phase, status.error) = (Phase::Error, Some(failure(ErrorReason::Timeout)));
        })
        .await;
    let deleted = on_standby(harness, &user, epoch).await;
    harness.ask(deleted.id, Desired::Deleted).await;
    let deleted = harness.get(deleted.id).await;

    let mut changes = harness.changes().await;
    assert!(matches!(together(limited.id, Desired::Running).await.unwrap(), Asked::LimitReached(_)));
    for (workspace, refusal) in [
        (&busy, Refusal::Busy(Operation::Starting)),
        (&failed, Refusal::NeedsRecovery),
        (&deleted, Refusal::Gone),
    ] {
        let asked = together(workspace.id, Desired::Archived).await.unwrap();
        assert_eq!(asked, Asked::Refused(refusal));
    }
    for before in [limited, busy, failed, deleted] {
        assert_eq!(harness.get(before.id).await, before);
    }
    assert_eq!(harness.drain(&mut changes).await, []);
}
