//! The way out of ERROR.

use crate::fake::by;
use codehub_domain::intent::recovered_entry;
use codehub_domain::{
    ArchiveKey, Desired, Epoch, ErrorReason, Phase, Truth, Workspace,
    event::{Actor, Reason},
    limits::Limits,
    recovery::{Recovery, RecoveryRefusal, recover},
};

use super::{Asked, Change, Harness, failure, op_id, workspace_id};
use crate::{Due, Recovered};

async fn lost(harness: &Harness, epoch: Epoch) -> Workspace {
    let user = harness.user(&format!("user {}", op_id())).await;
    let made = harness.workspace(user.id, Desired::Running).await;
    harness
        .put(epoch, made.id, |status| {
            status.phase = Phase::Error;
            status.error = Some(failure(ErrorReason::DataLost));
            status.error_count = 3;
            status.home.truth = Truth::Volume;
        })
        .await
}

pub(crate) async fn recovery_follows_the_domain(harness: &Harness) {
    let epoch = harness.leader().await;
    for accept_data_loss in [true, false] {
        for with_key in [true, false] {
            let before = lost(harness, epoch).await;
            let restore_from = with_key.then(|| ArchiveKey::of(before.id, op_id()));
            let recovery = Recovery { restore_from, accept_data_loss, ..Recovery::default() };
            let result = harness
                .store
                .workspace_recover(by(), before.id, recovery, None, Limits::NONE, Actor::Operator)
                .await
                .unwrap();
            let after = harness.get(before.id).await;
            match recover(&before.status, recovery) {
                Ok(expected) => {
                    assert_eq!(result, Recovered::Recovered(Box::new(after.clone())));
                    assert_eq!((&after.status, after.revision), (&expected, before.revision + 1));
                    assert_eq!(after.desired, before.desired, "recovery leaves the recovery");
                    let due = harness.store.workspaces_due(Due::Active).await.unwrap();
                    assert!(due.workspaces.contains(&after), "the controller will look");
                    let history = harness.store.workspace_history(before.id, None, 1).await.unwrap();
                    assert_eq!(history.items[0].actor, "operator");
                    let entry = recovered_entry(&before.status, &after.status, recovery, Actor::Operator);
                    assert_eq!(history.items[0].reason, entry.reason);
                }
                Err(refusal) => {
                    assert_eq!(result, Recovered::Refused(refusal));
                    assert_eq!(after, before);
                }
            }
        }
    }
}

pub(crate) async fn recovery_refuses(harness: &Harness) {
    let epoch = harness.leader().await;
    let recover = |id| {
        harness.store.workspace_recover(by(), id, Recovery::default(), None, Limits::NONE, Actor::Operator)
    };
    assert_eq!(recover(workspace_id()).await.unwrap(), Recovered::NotFound);
    let user = harness.user("ann").await;
    let fine = harness.workspace(user.id, Desired::Running).await;
    let refused = Recovered::Refused(RecoveryRefusal::NotInError);
    assert_eq!(recover(fine.id).await.unwrap(), refused);
    assert_eq!(harness.get(fine.id).await, fine);
    let failed = lost(harness, epoch).await;
    assert!(matches!(harness.ask(failed.id, Desired::Deleted).await, Asked::Changed(_)));
    assert_eq!(recover(failed.id).await.unwrap(), Recovered::NotFound, "deleted");
}

pub(crate) async fn recovery_stays_within_the_workspace(harness: &Harness) {
    let epoch = harness.leader().await;
    let (mine, other) = (lost(harness, epoch).await, lost(harness, epoch).await);
    let stolen = Recovery {
        restore_from: Some(ArchiveKey::of(other.id, op_id())),
        accept_data_loss: true,
        ..Recovery::default()
    };
    let result = harness
        .store
        .workspace_recover(by(), mine.id, stolen, None, Limits::NONE, Actor::Operator)
        .await
        .unwrap();
    assert_eq!(result, Recovered::NotFound);
    assert_eq!(harness.get(mine.id).await, mine);
}

/// The store for archives was full; its owner wants to make room in the home before the next try.
async fn could_not_be_archived(harness: &Harness, epoch: Epoch) -> Workspace {
    let user = harness.user(&format!("user {}", op_id())).await;
    let made = harness.workspace(user.id, Desired::Archived).await;
    harness
        .put(epoch, made.id, |status| {
            status.phase = Phase::Error;
            status.error = Some(failure(ErrorReason::RetryExceeded));
            status.error_count = 4;
            status.home.truth = Truth::Volume;
        })
        .await
}

pub(crate) async fn recovery_may_go_another_way(harness: &Harness) {
    let epoch = harness.leader().await;
    for desired in [Desired::Running, Desired::Standby, Desired::Archived] {
        let id = could_not_be_archived(harness, epoch).await.id;
        harness.pass(100).await;
        let before = harness.get(id).await;
        let mut changes = harness.changes().await;
        let plain = Recovery::default();
        let result = harness
            .store
            .workspace_recover(by(), before.id, plain, Some(desired), Limits::NONE, Actor::Operator)
            .await
            .unwrap();
        let after = harness.get(before.id).await;
        assert_eq!(result, Recovered::Recovered(Box::new(after.clone())));
        assert_eq!((&after.status, after.desired), (&recover(&before.status, plain).unwrap(), desired));
        assert_eq!(after.last_access_at > before.last_access_at, desired == Desired::Running, "{desired}");
        let updated = Change::Updated { workspace: before.id, owner: before.owner };
        assert_eq!(harness.drain(&mut changes).await, [updated, Change::Wake], "{desired}");
        let history = harness.store.workspace_history(before.id, None, 10).await.unwrap();
        let reasons: Vec<_> = history.items.iter().map(|entry| entry.reason.clone()).collect();
        let changed = [Reason::RequestedWithRecovery, Reason::RecoveryRequested, Reason::Created];
        assert_eq!(reasons, changed[usize::from(desired == before.desired)..], "{desired}");
        let due = harness.store.workspaces_due(Due::Active).await.unwrap();
        assert!(due.workspaces.contains(&after), "the controller will look");
    }
}

pub(crate) async fn recovery_and_its_wish_are_one_step(harness: &Harness) {
    let epoch = harness.leader().await;
    let before = could_not_be_archived(harness, epoch).await;
    harness.workspace(before.owner, Desired::Running).await;
    let mut changes = harness.changes().await;
    let one = Limits { running_per_user: 1, running_global: 0 };
    let recover = |id, recovery, desired| {
        harness.store.workspace_recover(by(), id, recovery, Some(desired), one, Actor::Operator)
    };
    let refused = recover(before.id, Recovery::default(), Desired::Running).await.unwrap();
    assert!(matches!(refused, Recovered::LimitReached(_)), "{refused:?}");
    assert_eq!(harness.get(before.id).await, before, "not recovered, either");
    assert_eq!(harness.drain(&mut changes).await, []);

    let lost = lost(harness, epoch).await;
    let refused = recover(lost.id, Recovery::default(), Desired::Archived).await.unwrap();
    assert_eq!(refused, Recovered::Refused(RecoveryRefusal::HomeIsLost));
    assert_eq!(harness.get(lost.id).await, lost, "nor wanted elsewhere");
}
